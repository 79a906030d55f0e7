"""What channels are to be told, from what happened to regressions: each entry of their history once for each channel.

History is the source, so that a lost message loses nothing: whoever looks later finds the entry and that nobody was
told of it yet. Looking twice adds nothing, because (channel, entry) is unique.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.notification_tables import Channel, Notification
from groundspeed.service.db.tables import AuditEntry, Project, Regression, Revision
from groundspeed.service.usecases.triage import MACHINE
from groundspeed.service.usecases.views import findings

LOOK_BACK = timedelta(days=1)
"""What a service that was down for longer has missed, it does not tell any more."""
_ACTIONS = ("regression.confirmed", "regression.state", "regression.over", "regression.edit")
_MORNING = 8
"""Hour (UTC) of daily and weekly digests."""


def plan(db: Database, now: datetime, max_age: timedelta) -> int:
    """Note what each channel is still to be told; returns how much. ``max_age``: of the commit; older ones are kept
    quiet about.
    """
    with db.read() as session:
        if session.scalar(select(col(Channel.id)).where(col(Channel.enabled).is_(True)).limit(1)) is None:
            return 0
        entries = _entries(session, now)
    return _plan(db, entries, now, max_age) if entries else 0


def _entries(session: Session, now: datetime) -> Sequence[AuditEntry]:
    query = select(AuditEntry).where(
        col(AuditEntry.at) >= now - LOOK_BACK,
        col(AuditEntry.subject_type) == "regression",
        col(AuditEntry.action).in_(_ACTIONS),
    )
    return [entry for entry in session.scalars(query.order_by(col(AuditEntry.id))) if _event(entry, "")]


def _event(entry: AuditEntry, kind: str) -> str:
    """What an entry of the history means to a channel; "" for nothing."""
    if entry.action == "regression.confirmed":
        return kind or "regression"
    if entry.action == "regression.over":
        return "over"
    if entry.action == "regression.edit":
        return "assigned" if entry.data.get("to", {}).get("assignee") else ""
    if entry.actor != MACHINE:
        return ""
    if entry.data.get("to") == "recovered":
        return "recovered"
    return "again" if (entry.data.get("from"), entry.data.get("to")) == ("recovered", "new") else ""


def _plan(db: Database, entries: Sequence[AuditEntry], now: datetime, max_age: timedelta) -> int:
    with db.transaction() as session:
        channels = session.scalars(select(Channel).where(col(Channel.enabled).is_(True))).all()
        told = set(session.execute(_told(entries)).tuples())
        regressions = _regressions(session, entries, now - max_age)
        added = 0
        facts: dict[int, dict[str, Any]] = {}
        for entry in entries:
            regression = regressions.get(int(entry.subject_id))
            if regression is None:
                continue
            event = _event(entry, regression.kind)
            for channel in channels:
                if (channel.id, _key(entry)) in told or not _wants(channel, regression, event, entry):
                    continue
                known = facts.setdefault(regression.id or 0, _facts(session, regression))
                session.add(_notification(channel, entry, event, known, now))
                added += 1
        return added


def _told(entries: Iterable[AuditEntry]) -> Any:
    keys = [_key(entry) for entry in entries]
    return select(col(Notification.channel_id), col(Notification.key)).where(col(Notification.key).in_(keys))


def _key(entry: AuditEntry) -> str:
    return f"history:{entry.id}"


def _regressions(session: Session, entries: Iterable[AuditEntry], oldest: datetime) -> Mapping[int, Regression]:
    """Those whose commit is young enough, and that nobody asked to ignore."""
    ids = {int(entry.subject_id) for entry in entries}
    query = (
        select(Regression)
        .outerjoin(Revision, col(Revision.id) == col(Regression.after_revision_id))
        .where(
            col(Regression.id).in_(ids),
            col(Regression.ignored_at).is_(None),
            col(Revision.id).is_(None) | (col(Revision.committed_at) >= oldest),
        )
    )
    return {one.id or 0: one for one in session.scalars(query)}


def _wants(channel: Channel, regression: Regression, event: str, entry: AuditEntry) -> bool:
    here = channel.project_id in {None, regression.project_id}
    return here and event in channel.events and entry.at >= channel.created_at


def _facts(session: Session, regression: Regression) -> dict[str, Any]:
    project = session.get(Project, regression.project_id)
    row = findings.rows(session, project, [regression])[0]
    return {"project": project.slug if project is not None else "", "regression": row.model_dump(mode="json")}


def _notification(
    channel: Channel, entry: AuditEntry, event: str, facts: Mapping[str, Any], now: datetime
) -> Notification:
    return Notification(
        channel_id=channel.id or 0,
        regression_id=int(entry.subject_id),
        key=_key(entry),
        event=event,
        facts={**facts, "actor": entry.actor, "why": str(entry.data.get("why", ""))},
        not_before=due(channel.digest, now),
        created_at=now,
    )


def due(digest: str, now: datetime) -> datetime:
    """When a channel with this digest is told of what happens now."""
    if digest == "hourly":
        return now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    if digest == "off":
        return now
    morning = now.replace(hour=_MORNING, minute=0, second=0, microsecond=0)
    morning += timedelta(days=morning <= now)
    return morning + timedelta(days=-morning.weekday() % 7) if digest == "weekly" else morning
