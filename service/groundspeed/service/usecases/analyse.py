"""Detection on arrival: what new results say about their series is worked out once, stored, and read by everybody.

A series is one transaction, or many of a project together are, when many have news. Two analyses of a series wait for
one another; results that arrive meanwhile leave a mark that the next one finds, so none is overlooked and none has to
wait.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from sqlalchemy import bindparam, delete, func, select
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.identities import core
from groundspeed.service.db.tables import Series, SeriesMark
from groundspeed.service.domain.detect import Detection, DetectorState, StaleStateError, detect
from groundspeed.service.process import rare_collection
from groundspeed.service.usecases import analyse_many, foretold, grouping
from groundspeed.service.usecases.analysis_rows import ask_for_more, ledger, store_changes, stored
from groundspeed.service.usecases.beforehand import Beforehand
from groundspeed.service.usecases.causes import Causes
from groundspeed.service.usecases.detecting import Looked, continues
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.series import LoadedSeries, load_series

_SERIES = held(select(Series).where(col(Series.id) == bindparam("series")))
_mark = core(SeriesMark)
_MARKS = delete(_mark).where(_mark.c.series_id == bindparam("series")).returning(_mark.c.revision_id)
MANY = 20
"""From so many series on they are looked at together."""


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
        return sum(_analyse_one(db, one, now, only_marked=only_marked) for one in series_ids)
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
        going_on = [one.id for one in taken.lines if continues(one.has_state, news[one.id])]
        for series in analyse_many.in_full(session, going_on):
            _look(session, series, news[series.id or 0], now)
        whole = [one for one in taken.lines if one.id not in set(going_on)]
        analyse_many.analyse(session, whole, now, taken, looked)
        return len(taken.lines)


def _analyse_one(db: Database, series_id: int, now: datetime, *, only_marked: bool) -> bool:
    with db.transaction() as session:
        series = session.scalars(_SERIES, {"series": series_id}).one_or_none()
        if series is None:
            return False
        # First the marks, then the results: a mark that is seen here has its results committed.
        marked = set(session.connection().execute(_MARKS, {"series": series_id}).scalars())
        if not marked and only_marked:
            return False
        _look(session, series, marked, now)
        return True


def _look(session: Session, series: Series, marked: set[int | None], now: datetime) -> None:
    loaded, detection = _detect(session, series, marked)
    for name, value in ledger(loaded.data.min_effect, detection, detection.state.to_bytes(), now).items():
        setattr(series, name, value)
    session.add(series)
    found = detection.change_points
    changed = store_changes(session, loaded, found, stored(session, loaded, found), now)
    if series.gate:
        causes = Causes(session)
        grouping.regroup(causes, series.project_id, changed, now)
        foretold.accept(causes, changed, now)
        foretold.reopen(causes, changed, now)
        if not loaded.imported and any(change.provisional or change.unmeasured for change in found):
            ask_for_more(session, series.project_id)


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
