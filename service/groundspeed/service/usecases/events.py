"""What happened outside the code, told by a person or a runbook: "BIOS changed on rack 7"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import AuditEntry, Event, Node
from groundspeed.service.errors import Invalid, NotFound
from groundspeed.service.usecases import requests

MOST_TITLE, MOST_BODY = 200, 4000
_AHEAD = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Told:
    """``node`` or ``where`` (labels): which machines; neither: all. ``project`` empty: it shows in every project.
    ``at`` None: now.
    """

    title: str
    body: str = ""
    project: str = ""
    node: str = ""
    where: Mapping[str, str] = field(default_factory=dict)
    at: datetime | None = None


def tell(database: Database, told: Told, now: datetime, *, actor: str) -> list[int]:
    """Note the event, once for each machine it is about; telling the same again changes nothing. Returns the ids.

    Raises :class:`Invalid` for an empty or overlong title and a time to come, :class:`NotFound` for a project or
    node that is not known and labels that no node has.
    """
    title, at = " ".join(told.title.split()), told.at or now
    if not title or len(title) > MOST_TITLE or len(told.body) > MOST_BODY:
        raise Invalid(
            f"An event has a title of 1 to {MOST_TITLE} characters and a text of {MOST_BODY}.", "Make it shorter."
        )
    if at.utcoffset() is None or at > now + _AHEAD:
        raise Invalid("The event's time cannot be used.", "Give it with its zone, and not in the future.")
    with database.transaction() as session:
        project = requests.by_slug(session, told.project).id if told.project else None
        nodes = _nodes(session, told)
        ids = [_note(session, title, told.body, project, node, at) for node in nodes]
        entry = AuditEntry(actor=actor, action="event.told", subject_type="event", subject_id=str(ids[0]), at=now)
        entry.data = {"title": title}
        session.add(entry)
        return ids


def _nodes(session: Session, told: Told) -> list[int | None]:
    if not told.node and not told.where:
        return [None]
    found = [
        node
        for node in session.scalars(select(Node).order_by(col(Node.id)))
        if told.node in {"", node.name} and all(node.labels.get(name) == value for name, value in told.where.items())
    ]
    if not found:
        asked = told.node or ", ".join(f"{name}={value}" for name, value in told.where.items())
        raise NotFound(f"There is no node {asked}.", "A node is known once its worker has registered.")
    return [node.id for node in found]


def _note(session: Session, title: str, body: str, project: int | None, node: int | None, at: datetime) -> int:
    same = select(Event).where(
        col(Event.kind) == "annotation", col(Event.title) == title, col(Event.at) == at,
        col(Event.project_id) == project, col(Event.node_id) == node,
    )  # fmt: skip
    known = session.scalars(same).first()
    if known is None:
        known = Event(kind="annotation", project_id=project, node_id=node, title=title, body=body, at=at)
        session.add(known)
        session.flush()
    return known.id or 0
