"""Leases: a node claims a job, keeps it by signs of life, and ends it. The database is the truth, the broker a hint.

Every function may be called twice with the same input and answers the same: a worker repeats what it got no answer to.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import bindparam, func, select, update
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.identities import core
from groundspeed.service.db.tables import Attempt, Environment, Job, JobSide, Node, Revision, Run
from groundspeed.service.errors import Forbidden, NotFound
from groundspeed.service.usecases import dispatch, gangs, jobs, nodes
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.matching import unmet
from groundspeed.service.wire import v1


@dataclass(frozen=True, slots=True)
class Policy:
    """``retry_delay_s`` is doubled for each further attempt; ``heartbeat_s`` is what workers are asked for."""

    lease_s: float = 60.0
    heartbeat_s: float = 10.0
    retry_delay_s: float = 15.0

    @property
    def present_s(self) -> float:
        """A node silent for longer is not counted on for a job of several nodes."""
        return 3 * self.heartbeat_s


# Statements of the hot path, built once: building one costs more than running it.
_NODE = held(select(Node).where(col(Node.name) == bindparam("name")))
_RUNNING = select(Attempt).where(col(Attempt.node_id) == bindparam("node"), col(Attempt.state) == "running")
_LAST_NUMBER = select(func.max(col(Attempt.number))).where(col(Attempt.job_id) == bindparam("job"))
_ATTEMPT = held(select(Attempt).where(col(Attempt.id) == bindparam("attempt"))).execution_options(
    populate_existing=True
)
_JOB_OF = select(col(Attempt.job_id)).where(col(Attempt.id) == bindparam("attempt"))
_SIDES = (
    select(col(JobSide.index), col(JobSide.role), col(Revision.sha), col(Environment.fingerprint))
    .join(Revision, col(Revision.id) == col(JobSide.revision_id))
    .outerjoin(Environment, col(Environment.id) == col(JobSide.environment_id))
    .where(col(JobSide.job_id) == bindparam("job"))
    .order_by(col(JobSide.index))
)
_RENEWED = ("phase", "message", "done", "total", "heartbeat_at", "expires_at")
_ALIVE = (
    update(core(Attempt))
    .where(core(Attempt).c.id == bindparam("attempt"), core(Attempt).c.state == "running")
    .values({name: bindparam(f"new_{name}") for name in _RENEWED})
)
_OWNER = (
    select(col(Node.name))
    .join(Attempt, col(Attempt.node_id) == col(Node.id))
    .where(col(Attempt.id) == bindparam("attempt"))
)
_SEEN_EVERY = timedelta(seconds=5)


def claim(database: Database, job_id: int, message: v1.ClaimRequest, now: datetime, policy: Policy) -> v1.ClaimReply:
    """Give the named job to the node, or say why not."""

    def choose(session: Session, node: Node) -> Job | str:
        job: Job | None = session.scalars(held(select(Job).where(col(Job.id) == job_id))).one_or_none()
        if job is None:
            return f"There is no job {job_id}."
        if job.state != "queued":
            return f"Job {job_id} is {job.state}."
        if job.not_before is not None and job.not_before > now:
            return f"Job {job_id} may start from {job.not_before.isoformat()} on."
        lacking = unmet(job.requirements, nodes.offer(session, node))
        return f"Job {job_id} is not for this node: it {'; it '.join(lacking)}." if lacking else job

    return _claim(database, message, now, policy, choose, job_id)


def claim_next(database: Database, message: v1.ClaimRequest, now: datetime, policy: Policy) -> v1.ClaimReply:
    """Give the node the first waiting job that it can run."""

    def choose(session: Session, node: Node) -> Job | str:
        return dispatch.next_job(session, node, now, policy.present_s)

    return _claim(database, message, now, policy, choose)


def _claim(
    database: Database,
    message: v1.ClaimRequest,
    now: datetime,
    policy: Policy,
    choose: Callable[[Session, Node], Job | str],
    job_id: int | None = None,
) -> v1.ClaimReply:
    if why := nodes.protocol_mismatch(message.protocol):
        return v1.ClaimReply(reason=why)
    with database.transaction() as session:
        node: Node | None = session.scalars(_NODE, {"name": message.node}).one_or_none()
        if node is None:
            return v1.ClaimReply(reason=f"The node {message.node!r} is not known: register it.")
        if node.seen_at is None or now - node.seen_at > _SEEN_EVERY:
            node.seen_at = now
        running = _running(session, node)
        if known := _known(running, message.delivery, job_id):
            return _renewed(session, known, now, policy)
        chosen = _occupied(session, node, running, now, policy) or choose(session, node)
        if isinstance(chosen, str):
            return v1.ClaimReply(reason=chosen)
        others = _others(session, chosen, node, now, policy)
        if isinstance(others, str):
            return v1.ClaimReply(reason=others)
        attempt = _start(session, chosen, (node, *others), message.delivery, now, policy)
        spec = job_spec(session, chosen, attempt, fresh=attempt.number == 1)
        return v1.ClaimReply(attempt_id=attempt.id, lease_s=policy.lease_s, job=spec)


def _known(running: Sequence[Attempt], delivery: str, job_id: int | None) -> Attempt | None:
    """What this very question got before; else a part in a gang that is reserved for the node."""
    for attempt in running:
        if delivery and attempt.delivery == delivery and job_id in {None, attempt.job_id}:
            return attempt
    for attempt in running:
        if attempt.phase == gangs.RESERVED:
            gangs.join(attempt, delivery)
            return attempt
    return None


def _others(session: Session, job: Job, node: Node, now: datetime, policy: Policy) -> Sequence[Node] | str:
    """The nodes that this one needs beside it, held; or why they cannot be had now."""
    wanted = gangs.size(job.requirements)
    if wanted == 1:
        return ()
    found = gangs.partners(session, job.requirements, node, now, policy.present_s)
    if found.standing == "free":
        return found.nodes
    words = "some that fit are busy" if found.standing == "busy" else "too few that fit are present"
    return f"Job {job.id} needs {wanted} nodes at once: {words}."


def _occupied(session: Session, node: Node, running: Sequence[Attempt], now: datetime, policy: Policy) -> str:
    """Why the node can take no job at all; what it has silently given up is taken back first."""
    if node.state != "active":
        return f"The node is {node.state}: {node.state_reason}"
    if len(running) < node.slots:
        return ""
    left = len(running) - _end_silent(session, running, now, policy.heartbeat_s, policy)
    return f"The node has {left} jobs, as many as it has slots." if left >= node.slots else ""


def _running(session: Session, node: Node) -> Sequence[Attempt]:
    return session.scalars(_RUNNING, {"node": node.id}).all()


def _renewed(session: Session, attempt: Attempt, now: datetime, policy: Policy) -> v1.ClaimReply:
    """The same question again, with the lease still running: the same answer."""
    attempt.heartbeat_at, attempt.expires_at = now, now + timedelta(seconds=policy.lease_s)
    session.add(attempt)
    job = session.get_one(Job, attempt.job_id)
    return v1.ClaimReply(attempt_id=attempt.id, lease_s=policy.lease_s, job=job_spec(session, job, attempt))


def _start(
    session: Session, job: Job, members: Sequence[Node], delivery: str, now: datetime, policy: Policy
) -> Attempt:
    """The attempt of the first member; each of the others finds its own when it asks."""
    job.attempts += 1
    job.not_before = None
    last = session.execute(_LAST_NUMBER, {"job": job.id}).scalar() or 0
    gang = str(uuid.uuid4()) if len(members) > 1 else None
    made = [
        Attempt(
            id=str(uuid.uuid4()),
            job_id=job.id or 0,
            node_id=node.id or 0,
            number=last + 1 + rank,
            gang=gang,
            rank=rank,
            phase=gangs.RESERVED if rank else "",
            delivery="" if rank else delivery,
            claimed_at=now,
            heartbeat_at=now,
            expires_at=now + timedelta(seconds=policy.lease_s),
        )
        for rank, node in enumerate(members)
    ]
    session.add_all(made)
    for _ in members[1:]:
        jobs.announce(session, job, now)
    jobs.move(session, job, "claim", now)
    return made[0]


def job_spec(session: Session, job: Job, attempt: Attempt, *, fresh: bool = False) -> v1.JobSpec:
    """The job as a worker is told of it, with what has already been delivered: by an earlier attempt, even one that
    was given back, or by this one before its worker started again. ``fresh``: nobody can have delivered anything.
    """
    rows = session.execute(_SIDES, {"job": job.id}).tuples()
    sides = [{"index": i, "role": r, "sha": sha, "environment_fingerprint": env or ""} for i, r, sha, env in rows]
    done: list[dict[str, Any]] = []
    if not fresh:
        keys = select(col(Run.side), col(Run.benchmark_key), col(Run.replicate)).where(col(Run.job_id) == job.id)
        done = [{"side": s, "benchmark": b, "replicate": r} for s, b, r in session.execute(keys).tuples()]
    spec = {**job.spec, "job_id": job.id, "sides": sides, "done": done, "gang": gangs.spec(session, attempt)}
    return v1.JobSpec.model_validate(spec)


def heartbeat(
    database: Database, attempt_id: str, message: v1.AttemptHeartbeat, now: datetime, policy: Policy
) -> v1.AttemptHeartbeatReply:
    """Lengthen the lease; the reply says whether to go on."""
    with database.transaction() as session:
        values = message.model_dump() | {"heartbeat_at": now, "expires_at": now + timedelta(seconds=policy.lease_s)}
        parameters = {f"new_{name}": value for name, value in values.items()} | {"attempt": attempt_id}
        if session.connection().execute(_ALIVE, parameters).rowcount:
            together = message.phase != gangs.READY or gangs.together(session, attempt_id)
            return v1.AttemptHeartbeatReply(verdict="continue", together=together)
        attempt = session.get(Attempt, attempt_id)
        if attempt is None:
            return v1.AttemptHeartbeatReply(verdict="lost", reason="There is no such attempt.")
        verdict: Literal["cancel", "lost"] = "cancel" if attempt.state == "cancelled" else "lost"
        return v1.AttemptHeartbeatReply(
            verdict=verdict, reason=f"The attempt is {attempt.state}. {attempt.error}".strip()
        )


def finish(database: Database, attempt_id: str, message: v1.FinishRequest, now: datetime, policy: Policy) -> v1.Ack:
    """End the attempt and move its job on. ``ok`` False: the lease was lost before, and another attempt decides."""
    with database.transaction() as session:
        attempt, job = _attempt_and_job(session, attempt_id)
        if attempt.state != "running":
            same = attempt.state == message.state
            return v1.Ack(ok=same, reason=f"The attempt is already {attempt.state}.")
        _end(session, attempt, message.state, now, message.error_kind, message.error)
        if attempt.rank and message.state == "succeeded":
            return v1.Ack(reason="Rank 0 ends the job.")
        _after(session, job, message, now, policy)
        return v1.Ack()


def _after(session: Session, job: Job, message: v1.FinishRequest, now: datetime, policy: Policy) -> None:
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


def expire(database: Database, now: datetime, policy: Policy, limit: int = 200) -> int:
    """Take jobs back whose node has been silent for longer than the lease; returns how many."""
    with database.read() as session:
        query = select(col(Attempt.id)).where(col(Attempt.state) == "running", col(Attempt.expires_at) < now)
        overdue = session.scalars(query.order_by(col(Attempt.expires_at)).limit(limit)).all()
    count = 0
    for attempt_id in overdue:
        with database.transaction() as session:
            attempt, job = _attempt_and_job(session, attempt_id)
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
        idle = [attempt for attempt in _running(session, node) if attempt.id not in working]
        return _end_silent(session, idle, now, 2 * policy.heartbeat_s, policy)


def _end_silent(session: Session, attempts: Sequence[Attempt], now: datetime, silent_s: float, policy: Policy) -> int:
    count = 0
    for known in attempts:
        if known.phase != gangs.RESERVED and known.heartbeat_at < now - timedelta(seconds=silent_s):
            attempt, job = _attempt_and_job(session, known.id)
            if attempt.state == "running":
                _expire(session, attempt, job, now, policy)
                count += 1
    return count


def _expire(session: Session, attempt: Attempt, job: Job, now: datetime, policy: Policy) -> None:
    silent = (now - attempt.heartbeat_at).total_seconds()
    why = f"The worker gave no sign of life for {silent:.0f} s."
    _end(session, attempt, "expired", now, "transient", why)
    if job.state != "running":
        return
    if job.attempts >= job.max_attempts:
        jobs.move(session, job, "poison", now, f"{job.attempts} attempts ended without a word. {why}")
        return
    if job.attempts > 1:
        job.not_before = now + timedelta(seconds=policy.retry_delay_s)
    jobs.move(session, job, "retry", now, why)


def _end(session: Session, attempt: Attempt, state: str, now: datetime, kind: str, error: str) -> None:
    attempt.state, attempt.finished_at = state, now
    attempt.error_kind, attempt.error = kind, error
    session.add(attempt)
    gangs.dissolve(session, attempt, now)


def _attempt_and_job(session: Session, attempt_id: str) -> tuple[Attempt, Job]:
    """Both, held, the job first."""
    job_id = session.execute(_JOB_OF, {"attempt": attempt_id}).scalar()
    if job_id is None:
        raise NotFound(f"There is no attempt {attempt_id}.", "The job must be claimed first.")
    job = jobs.locked(session, job_id)
    return session.scalars(_ATTEMPT, {"attempt": attempt_id}).one(), job


def check_owner(database: Database, attempt_id: str, node: str | None) -> None:
    """Raises :class:`Forbidden` when a worker's token is for another node; None: any (an operator, this machine)."""
    if node is None:
        return
    with database.read() as session:
        name = session.execute(_OWNER, {"attempt": attempt_id}).scalar()
    if name is None:
        raise NotFound(f"There is no attempt {attempt_id}.", "The job must be claimed first.")
    if name != node:
        raise Forbidden(f"The attempt is not one of {node}.", "A worker writes its own attempts only.")
