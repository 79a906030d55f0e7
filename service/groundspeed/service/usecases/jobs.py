"""A job's life: every change of its state goes through :func:`move`. Drawn in docs/jobs.md, which a test compares."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import Update, bindparam, func, or_, select, update
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.identities import core
from groundspeed.service.db.sets import among, one_of
from groundspeed.service.db.tables import RUNS, Attempt, AuditEntry, Job, Project, Request
from groundspeed.service.errors import Conflict, Invalid, NotFound
from groundspeed.service.usecases import outbox, topics
from groundspeed.service.usecases.locking import held
from groundspeed.service.wire.hints import RUN_JOB

_JOB = held(select(Job).where(col(Job.id) == bindparam("job")))
_REQUEST = held(select(Request).where(col(Request.id) == bindparam("request")))
_PLANNED = held(
    select(core(Request).c.id)
    .where(one_of(core(Request).c.id, among("ids")), core(Request).c.state == "planned")
    .order_by(core(Request).c.id)
)
_STARTED = update(core(Request)).where(core(Request).c.id.in_(_PLANNED)).values(state="running")
_HOLD = held(select(core(Job).c.id).where(one_of(core(Job).c.id, among("ids"))).order_by(core(Job).c.id))
_HOLD_REQUESTS = held(
    select(core(Request).c.id).where(one_of(core(Request).c.id, among("ids"))).order_by(core(Request).c.id)
)
_OPEN_JOB = (
    select(col(Job.id))
    .where(col(Job.request_id) == bindparam("request"), col(Job.state) == bindparam("state"))
    .limit(1)
)

Event = Literal["claim", "succeed", "fail", "retry", "release", "poison", "cancel", "requeue"]

TRANSITIONS: dict[tuple[str, Event], str] = {
    ("queued", "claim"): "running",
    ("queued", "cancel"): "cancelled",
    ("running", "succeed"): "done",
    ("running", "fail"): "failed",
    ("running", "retry"): "queued",
    ("running", "release"): "queued",
    ("running", "poison"): "poison",
    ("running", "cancel"): "cancelled",
    ("failed", "requeue"): "queued",
    ("poison", "requeue"): "queued",
    ("cancelled", "requeue"): "queued",
}
OPEN = ("queued", "running")
_ROW = core(Job)
_STILL_OPEN = select(core(Request).c.id).where(
    one_of(core(Request).c.id, among("ids")),
    or_(
        *(
            select(_ROW.c.id)
            .where(_ROW.c.request_id == core(Request).c.id, _ROW.c.state == state)
            .limit(1)  # looked up one by one: as a plain EXISTS it may become a scan of all open jobs
            .correlate(core(Request))
            .scalar_subquery()
            .is_not(None)
            for state in OPEN
        )
    ),
)


def move(session: Session, job: Job, event: Event, now: datetime, error: str = "") -> None:
    """Change the state of a job whose row this transaction holds, with everything that follows from it.

    Raises :class:`Conflict` when the state does not allow the event.
    """
    state = TRANSITIONS.get((job.state, event))
    if state is None:
        raise Conflict(f"Job {job.id} is {job.state}: it cannot {event}.", "Look at it again; it may have moved on.")
    job.state = state
    job.error = error
    job.finished_at = None if state in OPEN else now
    if event == "requeue":
        job.attempts = 0
    if state == "queued":
        announce(session, job, now)
    session.add(job)
    session.flush()
    _settle(session, job, now)


def _many(event: Event) -> tuple[Update, str]:
    """The UPDATE that moves all of ``ids`` by an event that only one state knows, and that state."""
    [(before, after)] = [(state, to) for (state, known), to in TRANSITIONS.items() if known == event]
    return update(_ROW).values(state=after, error="", finished_at=None if after in OPEN else bindparam("now")), before


def _take() -> Any:
    moved, before = _many("claim")
    free = held(select(_ROW.c.id).where(one_of(_ROW.c.id, among("ids")), _ROW.c.state == before), skip=True)
    return (
        moved.where(_ROW.c.id.in_(free))
        .values(attempts=_ROW.c.attempts + 1, not_before=None)
        .returning(_ROW.c.id, _ROW.c.request_id, _ROW.c.spec)
    )


def _succeed() -> Any:
    moved, before = _many("succeed")
    return moved.where(one_of(_ROW.c.id, among("ids")), _ROW.c.state == before).returning(_ROW.c.request_id)


_TAKE, _SUCCEED = _take(), _succeed()
_TOLD = update(_ROW).where(one_of(_ROW.c.id, among("ids"))).values(hinted_at=bindparam("now"))


@dataclass(frozen=True, slots=True)
class Taken:
    """A job that this transaction has claimed."""

    id: int
    request_id: int
    spec: dict[str, Any]


def take(session: Session, ids: Sequence[int]) -> dict[int, Taken]:
    """Claim those of the jobs that still wait and that no other transaction holds, in one statement, by id."""
    found = session.connection().execute(_TAKE, {"ids": sorted(ids)})
    return {row[0]: Taken(*row) for row in found}


def started(session: Session, request_ids: Collection[int]) -> None:
    """The first job of these requests was claimed."""
    session.connection().execute(_STARTED, {"ids": sorted(request_ids)})


def hold(session: Session, ids: Sequence[int]) -> None:
    """Keep others from changing these jobs until this transaction ends."""
    session.connection().execute(_HOLD, {"ids": sorted(ids)})


def succeed(session: Session, ids: Sequence[int], now: datetime) -> None:
    """What :func:`move` does for ``succeed``, of many jobs that this transaction holds, with their attempts ended."""
    moved = session.connection().execute(_SUCCEED, {"ids": sorted(ids), "now": now}).scalars().all()
    if len(moved) < len(ids):
        raise Conflict("A job of an attempt that runs does not run.", "Look at it again; it may have moved on.")
    requests = sorted(set(moved))
    # Held before the jobs are counted, as in settle_request.
    session.connection().execute(_HOLD_REQUESTS, {"ids": requests})
    still = set(session.connection().execute(_STILL_OPEN, {"ids": requests}).scalars())
    for request_id in requests:
        if request_id not in still:
            settle_request(session, request_id, now)


def announce(session: Session, job: Job, now: datetime) -> None:
    """Tell the broker that the job waits (a hint: the database is the truth); one that may not start yet is told
    when its time has come.
    """
    if job.not_before is not None and job.not_before > now:
        job.hinted_at = None
        return
    job.hinted_at = now
    outbox.enqueue(session, RUN_JOB, {"job_id": job.id, "pool": pool(job)})


def tell(session: Session, job_id: int, requirements: dict[str, Any], times: int) -> None:
    """Wake so many nodes for a job that was claimed: each has a part in it."""
    outbox.enqueue_all(session, RUN_JOB, [{"job_id": job_id, "pool": pool_of(requirements)}] * times)


def pool(job: Job) -> str:
    return pool_of(job.requirements)


def pool_of(requirements: dict[str, Any]) -> str:
    return str(requirements.get("pool") or "default")


def cancel(database: Database, job_id: int, now: datetime, *, actor: str, reason: str = "by hand") -> None:
    """Stop a job that waits or runs; the worker hears of it at its next heartbeat."""
    with database.transaction() as session:
        job = locked(session, job_id)
        move(session, job, "cancel", now, reason)
        _audit(session, actor, "job.cancel", job, now, reason)


def retry(database: Database, job_id: int, now: datetime, *, actor: str) -> None:
    """Queue a job again that failed, was given up or was cancelled; what it has delivered is kept."""
    with database.transaction() as session:
        job = locked(session, job_id)
        job.not_before = None
        move(session, job, "requeue", now)
        _audit(session, actor, "job.retry", job, now)


def reprioritise(database: Database, job_id: int, priority: int, now: datetime, *, actor: str) -> None:
    """Give a waiting job another priority (0 first, 99 last)."""
    if not 0 <= priority <= 99:
        raise Invalid(f"{priority} is no priority.", "Give 0 (first) to 99 (last).")
    with database.transaction() as session:
        job = locked(session, job_id)
        if job.state != "queued":
            raise Conflict(f"Job {job_id} is {job.state}.", "Only a job that waits can be moved in the queue.")
        job.priority = priority
        session.add(job)
        _audit(session, actor, "job.priority", job, now, str(priority))


@dataclass(frozen=True, slots=True)
class Line:
    """A job in a list."""

    id: int
    project: str
    request: int
    key: str
    state: str
    priority: int
    attempts: int
    max_attempts: int
    error: str


def listed(database: Database, states: Sequence[str], limit: int) -> list[Line]:
    """Jobs in these states, in the order of the queue."""
    query = (
        select(Job, col(Project.slug))
        .join(Project, col(Project.id) == col(Job.project_id))
        .where(col(Job.state).in_(states))
        .order_by(col(Job.priority), col(Job.id))
        .limit(limit)
    )
    with database.read() as session:
        return [
            Line(j.id or 0, slug, j.request_id, j.key, j.state, j.priority, j.attempts, j.max_attempts, j.error)
            for j, slug in session.execute(query).tuples()
        ]


def locked(session: Session, job_id: int) -> Job:
    """The job, held by this transaction; raises :class:`NotFound`."""
    job = session.scalars(_JOB, {"job": job_id}).one_or_none()
    if job is None:
        raise NotFound(f"There is no job {job_id}.", "It may have been deleted with its project.")
    return job


def cancel_all(session: Session, request_id: int, now: datetime, reason: str) -> int:
    """Cancel what is open of a request; returns how many jobs."""
    query = select(Job).where(col(Job.request_id) == request_id, col(Job.state).in_(OPEN)).order_by(col(Job.id))
    found = session.scalars(held(query)).all()
    for job in found:
        move(session, job, "cancel", now, reason)
    return len(found)


def _settle(session: Session, job: Job, now: datetime) -> None:
    """Let the request follow its jobs, and a cancelled job's attempt end."""
    if job.state == "cancelled":
        ended = update(Attempt).where(col(Attempt.job_id) == job.id, RUNS)
        session.execute(ended.values(state="cancelled", finished_at=now, error=job.error))
    if job.state == "running":
        started(session, [job.request_id])
        return
    if job.state == "queued":
        again = update(Request).where(col(Request.id) == job.request_id, col(Request.finished_at).is_not(None))
        session.execute(again.values(state="running", finished_at=None, error=""))
        return
    settle_request(session, job.request_id, now)


def settle_request(session: Session, request_id: int, now: datetime) -> bool:
    """Finish the request when none of its jobs is open; returns whether it is finished.

    The row is locked before the jobs are counted: of two jobs that end at once, the later sees the other's end.
    """
    request = session.scalars(_REQUEST, {"request": request_id}).one()
    if request.state not in {"planned", "running"}:
        return request.finished_at is not None
    for state in OPEN:
        if session.execute(_OPEN_JOB, {"request": request_id, "state": state}).first() is not None:
            return False
    counts = select(col(Job.state), func.count()).where(col(Job.request_id) == request_id).group_by(col(Job.state))
    ended: dict[str, int] = dict(session.execute(counts).tuples().all())
    bad = ended.get("failed", 0) + ended.get("poison", 0)
    request.state = (
        "cancelled" if set(ended) == {"cancelled"} else "failed" if ended and bad == sum(ended.values()) else "done"
    )
    request.finished_at = now
    session.add(request)
    outbox.enqueue(session, topics.FOLLOW_UP, {"project_id": request.project_id})
    if request.kind == "pull_request":
        outbox.enqueue(session, topics.ANSWERED, {"request_id": request.id})
    return True


def _audit(session: Session, actor: str, action: str, job: Job, now: datetime, what: str = "") -> None:
    data = {"detail": what} if what else {}
    session.add(AuditEntry(actor=actor, action=action, subject_type="job", subject_id=str(job.id), data=data, at=now))


def announce_forgotten(database: Database, now: datetime, after_s: float, limit: int = 200) -> int:
    """Tell the broker again of jobs that wait though it was told long ago, or whose time has come; returns how many.

    The pause grows with a job's age: where no worker is, messages do not pile up.
    """
    with database.transaction() as session:
        late = col(Job.hinted_at) < now - timedelta(seconds=after_s)
        query = (
            select(col(Job.id), col(Job.requirements), col(Job.hinted_at), col(Job.created_at))
            .where(col(Job.state) == "queued", or_(late, col(Job.hinted_at).is_(None)))
            .where(or_(col(Job.not_before).is_(None), col(Job.not_before) <= now))
            .order_by(col(Job.priority), col(Job.id))
            .limit(limit)
        )
        rows = session.execute(held(query, skip=True)).tuples().all()
        waiting = [(id_ or 0, needs) for id_, needs, told, made in rows if _worth_telling(told, made, now)]
        if waiting:
            session.connection().execute(_TOLD, {"ids": [id_ for id_, _ in waiting], "now": now})
        outbox.enqueue_all(session, RUN_JOB, [{"job_id": id_, "pool": pool_of(needs)} for id_, needs in waiting])
        return len(waiting)


def _worth_telling(told: datetime | None, made: datetime, now: datetime) -> bool:
    return told is None or now - told >= (told - made) / 2
