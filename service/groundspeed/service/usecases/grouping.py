"""One cause, one regression: change points that can come from one commit (or one environment) belong together.

Ranges are half-open: a change between commits 4 and 7 suspects 5, 6 and 7. Two changes of the same kind whose suspects
overlap have one cause until more is known; when bisection parts them, the one that moved away gets its own regression.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import aliased
from sqlmodel import Session, col

from groundspeed.service.db.tables import AuditEntry, Benchmark, ChangePoint, Project, Regression, Revision, Series
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.notifications import planning
from groundspeed.service.usecases.triage import MACHINE, move, note

OPEN = ("new", "acknowledged", "in-progress")


@dataclass(frozen=True, slots=True)
class Span:
    """Suspect positions (before, after]; equal where the environment changed on one commit."""

    before: int
    after: int

    def overlaps(self, other: Span) -> bool:
        if self.before == self.after or other.before == other.after:
            return self == other
        return max(self.before, other.before) < min(self.after, other.after)

    def distance(self, other: Span) -> int:
        return abs(self.before - other.before) + abs(self.after - other.after)


def regroup(session: Session, project_id: int, changed: Sequence[ChangePoint], now: datetime) -> None:
    """Give every changed change point its regression, and bring the regressions concerned up to date."""
    if not changed:
        return
    # Two series of one project must not both make a regression for the same cause.
    session.execute(held(select(col(Project.id)).where(col(Project.id) == project_id)))
    touched = {row.regression_id for row in changed}
    for row in changed:
        if row.state != "withdrawn" and not row.pinned:
            _settle(session, project_id, row, now)
    touched |= {row.regression_id for row in changed}
    session.flush()
    for regression_id in sorted(one for one in touched if one is not None):
        refresh(session, regression_id, now)


def refresh(session: Session, regression_id: int, now: datetime) -> None:
    """Let a regression's range, cause, title and state follow its members."""
    session.flush()
    query = held(select(Regression).where(col(Regression.id) == regression_id))  # or a person's move would be undone
    regression = session.scalars(query.execution_options(populate_existing=True)).one()
    members = _members(session, regression_id)
    if not members:
        if regression.state == "new":
            move(session, regression, "withdrawn", MACHINE, now, "detection no longer sees it")
        return
    if regression.state == "withdrawn":
        move(session, regression, "new", MACHINE, now, "detection sees it again")
    _describe(session, regression, members, now)
    if regression.notified_at is None and any(member.state == "confirmed" for member in members):
        regression.notified_at = now
        session.add(regression)
        note(session, regression, "confirmed", MACHINE, now, {})
        planning.hint(session)
    if regression.kind != "regression":
        return
    recovered = all(member.detail.get("recovered") for member in members)
    if recovered and regression.state in OPEN:
        move(session, regression, "recovered", MACHINE, now, "the level before it is reached again")
        planning.hint(session)
    elif regression.state == "recovered" and not recovered:
        move(session, regression, "new", MACHINE, now, "the level has risen again")
        planning.hint(session)


def _settle(session: Session, project_id: int, row: ChangePoint, now: datetime) -> None:
    """Keep the regression that a change point has while it still fits; else find or make another."""
    places = _positions(session, [row])
    span = _span(row, places)
    if row.regression_id is not None:
        others = [one for one in _members(session, row.regression_id) if one.id != row.id]
        there = _positions(session, others)
        if not others or any(span.overlaps(_span(other, there)) for other in others):
            return
        row.regression_id = None
    found = _find(session, project_id, row, span)
    row.regression_id = found.id if found is not None else _make(session, project_id, row, now)
    session.add(row)
    session.flush()


def _find(session: Session, project_id: int, row: ChangePoint, span: Span) -> Regression | None:
    """The regression of the same kind whose suspects overlap, the nearest first."""
    before, after = aliased(Revision), aliased(Revision)
    same_place = span.before == span.after
    x0, x1 = col(before.position), col(after.position)
    where = (x0 == span.before) & (x1 == span.after) if same_place else (x0 < span.after) & (x1 > span.before)
    rows = session.execute(
        select(Regression, x0, x1)
        .join(before, col(before.id) == col(Regression.before_revision_id))
        .join(after, col(after.id) == col(Regression.after_revision_id))
        .where(
            col(Regression.project_id) == project_id,
            col(Regression.kind) == row.kind,
            col(Regression.state) != "merged",
            where,
        )
    ).tuples()
    fitting = [(span.distance(Span(a, b)), one.id or 0, one) for one, a, b in rows if span.overlaps(Span(a, b))]
    if same_place:
        fitting = [entry for entry in fitting if _same_environment(session, entry[2], row)]
    return min(fitting, key=lambda entry: entry[:2])[2] if fitting else None


def _same_environment(session: Session, regression: Regression, row: ChangePoint) -> bool:
    query = select(col(ChangePoint.environment_to_id)).where(col(ChangePoint.regression_id) == regression.id)
    return row.environment_to_id in set(session.scalars(query))


def _make(session: Session, project_id: int, row: ChangePoint, now: datetime) -> int:
    regression = Regression(
        project_id=project_id,
        kind=row.kind,
        before_revision_id=row.before_revision_id,
        after_revision_id=row.after_revision_id,
        cause=row.cause,
        created_at=now,
        updated_at=now,
    )
    session.add(regression)
    session.flush()
    audit = AuditEntry(actor=MACHINE, action="regression.found", subject_type="regression", at=now, subject_id="")
    audit.subject_id = str(regression.id)
    session.add(audit)
    return regression.id or 0


def _describe(session: Session, regression: Regression, members: Sequence[ChangePoint], now: datetime) -> None:
    places = _positions(session, members)
    strongest = max(members, key=lambda member: (member.state == "confirmed", member.strength, -(member.id or 0)))
    span = _span(strongest, places)
    lowest, highest = strongest, strongest
    for member in members:
        own = _span(member, places)
        if not own.overlaps(span):
            continue
        if own.before > span.before:
            lowest = member
        if own.after < span.after:
            highest = member
        span = Span(max(span.before, own.before), min(span.after, own.after))
    causes = {member.cause for member in members}
    values = {
        "before_revision_id": lowest.before_revision_id,
        "after_revision_id": highest.after_revision_id,
        "cause": next((cause for cause in ("code", "both", "environment", "node") if cause in causes), "code"),
        "title": _title(session, members),
    }
    if any(getattr(regression, name) != value for name, value in values.items()):
        for name, value in values.items():
            setattr(regression, name, value)
        regression.updated_at = now
        session.add(regression)


def _title(session: Session, members: Sequence[ChangePoint]) -> str:
    worst = max(members, key=lambda member: (_size(member), -(member.id or 0)))
    query = (
        select(col(Benchmark.suite), col(Series.metric), col(Series.unit))
        .join(Benchmark, col(Benchmark.id) == col(Series.benchmark_id))
        .where(col(Series.id) == worst.series_id)
    )
    suite, metric, unit = session.execute(query).one()
    amount = f"{100 * (worst.ratio - 1):+.1f} %" if worst.ratio is not None else f"{worst.difference:+.3g} {unit}"
    more = f" and {len(members) - 1} more" if len(members) > 1 else ""
    return f"{suite}: {metric} {amount}{more}"


def _size(member: ChangePoint) -> float:
    """Relative size, the same for twice as much and half as much."""
    if member.ratio is None or member.ratio <= 0:
        return 0.0
    return max(member.ratio, 1 / member.ratio)


def _members(session: Session, regression_id: int) -> list[ChangePoint]:
    query = select(ChangePoint).where(
        col(ChangePoint.regression_id) == regression_id, col(ChangePoint.state) != "withdrawn"
    )
    return list(session.scalars(query.order_by(col(ChangePoint.id))))


def _positions(session: Session, rows: Iterable[ChangePoint]) -> Mapping[int, int]:
    ids = {one for row in rows for one in (row.before_revision_id, row.after_revision_id)}
    query = select(col(Revision.id), col(Revision.position)).where(col(Revision.id).in_(ids))
    return {id_: position for id_, position in session.execute(query) if position is not None} if ids else {}


def _span(row: ChangePoint, places: Mapping[int, int]) -> Span:
    """A commit that has left the branch (a forced push) lies nowhere near another."""
    return Span(
        places.get(row.before_revision_id, -row.before_revision_id),
        places.get(row.after_revision_id, -row.after_revision_id),
    )
