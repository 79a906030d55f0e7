"""What a project's measurements have found, as one table: a row for each cause, with commit, effect and interval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import func, select
from sqlalchemy.sql.elements import ColumnElement
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.measured_tables import FAILED
from groundspeed.service.db.tables import (
    Benchmark,
    ChangePoint,
    Hardware,
    Project,
    Regression,
    Revision,
    Run,
    Series,
)
from groundspeed.service.errors import NotFound
from groundspeed.service.usecases.views.runs import summary

HIDDEN = ("withdrawn", "merged", "false-alarm")
"""States of regressions that are no finding."""
NEWEST = 200
"""So many failures are asked for their reasons."""
FAILURES = ("wrong", "failed", "oom", "timeout", "crashed")
_KINDS = ("regression", "improvement", "change")


@dataclass(frozen=True, slots=True)
class Commit:
    sha: str
    title: str
    author: str
    position: int | None


@dataclass(frozen=True, slots=True)
class Member:
    """One series that changed. ``ratio`` is level after over level before with its 95 % interval ``low`` to ``high``
    (None where levels are not all positive); ``before``, ``after`` and ``difference`` are in ``unit``.
    """

    series_id: int
    suite: str
    metric: str
    params: Mapping[str, Any]
    hardware: str
    unit: str
    direction: int
    ratio: float | None
    low: float | None
    high: float | None
    before: float | None
    after: float | None
    difference: float
    confirmed: bool


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause. It lies after ``before`` and not later than ``commit``, the first commit that shows it; ``suspects``
    is how many commits that are, 0 where the environment changed on one commit. ``members``: largest effect first.
    """

    regression_id: int
    kind: Literal["regression", "improvement", "change"]
    confirmed: bool
    triage: str
    cause: str
    title: str
    commit: Commit | None
    before: Commit | None
    suspects: int | None
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """What the findings rest on. ``failures`` are runs that should have given a number and did not; ``outcomes`` has
    all runs by how they ended.
    """

    commits: int
    runs: int
    failures: int
    series: int
    outcomes: Mapping[str, int]
    reasons: Mapping[str, int] = field(default_factory=dict)
    """What the newest failures said, the most frequent first."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Regressions first, then improvements, then changes without a better side; each in the order of the branch."""

    project: str
    rows: tuple[Finding, ...]
    counts: Counts


def findings(db: Database, project_slug: str) -> Findings:
    """Everything that is found and stands, and what was measured for it. Raises ``NotFound`` for an unknown project."""
    with db.read() as session:
        project_id = session.scalar(select(col(Project.id)).where(col(Project.slug) == project_slug))
        if project_id is None:
            raise NotFound(
                f"There is no project {project_slug!r}.",
                "The first page and `groundspeed project list` show those there are.",
            )
        query = select(Regression).where(col(Regression.project_id) == project_id, col(Regression.state).not_in(HIDDEN))
        regressions = session.scalars(query).all()
        members = _members(session, project_id)
        commits = _commits(session, regressions)
        rows = [_finding(one, members[one.id or 0], commits) for one in regressions if members.get(one.id or 0)]
        return Findings(project_slug, tuple(sorted(rows, key=_order)), _counts(session, project_id))


def _members(session: Session, project_id: int) -> dict[int, list[Member]]:
    query = (
        select(ChangePoint, Series, col(Benchmark.suite), col(Hardware.label))
        .join(Series, col(Series.id) == col(ChangePoint.series_id))
        .join(Benchmark, col(Benchmark.id) == col(Series.benchmark_id))
        .join(Hardware, col(Hardware.id) == col(Series.hardware_id))
        .where(
            col(Series.project_id) == project_id,
            col(ChangePoint.regression_id).is_not(None),
            col(ChangePoint.state) != "withdrawn",
        )
    )
    found: dict[int, list[Member]] = {}
    for change, series, suite, hardware in session.execute(query).tuples():
        found.setdefault(change.regression_id or 0, []).append(_member(change, series, suite, hardware))
    for members in found.values():
        members.sort(key=lambda member: (-_size(member), member.suite, member.metric, member.series_id))
    return found


def _member(change: ChangePoint, series: Series, suite: str, hardware: str) -> Member:
    return Member(
        series_id=change.series_id,
        suite=suite,
        metric=series.metric,
        params=series.params,
        hardware=hardware,
        unit=series.unit,
        direction=series.direction,
        ratio=change.ratio,
        low=change.ratio_low,
        high=change.ratio_high,
        before=change.detail.get("level_before"),
        after=change.detail.get("level_after"),
        difference=change.difference,
        confirmed=change.state == "confirmed",
    )


def _size(member: Member) -> float:
    """Twice as much and half as much are as large."""
    return max(member.ratio, 1 / member.ratio) if member.ratio else 0.0


def _commits(session: Session, regressions: Sequence[Regression]) -> dict[int | None, Commit]:
    ids = {one for row in regressions for one in (row.before_revision_id, row.after_revision_id) if one is not None}
    if not ids:
        return {}
    found = session.scalars(select(Revision).where(col(Revision.id).in_(ids)))
    return {row.id: Commit(row.sha, row.title, row.author, row.position) for row in found}


def _finding(row: Regression, members: Sequence[Member], commits: Mapping[int | None, Commit]) -> Finding:
    before, after = commits.get(row.before_revision_id), commits.get(row.after_revision_id)
    places = [commit.position for commit in (before, after) if commit is not None and commit.position is not None]
    kind = row.kind if row.kind in _KINDS else "change"
    return Finding(
        regression_id=row.id or 0,
        kind=kind,  # type: ignore[arg-type]
        confirmed=any(member.confirmed for member in members),
        triage=row.state,
        cause=row.cause,
        title=row.title,
        commit=after,
        before=before,
        suspects=places[1] - places[0] if len(places) == 2 else None,
        members=tuple(members),
    )


def _order(row: Finding) -> tuple[int, int, int]:
    position = row.commit.position if row.commit is not None else None
    return _KINDS.index(row.kind), -1 if position is None else position, row.regression_id


def _counts(session: Session, project_id: int) -> Counts:
    of_project = select(col(Benchmark.id)).where(col(Benchmark.project_id) == project_id)
    mine = col(Run.benchmark_id).in_(of_project)
    by_outcome = select(col(Run.outcome), func.count()).where(mine).group_by(col(Run.outcome))
    outcomes: dict[str, int] = {name: int(count) for name, count in session.execute(by_outcome)}
    commits = session.scalar(select(func.count(func.distinct(col(Run.revision_id)))).where(mine))
    series = session.scalar(select(func.count()).where(col(Series.project_id) == project_id))
    return Counts(
        commits=int(commits or 0),
        runs=sum(outcomes.values()),
        failures=sum(outcomes.get(name, 0) for name in FAILURES),
        series=int(series or 0),
        outcomes=dict(sorted(outcomes.items())),
        reasons=_reasons(session, mine),
    )


def _reasons(session: Session, mine: ColumnElement[bool]) -> dict[str, int]:
    """First lines of what the newest failed runs said, with how many said it."""
    failed = select(col(Run.outcome), col(Run.evidence)).where(mine, FAILED, col(Run.outcome).in_(FAILURES))
    rows = session.execute(failed.order_by(col(Run.id).desc()).limit(NEWEST)).tuples()
    said = Counter(summary(evidence) or outcome for outcome, evidence in rows)
    return dict(said.most_common(3))
