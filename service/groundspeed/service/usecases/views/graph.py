"""A graph: many series over the commits of a branch, thinned so that extremes and changes stay."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from statistics import median
from typing import Any, NamedTuple

from sqlmodel import Session

from groundspeed.service.db import reads, reads_series
from groundspeed.service.db.engine import Database
from groundspeed.service.errors import Invalid, NotFound
from groundspeed.service.usecases.views import refs
from groundspeed.service.wire import views as v

MAX_SERIES = 40
POINTS = 2000
"""Of one series, unless asked otherwise: more than a screen has columns."""
ALTOGETHER = 12_000
"""Many series share so many points, with ``FEWEST`` for each at least."""
FEWEST = 500
_BEST = ("valid", "degraded", "rejected")


@dataclass(frozen=True, slots=True)
class GraphQuery:
    """``low`` and ``high`` are positions on the branch; ``points`` is how many to send of each series at most.

    None: as many as a screen shows.
    """

    series: tuple[int, ...]
    low: int = 0
    high: int | None = None
    points: int | None = None

    @property
    def limit(self) -> int:
        """Points of each series."""
        if self.points is not None:
            return self.points
        return min(POINTS, max(FEWEST, ALTOGETHER // max(1, len(self.series))))


class _Point(NamedTuple):
    """A tuple, because thousands are made for one graph."""

    position: int
    environment: int
    value: float
    low: float
    high: float
    many: int
    run: int
    state: str


def graph(db: Database, slug: str, query: GraphQuery, echo: dict[str, str] | None = None) -> v.Graph:
    """Raises NotFound for a series that is not this project's, Invalid for too many."""
    if len(query.series) > MAX_SERIES:
        raise Invalid(f"A graph shows {MAX_SERIES} series at most.", "Leave some of them out.")
    with db.read() as session:
        project = refs.project_row(session, slug)
        rows = series_of(session, project.id, query.series)
        high = reads.tip_position(session, project.id) if query.high is None else query.high
        points = {id_: _points(rows_) for id_, rows_ in _by_series(session, project.id, query, high).items()}
        changes: dict[int, list[v.Change]] = {}
        for change in refs.changes(session, reads.changes_of_series(session, query.series)):
            changes.setdefault(change.series, []).append(change)
        failures = reads_series.failures(session, {row.benchmark_id for row in rows}, query.low, high) if rows else ()
        chosen = [
            _chosen(row, points.get(row.id, []), changes.get(row.id, []), (failures, query.limit)) for row in rows
        ]
        frame = _Frame(session, project.id, chosen)
        revisions = frame.revisions()
        return v.Graph(
            project=refs.project_ref(project),
            series=tuple(_drawn(frame, one) for one in chosen),
            revisions=revisions,
            environments=frame.environments(),
            events=_events(session, project.id, revisions),
            siblings=_siblings(session, rows),
            query=echo or {},
        )


def series_of(session: Session, project_id: int, ids: Sequence[int]) -> list[Any]:
    """Rows of series; raises NotFound for one that is not the project's."""
    rows = reads_series.series_rows(session, ids)
    known = {row.id for row in rows if row.project_id == project_id}
    missing = [str(id_) for id_ in ids if id_ not in known]
    if missing:
        raise NotFound(f"There is no series {', '.join(missing)} in this project.", "Choose one from its benchmarks.")
    return rows


def _by_series(session: Session, project_id: int, query: GraphQuery, high: int) -> dict[int, list[Any]]:
    out: dict[int, list[Any]] = {}
    for row in reads_series.points(session, project_id, query.series, query.low, high):
        out.setdefault(row[0], []).append(row)
    return out


def _points(rows: list[Any]) -> list[_Point]:
    """Results of the same commit and environment become one point. Rows as ``reads_series.points`` gives them."""
    places = [(position, environment) for _, position, environment, *_ in rows]
    if len(set(places)) == len(rows):
        alone = [_alone(row) for row in rows]
        return alone if places == sorted(places) else sorted(alone)
    groups: dict[tuple[int, int], list[Any]] = {}
    for place, row in zip(places, rows, strict=True):
        groups.setdefault(place, []).append(row)
    return [_alone(group[0]) if len(group) == 1 else _together(group) for _, group in sorted(groups.items())]


def _alone(row: Any) -> _Point:
    _, position, environment, value, spread, state, run, _ = row
    return _Point(position, environment, value, value - spread, value + spread, 1, run, state)


def _together(group: list[Any]) -> _Point:
    """Median and range of several processes; rejected ones count only where there is nothing else."""
    state = min((row[5] for row in group), key=_rank)
    values = [row[3] for row in group if (row[5] == "rejected") == (state == "rejected")]
    run = max(row[6] for row in group)
    return _Point(group[0][1], group[0][2], median(values), min(values), max(values), len(group), run, state)


def _rank(state: str) -> int:
    return _BEST.index(state) if state in _BEST else len(_BEST)


def thin(values: Sequence[float], keep: set[int], limit: int) -> list[int]:
    """Indices that stand for ``values``: the lowest and highest of each of ``limit / 2`` parts, ends, and ``keep``."""
    n = len(values)
    if n <= limit:
        return list(range(n))
    chosen = {0, n - 1} | {i for i in keep if 0 <= i < n}
    parts = max(1, (limit - len(chosen)) // 2)
    for k in range(parts):
        part = range(k * n // parts, (k + 1) * n // parts)
        chosen.add(min(part, key=values.__getitem__))
        chosen.add(max(part, key=values.__getitem__))
    return sorted(chosen)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A series, all of its points, those that are shown, and what stands beside them."""

    row: Any
    every: list[_Point]
    shown: list[_Point]
    changes: list[v.Change]
    failures: list[Any]


def _chosen(row: Any, points: list[_Point], changes: list[v.Change], more: tuple[Sequence[Any], int]) -> _Chosen:
    failures, limit = more
    positions = [p.position for p in points]
    ends = [x.position for c in changes for x in (c.before, c.after) if x.position is not None]
    keep = {bisect_left(positions, x) for x in ends}
    shown = [points[i] for i in thin([p.value for p in points], keep, limit)]
    return _Chosen(row, points, shown, changes, [f for f in failures if _same_place(row, f)])


def _drawn(frame: _Frame, one: _Chosen) -> v.GraphSeries:
    ends = sorted(c.after.position for c in one.changes if c.after.position is not None)
    return v.GraphSeries(
        series=refs.series_ref(one.row),
        points=_columns(frame, one.shown),
        total=len(one.every),
        segments=_segments(one.every, one.shown, ends),
        changes=tuple(one.changes),
        failures=tuple(
            v.Failure(revision=frame.revision[f.position], outcome=f.outcome, run=f.id) for f in one.failures
        ),
        threshold=one.row.threshold,
    )


def _same_place(series: Any, failure: Any) -> bool:
    """Whether a failed run would have given a value of the series."""
    if (failure.benchmark_id, failure.hardware_id) != (series.benchmark_id, series.hardware_id):
        return False
    return all(failure.params.get(key, value) == value for key, value in series.params.items())


def _columns(frame: _Frame, chosen: list[_Point]) -> v.Points:
    position, environment, value, low, high, count, run, state = zip(*chosen, strict=True) if chosen else [()] * 8
    return v.Points.model_construct(
        revision=tuple(map(frame.revision.__getitem__, position)),
        environment=tuple(map(frame.environment.__getitem__, environment)),
        value=_finite(value),
        low=_finite(low),
        high=_finite(high),
        count=count,
        run=run,
        state=state,
    )


def _finite(values: tuple[float, ...]) -> tuple[float | None, ...]:
    """As they are where all are finite, which is nearly always."""
    return values if all(map(isfinite, values)) else tuple(map(refs.finite, values))


def _segments(points: list[_Point], chosen: list[_Point], ends: list[int]) -> tuple[v.Segment, ...]:
    """Level (median of all points) between changes, from and to an index of the points shown."""
    if not chosen:
        return ()
    every, shown = [p.position for p in points], [p.position for p in chosen]
    edges = [-1, *dict.fromkeys(ends), every[-1] + 1]
    out = []
    for low, high in pairwise(edges):
        inside = [p.value for p in points[bisect_left(every, low) : bisect_left(every, high)]]
        first, last = bisect_left(shown, low), bisect_left(shown, high) - 1
        if inside and last >= first:
            out.append(v.Segment(first=first, last=last, level=median(inside)))
    return tuple(out)


class _Frame:
    """Commits (oldest first) and environments (in order of appearance) that something stands on, with their places."""

    def __init__(self, session: Session, project_id: int, chosen: Sequence[_Chosen]) -> None:
        wanted = {p.position for one in chosen for p in one.shown} | {
            f.position for one in chosen for f in one.failures
        }
        self._rows = reads.revision_columns(session, project_id, wanted) if wanted else []
        self.revision = {row.position: i for i, row in enumerate(self._rows)}
        ids = dict.fromkeys(p.environment for one in chosen for p in one.shown)
        found = reads.environments_by_id(session, ids)
        self._environments = tuple(refs.environment_ref(found[id_]) for id_ in ids)
        self.environment = {id_: i for i, id_ in enumerate(ids)}

    def environments(self) -> tuple[v.EnvironmentRef, ...]:
        return self._environments

    def revisions(self) -> v.Revisions:
        ids, shas, positions, times, authors, titles = zip(*self._rows, strict=True) if self._rows else [()] * 6
        return v.Revisions.model_construct(
            id=ids,
            sha=shas,
            position=positions,
            at=times,
            author=authors,
            title=titles,
        )


def _events(session: Session, project_id: int, revisions: v.Revisions) -> tuple[v.EventMark, ...]:
    """Events at the first commit shown that is not older; those before all or after all have no place."""
    order = sorted(range(len(revisions.id)), key=revisions.at.__getitem__)
    times = [revisions.at[i] for i in order]
    out = []
    for event in reads.events_of_project(session, project_id):
        at = bisect_left(times, int(event.at.timestamp()))
        if event.revision_id in revisions.id:
            place: int | None = revisions.id.index(event.revision_id)
        else:
            place = order[at] if 0 < at < len(order) else None
        if place is not None:
            out.append(
                v.EventMark(
                    id=event.id or 0, kind=event.kind, title=event.title, body=event.body, revision=place, at=event.at
                )
            )
    return tuple(out)


def _siblings(session: Session, rows: Sequence[Any]) -> tuple[v.SeriesRef, ...]:
    benchmarks = dict.fromkeys(row.benchmark_id for row in rows)
    return tuple(refs.series_ref(s) for id_ in benchmarks for s in reads_series.series_of_benchmark(session, id_))
