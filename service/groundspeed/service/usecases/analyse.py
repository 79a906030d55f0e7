"""Detection on arrival: what new results say about their series is worked out once, stored, and read by everybody.

Series whose news come together are one transaction: first each is brought up to date, then their regressions, so that a
step that moves in several of them at once finds the others where they are now. Two analyses of a series wait for one
another; results that arrive meanwhile leave a mark that the next one finds, so none is overlooked and none has to wait.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import delete, func, select
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.identities import core
from groundspeed.service.db.sets import among, one_of
from groundspeed.service.db.tables import ChangePoint, Series, SeriesMark
from groundspeed.service.domain.detect import Detection, DetectorState, StaleStateError, detect
from groundspeed.service.process import rare_collection
from groundspeed.service.usecases import analyse_many, foretold, grouping
from groundspeed.service.usecases.analysis_rows import ask_for_more, ledger, store_changes, stored
from groundspeed.service.usecases.beforehand import Beforehand
from groundspeed.service.usecases.causes import Causes
from groundspeed.service.usecases.detecting import Looked, continues
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.series import LoadedSeries, load_series

_SERIES = held(select(Series).where(one_of(col(Series.id), among("ids"))).order_by(col(Series.id)))
_mark = core(SeriesMark)
_MARKS = delete(_mark).where(one_of(_mark.c.series_id, among("ids"))).returning(_mark.c.series_id, _mark.c.revision_id)
MANY = 20
"""From so many series on what they share is read once."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A series, those of its change points that are new or differ, and whether more results would settle some."""

    series: Series
    changed: list[ChangePoint]
    is_open: bool


def analyse_dirty(db: Database, now: datetime, limit: int = 1000, early: Beforehand | None = None) -> int:
    """Analyse the series that have marks, oldest mark first; returns how many. ``early`` knows some answers."""
    with db.read() as session:
        oldest = func.min(col(SeriesMark.id))
        query = select(col(SeriesMark.series_id)).group_by(col(SeriesMark.series_id)).order_by(oldest).limit(limit)
        waiting = session.scalars(query).all()
    _analyse(db, waiting, now, early, only_marked=True)
    return len(waiting)


def analyse(db: Database, series_ids: Iterable[int], now: datetime, *, only_marked: bool = False) -> int:
    """Analyse these series; unknown ids are passed over. ``only_marked``: those without a mark are up to date."""
    return _analyse(db, sorted(set(series_ids)), now, None, only_marked=only_marked)


def _analyse(
    db: Database, series_ids: Sequence[int], now: datetime, early: Beforehand | None, *, only_marked: bool
) -> int:
    if len(series_ids) < MANY:
        return _analyse_few(db, series_ids, now, only_marked=only_marked) if series_ids else 0
    with db.read() as session:
        lists = analyse_many.by_project(session, series_ids)
    done = 0
    with rare_collection(), (early or Beforehand()).ahead(db, lists) as looked:
        for nth, one in enumerate(lists):
            done += _analyse_list(db, one, now, looked.of(nth), only_marked=only_marked)
            gc.collect(1)
    return done


def _analyse_list(
    db: Database, series_ids: Sequence[int], now: datetime, looked: Mapping[int, Looked], *, only_marked: bool
) -> int:
    """Series of one project: those with a state that their news continue one by one, all others together."""
    with db.transaction() as session:
        taken = analyse_many.take(session, series_ids, only_marked=only_marked)
        news = {one.id: taken.marked.get(one.id, set()) for one in taken.lines}
        going_on = {one.id: one for one in taken.lines if continues(one.has_state, news[one.id])}
        seen = _look(session, analyse_many.in_full(session, list(going_on)), news, now)
        whole = [one for one in taken.lines if one.id not in going_on]
        if whole:
            analyse_many.analyse(session, whole, now, taken, looked, [one.changed for one in seen if one.series.gate])
        else:
            _group(session, seen, now)
        _ask(session, seen)
        return len(taken.lines)


def _analyse_few(db: Database, series_ids: Sequence[int], now: datetime, *, only_marked: bool) -> int:
    ids = {"ids": list(series_ids)}
    with db.transaction() as session:
        found = {one.id: one for one in session.scalars(_SERIES, ids)}
        marked: dict[int, set[int | None]] = {}
        # First the marks, then the results: a mark that is seen here has its results committed.
        for series_id, revision in session.connection().execute(_MARKS, ids).all():
            marked.setdefault(series_id, set()).add(revision)
        wanted = [found[one] for one in series_ids if one in found and (one in marked or not only_marked)]
        wanted.sort(key=lambda one: one.project_id)  # in the order in which projects are held
        seen = _look(session, wanted, marked, now)
        _group(session, seen, now)
        _ask(session, seen)
        return len(seen)


def _look(
    session: Session, wanted: Sequence[Series], marked: Mapping[int, set[int | None]], now: datetime
) -> list[_Seen]:
    """Bring them up to date, but for the regressions that their change points are in. All are detected in before any is
    written, for who writes holds the project.
    """
    found = []
    for one in wanted:
        loaded, detection = _detect(session, one, marked.get(one.id or 0, set()))
        points_away = replace(loaded, data=replace(loaded.data, points=()), revisions={})
        found.append((one, points_away, detection))
    return [_store(session, *each, now) for each in found]


def _store(session: Session, series: Series, loaded: LoadedSeries, detection: Detection, now: datetime) -> _Seen:
    for name, value in ledger(loaded.data.min_effect, detection, detection.state.to_bytes(), now).items():
        setattr(series, name, value)
    session.add(series)
    found = detection.change_points
    changed = store_changes(session, loaded, found, stored(session, loaded, found), now)
    is_open = not loaded.imported and any(change.provisional or change.unmeasured for change in found)
    return _Seen(series, changed, is_open)


def _group(session: Session, seen: Sequence[_Seen], now: datetime) -> None:
    """Bring the regressions up to date."""
    causes = Causes(session)
    for one in seen:
        if one.series.gate:
            grouping.regroup(causes, one.series.project_id, one.changed, now)
            foretold.accept(causes, one.changed, now)
            foretold.reopen(causes, one.changed, now)


def _ask(session: Session, seen: Sequence[_Seen]) -> None:
    for project_id in sorted({one.series.project_id for one in seen if one.series.gate and one.is_open}):
        ask_for_more(session, project_id)


def _detect(session: Session, series: Series, marked: set[int | None]) -> tuple[LoadedSeries, Detection]:
    """From what is known and the commits with new results, when that is enough; else from all points."""
    state = DetectorState.from_bytes(series.state) if series.state and continues(series.state, marked) else None
    if state is not None:
        loaded = load_series(session, series.id or 0, [one for one in marked if one is not None])
        if loaded.data.min_effect == series.threshold:
            try:
                return loaded, detect(loaded.data, loaded.config, state)
            except StaleStateError:
                pass
    loaded = load_series(session, series.id or 0)
    return loaded, detect(loaded.data, loaded.config)
