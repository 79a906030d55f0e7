"""What no delivery told: open pull requests are read from the forge now and then and compared with what is known.

The branch's head is looked at by the watch of the project. So a lost delivery delays an answer and never loses it.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from sqlalchemy import or_, select
from sqlmodel import col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.forge_tables import ForgeRepository, PullRequest
from groundspeed.service.domain.pulls.events import PullRequest as Told
from groundspeed.service.domain.pulls.forge import ForgeRefused, ForgeUnavailable
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.pulls import apply, missed, outgoing
from groundspeed.service.usecases.pulls.outgoing import Desk
from groundspeed.service.usecases.pulls.topics import stamp

log = logging.getLogger(__name__)
FRESH = timedelta(days=1)
"""When a repository is first looked at, only what changed so lately is measured; the rest is noted."""


def waiting(database: Database, now: datetime, every_s: float) -> list[int]:
    """Repositories whose open pull requests are to be read again, the longest unseen first."""
    with database.read() as session:
        seen, quiet = col(ForgeRepository.reconciled_at), col(ForgeRepository.quiet_until)
        query = (
            select(col(ForgeRepository.id))
            .where(col(ForgeRepository.state) == "active", col(ForgeRepository.project_id).is_not(None))
            .where(or_(seen.is_(None), seen <= now - timedelta(seconds=every_s)))
            .where(or_(quiet.is_(None), quiet <= now))
        )
        return [one for one in session.scalars(query.order_by(seen)) if one is not None]


def reconcile(desk: Desk, repository_id: int, now: datetime) -> int:
    """Bring one repository's pull requests up to date; returns how many had something new."""
    repository = _begin(desk, repository_id, now)
    if repository is None:
        return 0
    desk.forge.know(repository.full_name, repository.installation_id)
    try:
        told = list(desk.forge.open_pulls(repository.full_name))
        first = repository.reconciled_at is None
        old = stamp(now - FRESH) if first else ""
        changed = sum(_compare(desk, repository_id, one, now, note_only=one.updated_at < old) for one in told)
        changed += _closed(desk, repository, {one.number for one in told}, now)
        return changed + missed.comments(desk, repository, now)
    except ForgeUnavailable as error:
        pause = max(desk.patience.backoff_s, error.retry_after_s)
        outgoing.hush(desk.database, repository_id, now + timedelta(seconds=pause))
        _again(desk, repository_id, repository.reconciled_at)
    except ForgeRefused as error:
        log.warning("%s cannot be read: %s", repository.full_name, error)
        if error.gone:
            _gone(desk, repository_id)
    return 0


def _begin(desk: Desk, repository_id: int, now: datetime) -> ForgeRepository | None:
    """The row as it was, with the look noted; None when another process has just looked."""
    with desk.database.transaction() as session:
        query = held(select(ForgeRepository).where(col(ForgeRepository.id) == repository_id), skip=True)
        row: ForgeRepository | None = session.scalars(query).one_or_none()
        if row is None:
            return None
        last = row.reconciled_at
        if last is not None and last > now - timedelta(seconds=desk.patience.reconcile_s):
            return None
        before = ForgeRepository(**row.model_dump())
        row.reconciled_at = now
        session.add(row)
        return before


def _again(desk: Desk, repository_id: int, last: datetime | None) -> None:
    with desk.database.transaction() as session:
        row = session.get_one(ForgeRepository, repository_id)
        row.reconciled_at = last
        session.add(row)


def _gone(desk: Desk, repository_id: int) -> None:
    """The repository is not there for us any more; an event, or linking it again, brings it back."""
    with desk.database.transaction() as session:
        row = session.get_one(ForgeRepository, repository_id)
        row.state = "removed"
        session.add(row)


def _compare(desk: Desk, repository_id: int, told: Told, now: datetime, *, note_only: bool = False) -> bool:
    with desk.database.read() as session:
        query = select(PullRequest).where(
            col(PullRequest.repository_id) == repository_id, col(PullRequest.number) == told.number
        )
        known: PullRequest | None = session.scalars(query).one_or_none()
    if not apply.differs(known, told) or (known is not None and told.updated_at < known.updated_at):
        return False
    with desk.database.transaction() as session:
        row = session.scalars(held(select(ForgeRepository).where(col(ForgeRepository.id) == repository_id))).one()
        apply.pull(session, row, told, now, certain=True)
        if note_only and known is None and (noted := apply.find(session, row, told.number)) is not None:
            noted.due_at = None
            session.add(noted)
    return True


def _closed(desk: Desk, repository: ForgeRepository, still_open: set[int], now: datetime) -> int:
    """What is open here and not there was closed without our hearing of it."""
    with desk.database.read() as session:
        query = select(col(PullRequest.number)).where(
            col(PullRequest.repository_id) == repository.id,
            col(PullRequest.state) == "open",
            col(PullRequest.kind) == "pull",
        )
        missing = sorted(set(session.scalars(query)) - still_open)
    return sum(
        _compare(desk, repository.id or 0, desk.forge.pull(repository.full_name, number), now) for number in missing
    )
