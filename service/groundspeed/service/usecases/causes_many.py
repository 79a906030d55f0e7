"""What grouping asks, asked of the store once for many series of a project, and written once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from sqlalchemy import select
from sqlmodel import col

from groundspeed.service.db.identities import next_ids
from groundspeed.service.db.sets import among, one_of
from groundspeed.service.db.tables import Benchmark, Regression, Series
from groundspeed.service.usecases import cases, steps, triage
from groundspeed.service.usecases.cases import AnyCase, Case
from groundspeed.service.usecases.causes import Causes
from groundspeed.service.usecases.notifications import hints
from groundspeed.service.usecases.picture import Picture, Said, Span
from groundspeed.service.usecases.steps import Member, Step
from groundspeed.service.usecases.triage import MACHINE, Entry

AT_A_TIME = 64
"""So many places are held beside all regressions in one go: a few MB for thousands of them."""


@dataclass(slots=True)
class Remembered(Causes):
    """Keeps up to date what it has read. ``positions`` are those of the project's commits on the branch.

    What is found here is written by :meth:`write` and :meth:`finish`, and not before.
    """

    project_id: int
    positions: Mapping[int, int]
    told: bool = False
    """There is something that people may want to know."""
    _held: bool = False
    _ranges: dict[str, dict[int, Span]] = field(default_factory=dict)
    """By kind: where regressions lie."""
    _there: dict[tuple[str, Span], set[int]] = field(default_factory=dict)
    """The same the other way round."""
    _spans: dict[tuple[int, int], Span] = field(default_factory=dict)
    """By commits before and after."""
    _rows: dict[int, dict[int, Member]] = field(default_factory=dict)
    _pictures: dict[int, Picture] = field(default_factory=dict)
    _cases: dict[int, Case] = field(default_factory=dict)
    _stored: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    """What the store says of what may change in them."""
    _made: list[Case] = field(default_factory=list)
    """Those that are still to be written."""
    _notes: list[Entry] = field(default_factory=list)
    _names: dict[int, tuple[str, str, str]] = field(default_factory=dict)
    _said: dict[int, Said] = field(default_factory=dict)
    """What regressions' rows are still to say."""
    _new: list[tuple[Step, Mapping[str, Any]]] = field(default_factory=list)
    _written: set[int] = field(default_factory=set)
    _moved: dict[int, Step] = field(default_factory=dict)
    """Rows that had been written when they were given another regression."""
    _ids: list[int] = field(default_factory=list)

    def hold(self, project_id: int) -> None:
        if self._held:
            return
        Causes.hold(self, project_id)
        self._held = True
        query = select(
            col(Regression.id), col(Regression.kind), col(Regression.before_revision_id),
            col(Regression.after_revision_id),
        ).where(col(Regression.project_id) == project_id, col(Regression.state) != "merged")  # fmt: skip
        for id_, kind, before, after in self.session.execute(query).tuples():
            self._range(id_ or 0, kind, before, after)

    def expect(self, rows: Iterable[Member], new: Iterable[tuple[Step, Mapping[str, Any]]]) -> None:
        """All rows that will be asked about: the regressions that they have or are likely to get are read at once.
        ``new`` are those to be written, with their columns.
        """
        self._new += new
        rows, ids = list(rows), set[int]()
        if rows:
            self.hold(self.project_id)
        for kind in {row.kind for row in rows}:
            ids |= self._near(kind, {*self.spans(row for row in rows if row.kind == kind)})
        ids |= {row.regression_id for row in rows if row.regression_id is not None}
        wanted = sorted(ids)
        if not wanted:
            return
        self._rows |= {id_: {} for id_ in wanted}
        for member in steps.members(self.session, wanted):
            self._rows[member.regression_id or 0][member.id or 0] = member
        self._read(wanted)

    def _range(self, regression_id: int, kind: str, before: int | None, after: int | None) -> None:
        """Note where a regression lies; with commits that have left the branch it lies nowhere."""
        x0, x1 = self.positions.get(before or 0), self.positions.get(after or 0)
        ranges = self._ranges.setdefault(kind, {})
        was = ranges.pop(regression_id, None)
        if was is not None:
            self._there[kind, was].discard(regression_id)
        if x0 is not None and x1 is not None:
            ranges[regression_id] = now = Span(x0, x1)
            self._there.setdefault((kind, now), set()).add(regression_id)

    def _near(self, kind: str, spans: Collection[Span]) -> set[int]:
        """Regressions in the places of these; for one in whose place there is none, the nearest that overlaps it."""
        there = [(span, self._there.get((kind, span))) for span in spans]
        found = {id_ for _, ids in there for id_ in ids or ()}
        wide = np.array([(x.before, x.after) for x, ids in there if not ids and x.before < x.after], np.int64)
        ranges = self._ranges.get(kind, {})
        if not wide.size or not ranges:
            return found
        x0, x1 = np.array([(span.before, span.after) for span in ranges.values()], np.int64).T
        ids = np.array(list(ranges), np.int64)
        for start in range(0, len(wide), AT_A_TIME):
            before, after = wide[start : start + AT_A_TIME, :1], wide[start : start + AT_A_TIME, 1:]
            overlapping = (x0 < after) & (x1 > before)
            distance = np.where(overlapping, np.abs(x0 - before) + np.abs(x1 - after), np.iinfo(np.int64).max)
            found.update(ids[distance.argmin(axis=1)[overlapping.any(axis=1)]].tolist())
        return found

    def settle(self) -> None:
        pass

    def regression(self, regression_id: int) -> Case:
        known = self._cases.get(regression_id)
        if known is None:
            self._read([regression_id])
            known = self._cases[regression_id]
        return known

    def known(self, regression_id: int) -> Case:
        return self.regression(regression_id)

    def _read(self, ids: Sequence[int]) -> None:
        for one in cases.read(self.session, ids):
            self._cases[one.id or 0], self._stored[one.id or 0] = one, one.changing()

    def _all(self, regression_id: int) -> dict[int, Member]:
        known = self._rows.get(regression_id)
        if known is None:  # whatever comes or goes here passes through put, which asks first
            known = self._rows[regression_id] = {
                member.id or 0: member for member in steps.members(self.session, [regression_id])
            }
        return known

    def members(self, regression_id: int) -> Sequence[Member]:
        rows = self._all(regression_id)
        return [rows[id_] for id_ in sorted(rows) if rows[id_].state != "withdrawn"]

    def picture(self, regression_id: int) -> Picture | None:
        known = self._pictures.get(regression_id)
        if known is None:
            drawn = Causes.picture(self, regression_id)
            if drawn is not None:
                self._pictures[regression_id] = drawn
            return drawn
        return known

    def environments(self, regression_id: int) -> set[int | None]:
        return {row.environment_to_id for row in self._all(regression_id).values()}

    def candidates(self, project_id: int, kind: str, span: Span, left: int | None) -> list[tuple[Span, int]]:  # noqa: ARG002 - all are of one project
        same = [(span, id_) for id_ in self._there.get((kind, span), ()) if id_ != left]
        if same or span.before == span.after:
            return same
        before, after = span.before, span.after
        ranges = self._ranges.get(kind, {}).items()
        return [(x, id_) for id_, x in ranges if x.before < after and x.after > before and id_ != left]

    def spans(self, rows: Iterable[Member]) -> list[Span]:
        return [
            self._spans.get(ends) or self._spans.setdefault(ends, self._span(*ends))
            for ends in ((row.before_revision_id, row.after_revision_id) for row in rows)
        ]

    def _span(self, before: int, after: int) -> Span:
        return Span(self.positions.get(before, -before), self.positions.get(after, -after))

    def names(self, series_id: int) -> tuple[str, str, str]:
        if series_id not in self._names:
            self._learn([series_id])
        return self._names[series_id]

    def _learn(self, series_ids: Iterable[int]) -> None:
        query = (
            select(col(Series.id), col(Benchmark.suite), col(Series.metric), col(Series.unit))
            .join(Benchmark, col(Benchmark.id) == col(Series.benchmark_id))
            .where(one_of(col(Series.id), among("ids")))
        )
        found = self.session.connection().execute(query, {"ids": sorted(series_ids)})
        self._names |= {id_ or 0: (suite, metric, unit) for id_, suite, metric, unit in found}

    def hint(self) -> None:
        self.told = True

    def make(self, project_id: int, row: Member, now: datetime) -> Case:
        if not self._ids:
            self._write_cases()  # SQLite gives ids after those that are there
            self._ids = list(reversed(next_ids(self.session, Regression, 100)))
        id_, before, after = self._ids.pop(), row.before_revision_id, row.after_revision_id
        made = Case(id_, project_id, row.kind, now, "new", "", before, after, row.cause, "", now, None)
        self._made.append(made)
        self._cases[id_], self._rows[id_] = made, {}
        self._range(id_, row.kind, before, after)
        return made

    def note(self, regression: AnyCase, action: str, now: datetime, data: dict[str, object]) -> None:
        self._notes.append(triage.entry(regression, action, MACHINE, now, data))

    def changed(self, regression: AnyCase) -> None:
        pass  # whatever differs is written

    def put(self, row: Member, regression_id: int | None) -> None:
        id_ = row.id or 0
        if row.regression_id is not None:
            self._all(row.regression_id).pop(id_, None)
            self._pictures.pop(row.regression_id, None)
        if regression_id is not None:
            self._all(regression_id)[id_] = row
            picture = self._pictures.get(regression_id)
            if picture is not None and not picture.add(row, self.spans([row])[0]):
                del self._pictures[regression_id]
        row.regression_id = regression_id
        if isinstance(row, Step) and id_ in self._written:
            self._moved[id_] = row

    def describe(self, regression: AnyCase, seen: Picture, now: datetime) -> None:  # noqa: ARG002 - written at the end
        said, id_ = Said.of(seen), regression.id or 0
        before = self._said.get(id_)
        self._said[id_] = said
        if regression.state != "merged" and (before is None or before.ends != said.ends):
            self._range(id_, regression.kind, *said.ends)

    def write(self) -> None:
        """Write the new rows that wait, and all that has become of others."""
        self._write_cases()
        self.session.flush()
        steps.write(self.session, [step for step, _ in self._new], [values for _, values in self._new])
        steps.set_regressions(self.session, list(self._moved.values()))
        triage.write(self.session, self._notes)
        self._written |= {step.id or 0 for step, _ in self._new}
        for waiting in (self._new, self._moved, self._notes):
            waiting.clear()

    def _write_cases(self) -> None:
        cases.insert(self.session, self._made)
        self._stored |= {one.id or 0: one.changing() for one in self._made}
        self._made.clear()
        differing = [one for id_, one in self._cases.items() if one.changing() != self._stored[id_]]
        cases.update(self.session, differing)
        self._stored |= {one.id or 0: one.changing() for one in differing}

    def finish(self, now: datetime) -> None:
        """Write everything, and pass on what people may want to know, once for all."""
        self._learn({said.worst.series_id for said in self._said.values()})
        for id_, said in self._said.items():
            said.write(self._cases[id_], self.names(said.worst.series_id), now)
        self.write()
        if self.told:
            hints.hint(self.session)
