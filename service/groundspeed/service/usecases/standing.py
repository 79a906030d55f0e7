"""How far is the work? Counts for a progress bar, and whether anything is left to wait for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import func, select
from sqlalchemy.orm import aliased
from sqlmodel import Session, col

from groundspeed.service.db import reads_work
from groundspeed.service.db.engine import Database
from groundspeed.service.db.measured_tables import FAILED
from groundspeed.service.db.tables import (
    Attempt,
    Job,
    JobSide,
    Outbox,
    Project,
    Request,
    Revision,
    Run,
    Series,
    SeriesMark,
)
from groundspeed.service.errors import NotFound
from groundspeed.service.usecases.findings import FAILURES
from groundspeed.service.usecases.views.runs import summary

TOO_MANY = 1000
"""Of so many jobs that ended at once no reasons are told."""
OPEN_JOBS = ("queued", "running")
OPEN_REQUESTS = ("pending", "planned", "running")


@dataclass(frozen=True, slots=True)
class Step:
    """One job in a line: what is measured at which commit, and how far it is."""

    job_id: int
    suite: str
    reason: str
    sha: str
    title: str
    state: str
    phase: str = ""
    message: str = ""
    seconds: float = 0.0
    error: str = ""
    """Why the job failed; of one that is done: what the first of its processes that gave no number said."""
    failed: int = 0
    """So many of its processes gave no number."""


@dataclass(frozen=True, slots=True)
class Standing:
    """``jobs`` counts by state. ``unseen``: results that detection has not looked at; ``unsent``: waiting messages."""

    jobs: dict[str, int] = field(default_factory=dict)
    requests: dict[str, int] = field(default_factory=dict)
    running: tuple[Step, ...] = ()
    unseen: int = 0
    unsent: int = 0
    trouble: tuple[str, ...] = ()
    """What stands in the way in words: a broken configuration, a request that waits for a plugin."""

    @property
    def total(self) -> int:
        return sum(self.jobs.values())

    @property
    def open(self) -> int:
        return sum(self.jobs.get(state, 0) for state in OPEN_JOBS)

    @property
    def idle(self) -> bool:
        """Nothing is measured, planned, analysed or on its way to any of these."""
        waiting = sum(self.requests.get(state, 0) for state in OPEN_REQUESTS)
        return not (self.open or waiting or self.unseen or self.unsent)

    @property
    def stuck(self) -> bool:
        """Whether all that is left waits for a worker with another plugin."""
        left = sum(self.requests.get(state, 0) for state in OPEN_REQUESTS)
        return not (self.open or self.unseen) and 0 < left <= sum("no worker offers" in one for one in self.trouble)


def standing(database: Database, slug: str | None = None) -> Standing:
    """Of one project, or of all. Raises NotFound for an unknown one."""
    with database.read() as session:
        project = _project_id(session, slug)
        return Standing(
            jobs=_counts(session, Job, project),
            requests=_counts(session, Request, project),
            running=tuple(_steps(session, project, ("running",))),
            unseen=_count(session, SeriesMark),
            unsent=session.execute(
                select(func.count()).select_from(Outbox).where(col(Outbox.sent_at).is_(None))
            ).scalar_one(),
            trouble=tuple(_trouble(session, project)),
        )


def finished(database: Database, slug: str | None, known: set[int]) -> list[Step]:
    """Jobs that have ended and are not in ``known``, in the order in which they ended."""
    with database.read() as session:
        found = _steps(session, _project_id(session, slug), ("done", "failed", "poison", "cancelled"))
        new = [step for step in found if step.job_id not in known]
        failures = _failures(session, [step.job_id for step in new])
        return [replace(step, failed=len(said), error=step.error or said[0])
                if (said := failures.get(step.job_id)) else step for step in new]  # fmt: skip


def _failures(session: Session, jobs: Sequence[int]) -> dict[int, list[str]]:
    """What the processes of these jobs said that should have given a number and did not."""
    query = select(col(Run.job_id), col(Run.outcome), col(Run.evidence)).order_by(col(Run.id))
    query = query.where(col(Run.job_id).in_(jobs), FAILED, col(Run.outcome).in_(FAILURES))
    said: dict[int, list[str]] = {}
    for job, outcome, evidence in session.execute(query).tuples() if len(jobs) < TOO_MANY else ():
        said.setdefault(job, []).append(f"{outcome}: {summary(evidence)}")
    return said


def unseen(database: Database, slug: str) -> int:
    """How many series of a project have results that detection has not looked at. Raises NotFound."""
    with database.read() as session:
        series = func.count(func.distinct(col(SeriesMark.series_id)))
        query = select(series).join(Series, col(Series.id) == col(SeriesMark.series_id))
        return int(session.execute(query.where(col(Series.project_id) == _project_id(session, slug))).scalar_one())


def _project_id(session: Session, slug: str | None) -> int | None:
    if slug is None:
        return None
    found: int | None = session.execute(select(col(Project.id)).where(col(Project.slug) == slug)).scalar_one_or_none()
    if found is None:
        raise NotFound(
            f"There is no project {slug!r}.", "The first page and `groundspeed project list` show those there are."
        )
    return found


def _counts(session: Session, table: type[Job | Request], project: int | None) -> dict[str, int]:
    query = select(col(table.state), func.count()).group_by(col(table.state))
    if project is not None:
        query = query.where(col(table.project_id) == project)
    return dict(session.execute(query).tuples().all())


def _count(session: Session, table: type[SeriesMark]) -> int:
    return int(session.execute(select(func.count()).select_from(table)).scalar_one())


def _steps(session: Session, project: int | None, states: Sequence[str]) -> list[Step]:
    other = aliased(Attempt)
    numbers = select(func.max(col(other.number))).where(col(other.job_id) == col(Job.id))
    newest = numbers.correlate(Job).scalar_subquery()
    query = (
        select(Job, col(Revision.sha), col(Revision.title), Attempt)
        .join(JobSide, (col(JobSide.job_id) == col(Job.id)) & (col(JobSide.index) == 0))
        .join(Revision, col(Revision.id) == col(JobSide.revision_id))
        .outerjoin(Attempt, (col(Attempt.job_id) == col(Job.id)) & (col(Attempt.number) == newest))
        .where(col(Job.state).in_(states))
        .order_by(col(Job.finished_at), col(Job.id))
    )
    if project is not None:
        query = query.where(col(Job.project_id) == project)
    return [_step(job, sha, title, attempt) for job, sha, title, attempt in session.execute(query).tuples()]


def _step(job: Job, sha: str, title: str, attempt: Attempt | None) -> Step:
    end = job.finished_at
    took = (end - attempt.claimed_at).total_seconds() if attempt is not None and end is not None else 0.0
    return Step(
        job_id=job.id or 0,
        suite=job.suite,
        reason=job.reason,
        sha=sha,
        title=title,
        state=job.state,
        phase=attempt.phase if attempt is not None else "",
        message=attempt.message if attempt is not None else "",
        seconds=took,
        error=job.error,
    )


def _trouble(session: Session, project: int | None) -> list[str]:
    projects = select(Project).where(col(Project.config_error) != "")
    if project is not None:
        projects = projects.where(col(Project.id) == project)
    said = [row.config_error for row in session.scalars(projects)]
    return said + [row.error for row in reads_work.troubled(session, None if project is None else [project], 3)]
