"""Commands in comments that no delivery told: comments are read from the forge from where the last look ended.

A command has the same key however it became known, so that one that was told as well is done once. The look begins a
little before the newest comment seen, because a forge may list a comment later than it is written; while nobody writes,
the question stays the same and costs the forge, and its rate limit, nothing.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlmodel import col

from groundspeed.service.db.forge_tables import ForgeAction, ForgeRepository
from groundspeed.service.domain.pulls.commands import read_command
from groundspeed.service.domain.pulls.events import Commented
from groundspeed.service.domain.pulls.forge import ForgeRefused
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.pulls import apply
from groundspeed.service.usecases.pulls.outgoing import Desk
from groundspeed.service.usecases.pulls.topics import stamp

log = logging.getLogger(__name__)
OVERLAP = timedelta(minutes=2)


def comments(desk: Desk, repository: ForgeRepository, now: datetime) -> int:
    """How many commands were found. At first sight nothing is read: what was said before is nobody's command now.

    Raises ForgeUnavailable; a forge that refuses is left alone, for pull requests can be read without comments.
    """
    if not repository.comments_at:
        _note(desk, repository.id or 0, stamp(now - OVERLAP))
        return 0
    found, newest = 0, repository.comments_at
    try:
        for one in desk.forge.comments_since(repository.full_name, repository.comments_at):
            found += _take(desk, repository.id or 0, one, repository.comments_at, now)
            newest = max(newest, min(_before(one.updated_at), stamp(now)))
    except ForgeRefused as error:
        log.warning("comments of %s cannot be read: %s", repository.full_name, error)
    if newest != repository.comments_at:
        _note(desk, repository.id or 0, newest)
    return found


def _take(desk: Desk, repository_id: int, told: Commented, since: str, now: datetime) -> bool:
    """A command on a known pull request that was written since and stands as it was written: nobody else's words."""
    if told.created_at < since or told.updated_at != told.created_at or read_command(told.body) is None:
        return False
    with desk.database.transaction() as session:
        row = session.scalars(held(select(ForgeRepository).where(col(ForgeRepository.id) == repository_id))).one()
        key = apply.comment_key(row, told)
        known = select(col(ForgeAction.id)).where(col(ForgeAction.idempotency_key) == key)
        if apply.find(session, row, told.number) is None or session.scalar(known) is not None:
            return False
        state, _ = apply.commented(session, row, told, now, late=True)
        return state == "done"


def _before(text: str) -> str:
    """A forge's time a little earlier; empty for what is none."""
    try:
        return stamp(datetime.fromisoformat(text) - OVERLAP)
    except ValueError:
        return ""


def _note(desk: Desk, repository_id: int, comments_at: str) -> None:
    with desk.database.transaction() as session:
        row = session.scalars(held(select(ForgeRepository).where(col(ForgeRepository.id) == repository_id))).one()
        row.comments_at = max(row.comments_at, comments_at)
        session.add(row)
