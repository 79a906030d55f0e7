"""From a request to jobs: which suites, on which revisions, in which order, and whether any node can run them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlmodel import Session, col

from groundspeed.service.config.model import ProjectConfig
from groundspeed.service.db.bulk import insert_rows
from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import Job, JobSide, Node, Project, Request, needs_of
from groundspeed.service.errors import GroundspeedError, Invalid, NotFound, Unavailable
from groundspeed.service.repo import Commit, Mirrors, Repository
from groundspeed.service.usecases import configuration, gangs, jobs, nodes, outbox, requests, revisions, specs
from groundspeed.service.usecases.configuration import CheckedSuite
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.matching import unmet
from groundspeed.service.wire.hints import RUN_JOB

MIN_PAIRS, MAX_PAIRS = 3, 12
_MEASURED = ("queued", "running", "done")
_ENDED = ("failed", "poison", "cancelled")
_HISTORY = ("measure", "backfill")
_NAMED = 3
_AT_ONCE = 1000
_JOB = (
    "request_id", "project_id", "key", "suite", "reason", "state", "priority", "requirements", "needs", "spec", "trust",
    "attempts", "max_attempts", "error", "not_before", "hinted_at", "created_at", "finished_at",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Planned:
    """``jobs`` new ones, ``skipped`` that are measured or on their way already."""

    jobs: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """``batch_over``: with more waiting jobs than this in a project, of a push only the newest commit is urgent."""

    max_attempts: int = 3
    batch_over: int = 50


def plan_request(
    database: Database, mirrors: Mirrors, request_id: int, now: datetime, limits: Limits | None = None
) -> Planned:
    """Turn a pending request into jobs; one that is planned already is left alone.

    What cannot be right becomes the request's error. Raises :class:`Unavailable` when the repository cannot be read
    now: the request stays pending and is tried again.
    """
    with database.read() as session:
        request = session.get(Request, request_id)
        if request is None:
            raise NotFound(f"There is no request {request_id}.", "It may have been deleted with its project.")
        if request.state != "pending":
            return Planned()
        project = session.get_one(Project, request.project_id)
    try:
        wanted = _read(mirrors, project, request)
        with database.transaction() as session:
            return _write(session, request_id, wanted, now, limits or Limits())
    except configuration.NoWorkerYet as missing:
        _note(database, request_id, f"Waits: {missing}.", None)
        return Planned()
    except Unavailable:
        raise
    except GroundspeedError as error:
        _note(database, request_id, str(error), now)
        return Planned()


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What git had to say. ``commits`` oldest first."""

    repo: Repository
    config: ProjectConfig
    tip_sha: str
    branch_tip: str
    commits: tuple[Commit, ...]
    history: tuple[Commit, ...]
    """The branch, newest first."""


def _read(mirrors: Mirrors, project: Project, request: Request) -> _Wanted:
    shas = list(request.payload.get("shas", ()))
    sides = [request.payload[side] for side in ("base", "head") if side in request.payload]
    repo = mirrors.open(project.repo_url, project.credential, fetch=False)
    if not all(repo.has(sha) for sha in (*shas, *sides)):
        repo = mirrors.open(project.repo_url, project.credential)
    branch_tip = repo.branch_tip(project.branch)
    tip = request.tip_sha or branch_tip
    config = configuration.at(repo, request.payload.get("config_sha") or tip)
    history = repo.history(branch_tip, revisions.WINDOW)
    places = {c.sha: c for c in history}
    commits = tuple(places.get(sha) or repo.commit(sha) for sha in sides or shas)
    return _Wanted(repo, config, tip, branch_tip, commits, tuple(history))


def _write(session: Session, request_id: int, wanted: _Wanted, now: datetime, limits: Limits) -> Planned:
    request = session.scalars(held(select(Request).where(col(Request.id) == request_id))).one()
    if request.state != "pending":
        return Planned()
    project = session.scalars(held(select(Project).where(col(Project.id) == request.project_id))).one()
    checked = configuration.check(session, wanted.config, request.payload.get("suites", ()))
    for suite in checked:
        _runnable(session, _required(request, suite), suite.suite.name)
    if not project.watch:
        revisions.sync_branch(session, project, wanted.repo, wanted.branch_tip)
    elif project.tip_sha is None:  # the tip is the watcher's to move: what lies before it has been asked for
        revisions.store(session, project, wanted.history, wanted.repo.tags())
    stored = revisions.store(session, project, wanted.commits)
    request.config = wanted.config.model_dump(mode="json")
    request.budget_s = wanted.config.project.budget_minutes * 60
    request.state, request.error = "planned", ""
    session.add(request)
    planned = _jobs(session, request, project, wanted, checked, stored)
    _batch(session, request, planned.new, limits)
    for job, _ in planned.new:
        job.max_attempts, job.created_at = limits.max_attempts, now
    add_jobs(session, planned.new, now)
    if not planned.new:
        request.state, request.finished_at = "done", now
        session.add(request)
    return Planned(len(planned.new), planned.skipped)


def _batch(session: Session, request: Request, new: list[tuple[Job, list[tuple[str, int]]]], limits: Limits) -> None:
    """When the queue is long, the newest commit of a push goes first and the rest fills in later.

    Where the newest turns out good or bad, the follow-up asks for the commits between with a priority of its own.
    """
    if request.kind != "push" or not new:
        return
    waiting = select(func.count()).where(col(Job.project_id) == request.project_id, col(Job.state) == "queued")
    if session.execute(waiting).scalar_one() <= limits.batch_over:
        return
    newest = new[0][1][0][1]  # the order of spread(): the newest revision comes first
    for job, sides in new:
        if sides[0][1] != newest:
            job.priority = max(job.priority, requests.PRIORITY["backfill"])


@dataclass(frozen=True, slots=True)
class _Jobs:
    new: list[tuple[Job, list[tuple[str, int]]]]
    skipped: int


def _jobs(
    session: Session,
    request: Request,
    project: Project,
    wanted: _Wanted,
    checked: list[CheckedSuite],
    stored: dict[str, int],
) -> _Jobs:
    trust = request.payload.get("trust", "trusted")
    drafts = {
        suite.suite.name: (specs.job_spec(project, wanted.config, suite, wanted.tip_sha, trust),
                           _required(request, suite))
        for suite in checked
    }  # fmt: skip
    for spec, requirements in drafts.values():
        _sharpen(spec, requirements, request.payload)
    if "base" in request.payload:
        base, head = (stored[request.payload[side]] for side in ("base", "head"))
        return _Jobs([_gate(request, name, draft, base, head) for name, draft in drafts.items()], 0)
    reason = "backfill" if request.kind == "backfill" else "control" if request.kind == "environment" else "measure"
    again = bool(request.payload.get("again")) or reason == "control"
    new: list[tuple[Job, list[tuple[str, int]]]] = []
    skipped = 0
    # What failed is tried again when a person asks, not with every push.
    states = _MEASURED if request.kind == "manual" else _MEASURED + _ENDED
    have = {} if again else _measured(session, project.id or 0, list(stored.values()), states)
    for index in spread(len(wanted.commits)):
        sha = wanted.commits[index].sha
        for name, (spec, requirements) in drafts.items():
            if specs.identity(spec["benchmarks"]) in have.get((name, stored[sha]), ()):
                skipped += 1
                continue
            job = Job(
                request_id=request.id or 0,
                project_id=request.project_id,
                key=f"{name}@{sha[:16]}",
                suite=name,
                reason=reason,
                priority=request.priority,
                requirements=requirements,
                spec=spec,
                trust=trust,
            )
            new.append((job, [("point", stored[sha])]))
    return _Jobs(new, skipped)


def _required(request: Request, suite: CheckedSuite) -> dict[str, Any]:
    """What the suite needs of a node, in the pool that the request names if it does."""
    pool = request.payload.get("pool")
    return specs.requirements(suite, request.payload.get("trust", "trusted")) | ({"pool": pool} if pool else {})


def _sharpen(spec: dict[str, Any], requirements: dict[str, Any], payload: Mapping[str, Any]) -> None:
    """A request may name the node that is to measure, and how many fresh processes at least."""
    if payload.get("node"):
        requirements |= {"node": payload["node"], "pool": payload.get("pool") or requirements.get("pool") or "default"}
    for benchmark in spec["benchmarks"]:
        benchmark["replicates"] = max(int(benchmark["replicates"]), int(payload.get("replicates") or 1))


def _gate(
    request: Request, suite: str, draft: tuple[dict[str, Any], dict[str, Any]], base: int, head: int
) -> tuple[Job, list[tuple[str, int]]]:
    """Both sides in one lease on one node, in pairs until the service says enough."""
    spec, requirements = draft
    job = Job(
        request_id=request.id or 0,
        project_id=request.project_id,
        key=f"gate:{suite}",
        suite=suite,
        reason="gate",
        priority=request.priority,
        requirements=requirements,
        spec=spec | {"min_pairs": MIN_PAIRS, "max_pairs": MAX_PAIRS},
        trust=spec["trust"],
    )
    return job, [("base", base), ("head", head)]


def add_job(session: Session, job: Job, sides: Sequence[tuple[str, int]], now: datetime) -> None:
    """Write a job with its sides (role, revision) and tell the broker."""
    session.add(job)
    session.flush()
    session.add_all(
        JobSide(job_id=job.id or 0, index=i, role=role, revision_id=revision)
        for i, (role, revision) in enumerate(sides)
    )
    jobs.announce(session, job, now)


def add_jobs(session: Session, new: Sequence[tuple[Job, Sequence[tuple[str, int]]]], now: datetime) -> None:
    """The same for many jobs of one request, a few statements for a thousand of them. Their ids are not filled in."""
    for start in range(0, len(new), _AT_ONCE):
        part = {job.key: (job, sides) for job, sides in new[start : start + _AT_ONCE]}
        for job, _ in part.values():
            job.hinted_at, job.needs = now, needs_of(job.requirements)
        rows = [tuple(getattr(job, name) for name in _JOB) for job, _ in part.values()]
        ids = {key: id_ for id_, key in insert_rows(session, Job, _JOB, rows, returning=("id", "key"))}
        sides_ = [
            (ids[key], i, role, revision, None)
            for key, (_, sides) in part.items()
            for i, (role, revision) in enumerate(sides)
        ]
        insert_rows(session, JobSide, ("job_id", "index", "role", "revision_id", "environment_id"), sides_)
        hints = [{"job_id": ids[key], "pool": jobs.pool(job)} for key, (job, _) in part.items()]
        outbox.enqueue_all(session, RUN_JOB, hints)


def spread(count: int) -> list[int]:
    """An order of 0 … count - 1 in which the picture grows evenly: the ends, then the middles of the largest gaps.

    >>> spread(5)
    [4, 0, 2, 1, 3]
    """
    if count <= 0:
        return []
    order = [count - 1, *([0] if count > 1 else [])]
    gaps = [(0, count - 1)]
    while gaps:
        following = []
        for low, high in gaps:
            if high - low > 1:
                middle = (low + high) // 2
                order.append(middle)
                following += [(low, middle), (middle, high)]
        gaps = following
    return order


def _measured(
    session: Session, project_id: int, found: list[int], states: Sequence[str]
) -> dict[tuple[str, int], list[Any]]:
    """Identities of what is measured or on its way, by (suite, revision)."""
    have: dict[tuple[str, int], list[Any]] = {}
    for start in range(0, len(found), 500):
        query = (
            select(col(Job.suite), col(JobSide.revision_id), col(Job.spec))
            .join(JobSide, col(JobSide.job_id) == col(Job.id))
            .where(
                col(JobSide.revision_id).in_(found[start : start + 500]),
                col(Job.project_id) == project_id,
                col(Job.reason).in_(_HISTORY),
                col(Job.state).in_(states),
            )
        )
        for suite, revision_id, spec in session.execute(query).tuples():
            have.setdefault((suite, revision_id), []).append(specs.identity(spec["benchmarks"]))
    return have


def _runnable(session: Session, requirements: dict[str, Any], suite: str) -> None:
    """Raises :class:`Invalid` when there are nodes and none of them can ever run the suite."""
    wanted = gangs.size(requirements)
    if wanted > 1 and requirements.get("sandbox"):
        raise Invalid(
            f"Suite {suite!r} needs {wanted} nodes, which untrusted code cannot have: its sandbox has no network.",
            "Let a maintainer ask for it, or exclude the suite from pull requests of strangers.",
        )
    offers = nodes.offers(session, session.scalars(select(Node).order_by(col(Node.seen_at).desc())).all())
    if not offers:
        return
    lacking = {offer.name: unmet(requirements, offer) for offer in offers}
    if all(lacking.values()):
        named = [f"{name} {' and '.join(lacks)}" for name, lacks in list(lacking.items())[:_NAMED]]
        more = f" (and {len(lacking) - _NAMED} more)" if len(lacking) > _NAMED else ""
        raise Invalid(
            f"No node can run suite {suite!r}: {'; '.join(named)}{more}.",
            "Change the suite's requires, or start a worker on a node that has what it asks for.",
        )
    fitting = sum(not lacks for lacks in lacking.values())
    if fitting < wanted:
        raise Invalid(
            f"Suite {suite!r} needs {wanted} nodes at once, and only {fitting} can run it.",
            "Start workers on more nodes, or lower `nodes` in the suite's requires.",
        )


def _note(database: Database, request_id: int, text: str, failed_at: datetime | None) -> None:
    with database.transaction() as session:
        request = session.scalars(held(select(Request).where(col(Request.id) == request_id))).one()
        if request.state != "pending":
            return
        request.error = text
        if failed_at is not None:
            request.state, request.finished_at = "failed", failed_at
        session.add(request)
