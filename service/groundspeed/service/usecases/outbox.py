"""Messages that follow a state change: written in the transaction of that change, sent after its commit.

Sending is at least once: a process that dies between sending and noting it makes the message come twice, and every
receiver takes a second delivery as a no-op. Losing all messages costs time only, because the reaper finds what waits.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, event, select, update
from sqlmodel import Session

from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import Outbox

_PENDING = "groundspeed_outbox"

Send = Callable[[str, dict[str, Any]], None]
"""Hands (topic, payload) to the broker; raises when it could not."""


def enqueue(session: Session, topic: str, payload: dict[str, Any]) -> None:
    """Note a message in this transaction. ``topic`` is the name of a Celery task."""
    session.add(Outbox(topic=topic, payload=payload))
    session.info[_PENDING] = True


def on_commit(database: Database, wake: Callable[[], None]) -> Callable[[], None]:
    """Call ``wake`` after every commit of this database that left a message; returns how to stop that."""

    def after_commit(session: Session) -> None:
        if session.info.pop(_PENDING, False) and session.bind is database.engine:
            wake()

    event.listen(Session, "after_commit", after_commit)
    return lambda: event.remove(Session, "after_commit", after_commit)


def relay(database: Database, send: Send, now: datetime, limit: int = 200) -> int:
    """Send what is unsent, oldest first; returns how many were sent.

    On PostgreSQL rows that another relay holds are skipped. When ``send`` raises, what was sent before it is noted and
    the error goes on to the caller.
    """
    with database.transaction() as session:
        query = select(Outbox).where(Outbox.sent_at.is_(None)).order_by(Outbox.id).limit(limit)  # type: ignore[union-attr,arg-type]
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
            session.execute(update(Outbox).where(Outbox.id.in_(sent)).values(sent_at=now))  # type: ignore[union-attr]
    if failure is not None:
        raise failure
    return len(sent)


def forget_sent(database: Database, now: datetime, keep: timedelta = timedelta(hours=1)) -> int:
    """Delete messages sent longer than ``keep`` ago."""
    with database.transaction() as session:
        result = session.execute(delete(Outbox).where(Outbox.sent_at < now - keep))  # type: ignore[operator,arg-type]
        return int(getattr(result, "rowcount", 0))
