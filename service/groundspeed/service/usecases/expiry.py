"""Attempts that end otherwise than well: their node is silent, fails, gives them back, or works on something else."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import bindparam, select
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import RUNS, Attempt, Job
from groundspeed.service.errors import NotFound
from groundspeed.service.usecases import gangs, jobs, nodes
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.policy import Policy
from groundspeed.service.wire import v1

_ATTEMPT = held(select(Attempt).where(col(Attempt.id) == bindparam("attempt"))).execution_options(
    populate_existing=True
)
_JOB_OF = select(col(Attempt.job_id)).where(col(Attempt.id) == bindparam("attempt"))
_RUNNING = select(Attempt).where(col(Attempt.node_id) == bindparam("node"), RUNS)
_OVERDUE = (
    select(col(Attempt.id))
    .where(RUNS, col(Attempt.expires_at) < bindparam("now"))
    .order_by(col(Attempt.expires_at))
    .limit(bindparam("limit"))
)


def expire(database: Database, now: datetime, policy: Policy, limit: int = 200) -> int:
    """Take jobs back whose node has been silent for longer than the lease; returns how many."""
    with database.read() as session:
        overdue = session.scalars(_OVERDUE, {"now": now, "limit": limit}).all()
    count = 0
    for attempt_id in overdue:
        with database.transaction() as session:
            attempt, job = attempt_and_job(session, attempt_id)
            if attempt.state == "running" and attempt.expires_at < now:
                _expire(session, attempt, job, now, policy)
                count += 1
    return count


def release_silent(database: Database, name: str, working: Sequence[str], now: datetime, policy: Policy) -> int:
    """Take back what a node no longer works on: not named by it, and silent for two signs (its worker restarted)."""
    with database.transaction() as session:
        node = nodes.find(session, name)
        if node is None:
            return 0
        idle = [attempt for attempt in running(session, node.id or 0) if attempt.id not in working]
        return end_silent(session, idle, now, 2 * policy.heartbeat_s, policy)


def running(session: Session, node_id: int) -> Sequence[Attempt]:
    """What a node has."""
    return session.scalars(_RUNNING, {"node": node_id}).all()


def end_silent(session: Session, attempts: Sequence[Attempt], now: datetime, silent_s: float, policy: Policy) -> int:
    """Take back those without a sign of life for ``silent_s``; returns how many."""
    count = 0
    for known in sorted(attempts, key=lambda attempt: attempt.job_id):
        if silent(known.phase, known.heartbeat_at, now, silent_s):
            attempt, job = attempt_and_job(session, known.id)
            if attempt.state == "running":
                _expire(session, attempt, job, now, policy)
                count += 1
    return count


def silent(phase: str, heartbeat_at: datetime, now: datetime, silent_s: float) -> bool:
    """A part of a gang that waits to be fetched cannot give a sign of life."""
    return phase != gangs.RESERVED and heartbeat_at < now - timedelta(seconds=silent_s)


def end(session: Session, attempt: Attempt, state: str, now: datetime, kind: str = "", error: str = "") -> None:
    """End an attempt that this transaction holds, and what hangs on it."""
    attempt.state, attempt.finished_at = state, now
    attempt.error_kind, attempt.error = kind, error
    session.add(attempt)
    gangs.dissolve(session, attempt, now)


def follow(session: Session, job: Job, message: v1.FinishRequest, now: datetime, policy: Policy) -> None:
    """Move a job on as its attempt ended."""
    if message.state == "succeeded":
        jobs.move(session, job, "succeed", now)
    elif message.state == "released":
        job.attempts = max(job.attempts - 1, 0)
        jobs.move(session, job, "release", now)
    elif message.error_kind == "permanent" or job.attempts >= job.max_attempts:
        jobs.move(session, job, "fail", now, message.error)
    else:
        job.not_before = now + timedelta(seconds=policy.retry_delay_s * 2 ** (job.attempts - 1))
        jobs.move(session, job, "retry", now, message.error)


def attempt_and_job(session: Session, attempt_id: str) -> tuple[Attempt, Job]:
    """Both, held, the job first."""
    job_id = session.execute(_JOB_OF, {"attempt": attempt_id}).scalar()
    if job_id is None:
        raise NotFound(f"There is no attempt {attempt_id}.", "The job must be claimed first.")
    job = jobs.locked(session, job_id)
    return session.scalars(_ATTEMPT, {"attempt": attempt_id}).one(), job


def _expire(session: Session, attempt: Attempt, job: Job, now: datetime, policy: Policy) -> None:
    seconds = (now - attempt.heartbeat_at).total_seconds()
    why = f"The worker gave no sign of life for {seconds:.0f} s."
    end(session, attempt, "expired", now, "transient", why)
    if job.state != "running":
        return
    if job.attempts >= job.max_attempts:
        jobs.move(session, job, "poison", now, f"{job.attempts} attempts ended without a word. {why}")
        return
    if job.attempts > 1:
        job.not_before = now + timedelta(seconds=policy.retry_delay_s)
    jobs.move(session, job, "retry", now, why)
