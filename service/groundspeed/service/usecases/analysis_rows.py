"""What detection found in a series, as rows: its noise, its class, and the change points, which keep their identity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, select
from sqlalchemy.orm.attributes import set_committed_value
from sqlmodel import Session, col

from groundspeed.service.db.sets import among, one_of
from groundspeed.service.db.tables import ChangePoint, Outbox, Revision
from groundspeed.service.domain import findings as domain
from groundspeed.service.domain.detect import DETECTOR_VERSION, Detection
from groundspeed.service.domain.identity import Known, match
from groundspeed.service.domain.state import as_row
from groundspeed.service.usecases import foretold, outbox, topics
from groundspeed.service.usecases.locking import hold_project
from groundspeed.service.usecases.series import LoadedSeries

_ROWS = select(ChangePoint).where(col(ChangePoint.series_id) == bindparam("series"))
_COMMITS = select(col(Revision.position), col(Revision.id)).where(
    col(Revision.project_id) == bindparam("project"), one_of(col(Revision.position), among("places"))
)
_PLACES = select(col(Revision.id), col(Revision.position)).where(one_of(col(Revision.id), among("ids")))
_GROUPED = select(col(ChangePoint.id), col(ChangePoint.regression_id), col(ChangePoint.pinned)).where(
    one_of(col(ChangePoint.id), among("ids"))
)
_STRONGEST = 1e6
"""A step in a series without noise is infinitely strong; this stands for it."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What is known of a series' change points before it is looked at again: its rows, the positions of the commits
    that they name, and what a gate has announced of what was found.
    """

    rows: Sequence[ChangePoint]
    positions: Mapping[int, int]
    told: Mapping[int, Mapping[str, Any]]
    commits: Mapping[int, int]
    """Revision by position, as far as what was found names it."""


def stored(session: Session, loaded: LoadedSeries, found: Sequence[domain.ChangePoint]) -> Stored:
    """Read it."""
    series = loaded.series
    rows = list(session.scalars(_ROWS, {"series": series.id}))
    told = foretold.announced(session, series.project_id, series.id or 0, found)
    return Stored(rows, _places(session, rows), told, _commits(session, series.project_id, found))


def ledger(min_effect: float | None, detection: Detection, state: bytes, now: datetime) -> dict[str, Any]:
    """What a series' row says of its noise and class, by column. ``min_effect`` is the threshold as configured, and
    ``state`` what detection goes on from.
    """
    noise = as_row(detection.noise)
    noise["drift"] = as_row(detection.drift) if detection.drift is not None else None
    noise["environment_effects"] = [as_row(effect) for effect in detection.environment_effects[-20:]]
    return {
        "noise": noise,
        "series_class": detection.series_class,
        "threshold": min_effect,
        "detector_version": DETECTOR_VERSION,
        "state": state,
        "last_result_at": now,
    }


@dataclass(frozen=True, slots=True)
class Changes:
    """What became of a series' change points: ``new`` are the columns of rows that are to be made."""

    changed: list[ChangePoint]
    new: list[dict[str, Any]]
    gone: list[ChangePoint]


def changes(
    series_id: int, threshold: float, found: Sequence[domain.ChangePoint], before: Stored, now: datetime
) -> Changes:
    """Bring the stored change points of a series in line with what was found.

    One that detection sees again, even a commit away or after it was withdrawn, is the same row: what people know
    keeps its identity.
    """
    rows, places = before.rows, before.positions
    level = found[-1].level_after if found else math.nan
    writer = _Writer(series_id, threshold, before.commits, level, now, before.told)
    if not rows:
        return Changes([], [writer.make(one, i) for i, one in enumerate(found)], [])
    active = [row for row in rows if row.state != "withdrawn"]
    first = match([_known(row, places) for row in active], found)
    withdrawn = [row for row in rows if row.state == "withdrawn"]
    left = [found[i] for i in first.new]
    second = match([_known(row, places) for row in withdrawn], left)
    by_id = {row.id: row for row in rows}
    pairs = [(by_id[key], i) for key, i in first.same]
    pairs += [(by_id[key], first.new[i]) for key, i in second.same]
    changed = [row for row, i in pairs if writer.update(row, found[i], i)]
    new = [writer.make(found[first.new[i]], first.new[i]) for i in second.new]
    gone = [by_id[key] for key in first.gone]
    for row in gone:
        row.state, row.updated_at = "withdrawn", now
    return Changes(changed, new, gone)


def hold(session: Session, project_id: int, seen: Sequence[Changes]) -> None:
    """Hold the project where there is anything to write, and see into which regressions people have put the rows since
    they were read.
    """
    rows = {row.id: row for one in seen for row in (*one.changed, *one.gone)}
    if not rows and not any(one.new for one in seen):
        return
    hold_project(session, project_id)
    for id_, regression_id, pinned in session.connection().execute(_GROUPED, {"ids": list(rows)}) if rows else ():
        set_committed_value(rows[id_], "regression_id", regression_id)
        set_committed_value(rows[id_], "pinned", pinned)


def store_changes(
    session: Session, loaded: LoadedSeries, found: Sequence[domain.ChangePoint], before: Stored, now: datetime
) -> list[ChangePoint]:
    """The same, with the rows made; returns those that are new or differ."""
    seen = changes(loaded.series.id or 0, loaded.data.threshold(), found, before, now)
    hold(session, loaded.series.project_id, [seen])
    rows = [*seen.changed, *(ChangePoint(**values) for values in seen.new), *seen.gone]
    session.add_all(rows)
    session.flush()
    return rows


def _commits(session: Session, project_id: int, found: Sequence[domain.ChangePoint]) -> dict[int, int]:
    """Revision by position, as far as change points name it."""
    places = {x for change in found for x in (change.x_before, change.x_after)}
    if not places:
        return {}
    rows = session.connection().execute(_COMMITS, {"project": project_id, "places": list(places)})
    return {position: id_ for position, id_ in rows if position is not None and id_ is not None}


def _places(session: Session, rows: Sequence[ChangePoint]) -> dict[int, int]:
    """Position by revision."""
    ids = {row.before_revision_id for row in rows} | {row.after_revision_id for row in rows}
    found: Any = session.connection().execute(_PLACES, {"ids": list(ids)}) if ids else ()
    return {id_: position for id_, position in found if position is not None}


def _known(row: ChangePoint, places: Mapping[int, int]) -> Known[int | None]:
    """A commit that has left the branch (a forced push) is far from everything."""
    far = -(10**9)
    ratio = row.ratio if row.ratio is not None else 1.0
    return Known(row.id, places.get(row.before_revision_id, far), places.get(row.after_revision_id, far), ratio)


@dataclass(frozen=True, slots=True)
class _Writer:
    """Says what the change points of one series, whose level is ``level`` now, are in its rows.

    ``told``, by their index: what a gate has announced.
    """

    series_id: int
    threshold: float
    commits: Mapping[int, int]
    level: float
    now: datetime
    told: Mapping[int, Mapping[str, Any]]

    def make(self, new: domain.ChangePoint, index: int) -> dict[str, Any]:
        """The columns of a new row."""
        stamps = {"created_at": self.now, "updated_at": self.now}
        return {"series_id": self.series_id, **self._values(new, index), **stamps}

    def update(self, old: ChangePoint, new: domain.ChangePoint, index: int) -> bool:
        """Bring a row up to date; returns whether anything about it changed."""
        values = self._values(new, index)
        if old.state == "confirmed":
            values["state"] = "confirmed"  # what was confirmed is withdrawn or stands, it does not become doubtful
        if all(getattr(old, name) == value for name, value in values.items()):
            return False
        for name, value in values.items():
            setattr(old, name, value)
        old.updated_at = self.now
        return True

    def _values(self, new: domain.ChangePoint, index: int) -> dict[str, Any]:
        values = _values(new, self.commits, recovered=self._recovered(new))
        told = self.told.get(index)
        if told is not None:
            values["detail"]["foretold"] = dict(told)
        return values

    def _recovered(self, change: domain.ChangePoint) -> bool:
        """Whether a later change has brought the level back to within the threshold of what it was before."""
        before, after = change.level_before, change.level_after
        if self.level == after or before <= 0 or self.level <= 0:
            return False
        left = math.log(self.level / before)
        worse = left if after > before else -left
        return worse <= math.log1p(self.threshold)


def _values(change: domain.ChangePoint, commits: Mapping[int, int], *, recovered: bool) -> dict[str, Any]:
    return {
        "before_revision_id": commits[change.x_before],
        "after_revision_id": commits[change.x_after],
        "environment_from_id": _environment(change.environment_before),
        "environment_to_id": _environment(change.environment_after),
        "state": "provisional" if change.provisional else "confirmed",
        "kind": change.kind,
        "cause": change.cause,
        "ratio": _finite(change.ratio),
        "ratio_low": _finite(change.ratio_low),
        "ratio_high": _finite(change.ratio_high),
        "difference": change.difference,
        "strength": min(change.strength, _STRONGEST),
        "p_value": _finite(change.p_value),
        "detector_version": DETECTOR_VERSION,
        "detail": {
            "level_before": change.level_before,
            "level_after": change.level_after,
            "points_before": change.points_before,
            "points_after": change.points_after,
            "replicated": change.replicated,
            "unmeasured": len(change.unmeasured),
            "recovered": recovered,
        },
    }


def _environment(name: str | None) -> int | None:
    return int(name) if name is not None else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def ask_for_more(session: Session, project_id: int) -> None:
    """Something is open: have it planned what would settle it, unless that is asked for already."""
    waiting = select(col(Outbox.payload)).where(col(Outbox.topic) == topics.FOLLOW_UP, col(Outbox.sent_at).is_(None))
    if not any(payload.get("project_id") == project_id for payload in session.scalars(waiting)):
        outbox.enqueue(session, topics.FOLLOW_UP, {"project_id": project_id})
