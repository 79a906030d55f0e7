"""What grouping asks about regressions and their members: of the store each time, or once for many series.

Both answer the same. Asking each time reads little and suits one series; a history that was imported has thousands of
steps of which each asks a dozen things.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import select
from sqlalchemy.orm import aliased
from sqlmodel import Session, col

from groundspeed.service.db.tables import Benchmark, ChangePoint, Project, Regression, Revision, Series
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.notifications import planning
from groundspeed.service.usecases.picture import Picture, Span


@dataclass(slots=True)
class Causes:
    """Asks the store each time."""

    session: Session

    def hold(self, project_id: int) -> None:
        """Two series of one project must not both make a regression for the same cause."""
        self.session.execute(held(select(col(Project.id)).where(col(Project.id) == project_id)))

    def settle(self) -> None:
        """What was written is to be seen by the next question."""
        self.session.flush()

    def regression(self, regression_id: int) -> Regression:
        """Held, and as it is now: or a person's move would be undone."""
        query = held(select(Regression).where(col(Regression.id) == regression_id))
        return self.session.scalars(query.execution_options(populate_existing=True)).one()

    def members(self, regression_id: int) -> list[ChangePoint]:
        """Those that were not withdrawn, oldest first."""
        query = select(ChangePoint).where(
            col(ChangePoint.regression_id) == regression_id, col(ChangePoint.state) != "withdrawn"
        )
        return list(self.session.scalars(query.order_by(col(ChangePoint.id))))

    def picture(self, regression_id: int) -> Picture | None:
        """What the members say together."""
        members = self.members(regression_id)
        return Picture.of(zip(members, self.spans(members), strict=True))

    def environments(self, regression_id: int) -> set[int | None]:
        """Into which its change points led, also those that were withdrawn."""
        query = select(col(ChangePoint.environment_to_id)).where(col(ChangePoint.regression_id) == regression_id)
        return set(self.session.scalars(query))

    def candidates(self, project_id: int, kind: str, span: Span) -> list[tuple[Span, int]]:
        """Regressions of this kind whose suspects may overlap: where they lie, and their ids."""
        before, after = aliased(Revision), aliased(Revision)
        x0, x1 = col(before.position), col(after.position)
        same_place = span.before == span.after
        where = (x0 == span.before) & (x1 == span.after) if same_place else (x0 < span.after) & (x1 > span.before)
        rows = self.session.execute(
            select(col(Regression.id), x0, x1)
            .join(before, col(before.id) == col(Regression.before_revision_id))
            .join(after, col(after.id) == col(Regression.after_revision_id))
            .where(
                col(Regression.project_id) == project_id,
                col(Regression.kind) == kind,
                col(Regression.state) != "merged",
                where,
            )
        ).tuples()
        return [(Span(a, b), id_) for id_, a, b in rows if id_ is not None and a is not None and b is not None]

    def spans(self, rows: Iterable[ChangePoint]) -> list[Span]:
        """Where change points lie. A commit that has left the branch (a forced push) lies nowhere near another."""
        rows = list(rows)
        places = self._positions({one for row in rows for one in (row.before_revision_id, row.after_revision_id)})
        return [
            Span(
                places.get(row.before_revision_id, -row.before_revision_id),
                places.get(row.after_revision_id, -row.after_revision_id),
            )
            for row in rows
        ]

    def _positions(self, ids: set[int]) -> Mapping[int, int]:
        query = select(col(Revision.id), col(Revision.position)).where(col(Revision.id).in_(ids))
        found = self.session.execute(query) if ids else ()
        return {id_: position for id_, position in found if position is not None}

    def names(self, series_id: int) -> tuple[str, str, str]:
        """Benchmark, metric and unit of a series."""
        query = (
            select(col(Benchmark.suite), col(Series.metric), col(Series.unit))
            .join(Benchmark, col(Benchmark.id) == col(Series.benchmark_id))
            .where(col(Series.id) == series_id)
        )
        suite, metric, unit = self.session.execute(query).one()
        return suite, metric, unit

    def hint(self) -> None:
        """Something happened that people may want to know."""
        planning.hint(self.session)

    def made(self, regression: Regression) -> None:
        """There is a new regression; it has its id."""

    def put(self, row: ChangePoint, regression_id: int | None) -> None:
        """Give a change point its regression, or none."""
        row.regression_id = regression_id
        self.session.add(row)
        if regression_id is not None:
            self.session.flush()

    def moved(self, regression: Regression) -> None:
        """A regression's range is another."""


@dataclass(slots=True)
class _Kept:
    span: Span
    kind: str


@dataclass(slots=True)
class Remembered(Causes):
    """Asks once for what a transaction needs that looks at many series of one project, and keeps it up to date.

    ``positions`` are those of the project's commits on the branch. What is written here is flushed at the end.
    """

    project_id: int
    positions: Mapping[int, int]
    told: bool = False
    """There is something that people may want to know."""
    _held: bool = False
    _ranges: dict[int, _Kept] = field(default_factory=dict)
    _rows: dict[int, dict[int, ChangePoint]] = field(default_factory=dict)
    _pictures: dict[int, Picture] = field(default_factory=dict)
    _regressions: dict[int, Regression] = field(default_factory=dict)
    _names: dict[int, tuple[str, str, str]] = field(default_factory=dict)

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

    def _range(self, regression_id: int, kind: str, before: int | None, after: int | None) -> None:
        """Note where a regression lies; with commits that have left the branch it lies nowhere."""
        x0, x1 = self.positions.get(before or 0), self.positions.get(after or 0)
        if x0 is None or x1 is None:
            self._ranges.pop(regression_id, None)
        else:
            self._ranges[regression_id] = _Kept(Span(x0, x1), kind)

    def settle(self) -> None:
        pass

    def regression(self, regression_id: int) -> Regression:
        known = self._regressions.get(regression_id)
        if known is None:
            with self.session.no_autoflush:  # nothing of it has changed here yet
                known = self._regressions[regression_id] = Causes.regression(self, regression_id)
        return known

    def _all(self, regression_id: int) -> dict[int, ChangePoint]:
        known = self._rows.get(regression_id)
        if known is None:
            query = select(ChangePoint).where(col(ChangePoint.regression_id) == regression_id)
            with self.session.no_autoflush:  # whatever comes or goes here passes through put, which asks first
                known = self._rows[regression_id] = {row.id or 0: row for row in self.session.scalars(query)}
        return known

    def members(self, regression_id: int) -> list[ChangePoint]:
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

    def candidates(self, project_id: int, kind: str, span: Span) -> list[tuple[Span, int]]:  # noqa: ARG002 - all are of one project
        before, after = span.before, span.after
        if before == after:
            return [(kept.span, id_) for id_, kept in self._ranges.items() if kept.kind == kind and kept.span == span]
        return [
            (kept.span, id_)
            for id_, kept in self._ranges.items()
            if kept.span.before < after and kept.span.after > before and kept.kind == kind
        ]

    def _positions(self, ids: set[int]) -> Mapping[int, int]:  # noqa: ARG002 - all are known
        return self.positions

    def names(self, series_id: int) -> tuple[str, str, str]:
        if series_id not in self._names:
            query = (
                select(col(Series.id), col(Benchmark.suite), col(Series.metric), col(Series.unit))
                .join(Benchmark, col(Benchmark.id) == col(Series.benchmark_id))
                .where(col(Series.project_id) == self.project_id)
            )
            self._names |= {id_: (a, b, c) for id_, a, b, c in self.session.execute(query).tuples() if id_ is not None}
        return self._names[series_id]

    def hint(self) -> None:
        self.told = True

    def made(self, regression: Regression) -> None:
        id_ = regression.id or 0
        self._regressions[id_], self._rows[id_] = regression, {}
        self.moved(regression)

    def put(self, row: ChangePoint, regression_id: int | None) -> None:
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
        self.session.add(row)

    def moved(self, regression: Regression) -> None:
        if regression.state != "merged":
            before, after = regression.before_revision_id, regression.after_revision_id
            self._range(regression.id or 0, regression.kind, before, after)

    def finish(self) -> None:
        """Pass on what people may want to know, once for all."""
        if self.told:
            planning.hint(self.session)
