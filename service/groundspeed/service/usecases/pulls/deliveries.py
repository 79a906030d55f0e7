"""Webhook deliveries: stored at once under their id, worked on afterwards, each exactly once."""

from __future__ import annotations

import hashlib
import json
import logging
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, or_, select, update
from sqlalchemy.exc import DBAPIError
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.forge_tables import Delivery
from groundspeed.service.db.identities import insert_new
from groundspeed.service.domain.pulls.events import Event, Malformed
from groundspeed.service.usecases import outbox
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.pulls import apply
from groundspeed.service.usecases.pulls.topics import DELIVERY, LEFT_BEHIND

log = logging.getLogger(__name__)
TRIES = 5
KEEP = timedelta(days=30)
"""How long the id and the digest of a delivery are remembered, so that neither comes twice."""
Read = Callable[[str, Any], Event]
"""From the event's name and its parsed JSON to an event; raises Malformed."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """An authentic delivery as it came: its id and event by the headers, and the raw body.

    ``ignored``: why nobody reads events of this name; it is counted, and its body is not kept.
    """

    guid: str
    event: str
    body: bytes
    ignored: str = ""


def receive(database: Database, incoming: Incoming, now: datetime) -> bool:
    """Store a delivery, with the message that gets it worked on; False when it was known already.

    The id is not signed: the same body under another id is a replay too.
    """
    digest = hashlib.sha256(incoming.event.encode() + b"\0" + incoming.body).hexdigest()
    packed = None if incoming.ignored else zlib.compress(incoming.body, 1)
    with database.transaction() as session:
        same = or_(col(Delivery.guid) == incoming.guid, col(Delivery.digest) == digest)
        if session.execute(select(col(Delivery.id)).where(same).limit(1)).first() is not None:
            return False
        row = Delivery(guid=incoming.guid, event=incoming.event, body=packed, digest=digest, received_at=now)
        if incoming.ignored:
            row.state, row.reason, row.processed_at = "ignored", incoming.ignored, now
        values = row.model_dump(exclude={"id"})
        made = session.execute(insert_new(session, Delivery).values(**values).returning(col(Delivery.id))).scalar()
        if made is None:
            return False
        if not incoming.ignored:
            outbox.enqueue(session, DELIVERY, {"delivery_id": made})
        return True


def waiting(database: Database, now: datetime, limit: int = 200) -> list[int]:
    """Deliveries that should have been worked on by now, oldest first."""
    with database.read() as session:
        query = select(col(Delivery.id)).where(
            col(Delivery.state) == "pending", col(Delivery.received_at) <= now - LEFT_BEHIND
        )
        return [one for one in session.scalars(query.order_by(col(Delivery.id)).limit(limit)) if one is not None]


def process(database: Database, delivery_id: int, read: Read, now: datetime) -> str:
    """Let a delivery have its effect; returns its state. One that another process works on, or has, is left alone.

    An error of ours is kept with the delivery, which is tried again a few times; an unavailable database raises.
    """
    try:
        with database.transaction() as session:
            query = select(Delivery).where(col(Delivery.id) == delivery_id, col(Delivery.state) == "pending")
            delivery: Delivery | None = session.scalars(held(query, skip=True)).one_or_none()
            if delivery is None:
                return "taken"
            state, reason = _effect(session, delivery, read, now)
            delivery.state, delivery.reason, delivery.processed_at = state, reason[:500], now
            if state != "malformed":
                delivery.body = None
            session.add(delivery)
            return state
    except DBAPIError:
        raise
    except Exception as error:
        log.exception("delivery %s", delivery_id)
        return _failed(database, delivery_id, f"{type(error).__name__}: {error}", now)


def _effect(session: Session, delivery: Delivery, read: Read, now: datetime) -> tuple[str, str]:
    try:
        event = read(delivery.event, json.loads(zlib.decompress(delivery.body or b"")))
    except Malformed as error:
        return "malformed", str(error)
    except (ValueError, RecursionError) as error:
        return "malformed", f"the body is no JSON that can be read: {error}"
    return apply.apply(session, event, delivery.guid, now)


def _failed(database: Database, delivery_id: int, reason: str, now: datetime) -> str:
    with database.transaction() as session:
        delivery = session.scalars(held(select(Delivery).where(col(Delivery.id) == delivery_id))).one()
        delivery.tries += 1
        delivery.reason = reason[:500]
        if delivery.tries >= TRIES:
            delivery.state, delivery.processed_at = "failed", now
        session.add(delivery)
        return delivery.state


def forget(database: Database, now: datetime, keep: timedelta = KEEP) -> None:
    """Delete what was worked on longer than ``keep`` ago, and the bodies of what could not be read after a day."""
    with database.transaction() as session:
        day_ago = col(Delivery.processed_at) < now - timedelta(days=1)
        session.execute(update(Delivery).where(day_ago, col(Delivery.body).is_not(None)).values(body=None))
        session.execute(delete(Delivery).where(col(Delivery.processed_at) < now - keep))
