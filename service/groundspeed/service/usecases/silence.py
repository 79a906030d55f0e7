"""The dead-man alarm: a pool or a series from which nothing has been heard although there was something to hear.

A pool is silent when none of its nodes has given a sign of life for ``node_s``. A series is silent when it has brought
nothing for ``series``, while its branch has had newer commits; after four times as long it counts as retired.
Each silence is told once, as an event and a line in the log, and its end is told too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Select, func, select
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import Bookmark, Event, Node, Project, Revision, Series
from groundspeed.service.usecases.bookmarks import bookmark

log = logging.getLogger(__name__)
_LOOKED = "silence.looked"
_POOL = "silence.pool."
_PROJECT = "silence.project."
_EVERY_S = 60
_RETIRED = 4
_GONE = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Limits:
    """``node_s`` seconds for pools; ``series`` for series, None: never."""

    node_s: float = 300.0
    series: timedelta | None = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Silence:
    """``pools``: seconds since the last sign of life, of silent pools. ``series``: silent ones by project slug."""

    pools: dict[str, float] = field(default_factory=dict)
    series: dict[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.pools or self.series)


def limits_of(node_s: float, series_days: float) -> Limits:
    """From settings, where 0 days stand for: no alarm for series."""
    return Limits(node_s, timedelta(days=series_days) if series_days else None)


def find(session: Session, limits: Limits, now: datetime) -> Silence:
    return Silence(_pools(session, limits, now), _series(session, limits, now))


def look(database: Database, limits: Limits, now: datetime) -> Silence | None:
    """Note what has fallen silent or is heard again since the last look; None when that was less than a minute ago."""
    with database.transaction() as session:
        mark = bookmark(session, _LOOKED)
        if now.timestamp() - mark.place < _EVERY_S:
            return None
        mark.place = int(now.timestamp())
        session.add(mark)
        found = find(session, limits, now)
        _tell(session, _POOL, found.pools, now, _pool_fell, _pool_back)
        _tell(session, _PROJECT, found.series, now, _series_fell, _series_back)
    return found


def _pools(session: Session, limits: Limits, now: datetime) -> dict[str, float]:
    heard: dict[str, datetime] = {}
    rows = session.execute(select(col(Node.labels), col(Node.seen_at)).where(col(Node.seen_at) >= now - _GONE))
    for labels, seen in rows.tuples():
        pool = labels.get("pool") or "default"
        if seen is not None:
            heard[pool] = max(heard.get(pool, seen), seen)
    ages = {pool: (now - seen).total_seconds() for pool, seen in sorted(heard.items())}
    return {pool: age for pool, age in ages.items() if age > limits.node_s}


def _series(session: Session, limits: Limits, now: datetime) -> dict[str, int]:
    if limits.series is None:
        return {}
    return {slug: count for slug, count in session.execute(_silent_series(limits.series, now)).tuples() if count}


def _silent_series(limit: timedelta, now: datetime) -> Select[str, int]:
    newest = (
        select(col(Revision.project_id), func.max(col(Revision.committed_at)).label("at"))
        .where(col(Revision.position).is_not(None))
        .group_by(col(Revision.project_id))
        .subquery()
    )
    last = col(Series.last_result_at)
    return (
        select(col(Project.slug), func.count(col(Series.id)))
        .join(Series, col(Series.project_id) == col(Project.id))
        .join(newest, newest.c.project_id == col(Project.id))
        .where(col(Project.watch), last < now - limit, last >= now - _RETIRED * limit, newest.c.at > last)
        .group_by(col(Project.slug))
    )


def _pool_fell(name: str, amount: float) -> tuple[str, str]:
    text = f"None of its nodes has given a sign of life for {amount:.0f} s: look at its workers."
    return f"Pool {name} is silent", text


def _pool_back(name: str) -> str:
    return f"Pool {name} is heard again"


def _series_fell(name: str, amount: float) -> tuple[str, str]:
    text = f"{amount:.0f} series have brought no result although the branch has newer commits: look at failed jobs."
    return f"Series of {name} are silent", text


def _series_back(name: str) -> str:
    return f"All series of {name} are heard again"


def _tell(session: Session, kind: str, silent: dict[str, Any], now: datetime, fell: Any, back: Any) -> None:
    """One event for each beginning and each end of a silence."""
    known = {row.name: row for row in _told(session, kind)}
    for name, amount in silent.items():
        key = f"{kind}{name}"[:100]
        if known.pop(key, None) is None:
            title, body = fell(name, amount)
            log.error("%s. %s", title, body)
            session.add(Bookmark(name=key, place=int(now.timestamp())))
            session.add(_event(session, kind, name, title, body, now))
    for key, row in known.items():
        name = key.removeprefix(kind)
        log.warning("%s", back(name))
        session.delete(row)
        session.add(_event(session, kind, name, back(name), "", now))


def _told(session: Session, kind: str) -> Iterable[Bookmark]:
    return session.scalars(select(Bookmark).where(col(Bookmark.name).startswith(kind, autoescape=True))).all()


def _event(session: Session, kind: str, name: str, title: str, body: str, now: datetime) -> Event:
    project = None
    if kind == _PROJECT:
        project = session.scalar(select(col(Project.id)).where(col(Project.slug) == name))
    return Event(kind="alarm", project_id=project, title=title, body=body, at=now.astimezone(UTC))
