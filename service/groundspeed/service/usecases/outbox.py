"""Messages that follow a state change: written in the transaction of that change, sent after its commit.

Sending is at least once: a process that dies between sending and noting it makes the message come twice, and every
receiver takes a second delivery as a no-op. Losing all messages costs time only, because the reaper finds what waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import bindparam, delete, event, select, update
from sqlmodel import Session, col

from groundspeed.service.db.bulk import insert_rows
from groundspeed.service.db.columns import utc_now
from groundspeed.service.db.engine import Database
from groundspeed.service.db.identities import core
from groundspeed.service.db.sets import among, one_of
from groundspeed.service.db.tables import Outbox

_PENDING = "groundspeed_outbox"
_COLUMNS = ("topic", "payload", "created_at", "sent_at")
_LEFT = (
    select(col(Outbox.id), col(Outbox.topic), col(Outbox.payload))
    .where(col(Outbox.sent_at).is_(None), col(Outbox.created_at) <= bindparam("before"))
    .order_by(col(Outbox.id))
    .limit(bindparam("limit"))
    .with_for_update(skip_locked=True)
)
_SENT = update(core(Outbox)).where(one_of(core(Outbox).c.id, among("ids"))).values(sent_at=bindparam("now"))
LEFT_BEHIND = timedelta(seconds=1)
"""A message that its own process has not sent after so long is sent by whoever finds it."""


@dataclass(frozen=True, slots=True)
class Message:
    id: int
    topic: str
    payload: dict[str, Any]


Send = Callable[[Sequence[Message]], int]
"""Hands messages to the broker in their order; returns how many it took, fewer than all when it failed after some, and
raises when it took none.
"""


def enqueue(session: Session, topic: str, payload: dict[str, Any]) -> None:
    """Note a message in this transaction. ``topic`` is the name of a Celery task."""
    enqueue_all(session, topic, [payload])


def enqueue_all(session: Session, topic: str, payloads: Sequence[dict[str, Any]]) -> None:
    """Note several messages of one topic, in one statement."""
    if not payloads:
        return
    now = utc_now()
    rows = [(topic, payload, now, None) for payload in payloads]
    ids = insert_rows(session, Outbox, _COLUMNS, rows, returning=("id",))
    made = [Message(row[0], topic, payload) for row, payload in zip(sorted(ids), payloads, strict=True)]
    session.info.setdefault(_PENDING, []).extend(made)


def on_commit(database: Database, take: Callable[[list[Message]], None]) -> Callable[[], None]:
    """Call ``take`` with the messages of every commit of this database in this process; returns how to stop that."""

    def after_commit(session: Session) -> None:
        # It may be bound to one connection of the engine.
        if not session.info.get(_PENDING) or session.get_bind().engine is not database.engine:
            return  # another database of this process, whose own listener takes them
        take(session.info.pop(_PENDING))

    event.listen(Session, "after_commit", after_commit)
    return lambda: event.remove(Session, "after_commit", after_commit)


def mark_sent(database: Database, ids: Sequence[int], now: datetime) -> None:
    with database.transaction() as session:
        session.connection().execute(_SENT, {"ids": list(ids), "now": now})


def relay(database: Database, send: Send, now: datetime, limit: int = 200, left: timedelta = LEFT_BEHIND) -> int:
    """Send what has been unsent for longer than ``left``, oldest first; returns how many were sent.

    On PostgreSQL rows that another relay holds are skipped. What was sent is noted in one statement; when ``send``
    raises, nothing of the batch was, and the error goes on to the caller.
    """
    with database.transaction() as session:
        rows = session.execute(_LEFT, {"before": now - left, "limit": limit}).tuples().all()
        messages = [Message(*row) for row in rows]
        sent = send(messages) if messages else 0
        if sent:
            session.connection().execute(_SENT, {"ids": [one.id for one in messages[:sent]], "now": now})
    return sent


def forget_sent(database: Database, now: datetime, keep: timedelta = timedelta(hours=1)) -> int:
    """Delete messages sent longer than ``keep`` ago."""
    with database.transaction() as session:
        result = session.execute(delete(Outbox).where(Outbox.sent_at < now - keep))  # type: ignore[operator,arg-type]
        return int(getattr(result, "rowcount", 0))
