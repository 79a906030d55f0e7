"""Jobs that measure a few benchmarks of a suite again, like the ones that measured them before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, or_, select
from sqlmodel import Session, col

from groundspeed.service.db.tables import Job, Request, Result, Run
from groundspeed.service.usecases import requests

HISTORY = ("measure", "backfill")


@dataclass(frozen=True, slots=True)
class Wish:
    """One benchmark to be measured ``replicates`` more times at one commit."""

    suite: str
    revision_id: int
    benchmark_key: str
    replicates: int
    why: str


def budget(parent: Request) -> float:
    """Seconds of measuring that a request may cost, with all that follows from it."""
    return parent.budget_s or 3600.0


def spent(session: Session, parent: Request) -> float:
    """Seconds of measuring that the request and its follow-ups have taken."""
    query = (
        select(func.coalesce(func.sum(col(Run.duration_s)), 0.0))
        .join(Job, col(Job.id) == col(Run.job_id))
        .join(Request, col(Request.id) == col(Job.request_id))
        .where(or_(col(Request.id) == parent.id, col(Request.parent_id) == parent.id))
    )
    return float(session.execute(query).scalar_one())


def benchmark_key(session: Session, series_id: int) -> str | None:
    """The name under which jobs run the benchmark of this series."""
    query = (
        select(col(Run.benchmark_key))
        .join(Result, col(Result.run_id) == col(Run.id))
        .where(col(Result.series_id) == series_id)
        .order_by(col(Result.id).desc())
        .limit(1)
    )
    return session.scalars(query).one_or_none()


def grouped(wishes: Sequence[Wish]) -> list[list[Wish]]:
    """By suite and commit: one job each."""
    groups: dict[tuple[str, int], list[Wish]] = {}
    for wish in wishes:
        groups.setdefault((wish.suite, wish.revision_id), []).append(wish)
    return list(groups.values())


def draft(session: Session, project_id: int, group: Sequence[Wish]) -> tuple[Job, int] | None:
    """A job like the one that measured the suite before, for the benchmarks in question, and its commit.

    None where no job of ours has measured the suite: what was imported is not ours to run.
    """
    suite, revision_id = group[0].suite, group[0].revision_id
    like = _like(session, project_id, suite)
    if like is None:
        return None
    known = {benchmark["key"]: benchmark for benchmark in like.spec["benchmarks"]}
    have = _have(session, suite, revision_id, project_id)
    benchmarks: list[dict[str, Any]] = [
        known[wish.benchmark_key] | {"replicates": wish.replicates, "first_replicate": have.get(wish.benchmark_key, 0)}
        for wish in sorted(group, key=lambda wish: wish.benchmark_key)
        if wish.benchmark_key in known
    ]
    if not benchmarks:
        return None
    job = Job(
        request_id=0,
        project_id=project_id,
        key=f"{group[0].why}:{suite}@{revision_id}",
        suite=suite,
        reason="bisect" if all(wish.why == "bisect" for wish in group) else "replicate",
        priority=requests.PRIORITY["followup"],
        requirements=like.requirements,
        spec=like.spec | {"benchmarks": benchmarks},
        trust=like.trust,
        max_attempts=like.max_attempts,
    )
    return job, revision_id


def cost_s(session: Session, job: Job) -> float:
    """What a drafted job is likely to take: its processes, each as long as that benchmark took on average before."""
    keys = [bench["key"] for bench in job.spec["benchmarks"]]
    query = (
        select(col(Run.benchmark_key), func.avg(col(Run.duration_s)))
        .join(Job, col(Job.id) == col(Run.job_id))
        .where(col(Job.project_id) == job.project_id, col(Job.suite) == job.suite, col(Run.benchmark_key).in_(keys))
        .group_by(col(Run.benchmark_key))
    )
    seconds = {key: float(mean or 0.0) for key, mean in session.execute(query).tuples()}
    return float(sum(bench["replicates"] * seconds.get(bench["key"], 0.0) for bench in job.spec["benchmarks"]))


def _like(session: Session, project_id: int, suite: str) -> Job | None:
    query = (
        select(Job)
        .where(col(Job.project_id) == project_id, col(Job.suite) == suite, col(Job.trust) == "trusted")
        .where(col(Job.reason).in_(HISTORY))
        .order_by(col(Job.id).desc())
        .limit(1)
    )
    found: Job | None = session.scalars(query).one_or_none()
    return found


def _have(session: Session, suite: str, revision_id: int, project_id: int) -> dict[str, int]:
    """Processes already run of each benchmark at the commit: the number of the next replicate."""
    query = (
        select(col(Run.benchmark_key), func.count())
        .join(Job, col(Job.id) == col(Run.job_id))
        .where(col(Job.project_id) == project_id, col(Job.suite) == suite, col(Run.revision_id) == revision_id)
        .group_by(col(Run.benchmark_key))
    )
    return {key: int(count) for key, count in session.execute(query).tuples()}
