"""Detection on arrival: what new results say about their series is worked out once, stored, and read by everybody.

Each series is one transaction. Two analyses of a series wait for one another; results that arrive meanwhile leave a
mark that the next one finds, so none is overlooked and none has to wait.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, select
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import ChangePoint, Outbox, Revision, Series, SeriesMark
from groundspeed.service.domain import findings as domain
from groundspeed.service.domain.detect import (
    DETECTOR_VERSION,
    Detection,
    DetectorState,
    StaleStateError,
    detect,
)
from groundspeed.service.domain.identity import Known, match
from groundspeed.service.usecases import foretold, grouping, outbox
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.series import LoadedSeries, load_series

FOLLOW_UP = "groundspeed.control.followup"
_STRONGEST = 1e6
"""A step in a series without noise is infinitely strong; this stands for it."""


def analyse_dirty(db: Database, now: datetime, limit: int = 1000) -> int:
    """Analyse the series that have marks, oldest mark first; returns how many."""
    with db.read() as session:
        oldest = func.min(col(SeriesMark.id))
        query = select(col(SeriesMark.series_id)).group_by(col(SeriesMark.series_id)).order_by(oldest).limit(limit)
        waiting = session.scalars(query).all()
    for series_id in waiting:
        _analyse_one(db, series_id, now, only_marked=True)
    return len(waiting)


def analyse(db: Database, series_ids: Iterable[int], now: datetime, *, only_marked: bool = False) -> int:
    """Analyse these series; unknown ids are passed over. ``only_marked``: those without a mark are up to date."""
    return sum(_analyse_one(db, one, now, only_marked=only_marked) for one in sorted(set(series_ids)))


def _analyse_one(db: Database, series_id: int, now: datetime, *, only_marked: bool) -> bool:
    with db.transaction() as session:
        query = held(select(Series).where(col(Series.id) == series_id))
        series = session.scalars(query).one_or_none()
        if series is None:
            return False
        # First the marks, then the results: a mark that is seen here has its results committed.
        marks = delete(SeriesMark).where(col(SeriesMark.series_id) == series_id).returning(col(SeriesMark.revision_id))
        marked = set(session.execute(marks).scalars())
        if not marked and only_marked:
            return False
        loaded, detection = _detect(session, series, marked)
        _store_ledger(session, loaded, detection, now)
        changed = _store_changes(session, loaded, detection.change_points, now)
        if series.gate:
            grouping.regroup(session, series.project_id, changed, now)
            foretold.accept(session, changed, now)
            foretold.reopen(session, changed, now)
            if any(change.provisional or change.unmeasured for change in detection.change_points):
                _ask_for_more(session, series.project_id)
        return True


def _detect(session: Session, series: Series, marked: set[int | None]) -> tuple[LoadedSeries, Detection]:
    """From what is known and the commits with new results, when that is enough; else from all points."""
    state = DetectorState.from_bytes(series.state) if series.state and marked and None not in marked else None
    if state is not None:
        loaded = load_series(session, series.id or 0, [one for one in marked if one is not None])
        if loaded.data.min_effect == series.threshold:
            try:
                return loaded, detect(loaded.data, loaded.config, state)
            except StaleStateError:
                pass
    loaded = load_series(session, series.id or 0)
    return loaded, detect(loaded.data, loaded.config)


def _store_ledger(session: Session, loaded: LoadedSeries, detection: Detection, now: datetime) -> None:
    series = loaded.series
    ledger = asdict(detection.noise)
    ledger["drift"] = asdict(detection.drift) if detection.drift is not None else None
    ledger["environment_effects"] = [asdict(effect) for effect in detection.environment_effects[-20:]]
    series.noise = ledger
    series.series_class = detection.series_class
    series.threshold = loaded.data.min_effect
    series.detector_version = DETECTOR_VERSION
    series.state = detection.state.to_bytes()
    series.last_result_at = now
    session.add(series)


def _store_changes(
    session: Session, loaded: LoadedSeries, found: Sequence[domain.ChangePoint], now: datetime
) -> list[ChangePoint]:
    """Bring the stored change points in line with what was found; returns those that are new or differ.

    One that detection sees again, even a commit away or after it was withdrawn, is the same row: what people know
    keeps its identity.
    """
    rows = list(session.scalars(select(ChangePoint).where(col(ChangePoint.series_id) == loaded.series.id)))
    places = _places(session, rows)
    active = [row for row in rows if row.state != "withdrawn"]
    first = match([_known(row, places) for row in active], found)
    gone = [row for row in rows if row.state == "withdrawn"]
    left = [found[i] for i in first.new]
    second = match([_known(row, places) for row in gone], left)
    by_id = {row.id: row for row in rows}
    pairs: list[tuple[ChangePoint | None, int]] = [(by_id[key], i) for key, i in first.same]
    pairs += [(by_id[key], first.new[i]) for key, i in second.same]
    pairs += [(None, first.new[i]) for i in second.new]
    told = foretold.announced(session, loaded.series.project_id, loaded.series.id or 0, found)
    level = found[-1].level_after if found else math.nan
    writer = _Writer(session, loaded, _commits(session, loaded.series.project_id, found), level, now)
    changed = [row for old, i in pairs if (row := writer.write(old, found[i], told.get(i))) is not None]
    for key in first.gone:
        row = by_id[key]
        row.state, row.updated_at = "withdrawn", now
        session.add(row)
        changed.append(row)
    session.flush()
    return changed


def _commits(session: Session, project_id: int, found: Sequence[domain.ChangePoint]) -> dict[int, int]:
    """Revision by position, as far as change points name it."""
    places = {x for change in found for x in (change.x_before, change.x_after)}
    if not places:
        return {}
    query = select(col(Revision.position), col(Revision.id))
    rows = session.execute(query.where(col(Revision.project_id) == project_id, col(Revision.position).in_(places)))
    return {position: id_ for position, id_ in rows if position is not None and id_ is not None}


def _places(session: Session, rows: Sequence[ChangePoint]) -> dict[int, int]:
    """Position by revision."""
    ids = {row.before_revision_id for row in rows} | {row.after_revision_id for row in rows}
    query = select(col(Revision.id), col(Revision.position)).where(col(Revision.id).in_(ids))
    return {id_: position for id_, position in session.execute(query) if position is not None} if ids else {}


def _known(row: ChangePoint, places: dict[int, int]) -> Known[int | None]:
    """A commit that has left the branch (a forced push) is far from everything."""
    far = -(10**9)
    ratio = row.ratio if row.ratio is not None else 1.0
    return Known(row.id, places.get(row.before_revision_id, far), places.get(row.after_revision_id, far), ratio)


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes the change points of one series, whose level is ``level`` now."""

    session: Session
    loaded: LoadedSeries
    commits: Mapping[int, int]
    level: float
    now: datetime

    def write(
        self, old: ChangePoint | None, new: domain.ChangePoint, told: Mapping[str, Any] | None
    ) -> ChangePoint | None:
        """The row, made or brought up to date; None when nothing about it changed. ``told``: announced by a gate."""
        values = _values(new, self.commits, recovered=self._recovered(new))
        if told is not None:
            values["detail"]["foretold"] = dict(told)
        if old is None:
            row = ChangePoint(series_id=self.loaded.series.id or 0, created_at=self.now, updated_at=self.now, **values)
            self.session.add(row)
            return row
        if old.state == "confirmed":
            values["state"] = "confirmed"  # what was confirmed is withdrawn or stands, it does not become doubtful
        if all(getattr(old, name) == value for name, value in values.items()):
            return None
        for name, value in values.items():
            setattr(old, name, value)
        old.updated_at = self.now
        self.session.add(old)
        return old

    def _recovered(self, change: domain.ChangePoint) -> bool:
        """Whether a later change has brought the level back to within the threshold of what it was before."""
        before, after = change.level_before, change.level_after
        if self.level == after or before <= 0 or self.level <= 0:
            return False
        left = math.log(self.level / before)
        worse = left if after > before else -left
        return worse <= math.log1p(self.loaded.data.threshold())


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


def _ask_for_more(session: Session, project_id: int) -> None:
    """Something is open: have it planned what would settle it, unless that is asked for already."""
    waiting = select(col(Outbox.payload)).where(col(Outbox.topic) == FOLLOW_UP, col(Outbox.sent_at).is_(None))
    if not any(payload.get("project_id") == project_id for payload in session.scalars(waiting)):
        outbox.enqueue(session, FOLLOW_UP, {"project_id": project_id})
