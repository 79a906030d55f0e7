"""What a forge is to be told or asked: noted in the transaction of its reason, done afterwards, with patience.

An action is done at least once. Those that tell the present state (``answer``, ``issue``, ``bisect``) are one row each
that is wanted again and again; the others (``command``, ``reply``) are done once for their key.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import or_, select
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.forge_tables import ForgeAction, ForgeRepository
from groundspeed.service.db.unique import ensure
from groundspeed.service.domain.pulls.forge import Forge, ForgeRefused, ForgeUnavailable
from groundspeed.service.errors import GroundspeedError
from groundspeed.service.repo import Mirrors
from groundspeed.service.usecases import outbox
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.pulls.topics import TELL, Patience

REPEATED = frozenset({"answer", "issue", "bisect"})
LEASE = timedelta(seconds=180)
"""How long one try may take: longer than all its calls with their time-outs."""
OWN_TRIES = 6
"""Tries of an action that fails by an error of ours."""


@dataclass(frozen=True, slots=True)
class Desk:
    """What answering needs: the store, git, the forge, where our own pages are, and how patient to be."""

    database: Database
    mirrors: Mirrors
    forge: Forge
    base_url: str
    patience: Patience


@dataclass(frozen=True, slots=True)
class Claim:
    """An action that this process is doing. ``tries`` counts this one."""

    id: int
    kind: str
    key: str
    payload: dict[str, Any]
    repository_id: int
    repository: str
    pull_id: int | None
    tries: int
    wanted: int


def want(
    session: Session, repository: ForgeRepository, kind: str, key: str, payload: dict[str, Any], now: datetime, *,
    pull_id: int | None = None,
) -> None:  # fmt: skip
    """Note an action in this transaction, with the message that gets it done."""
    row = ForgeAction(
        kind=kind, repository_id=repository.id or 0, pull_id=pull_id, idempotency_key=key, payload=payload,
        wanted=0, not_before=now, created_at=now,
    )  # fmt: skip
    found = ensure(session, ForgeAction, [row.model_dump(exclude={"id"})], key=("idempotency_key",))
    action = session.scalars(held(select(ForgeAction).where(col(ForgeAction.id) == found[key,]))).one()
    if action.wanted and kind not in REPEATED:
        return
    action.wanted += 1
    action.payload = payload
    if action.state != "sending":
        action.state, action.not_before = "pending", now
    session.add(action)
    session.flush()
    outbox.enqueue(session, TELL, {"action_id": action.id})


def answer(session: Session, repository: ForgeRepository, pull_id: int, now: datetime) -> None:
    """Let check and comment of a pull request say what holds now."""
    want(session, repository, "answer", f"answer:{pull_id}", {}, now, pull_id=pull_id)


def waiting(database: Database, now: datetime, limit: int = 100) -> list[int]:
    """Actions whose time has come, oldest first; those of a forge that asked for patience apart."""
    with database.read() as session:
        quiet = col(ForgeRepository.quiet_until)
        query = (
            select(col(ForgeAction.id))
            .join(ForgeRepository, col(ForgeRepository.id) == col(ForgeAction.repository_id))
            .where(col(ForgeAction.state).in_(("pending", "sending")), col(ForgeAction.not_before) <= now)
            .where(or_(quiet.is_(None), quiet <= now))
            .order_by(col(ForgeAction.not_before), col(ForgeAction.id))
            .limit(limit)
        )
        return [one for one in session.scalars(query) if one is not None]


def claim(database: Database, action_id: int, now: datetime) -> Claim | None:
    """Take an action for this process; None when its time has not come, or another has it."""
    with database.transaction() as session:
        query = held(select(ForgeAction).where(col(ForgeAction.id) == action_id), skip=True)
        action: ForgeAction | None = session.scalars(query).one_or_none()
        if action is None or action.state not in {"pending", "sending"} or action.not_before > now:
            return None
        repository = session.get_one(ForgeRepository, action.repository_id)
        if repository.quiet_until is not None and repository.quiet_until > now:
            return None
        action.state, action.not_before = "sending", now + LEASE
        action.tries += 1
        session.add(action)
        return Claim(
            action_id, action.kind, action.idempotency_key, dict(action.payload), repository.id or 0,
            repository.full_name, action.pull_id, action.tries, action.wanted,
        )  # fmt: skip


def installation(database: Database, repository_id: int) -> int | None:
    with database.read() as session:
        return session.get_one(ForgeRepository, repository_id).installation_id


def done(database: Database, claimed: Claim, now: datetime) -> None:
    """It is sent; unless there is a new reason since it was taken, and then it is sent again."""
    with database.transaction() as session:
        action = held_action(session, claimed.id)
        action.tries, action.error = 0, ""
        action.state, action.sent_at = "sent", now
        if action.wanted != claimed.wanted:
            action.state, action.not_before = "pending", now
            outbox.enqueue(session, TELL, {"action_id": action.id})
        session.add(action)


def failed(database: Database, claimed: Claim, error: Exception, now: datetime, patience: Patience) -> None:
    """Try again later, or give up on what the forge refused for good; the reason stays with the action."""
    pause = patience.after(claimed.tries)
    if isinstance(error, ForgeUnavailable):
        pause = max(pause, timedelta(seconds=error.retry_after_s))
        hush(database, claimed.repository_id, now + pause)
    with database.transaction() as session:
        action = held_action(session, claimed.id)
        action.error = str(error)[:500]
        gives_up = isinstance(error, ForgeRefused) or (
            not isinstance(error, ForgeUnavailable | GroundspeedError) and action.tries >= OWN_TRIES
        )
        again = action.wanted != claimed.wanted
        action.state = "failed" if gives_up and not again else "pending"
        action.not_before = now + pause
        if gives_up:
            action.tries = 0
        session.add(action)


def later(database: Database, claimed: Claim, until: datetime) -> None:
    """It goes on, and is looked at again then."""
    with database.transaction() as session:
        action = held_action(session, claimed.id)
        action.state, action.not_before, action.tries = "pending", until, 0
        session.add(action)


def held_action(session: Session, action_id: int) -> ForgeAction:
    return session.scalars(held(select(ForgeAction).where(col(ForgeAction.id) == action_id))).one()


def hush(database: Database, repository_id: int, until: datetime) -> None:
    """Ask nothing of the forge for this repository before then."""
    with database.transaction() as session:
        repository = session.scalars(
            held(select(ForgeRepository).where(col(ForgeRepository.id) == repository_id))
        ).one()
        repository.quiet_until = until
        session.add(repository)
