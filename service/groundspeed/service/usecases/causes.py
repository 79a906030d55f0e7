"""What grouping asks about regressions and their members, and writes of them: each time, which suits one series.

A history that was imported has thousands of steps of which each asks a dozen things: ``causes_many`` gives the same
answers and asks the store once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import bindparam, select
from sqlalchemy.orm import aliased
from sqlmodel import Session, col

from groundspeed.service.db.sets import among, one_of
from groundspeed.service.db.tables import Benchmark, ChangePoint, Regression, Revision, Series
from groundspeed.service.usecases import triage
from groundspeed.service.usecases.cases import AnyCase
from groundspeed.service.usecases.locking import held, hold_project
from groundspeed.service.usecases.notifications import hints
from groundspeed.service.usecases.picture import Picture, Said, Span
from groundspeed.service.usecases.steps import Member
from groundspeed.service.usecases.triage import MACHINE

_REGRESSION = held(select(Regression).where(col(Regression.id) == bindparam("id")))
_OF_REGRESSION = col(ChangePoint.regression_id) == bindparam("id")
_MEMBERS = (
    select(ChangePoint).where(_OF_REGRESSION, col(ChangePoint.state) != "withdrawn").order_by(col(ChangePoint.id))
)
_ENVIRONMENTS = select(col(ChangePoint.environment_to_id)).where(_OF_REGRESSION)
_before, _after = aliased(Revision), aliased(Revision)
_x0, _x1 = col(_before.position), col(_after.position)
_CANDIDATES = (
    select(col(Regression.id), _x0, _x1)
    .join(_before, col(_before.id) == col(Regression.before_revision_id))
    .join(_after, col(_after.id) == col(Regression.after_revision_id))
    .where(col(Regression.project_id) == bindparam("project"), col(Regression.kind) == bindparam("kind"))
    .where(col(Regression.state) != "merged")
)
_SAME_PLACE = _CANDIDATES.where(_x0 == bindparam("x0"), _x1 == bindparam("x1"))
_OVERLAPPING = _CANDIDATES.where(_x0 < bindparam("x1"), _x1 > bindparam("x0"))
_POSITIONS = select(col(Revision.id), col(Revision.position)).where(one_of(col(Revision.id), among("ids")))
_NAMES = (
    select(col(Benchmark.suite), col(Series.metric), col(Series.unit))
    .join(Benchmark, col(Benchmark.id) == col(Series.benchmark_id))
    .where(col(Series.id) == bindparam("id"))
)
"""Made once: making a statement costs more than its answer here."""


@dataclass(slots=True)
class Causes:
    """Asks the store each time, but for where commits stand, which is the same throughout a transaction."""

    session: Session
    _places: dict[int, int | None] = field(default_factory=dict, init=False)

    def hold(self, project_id: int) -> None:
        """Two series of one project must not both make a regression for the same cause."""
        hold_project(self.session, project_id)

    def settle(self) -> None:
        """What was written is to be seen by the next question."""
        self.session.flush()

    def write(self) -> None:
        """The same: what was found and changed here is to be asked of the store itself."""
        self.session.flush()

    def regression(self, regression_id: int) -> AnyCase:
        """Held, and as it is now: or a person's move would be undone."""
        fresh = {"populate_existing": True}
        return self.session.scalars(_REGRESSION, {"id": regression_id}, execution_options=fresh).one()

    def known(self, regression_id: int) -> AnyCase:
        """The same of one that was held already."""
        return self.session.get_one(Regression, regression_id)

    def members(self, regression_id: int) -> Sequence[Member]:
        """Those that were not withdrawn, oldest first."""
        return list(self.session.scalars(_MEMBERS, {"id": regression_id}))

    def picture(self, regression_id: int) -> Picture | None:
        """What the members say together."""
        members = self.members(regression_id)
        return Picture.of(zip(members, self.spans(members), strict=True))

    def environments(self, regression_id: int) -> set[int | None]:
        """Into which its change points led, also those that were withdrawn."""
        return set(self.session.scalars(_ENVIRONMENTS, {"id": regression_id}))

    def candidates(self, project_id: int, kind: str, span: Span, left: int | None) -> list[tuple[Span, int]]:
        """Regressions of this kind, but for ``left``, whose suspects may overlap: where they lie, and their ids. Where
        some lie in the same place, the others may be missing.
        """
        query = _SAME_PLACE if span.before == span.after else _OVERLAPPING
        values = {"project": project_id, "kind": kind, "x0": span.before, "x1": span.after}
        rows = self.session.execute(query, values).tuples()
        return [(Span(a, b), id_) for id_, a, b in rows if id_ not in {None, left} and None not in {a, b}]

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
        missing = ids - self._places.keys()
        if missing:
            self._places |= dict.fromkeys(missing)
            self._places |= dict(self.session.execute(_POSITIONS, {"ids": list(missing)}).tuples().all())
        return {id_: position for id_ in ids if (position := self._places[id_]) is not None}

    def names(self, series_id: int) -> tuple[str, str, str]:
        """Benchmark, metric and unit of a series."""
        suite, metric, unit = self.session.execute(_NAMES, {"id": series_id}).one()
        return suite, metric, unit

    def hint(self) -> None:
        """Something happened that people may want to know."""
        hints.hint(self.session)

    def make(self, project_id: int, row: Member, now: datetime) -> AnyCase:
        """A new regression for this change point, which has its id."""
        regression = Regression(
            project_id=project_id,
            kind=row.kind,
            before_revision_id=row.before_revision_id,
            after_revision_id=row.after_revision_id,
            cause=row.cause,
            created_at=now,
            updated_at=now,
        )
        self.session.add(regression)
        self.session.flush()
        return regression

    def move(self, regression: AnyCase, state: str, now: datetime, why: str) -> None:
        """Change the state, and note it."""
        data = triage.change(regression, state, now, why)
        if data is not None:
            self.changed(regression)
            self.note(regression, "state", now, data)

    def note(self, regression: AnyCase, action: str, now: datetime, data: dict[str, object]) -> None:
        """Write down what detection did to a regression."""
        triage.note(self.session, regression, action, MACHINE, now, data)

    def changed(self, regression: AnyCase) -> None:
        """Have it written what was set in a regression."""
        self.session.add(regression)

    def put(self, row: Member, regression_id: int | None) -> None:
        """Give a change point its regression, or none."""
        row.regression_id = regression_id
        self.session.add(row)
        if regression_id is not None:
            self.session.flush()

    def describe(self, regression: AnyCase, seen: Picture, now: datetime) -> None:
        """Let a regression's range, cause and title say what its members do."""
        said = Said.of(seen)
        if said.write(regression, self.names(said.worst.series_id), now):
            self.session.add(regression)
