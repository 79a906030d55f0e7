"""Telling channels what is noted for them: taken for a time, sent outside of any transaction, noted as sent or tried
again later. A process that dies between sending and noting makes a message come twice, under the same number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, func, select, update
from sqlmodel import Session, col

from groundspeed.service.db.account_tables import Account
from groundspeed.service.db.engine import Database
from groundspeed.service.db.notification_tables import Channel, Notification
from groundspeed.service.usecases.locking import held

MAX_TRIES = 8
KEPT = timedelta(days=90)
_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to tell. ``owner``: e-mail address of whoever the regression is assigned to, where it is known."""

    event: str
    facts: Mapping[str, Any]
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """What goes out together to one channel; ``number`` stays the same however often it is tried."""

    number: str
    ids: tuple[int, ...]
    tries: int
    channel: str
    kind: str
    target: str
    secret: str
    digest: str
    template: str
    items: tuple[Item, ...]


class NotToldError(Exception):
    """A channel could not be told. ``final``: trying again is of no use."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final


def deliver(db: Database, now: datetime, send: Callable[[Batch], None]) -> int:
    """Tell what is due through ``send``, which raises :class:`NotToldError` when it could not; returns how many
    messages went out.
    """
    sent = 0
    for batch in take(db, now):
        try:
            send(batch)
        except NotToldError as error:
            _failed(db, batch, str(error), final=error.final)
        else:
            _sent(db, batch, now)
            sent += 1
    return sent


def take(db: Database, now: datetime) -> list[Batch]:
    """What is due, taken so that nobody else sends it for a while; the pauses between tries grow."""
    with db.read() as session:
        due = col(Notification.state) == "pending", col(Notification.not_before) <= now
        if session.scalar(select(col(Notification.id)).where(*due).limit(1)) is None:
            return []
    with db.transaction() as session:
        query = (
            select(Notification)
            .join(Channel, col(Channel.id) == col(Notification.channel_id))
            .where(*due, col(Channel.enabled).is_(True))
            .order_by(col(Notification.id))
            .limit(_AT_ONCE)
        )
        rows = session.scalars(held(query)).all()
        channels = {
            one.id: one
            for one in session.scalars(select(Channel).where(col(Channel.id).in_({r.channel_id for r in rows})))
        }
        groups: dict[str, list[Notification]] = {}
        for row in rows:
            row.batch = row.batch or _number(row, channels[row.channel_id], groups)
            row.tries += 1
            row.not_before = now + pause(row.tries)
            session.add(row)
            groups.setdefault(row.batch, []).append(row)
        return [_batch(session, number, channels[group[0].channel_id], group) for number, group in groups.items()]


def _number(row: Notification, channel: Channel, groups: Mapping[str, Sequence[Notification]]) -> str:
    """A message of its own, or the digest that is being gathered for the channel."""
    if channel.digest == "off" or row.event == "test":
        return f"n{row.id}"
    gathered = (n for n, g in groups.items() if g[0].channel_id == channel.id and g[0].tries == 1 and n.startswith("d"))
    return next(gathered, f"d{row.id}")


def _batch(session: Session, number: str, channel: Channel, rows: Sequence[Notification]) -> Batch:
    return Batch(
        number,
        tuple(row.id or 0 for row in rows),
        rows[0].tries,
        channel.name,
        channel.kind,
        channel.target,
        channel.secret,
        channel.digest,
        channel.template,
        tuple(Item(row.event, row.facts, _owner(session, row.facts)) for row in rows),
    )


def _owner(session: Session, facts: Mapping[str, Any]) -> str:
    assignee = str(facts.get("regression", {}).get("assignee", ""))
    if "@" in assignee or not assignee:
        return assignee
    named = select(col(Account.email)).where(func.lower(col(Account.handle)) == assignee.lower())
    return session.scalar(named) or ""


def pause(tries: int) -> timedelta:
    """Half a minute, doubled with each try, an hour at most."""
    return min(timedelta(seconds=30 * 2 ** (tries - 1)), timedelta(hours=1))


def _sent(db: Database, batch: Batch, now: datetime) -> None:
    with db.transaction() as session:
        mine = col(Notification.id).in_(batch.ids)
        session.execute(update(Notification).where(mine).values(state="sent", sent_at=now, error=""))


def _failed(db: Database, batch: Batch, reason: str, *, final: bool) -> None:
    state = "failed" if final or batch.tries >= MAX_TRIES else "pending"
    with db.transaction() as session:
        mine = col(Notification.id).in_(batch.ids)
        session.execute(update(Notification).where(mine).values(state=state, error=reason[:1000]))


def forget(db: Database, now: datetime) -> None:
    """Let go of what was told, or given up, long ago."""
    with db.transaction() as session:
        old = col(Notification.created_at) < now - KEPT, col(Notification.state) != "pending"
        session.execute(delete(Notification).where(*old))
