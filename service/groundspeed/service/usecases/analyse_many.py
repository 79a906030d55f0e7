"""Detection over many series of a project in one transaction: what they share is read once, what they need in one go.

A history that was imported has thousands of series. One by one each costs a dozen statements and an object for every
point; together they cost the arrays that detection works on, and a few statements for all. The answers are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple

from sqlalchemy import delete, select
from sqlmodel import Session, col

from groundspeed.service.db.bulk import update_rows
from groundspeed.service.db.identities import core
from groundspeed.service.db.sets import among, one_of
from groundspeed.service.db.tables import Series, SeriesMark, Verdict
from groundspeed.service.domain.series import MIN_EFFECT
from groundspeed.service.usecases import foretold, grouping, steps
from groundspeed.service.usecases.analysis_rows import Changes, Stored, ask_for_more, changes, hold, ledger
from groundspeed.service.usecases.causes_many import Remembered
from groundspeed.service.usecases.detecting import Answer, Looked, Mark, detections
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.series import kind_of, threshold
from groundspeed.service.usecases.series_arrays import Frame
from groundspeed.service.usecases.steps import Member

AT_ONCE = 500
"""Series in one transaction: a few tenths of a second, in which nobody else can write to SQLite."""

_mark = core(SeriesMark).c
_MARKS = delete(core(SeriesMark)).where(one_of(_mark.series_id, among("ids")))
_TAKEN = _MARKS.returning(_mark.id, _mark.created_at, _mark.series_id, _mark.revision_id)


class Line(NamedTuple):
    """What is asked of a series, under the names of its columns."""

    id: int
    project_id: int
    benchmark_id: int
    metric: str
    kind: str
    gate: bool
    last_result_at: datetime | None
    has_state: bool


_series = core(Series).c
_LINES = held(
    select(*(_series[name] for name in Line._fields[:-1]), _series.state.is_not(None))
    .where(one_of(_series.id, among("ids")))
    .order_by(_series.id)
)


@dataclass(frozen=True, slots=True)
class Taken:
    """Series that are looked at in this transaction, in their order, with the commits that have news."""

    lines: tuple[Line, ...]
    marked: Mapping[int, set[int | None]]
    marks: Mapping[int, frozenset[Mark]]
    """The marks that told so."""


def by_project(session: Session, series_ids: Sequence[int]) -> list[list[int]]:
    """The series that exist, those of a project together, at most AT_ONCE in a list."""
    query = select(col(Series.id), col(Series.project_id)).where(one_of(col(Series.id), among("ids")))
    project = dict(session.execute(query, {"ids": list(series_ids)}).tuples().all())
    sorted_ = sorted((one for one in series_ids if one in project), key=lambda one: project[one])
    lists = [list(group) for _, group in groupby(sorted_, key=lambda one: project[one])]
    return [one[start : start + AT_ONCE] for one in lists for start in range(0, len(one), AT_ONCE)]


def take(session: Session, series_ids: Sequence[int], *, only_marked: bool) -> Taken:
    """Hold these series of one project and take their marks away."""
    rows = session.connection().execute(_LINES, {"ids": list(series_ids)}).all()
    found = {row[0]: Line._make(row) for row in rows}
    marked, ids = dict[int, set[int | None]](), dict[int, set[Mark]]()
    # First the marks, then the results: a mark that is seen here has its results committed.
    for mark, made, series_id, revision in session.connection().execute(_TAKEN, {"ids": list(series_ids)}).all():
        marked.setdefault(series_id, set()).add(revision)
        ids.setdefault(series_id, set()).add((mark, made))
    wanted = [found[one] for one in series_ids if one in found and (one in marked or not only_marked)]
    return Taken(tuple(wanted), marked, {one: frozenset(some) for one, some in ids.items()})


def in_full(session: Session, ids: Sequence[int]) -> list[Series]:
    """The same series with all that is stored of them, in this order."""
    if not ids:
        return []
    found = session.scalars(select(Series).where(one_of(col(Series.id), among("ids"))), {"ids": list(ids)})
    by_id = {series.id: series for series in found}
    return [by_id[one] for one in ids]


def analyse(
    session: Session,
    wanted: Sequence[Line],
    now: datetime,
    taken: Taken,
    looked: Mapping[int, Looked],
    others: Sequence[Sequence[Member]] = (),
) -> None:
    """Detect and store, for series (at least one) of one project whose every point is to be looked at. ``looked``: what
    is known of some of them already; ``others``: what differs in others, which is written and has to be grouped too.
    """
    project_id = wanted[0].project_id
    frame = Frame.of(session, project_id)
    ids = [line.id for line in wanted]
    seen = _detected(session, frame, wanted, taken, looked)
    known = steps.of_series(session, ids)
    judged = select(col(Verdict.series_id)).where(one_of(col(Verdict.series_id), among("ids")))
    announced = set(session.scalars(judged, {"ids": ids}))
    changed: list[Changes] = []
    said: list[tuple[int, dict[str, Any]]] = []
    for line, (detection, state) in zip(wanted, seen, strict=True):
        found = detection.change_points
        told = foretold.announced(session, project_id, line.id, found) if line.id in announced else {}
        before = Stored(known.get(line.id, ()), frame.positions, told, frame.commits)
        min_effect = threshold(frame.config, frame.suites[line.benchmark_id], line.metric, line.kind)
        least = min_effect if min_effect is not None else MIN_EFFECT[kind_of(line.kind)]
        changed.append(changes(line.id, least, found, before, now))
        said.append((line.id, ledger(min_effect, detection, state, now)))
    hold(session, project_id, changed)
    session.flush()
    update_rows(session, Series, tuple(said[0][1]), [(id_, *values.values()) for id_, values in said])
    columns = [values for one in changed for values in one.new]
    made = steps.new(session, columns)
    waiting = iter(made)
    causes = Remembered(session, project_id, frame.positions)
    grouped: list[Sequence[Member]] = [*others]
    for line, one in zip(wanted, changed, strict=True):
        rows: list[Member] = [*one.changed, *(next(waiting) for _ in one.new), *one.gone]
        if line.gate:
            grouped.append(rows)
    causes.expect([row for rows in grouped for row in rows], zip(made, columns, strict=True))
    with session.no_autoflush:  # rows that are there may have got regressions that wait to be written
        for changed_ in grouped:
            grouping.regroup(causes, project_id, changed_, now)
            foretold.accept(causes, changed_, now)
            foretold.reopen(causes, changed_, now)
        causes.finish(now)
    ours = (
        detection.change_points
        for line, (detection, _) in zip(wanted, seen, strict=True)
        if line.gate and line.benchmark_id not in frame.imported
    )
    if any(change.provisional or change.unmeasured for found in ours for change in found):
        ask_for_more(session, project_id)


def _detected(
    session: Session, frame: Frame, wanted: Sequence[Line], taken: Taken, looked: Mapping[int, Looked]
) -> list[Answer]:
    """What detection says of each series."""
    known: dict[int, Answer] = {}
    for line in wanted:
        one = looked.get(line.id)
        now = taken.marks.get(line.id, frozenset()), line.last_result_at, frame.order, frame.config
        if one is not None and (one.marks, one.last, one.order, one.config) == now:
            known[line.id] = one.answer
    others = in_full(session, [line.id for line in wanted if line.id not in known])
    known |= {series.id or 0: answer for series, answer in zip(others, detections(session, frame, others), strict=True)}
    return [known[line.id] for line in wanted]
