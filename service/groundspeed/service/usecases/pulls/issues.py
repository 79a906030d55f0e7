"""A regression found on the branch is told by one issue a cause, kept up to date, and closed when it has recovered."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.forge_tables import ForgeIssue, ForgeRepository
from groundspeed.service.db.tables import Benchmark, ChangePoint, Project, Regression, Result, Revision, Run, Series
from groundspeed.service.db.unique import ensure
from groundspeed.service.domain.pulls.forge import Cause, ForgeRefused
from groundspeed.service.usecases.pulls import outgoing
from groundspeed.service.usecases.pulls.outgoing import Claim, Desk
from groundspeed.service.usecases.pulls.report import label
from groundspeed.service.usecases.series import latest_config

OPEN = ("new", "acknowledged", "in-progress")
CLOSED = {
    "recovered": "the level before it is reached again",
    "fixed": "it was fixed",
    "accepted": "it was accepted as intended",
    "false-alarm": "it was no regression",
    "withdrawn": "more data does not confirm it",
    "merged": "it has the same cause as another one",
}
MOST_SUSPECTS = 20
_NEVER = datetime(2000, 1, 1, tzinfo=UTC)
_NUMBER = re.compile(r"^Merge pull request #(\d{1,9}) |\(#(\d{1,9})\)$")


def look(database: Database, now: datetime) -> int:
    """Ask for an issue wherever a confirmed regression has something to be told; returns how many."""
    count = 0
    with database.read() as session:
        linked = session.execute(
            select(ForgeRepository, Project)
            .join(Project, col(Project.id) == col(ForgeRepository.project_id))
            .where(col(ForgeRepository.state) == "active")
        ).tuples()
        wanted = [
            (repository, regression_id)
            for repository, project in linked.all()
            if _settings(session, project).get("issues", True)
            for regression_id in _changed(session, project)
        ]
    for repository, regression_id in wanted:
        with database.transaction() as session:
            row = session.get_one(ForgeRepository, repository.id)
            outgoing.want(session, row, "issue", f"issue:{regression_id}", {"regression": regression_id}, now)
            count += 1
    return count


def _settings(session: Session, project: Project) -> dict[str, Any]:
    found = latest_config(session, project.id or 0).get("github")
    return found if isinstance(found, dict) else {}


def _changed(session: Session, project: Project) -> list[int]:
    """Regressions whose issue is missing or older than they are."""
    query = (
        select(Regression, ForgeIssue)
        .outerjoin(ForgeIssue, col(ForgeIssue.regression_id) == col(Regression.id))
        .where(col(Regression.project_id) == project.id, col(Regression.kind) == "regression")
    )
    found = []
    for regression, issue in session.execute(query).tuples():
        known: ForgeIssue | None = issue
        if known is None and (regression.state not in OPEN or not _confirmed(session, regression)):
            continue
        if known is not None and known.closed and (known.number is None or regression.state not in OPEN):
            continue
        if known is None or known.updated_at < regression.updated_at:
            found.append(regression.id or 0)
    return found


def _confirmed(session: Session, regression: Regression) -> bool:
    query = select(col(ChangePoint.id)).where(
        col(ChangePoint.regression_id) == regression.id, col(ChangePoint.state) == "confirmed"
    )
    return session.execute(query.limit(1)).first() is not None


def tell(desk: Desk, claimed: Claim) -> None:
    """Open, update, close or open again the issue of one regression."""
    regression_id = int(claimed.payload["regression"])
    with desk.database.transaction() as session:
        regression = session.get_one(Regression, regression_id)
        project = session.get_one(Project, regression.project_id)
        row = {"regression_id": regression_id, "repository_id": claimed.repository_id, "number": None, "digest": "",
               "closed": False, "updated_at": _NEVER}  # fmt: skip
        ensure(session, ForgeIssue, [row], key=("regression_id",))
        known = session.scalars(select(ForgeIssue).where(col(ForgeIssue.regression_id) == regression_id)).one()
        cause = describe(session, project, regression, desk.base_url)
        labels = tuple(str(one) for one in _settings(session, project).get("issue_labels", ()))
        number, digest, as_of = known.number, known.digest, regression.updated_at
    if digest == _digest(cause):
        _note(desk.database, regression_id, as_of)
        return
    if number is None and claimed.tries > 1:
        number = desk.forge.find_issue(claimed.repository, cause)
    if number is None:
        if cause.closed_because:
            _note(desk.database, regression_id, as_of, closed=True)
            return
        number = desk.forge.open_issue(claimed.repository, cause, labels)
    else:
        try:
            desk.forge.update_issue(claimed.repository, number, cause)
        except ForgeRefused as refused:
            if not refused.gone:
                raise
    closed = bool(cause.closed_because)
    _note(desk.database, regression_id, as_of, number=number, digest=_digest(cause), closed=closed)


def _note(database: Database, regression_id: int, as_of: datetime, **columns: object) -> None:
    """What the issue says now, and as of which state of the regression."""
    with database.transaction() as session:
        known = session.scalars(select(ForgeIssue).where(col(ForgeIssue.regression_id) == regression_id)).one()
        known.updated_at = as_of
        for name, value in columns.items():
            setattr(known, name, value)
        session.add(known)


def _digest(cause: Cause) -> str:
    return hashlib.sha256(repr(cause).encode()).hexdigest()[:32]


def describe(session: Session, project: Project, regression: Regression, base_url: str) -> Cause:
    """The facts of an issue: what is slower, after which commits, and what brought those."""
    before = session.get(Revision, regression.before_revision_id) if regression.before_revision_id else None
    after = session.get(Revision, regression.after_revision_id) if regression.after_revision_id else None
    suspects = _suspects(session, project, before, after)
    return Cause(
        regression_id=regression.id or 0,
        title=regression.title,
        url=f"{base_url}/projects/{project.slug}/regressions/{regression.id}",
        members=tuple(_members(session, regression)),
        before_sha=before.sha if before else "",
        after_sha=after.sha if after else "",
        suspects=tuple((one.sha, one.title) for one in suspects[-MOST_SUSPECTS:]),
        suspects_total=len(suspects),
        pulls=pull_numbers([one.title for one in suspects])[:MOST_SUSPECTS],
        closed_because=CLOSED.get(regression.state, ""),
    )


def pull_numbers(titles: Sequence[str]) -> tuple[int, ...]:
    """Pull requests that commits say they came from: merge commits, and squashed ones that end with (#12).

    >>> pull_numbers(["Merge pull request #7 from x/y", "Faster (#12)", "See #3"])
    (7, 12)
    """
    found = (match for title in titles if (match := _NUMBER.search(title)))
    return tuple(dict.fromkeys(int(match[1] or match[2]) for match in found))


def _suspects(
    session: Session, project: Project, before: Revision | None, after: Revision | None
) -> Sequence[Revision]:
    if before is None or after is None or before.position is None or after.position is None:
        return [after] if after is not None else []
    query = select(Revision).where(
        col(Revision.project_id) == project.id,
        col(Revision.position) > before.position,
        col(Revision.position) <= after.position,
    )
    return session.scalars(query.order_by(col(Revision.position))).all()


def _members(session: Session, regression: Regression) -> list[tuple[str, str, float | None]]:
    newest = (
        select(col(Run.benchmark_key))
        .join(Result, col(Result.run_id) == col(Run.id))
        .where(col(Result.series_id) == col(Series.id))
        .order_by(col(Result.id).desc())
        .limit(1)
        .correlate(Series)
        .scalar_subquery()
    )
    query = (
        select(ChangePoint, col(Series.metric), col(Benchmark.suite), newest)
        .join(Series, col(Series.id) == col(ChangePoint.series_id))
        .join(Benchmark, col(Benchmark.id) == col(Series.benchmark_id))
        .where(col(ChangePoint.regression_id) == regression.id, col(ChangePoint.state) != "withdrawn")
        .order_by(col(ChangePoint.id))
    )
    return [
        (label(suite, key or ""), metric, None if change.ratio is None else round(change.ratio - 1, 4))
        for change, metric, suite, key in session.execute(query).tuples()
    ]
