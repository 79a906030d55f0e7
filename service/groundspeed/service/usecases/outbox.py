"""Messages that follow a state change: written in the transaction of that change, sent after its commit.

Sending is at least once: a process that dies between sending and noting it makes the message come twice, and every
receiver takes a second delivery as a no-op. Losing all messages costs time only, because the reaper finds what waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, event, select, update
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import Outbox

_PENDING = "groundspeed_outbox"
LEFT_BEHIND = timedelta(seconds=1)
"""A message that its own process has not sent after so long is sent by whoever finds it."""

Send = Callable[[str, dict[str, Any]], None]
"""Hands (topic, payload) to the broker; raises when it could not."""


@dataclass(frozen=True, slots=True)
class Message:
    id: int
    topic: str
    payload: dict[str, Any]


def enqueue(session: Session, topic: str, payload: dict[str, Any]) -> None:
    """Note a message in this transaction. ``topic`` is the name of a Celery task."""
    row = Outbox(topic=topic, payload=payload)
    session.add(row)
    session.info.setdefault(_PENDING, []).append(row)


def on_commit(database: Database, take: Callable[[list[Message]], None]) -> Callable[[], None]:
    """Call ``take`` with the messages of every commit of this database in this process; returns how to stop that."""

    def after_commit(session: Session) -> None:
        rows = session.info.pop(_PENDING, ())
        if rows and session.bind is database.engine:
            take([Message(row.id, row.topic, row.payload) for row in rows if row.id is not None])

    event.listen(Session, "after_commit", after_commit)
    return lambda: event.remove(Session, "after_commit", after_commit)


def mark_sent(database: Database, ids: Sequence[int], now: datetime) -> None:
    with database.transaction() as session:
        session.execute(update(Outbox).where(col(Outbox.id).in_(ids)).values(sent_at=now))


def relay(database: Database, send: Send, now: datetime, limit: int = 200, left: timedelta = LEFT_BEHIND) -> int:
    """Send what has been unsent for longer than ``left``, oldest first; returns how many were sent.

    On PostgreSQL rows that another relay holds are skipped. When ``send`` raises, what was sent before it is noted and
    the error goes on to the caller.
    """
    with database.transaction() as session:
        query = (
            select(Outbox)
            .where(col(Outbox.sent_at).is_(None), col(Outbox.created_at) <= now - left)
            .order_by(col(Outbox.id))
            .limit(limit)
        )
        rows = session.scalars(query.with_for_update(skip_locked=True)).all()
        sent: list[int] = []
        failure: Exception | None = None
        for row in rows:
            try:
                send(row.topic, row.payload)
            except Exception as error:  # noqa: BLE001 - raised again below, after what was sent has been noted
                failure = error
                break
            sent.append(row.id or 0)
        if sent:
            session.execute(update(Outbox).where(col(Outbox.id).in_(sent)).values(sent_at=now))
    if failure is not None:
        raise failure
    return len(sent)


def forget_sent(database: Database, now: datetime, keep: timedelta = timedelta(hours=1)) -> int:
    """Delete messages sent longer than ``keep`` ago."""
    with database.transaction() as session:
        result = session.execute(delete(Outbox).where(Outbox.sent_at < now - keep))  # type: ignore[operator,arg-type]
        return int(getattr(result, "rowcount", 0))
