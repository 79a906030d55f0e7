"""Detection over many series of a project in one transaction: what they share is read once, what they need in one go.

A history that was imported has thousands of series. One by one each costs a dozen statements and an object for every
point; together they cost the arrays that detection works on, and a few statements for all. The answers are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from sqlalchemy import delete, select
from sqlmodel import Session, col

from groundspeed.service.db.bulk import update_rows
from groundspeed.service.db.identities import core
from groundspeed.service.db.sets import among, one_of
from groundspeed.service.db.tables import Series, SeriesMark, Verdict
from groundspeed.service.domain.detect import Detection
from groundspeed.service.usecases import foretold, grouping, steps
from groundspeed.service.usecases.analysis_rows import Stored, ask_for_more, changes, ledger
from groundspeed.service.usecases.causes_many import Remembered
from groundspeed.service.usecases.detecting import Answer, Looked, Mark, detections
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.series import LoadedSeries, series_data
from groundspeed.service.usecases.series_arrays import Frame
from groundspeed.service.usecases.steps import Member

AT_ONCE = 500
"""Series in one transaction: a few tenths of a second, in which nobody else can write to SQLite."""

_mark = core(SeriesMark).c
_MARKS = delete(core(SeriesMark)).where(one_of(_mark.series_id, among("ids")))
_TAKEN = _MARKS.returning(_mark.id, _mark.created_at, _mark.series_id, _mark.revision_id)


@dataclass(frozen=True, slots=True)
class Taken:
    """Series that are looked at in this transaction, in their order, with the commits that have news."""

    series: tuple[Series, ...]
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
    query = held(select(Series).where(one_of(col(Series.id), among("ids"))).order_by(col(Series.id)))
    found = {series.id: series for series in session.scalars(query, {"ids": list(series_ids)})}
    marked, ids = dict[int, set[int | None]](), dict[int, set[Mark]]()
    # First the marks, then the results: a mark that is seen here has its results committed.
    for mark, made, series_id, revision in session.connection().execute(_TAKEN, {"ids": list(series_ids)}).all():
        marked.setdefault(series_id, set()).add(revision)
        ids.setdefault(series_id, set()).add((mark, made))
    wanted = [found[one] for one in series_ids if one in found and (one in marked or not only_marked)]
    return Taken(tuple(wanted), marked, {one: frozenset(some) for one, some in ids.items()})


def analyse(
    session: Session, wanted: Sequence[Series], now: datetime, taken: Taken, looked: Mapping[int, Looked]
) -> None:
    """Detect and store, for series of one project whose every point is to be looked at. ``looked``: what is known of
    some of them already.
    """
    if not wanted:
        return
    project_id = wanted[0].project_id
    frame = Frame.of(session, project_id)
    ids = [series.id or 0 for series in wanted]
    seen = _detected(session, frame, wanted, taken, looked)
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
    said = [(series.id, ledger(loaded, detection, state, now)) for series, loaded, detection, state in seen]
    update_rows(session, Series, tuple(said[0][1]), [(id_, *values.values()) for id_, values in said])
    columns = [values for one in changed for values in one.new]
    made = steps.new(session, columns)
    waiting = iter(made)
    causes = Remembered(session, project_id, frame.positions)
    grouped: list[list[Member]] = []
    for (series, *_), one in zip(seen, changed, strict=True):
        rows: list[Member] = [*one.changed, *(next(waiting) for _ in one.new), *one.gone]
        if series.gate:
            grouped.append(rows)
    causes.expect([row for rows in grouped for row in rows], zip(made, columns, strict=True))
    with session.no_autoflush:  # rows that are there may have got regressions that wait to be written
        for rows in grouped:
            grouping.regroup(causes, project_id, rows, now)
            foretold.accept(causes, rows, now)
            foretold.reopen(causes, rows, now)
        causes.finish(now)
    ours = (found for series, _, found, _ in seen if series.gate and series.benchmark_id not in frame.imported)
    if any(change.provisional or change.unmeasured for found in ours for change in found.change_points):
        ask_for_more(session, project_id)


def _detected(
    session: Session, frame: Frame, wanted: Sequence[Series], taken: Taken, looked: Mapping[int, Looked]
) -> list[tuple[Series, LoadedSeries, Detection, bytes]]:
    """Each series with what detection says of it, and the bytes of its state."""
    known: dict[int, Answer] = {}
    for series in wanted:
        one, id_ = looked.get(series.id or 0), series.id or 0
        now = taken.marks.get(id_, frozenset()), series.last_result_at, frame.order, frame.config
        if one is not None and (one.marks, one.last, one.order, one.config) == now:
            known[id_] = one.answer
    others = [series for series in wanted if series.id not in known]
    known |= {series.id or 0: answer for series, answer in zip(others, detections(session, frame, others), strict=True)}
    return [
        (series, series_data(series, frame.suites[series.benchmark_id], frame.config, (), {}), *known[series.id or 0])
        for series in wanted
    ]
