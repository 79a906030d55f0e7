"""A graph: many series over the commits of a branch, thinned so that extremes and changes stay."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from sqlmodel import Session

from groundspeed.service.db import reads, reads_series
from groundspeed.service.db.engine import Database
from groundspeed.service.errors import Invalid, NotFound
from groundspeed.service.usecases import catalogue
from groundspeed.service.usecases.views import refs
from groundspeed.service.usecases.views.history import Floats, History, histories, short, thin
from groundspeed.service.wire import views as v

MAX_SERIES = 40
POINTS = 2000
"""Of one series, unless asked otherwise: more than a screen has columns."""
ALTOGETHER = 12_000
"""Many series share so many points, with ``FEWEST`` for each at least."""
FEWEST = 500
FIGURES = 9
"""Of a choice of points, which is for drawing: as text they are half as long."""
_NOTHING = histories([(0, 0, 0, 0.0, 0.0, "", 0)], {})[0]
_POSITION = 2
"""In what ``reads.revision_columns`` gives."""


@dataclass(frozen=True, slots=True)
class GraphQuery:
    """``low`` and ``high`` are positions on the branch; ``points`` is how many to send of each series at most.

    None: as many as a screen shows. ``pins`` name commits that are marked, whether or not a series has a point there.
    """

    series: tuple[int, ...]
    low: int = 0
    high: int | None = None
    points: int | None = None
    pins: tuple[str, ...] = ()

    @property
    def limit(self) -> int:
        """Points of each series."""
        if self.points is not None:
            return self.points
        return min(POINTS, max(FEWEST, ALTOGETHER // max(1, len(self.series))))


def head(db: Database, slug: str, query: GraphQuery, echo: dict[str, str]) -> v.GraphHead:
    """What the page of :func:`graph` begins with; raises as that does."""
    _check(query)
    with db.read() as session:
        project = refs.project_row(session, slug)
        rows = series_of(session, project.id, reads_series.followed(session, query.series))
        named = tuple(v.Named(series=refs.series_ref(row)) for row in rows)
        about = _about(session, [one.series for one in named])
        return v.GraphHead(project=refs.project_ref(project), series=named, about=about, query=echo)


def _about(session: Session, series: Sequence[v.SeriesRef]) -> str:
    return catalogue.metric_in_words(session, series[0].benchmark, series[0].metric) if len(series) == 1 else ""


def _check(query: GraphQuery) -> None:
    if len(query.series) > MAX_SERIES:
        raise Invalid(f"A graph shows {MAX_SERIES} series at most.", "Leave some of them out.")


def graph(db: Database, slug: str, query: GraphQuery, echo: dict[str, str] | None = None) -> v.Graph:
    """Raises NotFound for a series that is not this project's, Invalid for too many."""
    _check(query)
    with db.read() as session:
        project = refs.project_row(session, slug)
        query = replace(query, series=tuple(reads_series.followed(session, query.series)))
        rows = series_of(session, project.id, query.series)
        high = reads.tip_position(session, project.id) if query.high is None else query.high
        known = _histories(session, project.id, query, high)
        changes: dict[int, list[v.Change]] = {}
        for change in refs.changes(session, reads.changes_of_series(session, query.series)):
            changes.setdefault(change.series, []).append(change)
        failures = _failures(session, rows, query.low, high)
        chosen = [
            _chosen(row, known.get(row.id, _NOTHING), changes.get(row.id, []), (failures, query.limit)) for row in rows
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
            pins=_pins(session, project.id, query.pins),
            about=_about(session, [refs.series_ref(row) for row in rows]),
            query=echo or {},
        )


def _pins(session: Session, project_id: int, shas: Sequence[str]) -> tuple[v.RevisionRef, ...]:
    """The commits that are known of those named."""
    found = (reads.revision_by_sha(session, project_id, sha) for sha in shas)
    return tuple(refs.revision_ref(row) for row in found if row is not None)


def series_of(session: Session, project_id: int, ids: Sequence[int]) -> list[Any]:
    """Rows of series; raises NotFound for one that is not the project's."""
    rows = reads_series.series_rows(session, ids)
    known = {row.id for row in rows if row.project_id == project_id}
    missing = [str(id_) for id_ in ids if id_ not in known]
    if missing:
        raise NotFound(f"There is no series {', '.join(missing)} in this project.", "Choose one from its benchmarks.")
    return rows


def _failures(session: Session, rows: Sequence[Any], low: int, high: int) -> Sequence[Any]:
    benchmarks, hardware = {row.benchmark_id for row in rows}, {row.hardware_id for row in rows}
    return reads_series.failures(session, benchmarks, hardware, low, high) if rows else ()


def _histories(session: Session, project_id: int, query: GraphQuery, high: int) -> dict[int, History]:
    places = reads.places(session, project_id, query.low, high)
    if not places:
        return {}
    return histories(reads_series.points(session, query.series, min(places), max(places)), places)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A series, all of its points, those that are shown, and what stands beside them."""

    row: Any
    every: History
    shown: History
    changes: list[v.Change]
    failures: list[Any]


def _chosen(row: Any, points: History, changes: list[v.Change], more: tuple[Sequence[Any], int]) -> _Chosen:
    failures, limit = more
    ends = [x.position for c in changes for x in (c.before, c.after) if x.position is not None]
    keep = set(np.searchsorted(points.position, ends).tolist())
    shown = points.some(thin(points.value, keep, limit))
    return _Chosen(row, points, shown, changes, [f for f in failures if _same_place(row, f)])


def _drawn(frame: _Frame, one: _Chosen) -> v.GraphSeries:
    ends = sorted(c.after.position for c in one.changes if c.after.position is not None)
    return v.GraphSeries(
        series=refs.series_ref(one.row),
        points=_columns(frame, one),
        total=one.every.size,
        segments=_segments(one.every, one.shown, ends),
        changes=tuple(one.changes),
        failures=tuple(
            v.Failure(revision=frame.revision(f.position), outcome=f.outcome, run=f.id) for f in one.failures
        ),
        threshold=one.row.threshold,
    )


def _same_place(series: Any, failure: Any) -> bool:
    """Whether a failed run would have given a value of the series."""
    if (failure.benchmark_id, failure.hardware_id) != (series.benchmark_id, series.hardware_id):
        return False
    return all(failure.params.get(key, value) == value for key, value in series.params.items())


def _columns(frame: _Frame, one: _Chosen) -> v.Points:
    shown, whole = one.shown, one.shown is one.every
    return v.Points.model_construct(
        revision=tuple(np.searchsorted(frame.positions, shown.position).tolist()),
        environment=tuple(map(frame.environment.__getitem__, shown.environment.tolist())),
        value=_finite(shown.value if whole else short(shown.value, FIGURES)),
        low=_finite(shown.low if whole else short(shown.low, FIGURES)),
        high=_finite(shown.high if whole else short(shown.high, FIGURES)),
        count=tuple(shown.many.tolist()),
        run=tuple(shown.run.tolist()),
        state=tuple(shown.state),
    )


def _finite(values: Floats) -> tuple[float | None, ...]:
    """As they are where all are finite, which is nearly always."""
    known = tuple(values.tolist())
    return known if np.isfinite(values).all() else tuple(map(refs.finite, known))


def _segments(every: History, shown: History, ends: list[int]) -> tuple[v.Segment, ...]:
    """Level (median of all points) between changes, from and to an index of the points shown."""
    if not shown.size:
        return ()
    edges = [-1, *dict.fromkeys(ends), int(every.position[-1]) + 1]
    inside, seen = np.searchsorted(every.position, edges).tolist(), np.searchsorted(shown.position, edges).tolist()
    out = []
    for (begin, end), (first, after) in zip(pairwise(inside), pairwise(seen), strict=True):
        if end > begin and after > first:
            out.append(v.Segment(first=first, last=after - 1, level=float(np.median(every.value[begin:end]))))
    return tuple(out)


class _Frame:
    """Commits (oldest first) and environments (in order of appearance) that something stands on, with their places."""

    def __init__(self, session: Session, project_id: int, chosen: Sequence[_Chosen]) -> None:
        shown = [one.shown.position for one in chosen]
        wanted = np.unique(
            np.concatenate([*shown, [f.position for one in chosen for f in one.failures]]).astype(np.int64)
        )
        self._rows = reads.revision_columns(session, project_id, set(wanted.tolist())) if wanted.size else []
        self.positions = np.array([row[_POSITION] for row in self._rows], np.int64)
        ids = dict.fromkeys(id_ for one in chosen for id_ in dict.fromkeys(one.shown.environment.tolist()))
        found = reads.environments_by_id(session, ids)
        self._environments = tuple(refs.environment_ref(found[id_]) for id_ in ids)
        self.environment = {id_: i for i, id_ in enumerate(ids)}

    def revision(self, position: int) -> int:
        """Where the commit at a position stands among those that are shown."""
        return int(np.searchsorted(self.positions, position))

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
    events = reads.events_of_project(session, project_id)
    if not events:
        return ()
    order = sorted(range(len(revisions.id)), key=revisions.at.__getitem__)
    times = [revisions.at[i] for i in order]
    out = []
    for event in events:
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
