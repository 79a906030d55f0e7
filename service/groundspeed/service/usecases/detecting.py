"""Detection in many series at once, ahead of the transaction that stores what it says and partly in another process.

What was found ahead is only used where nothing has come since: the marks that the transaction takes away are the very
ones that were there when the results were read, and the order of commits and the configuration are the same. Every
other series is looked at again by the transaction itself, so the answers are those of looking at each in its own
transaction.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.sets import among, one_of
from groundspeed.service.db.tables import Series, SeriesMark
from groundspeed.service.domain.detect import Detection, detect_columns
from groundspeed.service.domain.series import Columns, columns
from groundspeed.service.usecases import children
from groundspeed.service.usecases.series import LoadedSeries, load_series, series_data
from groundspeed.service.usecases.series_arrays import NONE, Frame, Rows, columns_of, rows_of

FOR_TWO = 500
"""Another process is worth starting for so many series; a service's own rounds stay below it."""
UNIT = 84
"""So many series are looked at in one go."""
AT_A_TIME = 4
"""So many units the other process is given: it goes on while this one writes."""
AHEAD = 12
"""How many units the other process may be ahead: what it has found waits here."""

MARK = (col(SeriesMark.id), col(SeriesMark.created_at), col(SeriesMark.series_id), col(SeriesMark.revision_id))
Mark = tuple[int, datetime]
"""Its id, which SQLite gives again when it was the last, and when it was made."""
Answer = tuple[Detection, bytes]
"""What was found, without its state, and the state's bytes."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What was found in a series, with the marks that it had then, when it had been looked at last, and the order of
    the project's commits and the configuration that held.
    """

    marks: frozenset[Mark]
    last: datetime | None
    order: bytes
    config: Mapping[str, Any]
    answer: Answer


def continues(state: object, marked: set[int | None]) -> bool:
    """Whether the commits with news may be all that has to be looked at, with what a series' row keeps as state."""
    return bool(state and marked and None not in marked)


def look(session: Session, ids: Sequence[int]) -> dict[int, Looked]:
    """Look at series of one project, but for those whose state the news continue."""
    # First the marks, then the results: a mark that is seen here has its results committed.
    marks = marks_of(session, ids)
    of_ids = select(Series).where(one_of(col(Series.id), among("ids"))).order_by(col(Series.id))
    found = list(session.scalars(of_ids, {"ids": list(ids)}))
    whole = [one for one in found if not continues(one.state, set(marks.get(one.id or 0, {}).values()))]
    if not whole:
        return {}
    frame = Frame.of(session, whole[0].project_id)
    answers = detections(session, frame, whole)
    return {
        one.id or 0: Looked(
            frozenset(marks.get(one.id or 0, ())), one.last_result_at, frame.order, frame.config, answer
        )
        for one, answer in zip(whole, answers, strict=True)
    }


def marks_of(session: Session, ids: Sequence[int]) -> dict[int, dict[Mark, int | None]]:
    """The marks of these series, and where the news of each lie."""
    marks: dict[int, dict[Mark, int | None]] = {}
    query = select(*MARK).where(one_of(col(SeriesMark.series_id), among("ids")))
    for mark, made, series_id, revision in session.execute(query, {"ids": list(ids)}).tuples():
        marks.setdefault(series_id, {})[mark or 0, made] = revision
    return marks


def detections(session: Session, frame: Frame, wanted: Sequence[Series]) -> list[Answer]:
    """Read all results of these series and detect in one after the other."""
    answers = []
    rows = rows_of(session, [series.id or 0 for series in wanted]) if wanted else {}
    for series in wanted:
        answer = answer_from(frame, series, rows.get(series.id or 0, NONE))
        if answer is None:
            one = load_series(session, series.id or 0)
            answer = _answer(one, columns(one.data.points))
        answers.append(answer)
    return answers


def answer_from(frame: Frame, series: Series, rows: Rows) -> Answer | None:
    """Detect in all results of a series; None where its points have to be put together one by one."""
    arrays = columns_of(frame, rows)
    if arrays is None:
        return None
    return _answer(series_data(series, frame.suites[series.benchmark_id], frame.config, (), {}), arrays)


def _answer(series: LoadedSeries, arrays: Columns) -> Answer:
    found = detect_columns(series.data, arrays, series.config)
    return found.without_state(), found.state.to_bytes()


@dataclass(slots=True)
class Ahead:
    """Looks at lists of series in their order. Without a pool nothing is looked at ahead."""

    db: Database
    lists: Sequence[Sequence[int]]
    pool: ProcessPoolExecutor | None = None
    _units: list[tuple[int, Sequence[int]]] = field(default_factory=list)
    """The list that each is of, and its series."""
    _next: int = 0
    """The first that nobody has been given."""
    _asked: dict[int, Future[dict[int, Looked]]] = field(default_factory=dict)
    _here: dict[int, dict[int, Looked]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for nth, ids in enumerate(self.lists):
            self._units += [(nth, ids[start : start + UNIT]) for start in range(0, len(ids), UNIT)]

    def of(self, nth: int) -> dict[int, Looked]:
        """What is known of the series of a list: while the other process is not done with it, this one helps."""
        if self.pool is None:
            return {}
        mine = [unit for unit, (of, _) in enumerate(self._units) if of == nth]
        end = min(mine[-1] + 1 + AHEAD, len(self._units))
        try:
            self._ask(end)
            while waiting := [unit for unit in mine if unit not in self._here and not self._is_done(unit)]:
                if self._next < end:
                    unit, self._next = self._next, self._next + 1
                    with self.db.read() as session:
                        self._here[unit] = look(session, self._units[unit][1])
                else:
                    self._asked[waiting[0]].result()
                self._ask(end)
            for unit in mine:
                if unit in self._asked:
                    self._here[unit] = self._asked.pop(unit).result()
        except BrokenProcessPool:  # the other process was killed: what is missing is looked at by the transactions
            self.pool = None
        return {key: one for unit in mine for key, one in self._here.pop(unit, {}).items()}

    def _is_done(self, unit: int) -> bool:
        return unit in self._asked and self._asked[unit].done()

    def _ask(self, end: int) -> None:
        """Give the other process work, and not more than it needs: what it has been given cannot be taken back."""
        assert self.pool is not None
        busy = sum(not future.done() for future in self._asked.values())
        for _ in range(busy, AT_A_TIME):
            if self._next < end:
                self._asked[self._next] = self.pool.submit(_look_there, self.db.url, self._units[self._next][1])
                self._next += 1


def _look_there(url: str, ids: Sequence[int]) -> dict[int, Looked]:
    with _database(url).read() as session:
        return look(session, ids)


@cache
def _database(url: str) -> Database:
    return Database(url)


def may_start_others() -> bool:
    """Whether processes beside this one can be started, and would help."""
    return children.cores() > 1 and not multiprocessing.current_process().daemon


@contextmanager
def ahead(db: Database, lists: Sequence[Sequence[int]]) -> Iterator[Ahead]:
    """With another process when there is enough to do, and this one may start one."""
    in_memory = db.is_sqlite and not db.engine.url.database
    if in_memory or sum(map(len, lists)) < FOR_TWO or not may_start_others():
        yield Ahead(db, lists)
        return
    db.close()  # a copy of this process would take locks on a SQLite file for its own that only this process has
    with ProcessPoolExecutor(1, children.context(), children.settle) as pool:
        yield Ahead(db, lists, pool)
