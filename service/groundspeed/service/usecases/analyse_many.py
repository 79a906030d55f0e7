"""Detection over many series of a project in one transaction: what they share is read once, what they need in one go.

A history that was imported has thousands of series. One by one each costs a dozen statements and an object for every
point; together they cost the arrays that detection works on, and a few statements for all. The answers are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from sqlalchemy import bindparam, delete, select, update
from sqlmodel import Session, col

from groundspeed.service.db.identities import core
from groundspeed.service.db.sets import among, one_of
from groundspeed.service.db.tables import Benchmark, Result, Revision, Series, SeriesMark, Verdict
from groundspeed.service.domain.detect import Detection
from groundspeed.service.domain.series import Columns, Ints, columns
from groundspeed.service.usecases import foretold, grouping, steps
from groundspeed.service.usecases.analysis_rows import Stored, ask_for_more, changes, ledger
from groundspeed.service.usecases.causes_many import Remembered
from groundspeed.service.usecases.detecting import Detector
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.series import LoadedSeries, latest_config, load_series, series_data
from groundspeed.service.usecases.steps import Member

AT_ONCE = 250
"""Series in one transaction: a few tenths of a second, in which nobody else can write to SQLite."""

_result = core(Result).c
_RESULTS = select(
    _result.series_id, _result.revision_id, _result.environment_id, _result.value, _result.spread, _result.run_id
).where(one_of(_result.series_id, among("ids")), _result.state != "rejected")
_STORE = update(core(Series)).where(core(Series).c.id == bindparam("series"))
Rows = tuple[Any, ...]
"""Of a series' results: commits, environments, values, spreads and runs, as arrays of one length."""
_NONE: Rows = tuple(np.empty(0, kind) for kind in (np.int64, np.int64, np.float64, np.float64, np.int64))
_ROW = np.dtype([
    ("series", np.int64), ("revision", np.int64), ("environment", np.int64), ("value", np.float64),
    ("spread", np.float64), ("run", np.int64),
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class Frame:
    """What all series of a project stand on."""

    positions: Mapping[int, int]
    """Of the commits on the branch."""
    commits: Mapping[int, int]
    """The same the other way round."""
    places: Ints
    """Position by a commit's id; -1: not on the branch."""
    config: Mapping[str, Any]
    suites: Mapping[int, str]

    @classmethod
    def of(cls, session: Session, project_id: int) -> Frame:
        where = col(Revision.project_id) == project_id
        rows = session.execute(select(col(Revision.id), col(Revision.position)).where(where)).tuples().all()
        positions = {id_: x for id_, x in rows if id_ is not None and x is not None}
        places = np.full(max((id_ or 0 for id_, _ in rows), default=0) + 1, -1, np.int64)
        places[list(positions)] = list(positions.values())
        benchmarks = select(col(Benchmark.id), col(Benchmark.suite)).where(col(Benchmark.project_id) == project_id)
        suites = {id_: suite for id_, suite in session.execute(benchmarks).tuples() if id_ is not None}
        commits = {x: id_ for id_, x in positions.items()}
        return cls(positions, commits, places, latest_config(session, project_id), suites)


@dataclass(frozen=True, slots=True)
class Taken:
    """Series that are looked at in this transaction, in their order, with the commits that have news."""

    series: tuple[Series, ...]
    marked: Mapping[int, set[int | None]]


def by_project(session: Session, series_ids: Sequence[int]) -> list[list[int]]:
    """The series that exist, those of a project together, at most AT_ONCE in a list."""
    query = select(col(Series.id), col(Series.project_id)).where(one_of(col(Series.id), among("ids")))
    project = dict(session.execute(query, {"ids": list(series_ids)}).tuples().all())
    sorted_ = sorted((one for one in series_ids if one in project), key=lambda one: project[one])
    lists = [list(group) for _, group in groupby(sorted_, key=lambda one: project[one])]
    return [one[start : start + AT_ONCE] for one in lists for start in range(0, len(one), AT_ONCE)]


def take(session: Session, series_ids: Sequence[int], *, only_marked: bool) -> Taken:
    """Hold these series of one project and take their marks away."""
    query = held(select(Series).where(one_of(col(Series.id), among("ids"))).order_by(col(Series.id)))
    found = {series.id: series for series in session.scalars(query, {"ids": list(series_ids)})}
    marks = delete(SeriesMark).where(one_of(col(SeriesMark.series_id), among("ids")))
    marked: dict[int, set[int | None]] = {}
    # First the marks, then the results: a mark that is seen here has its results committed.
    returned = marks.returning(col(SeriesMark.series_id), col(SeriesMark.revision_id))
    for series_id, revision in session.execute(returned, {"ids": list(series_ids)}).tuples():
        marked.setdefault(series_id, set()).add(revision)
    wanted = [found[one] for one in series_ids if one in found and (one in marked or not only_marked)]
    return Taken(tuple(wanted), marked)


def analyse(session: Session, wanted: Sequence[Series], now: datetime, detector: Detector) -> None:
    """Detect and store, for series of one project whose every point is to be looked at."""
    if not wanted:
        return
    project_id = wanted[0].project_id
    frame = Frame.of(session, project_id)
    ids = [series.id or 0 for series in wanted]
    seen = _detected(session, frame, _with_rows(session, wanted), detector)
    known = steps.of_series(session, ids)
    judged = select(col(Verdict.series_id)).where(one_of(col(Verdict.series_id), among("ids")))
    announced = set(session.scalars(judged, {"ids": ids}))
    changed = []
    for series, loaded, detection, _ in seen:
        found = detection.change_points
        told = foretold.announced(session, project_id, series.id or 0, found) if series.id in announced else {}
        before = Stored(known.get(series.id or 0, ()), frame.positions, told, frame.commits)
        changed.append(changes(loaded, found, before, now))
    session.flush()
    session.connection().execute(
        _STORE,
        [{"series": series.id, **ledger(loaded, detection, state, now)} for series, loaded, detection, state in seen],
    )
    columns = [values for one in changed for values in one.new]
    made = steps.new(session, columns)
    waiting = iter(made)
    causes = Remembered(session, project_id, frame.positions)
    grouped: list[tuple[list[Member], bool]] = []
    for (series, *_), one in zip(seen, changed, strict=True):
        rows: list[Member] = [*one.changed, *(next(waiting) for _ in one.new), *one.gone]
        if series.gate:
            grouped.append((rows, series.id in announced))
    causes.expect([row for rows, _ in grouped for row in rows], zip(made, columns, strict=True))
    for rows, is_announced in grouped:
        grouping.regroup(session, project_id, rows, now, causes)
        if is_announced:
            causes.write()  # what was announced is asked of the store
        foretold.accept(session, rows, now)
        foretold.reopen(session, rows, now, causes.regression)
    causes.finish(now)
    points = (change for series, _, detection, _ in seen if series.gate for change in detection.change_points)
    if any(change.provisional or change.unmeasured for change in points):
        ask_for_more(session, project_id)


def _with_rows(session: Session, wanted: Sequence[Series]) -> list[tuple[Series, Rows]]:
    """Each series with its results."""
    result = session.connection().execute(_RESULTS, {"ids": [series.id or 0 for series in wanted]})
    cursor: Any = result.cursor
    rows = np.fromiter(cursor, _ROW)  # a million of them: as the driver gives them
    result.close()
    if not rows.size:
        return [(series, _NONE) for series in wanted]
    if (rows["series"][1:] < rows["series"][:-1]).any():  # the engine would sort them, and has them in order mostly
        rows = rows[np.argsort(rows["series"], kind="stable")]
    arrays = tuple(np.ascontiguousarray(rows[name]) for name in _ROW.names or ())
    ids = arrays[0]
    starts = [0, *(np.flatnonzero(ids[1:] != ids[:-1]) + 1).tolist(), len(ids)]
    found = {int(ids[a]): tuple(column[a:b] for column in arrays[1:]) for a, b in pairwise(starts)}
    return [(series, found.get(series.id or 0, _NONE)) for series in wanted]


def _detected(
    session: Session, frame: Frame, found: Sequence[tuple[Series, Rows]], detector: Detector
) -> list[tuple[Series, LoadedSeries, Detection, bytes]]:
    """Each series with what detection says of it, and the bytes of its state."""
    asked, loaded = [], []
    for series, rows in found:
        arrays = _columns(frame, rows)
        if arrays is None:
            one = load_series(session, series.id or 0)
            arrays = columns(one.data.points)
        else:
            one = series_data(series, frame.suites[series.benchmark_id], frame.config, (), {})
        loaded.append(one)
        asked.append((one.data, arrays, one.config))
    answers = detector.all(asked)
    return [(series, one, *answer) for (series, _), one, answer in zip(found, loaded, answers, strict=True)]


def _columns(frame: Frame, rows: Rows) -> Columns | None:
    """The points of a series that was measured once at every commit in each environment; None for any other, whose
    points have to be put together one by one.
    """
    revision, environment, value, spread, run = rows
    x = frame.places[revision]
    order = np.lexsort((run, x))
    order = order[x[order] >= 0]
    x, y = x[order], value[order].astype(np.float64)
    if not x.size:
        return Columns.of((), ())
    known, first, codes = np.unique(environment[order], return_index=True, return_inverse=True)
    arrived = np.argsort(first)  # environments are numbered as they come
    env = np.argsort(arrived)[codes]
    if not np.isfinite(y).all() or _several(x, env):
        return None
    size = np.abs(y)
    within = np.divide(spread[order], size, out=np.zeros_like(y), where=size > 0.0)
    names = tuple(map(str, known[arrived].tolist()))
    return Columns(x, y, np.ones(x.size, np.int64), env, (), names, (), within)


def _several(x: Ints, env: Ints) -> bool:
    """Whether some commit was measured more than once in one environment; x is in order."""
    if not (x[1:] == x[:-1]).any():
        return False
    return len(set(zip(x.tolist(), env.tolist(), strict=True))) < x.size
