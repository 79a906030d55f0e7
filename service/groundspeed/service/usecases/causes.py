"""What grouping asks about regressions and their members, and writes of them: each time, which suits one series.

A history that was imported has thousands of steps of which each asks a dozen things: ``causes_many`` gives the same
answers and asks the store once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import aliased
from sqlmodel import Session, col

from groundspeed.service.db.tables import Benchmark, ChangePoint, Project, Regression, Revision, Series
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.notifications import hints
from groundspeed.service.usecases.picture import Picture, Said, Span
from groundspeed.service.usecases.steps import Member


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

    def members(self, regression_id: int) -> Sequence[Member]:
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

    def spans(self, rows: Iterable[Member]) -> list[Span]:
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
        hints.hint(self.session)

    def add(self, regression: Regression) -> None:
        """A new regression, which has its id afterwards."""
        self.session.add(regression)
        self.session.flush()

    def put(self, row: Member, regression_id: int | None) -> None:
        """Give a change point its regression, or none."""
        row.regression_id = regression_id
        self.session.add(row)
        if regression_id is not None:
            self.session.flush()

    def describe(self, regression: Regression, seen: Picture, now: datetime) -> None:
        """Let a regression's range, cause and title say what its members do."""
        said = Said.of(seen)
        if said.write(regression, self.names(said.worst.series_id), now):
            self.session.add(regression)
