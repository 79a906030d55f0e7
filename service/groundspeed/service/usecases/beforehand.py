"""Detection in all that an import has written into an empty store, begun before the store has its indexes.

Copies of this process, which have the results in memory, look at them while this one goes on writing. What they say is
used like all that was looked at ahead (``detecting``): where no result has come since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self

from sqlalchemy import func, select
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.sets import among, one_of
from groundspeed.service.db.tables import Result, Series
from groundspeed.service.usecases import children
from groundspeed.service.usecases.detecting import (
    FOR_TWO,
    UNIT,
    Ahead,
    Answer,
    Looked,
    ahead,
    answer_from,
    look,
    marks_of,
    may_start_others,
)
from groundspeed.service.usecases.import_kept import Kept
from groundspeed.service.usecases.series_arrays import Frame, Rows

_MOST = 4
_LAST = select(func.max(col(Result.id)))


@dataclass(slots=True)
class Beforehand:
    """What is being looked at. A context manager: leaving it ends the others."""

    _pool: ProcessPoolExecutor | None = None
    _frame: Frame | None = None
    _last: int | None = None
    """The newest result that they know."""
    _asked: dict[int, Future[dict[int, Answer]]] = field(default_factory=dict)
    """By series: what the others are to say."""
    _units: list[tuple[Future[dict[int, Answer]], Sequence[int]]] = field(default_factory=list)
    """Those that nobody may have begun with."""
    _here: dict[int, Looked] = field(default_factory=dict)
    """What this process has found in helping."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        self._asked.clear()
        self._units.clear()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def begin(self, session: Session, project_id: int, series_ids: Sequence[int], kept: Kept) -> None:
        """Have others look at these series of a project, whose every result is in ``kept`` and in the store; whose
        commits have their places. Where none can be started, nobody looks beforehand.
        """
        if len(series_ids) < FOR_TWO or not may_start_others():
            return
        try:
            self._start(session, project_id, series_ids, kept)
        except (OSError, BrokenProcessPool):  # no memory for another process, or it was killed: it only saves time
            self._end()

    def _start(self, session: Session, project_id: int, series_ids: Sequence[int], kept: Kept) -> None:
        self._frame, self._last = Frame.of(session, project_id), session.scalar(_LAST)
        query = select(Series).where(one_of(col(Series.id), among("ids")))
        series = {one.id or 0: one for one in session.scalars(query, {"ids": list(series_ids)})}
        several = min(_MOST, children.cores() - 1)
        self._pool = ProcessPoolExecutor(several, children.context(), _begin, (self._frame, series, kept))
        for start in range(0, len(series_ids), UNIT):
            some = series_ids[start : start + UNIT]
            future = self._pool.submit(_look, some)
            self._units.append((future, some))
            self._asked |= dict.fromkeys(some, future)

    @contextmanager
    def ahead(self, db: Database, lists: Sequence[Sequence[int]]) -> Iterator[Ahead | _Known]:
        """What is known of lists of series, in their order: from here, or else as ``detecting`` finds it."""
        if self._asked:
            yield _Known(self, db, lists)
            return
        with ahead(db, lists) as others:
            yield others

    def looked(self, session: Session, ids: Sequence[int]) -> dict[int, Looked]:
        """What was found in these series, as far as there has been no result since. While the others are not done with
        them, this process helps.
        """
        frame = self._frame
        if frame is None or session.scalar(_LAST) != self._last:
            return {}
        marks = marks_of(session, ids)
        try:
            while not all(self._asked[one].done() for one in ids if one in self._asked) and self._help(session):
                pass
            answers = {
                one: answer
                for one in ids
                if one in self._asked and (answer := self._asked[one].result().get(one)) is not None
            }
        except BrokenProcessPool:  # one of them was killed: what is missing is looked at by the transactions
            answers = {}
        found = {
            one: Looked(frozenset(marks.get(one, ())), None, frame.order, frame.config, answer)
            for one, answer in answers.items()
        }
        return found | {one: self._here[one] for one in ids if one in self._here}

    def _help(self, session: Session) -> bool:
        """Look at series that nobody has begun with, the last ones first; returns whether there were any. The others
        may come to them too, in the end: nobody asks what they say then.
        """
        while self._units:
            future, ids = self._units.pop()
            if not (future.running() or future.done()):
                for one in ids:
                    del self._asked[one]
                self._here |= look(session, ids)
                return True
        return False


@dataclass(frozen=True, slots=True)
class _Known:
    begun: Beforehand
    db: Database
    lists: Sequence[Sequence[int]]

    def of(self, nth: int) -> Mapping[int, Looked]:
        with self.db.read() as session:
            return self.begun.looked(session, self.lists[nth])


_HERE: list[tuple[Frame, Mapping[int, Series], Mapping[int, Rows]]] = []
"""What a process that looks has to look at."""


def _begin(frame: Frame, series: Mapping[int, Series], kept: Kept) -> None:
    """In a process that looks, which leaves the database alone."""
    children.settle()
    _HERE[:] = [(frame, series, kept.by_series())]


def _look(ids: Sequence[int]) -> dict[int, Answer]:
    ((frame, series, rows),) = _HERE
    found = {one: answer_from(frame, series[one], rows[one]) for one in ids if one in rows}
    return {one: answer for one, answer in found.items() if answer is not None}
