"""Channels: where people and programs are told, and of what. Changes are written down with who made them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, func, select
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col

from groundspeed.service.addresses import apart, named
from groundspeed.service.db.engine import Database
from groundspeed.service.db.notification_tables import Channel, Notification
from groundspeed.service.db.tables import AuditEntry, Project
from groundspeed.service.errors import Conflict, Invalid, NotFound
from groundspeed.service.usecases.locking import held

KINDS = ("email", "slack", "webhook")
EVENTS = {
    "regression": "a regression is confirmed",
    "improvement": "an improvement is confirmed",
    "change": "a change without a better side is confirmed",
    "recovered": "a regression has recovered",
    "again": "one that had recovered is back",
    "over": "the time to ignore one is over",
    "assigned": "one is given to somebody",
}
USUAL = ("regression", "recovered", "again", "over")
DIGESTS = ("off", "hourly", "daily", "weekly")
OWNER = "owner"
"""Among the addresses of an e-mail channel: whoever the regression is assigned to."""
_ADDRESS = re.compile(r"^[^\s@<>,;\"]{1,64}@[A-Za-z0-9.-]{1,255}$")


@dataclass(frozen=True, slots=True)
class New:
    """``project`` "": all of them; ``target``: e-mail addresses (or "owner") separated by commas, or an address to post
    to; ``secret`` signs what is posted to a webhook; ``template`` "": the built-in text.
    """

    name: str
    kind: str
    target: str
    project: str = ""
    events: tuple[str, ...] = USUAL
    digest: str = "off"
    template: str = ""
    secret: str = ""


def add(db: Database, new: New, now: datetime, actor: str) -> int:
    """A new channel's id. It is told of what happens from now on. Raises ``Invalid``, ``NotFound``, ``Conflict``."""
    target = _checked(new)
    with db.transaction() as session:
        if session.scalar(select(col(Channel.id)).where(col(Channel.name) == new.name.strip())) is not None:
            raise Conflict(f"There is a channel {new.name!r} already.", "Choose another name.")
        channel = Channel(
            project_id=_project(session, new.project),
            name=new.name.strip(),
            kind=new.kind,
            target=target,
            secret=new.secret,
            events=list(dict.fromkeys(new.events)),
            digest=new.digest,
            template=new.template,
            created_at=now,
        )
        session.add(channel)
        try:
            session.flush()
        except IntegrityError:  # another of this name was added at the same moment
            raise Conflict(f"There is a channel {new.name!r} already.", "Choose another name.") from None
        _note(session, "channel.add", channel.name, actor, now, {"kind": new.kind, "where": shown(new.kind, target)})
        return channel.id or 0


def _checked(new: New) -> str:
    if not 1 <= len(new.name.strip()) <= 100:
        raise Invalid("A channel needs a name of 1 to 100 characters.", "Name who is told.")
    for value, allowed, what in ((new.kind, KINDS, "kind"), (new.digest, DIGESTS, "digest")):
        if value not in allowed:
            raise Invalid(f"{value!r} is no {what} of a channel.", f"Use one of {', '.join(allowed)}.")
    unknown = [event for event in new.events if event not in EVENTS]
    if unknown or not new.events:
        wrong = f"{unknown[0]!r} is no event." if unknown else "A channel without events is told nothing."
        raise Invalid(wrong, f"Use some of {', '.join(EVENTS)}.")
    if len(new.template) > 10_000 or len(new.target) > 2000 or len(new.secret) > 500:
        raise Invalid("The template, the target or the secret is too long.", "Shorten it.")
    return _addresses(new.target) if new.kind == "email" else _address(new.target)


def _addresses(text: str) -> str:
    found = [part.strip() for part in text.split(",") if part.strip()]
    wrong = [one for one in found if one != OWNER and not _ADDRESS.match(one)]
    if wrong or not found:
        raise Invalid(f"{wrong[0] if wrong else text!r} is no e-mail address.", "Give name@example.org, or owner.")
    return ", ".join(found)


def _address(text: str) -> str:
    url = apart(text.strip())
    if url.scheme not in {"http", "https"} or not named(url.hostname) or not text.isprintable() or " " in text.strip():
        raise Invalid("That is no address to post to.", "Give one that starts with https://.")
    return text.strip()


def _project(session: Session, slug: str) -> int | None:
    if not slug:
        return None
    found = session.scalar(select(col(Project.id)).where(col(Project.slug) == slug))
    if found is None:
        raise NotFound(f"There is no project {slug!r}.", "Leave it empty for all of them.")
    return found


def change(db: Database, channel_id: int, action: str, now: datetime, actor: str) -> None:
    """``pause``, ``resume`` or ``delete`` a channel; deleting takes along what it was told. Raises ``NotFound``."""
    if action not in {"pause", "resume", "delete"}:
        raise Invalid(f"{action!r} cannot be done with a channel.", "Use pause, resume, delete or test.")
    with db.transaction() as session:
        channel = _held(session, channel_id)
        if action == "delete":
            session.execute(delete(Notification).where(col(Notification.channel_id) == channel_id))
            session.delete(channel)
        else:
            channel.enabled = action == "resume"
            session.add(channel)
        _note(session, f"channel.{action}", channel.name, actor, now, {})


def _held(session: Session, channel_id: int) -> Channel:
    """Nobody else changes it meanwhile, nor deletes it."""
    channel = session.scalars(held(select(Channel).where(col(Channel.id) == channel_id))).one_or_none()
    if channel is None:
        raise NotFound(f"There is no channel {channel_id}.", "The list of channels has them all.")
    return channel


def ask_test(db: Database, channel_id: int, now: datetime, actor: str) -> None:
    """Have a made-up regression told to a channel, now."""
    with db.transaction() as session:
        channel = _held(session, channel_id)
        key = f"test:{now.isoformat()}"
        session.add(
            Notification(channel_id=channel_id, key=key, event="test", facts={}, not_before=now, created_at=now)
        )
        _note(session, "channel.test", channel.name, actor, now, {})


def listed(session: Session) -> Sequence[tuple[Channel, str | None, str, str]]:
    """Channels by name with their project's slug, the state of what they were told last, and what went wrong."""
    newest = select(func.max(col(Notification.id))).group_by(col(Notification.channel_id))
    last = {
        one.channel_id: one for one in session.scalars(select(Notification).where(col(Notification.id).in_(newest)))
    }
    named = select(Channel, col(Project.slug)).outerjoin(Project, col(Project.id) == col(Channel.project_id))
    rows = session.execute(named.order_by(col(Channel.name))).tuples().all()
    nothing = Notification(channel_id=0, key="", event="", state="")
    told = {channel.id: last.get(channel.id or 0, nothing) for channel, _ in rows}
    return [(channel, slug, told[channel.id].state, told[channel.id].error) for channel, slug in rows]


def shown(kind: str, target: str) -> str:
    """Where a channel leads, without what would let others post there."""
    return target if kind == "email" else f"{apart(target).scheme}://{apart(target).netloc.rpartition('@')[2]}/…"


def _note(session: Session, action: str, name: str, actor: str, now: datetime, data: dict[str, object]) -> None:
    session.add(AuditEntry(actor=actor, action=action, subject_type="channel", subject_id=name, data=data, at=now))
