"""Claims, many at once: nodes that ask are answered together, in a handful of statements for all of them.

A round holds the rows of its nodes, looks at what they have and at what waits, gives each the first job that it can
run, and writes all that in one transaction. Whatever is not plain (the same question again, a full node, a job of
several nodes) is answered in a round of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Text, bindparam, func, select, update
from sqlmodel import Session, col

from groundspeed.service.db.bulk import insert_rows
from groundspeed.service.db.engine import Database
from groundspeed.service.db.identities import core
from groundspeed.service.db.sets import among, one_of
from groundspeed.service.db.tables import RUNS, Attempt, Environment, Job, JobSide, Node, Revision, Run
from groundspeed.service.usecases import expiry, gangs, jobs, nodes
from groundspeed.service.usecases.dispatch import Candidate, Queue
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.matching import Offer, unmet
from groundspeed.service.usecases.policy import Policy
from groundspeed.service.wire import v1

# Statements of the hot path, built once: building one costs more than running it.
_SHOWN = [core(Node).c[name] for name in ("id", "name", "state", "state_reason", "slots", "registered_at", "seen_at")]
_NODES = held(select(*_SHOWN).where(one_of(col(Node.name), among("names", Text))).order_by(col(Node.id)))
_RUNNING = select(col(Attempt.node_id), col(Attempt.job_id), col(Attempt.delivery), col(Attempt.phase)).where(
    one_of(col(Attempt.node_id), among("nodes")), RUNS
)
_NAMED = select(col(Job.id), col(Job.state), col(Job.not_before), col(Job.requirements)).where(
    one_of(col(Job.id), among("ids"))
)
_SEEN = update(core(Node)).where(one_of(core(Node).c.id, among("ids"))).values(seen_at=bindparam("now"))
_LAST = select(func.max(col(Attempt.number))).where(col(Attempt.job_id) == col(Job.id)).correlate(Job)
_SIDES = (
    select(
        col(Job.id), _LAST.scalar_subquery(),
        col(JobSide.index), col(JobSide.role), col(Revision.sha), col(Environment.fingerprint),
    )
    .outerjoin(JobSide, col(JobSide.job_id) == col(Job.id))
    .outerjoin(Revision, col(Revision.id) == col(JobSide.revision_id))
    .outerjoin(Environment, col(Environment.id) == col(JobSide.environment_id))
    .where(one_of(col(Job.id), among("jobs")))
    .order_by(col(Job.id), col(JobSide.index))
)  # fmt: skip
_DONE = select(col(Run.job_id), col(Run.side), col(Run.benchmark_key), col(Run.replicate)).where(
    one_of(col(Run.job_id), among("jobs"))
)
_ATTEMPT = (
    "id", "job_id", "node_id", "number", "gang", "rank", "delivery", "state", "phase", "message", "done", "total",
    "error_kind", "error", "claimed_at", "heartbeat_at", "expires_at", "finished_at",
)  # fmt: skip
_SEEN_EVERY = timedelta(seconds=5)
_NOTHING = "Nothing waits that this node can run."


@dataclass(frozen=True, slots=True)
class Ask:
    """``job_id`` None: any job that the node can run."""

    message: v1.ClaimRequest
    job_id: int | None = None


@dataclass(slots=True)
class _Round:
    """What the questions of one round are answered with, by their place."""

    replies: dict[int, v1.ClaimReply] = field(default_factory=dict)
    alone: list[int] = field(default_factory=list)
    """Not plain: to be answered in a round of its own."""
    again: list[int] = field(default_factory=list)
    """Another transaction was faster."""
    held: set[int] = field(default_factory=set)
    """The jobs that it had."""


@dataclass(frozen=True, slots=True)
class _Asking:
    """A node with its question."""

    place: int
    ask: Ask
    id: int
    offer: Offer


def answer(database: Database, asks: Sequence[Ask], now: datetime, policy: Policy) -> list[v1.ClaimReply]:
    """The replies, in the order of ``asks``. Each may be repeated: the same question gets the same answer."""
    replies: dict[int, v1.ClaimReply] = {}
    waiting = []
    for i, ask in enumerate(asks):
        if why := nodes.protocol_mismatch(ask.message.protocol):
            replies[i] = v1.ClaimReply(reason=why)
        else:
            waiting.append(i)
    held_elsewhere: set[int] = set()
    alone: list[int] = []
    while waiting or alone:
        if waiting:
            now_, waiting = _one_a_node(asks, waiting)
            found = _round(database, {i: asks[i] for i in now_}, now, policy, held_elsewhere)
        else:
            found = _round(database, {(i := alone.pop(0)): asks[i]}, now, policy, held_elsewhere, alone=True)
        replies |= found.replies
        held_elsewhere |= found.held
        waiting += found.again
        alone += found.alone
    return [replies[i] for i in range(len(asks))]


def _one_a_node(asks: Sequence[Ask], places: Iterable[int]) -> tuple[list[int], list[int]]:
    """The first question of each node, and the rest."""
    seen: set[str] = set()
    first: list[int] = []
    rest: list[int] = []
    for i in places:
        (rest if asks[i].message.node in seen else first).append(i)
        seen.add(asks[i].message.node)
    return first, rest


def _round(
    database: Database,
    asks: Mapping[int, Ask],
    now: datetime,
    policy: Policy,
    without: set[int],
    *,
    alone: bool = False,
) -> _Round:
    found = _Round()
    with database.transaction() as session:
        asking = _able(session, asks, found, now, policy, alone=alone)
        if not asking:
            return found
        queue = Queue(session, now, len(asking), without)
        named = _named(session, asking)
        chosen: dict[int, tuple[_Asking, Candidate]] = {}
        members: Sequence[Node] = ()
        for one in asking:
            picked = _pick(one, queue, named, now)
            if isinstance(picked, Candidate) and gangs.size(picked.requirements) > 1:
                if not alone:
                    found.alone.append(one.place)
                    continue
                picked, members = _with_partners(session, one, queue, picked, now, policy)
            if isinstance(picked, str):
                found.replies[one.place] = v1.ClaimReply(reason=picked)
                continue
            queue.take(picked)
            chosen[picked.id] = (one, picked)
        if chosen:
            _give(session, chosen, members, found, now, policy)
    for place, reply in found.replies.items():
        if reply.attempt_id is not None:
            database.recent.put(("owner", reply.attempt_id), asks[place].message.node)
    return found


def _able(
    session: Session, asks: Mapping[int, Ask], found: _Round, now: datetime, policy: Policy, *, alone: bool
) -> list[_Asking]:
    """The nodes that may take a job, held; the others are answered, or put by for a round of their own."""
    by_name = {ask.message.node: (i, ask) for i, ask in asks.items()}
    rows = {row.name: row for row in session.execute(_NODES, {"names": list(by_name)})}
    ids = [row.id for row in rows.values()]
    running: dict[int, list[Any]] = {id_: [] for id_ in ids}
    for row in session.execute(_RUNNING, {"nodes": ids}) if ids else ():
        running[row.node_id].append(row)
    unseen = [row.id for row in rows.values() if row.seen_at is None or now - row.seen_at > _SEEN_EVERY]
    if unseen:
        session.connection().execute(_SEEN, {"ids": unseen, "now": now})
    able = []
    for name, (i, ask) in by_name.items():
        node = rows.get(name)
        if node is None:
            found.replies[i] = v1.ClaimReply(reason=f"The node {name!r} is not known: register it.")
        elif _asked_before(running[node.id], ask) or (node.state == "active" and len(running[node.id]) >= node.slots):
            if not alone:
                found.alone.append(i)
            elif reply := _by_itself(session, node, ask, now, policy):
                found.replies[i] = reply
            else:
                able.append((i, ask, node))
        elif node.state != "active":
            found.replies[i] = v1.ClaimReply(reason=f"The node is {node.state}: {node.state_reason}")
        else:
            able.append((i, ask, node))
    offers = nodes.offers_of(session, {node.id: node.registered_at for _, _, node in able})
    return [_Asking(i, ask, node.id, offers[node.id]) for i, ask, node in sorted(able, key=lambda one: one[0])]


def _asked_before(running: Sequence[Any], ask: Ask) -> bool:
    """Whether this very question was answered, or a part in a gang is reserved for the node."""
    return any(row.phase == gangs.RESERVED or _same(row, ask) for row in running)


def _same(attempt: Any, ask: Ask) -> bool:
    delivery = ask.message.delivery
    return bool(delivery) and attempt.delivery == delivery and ask.job_id in {None, attempt.job_id}


def _by_itself(session: Session, node: Any, ask: Ask, now: datetime, policy: Policy) -> v1.ClaimReply | None:
    """What the node has got before, or why it can take no job; None: it can, after what it gave up was taken back."""
    running = expiry.running(session, node.id)
    known = next((one for one in running if _same(one, ask)), None)
    if known is None and (known := next((one for one in running if one.phase == gangs.RESERVED), None)):
        gangs.join(known, ask.message.delivery)
    if known is not None:
        return _renewed(session, known, now, policy)
    if node.state != "active":
        return v1.ClaimReply(reason=f"The node is {node.state}: {node.state_reason}")
    left = len(running) - expiry.end_silent(session, running, now, policy.heartbeat_s, policy)
    if left < node.slots:
        return None
    return v1.ClaimReply(reason=f"The node has {left} jobs, as many as it has slots.")


def _renewed(session: Session, attempt: Attempt, now: datetime, policy: Policy) -> v1.ClaimReply:
    """The same question again, with the lease still running: the same answer."""
    attempt.heartbeat_at, attempt.expires_at = now, now + timedelta(seconds=policy.lease_s)
    session.add(attempt)
    session.flush()
    job = session.get_one(Job, attempt.job_id)
    spec = job_specs(session, {attempt.job_id: job.spec})[0][attempt.job_id]
    told = v1.JobSpec.model_validate(spec | {"gang": gangs.spec(session, attempt)})
    return v1.ClaimReply(attempt_id=attempt.id, lease_s=policy.lease_s, job=told)


def _named(session: Session, asking: Sequence[_Asking]) -> dict[int, Any]:
    """The jobs that are asked for by number."""
    ids = [one.ask.job_id for one in asking if one.ask.job_id is not None]
    return {row.id: row for row in session.execute(_NAMED, {"ids": ids})} if ids else {}


def _pick(one: _Asking, queue: Queue, named: dict[int, Any], now: datetime) -> Candidate | str:
    job_id = one.ask.job_id
    if job_id is None:
        return next(queue.candidates(one.offer), _NOTHING)
    row = named.get(job_id)
    if row is None:
        return f"There is no job {job_id}."
    if row.state != "queued" or job_id in queue.taken:
        return f"Job {job_id} is {row.state if row.state != 'queued' else 'running'}."
    if row.not_before is not None and row.not_before > now:
        return f"Job {job_id} may start from {row.not_before.isoformat()} on."
    if lacking := unmet(row.requirements, one.offer):
        return f"Job {job_id} is not for this node: it {'; it '.join(lacking)}."
    return Candidate(job_id, row.requirements)


def _with_partners(
    session: Session, one: _Asking, queue: Queue, first: Candidate, now: datetime, policy: Policy
) -> tuple[Candidate | str, Sequence[Node]]:
    """The job of several nodes with the others it needs, held; else another job, or why there is none now.

    Where some of the others are busy the node keeps itself free; where too few are there, smaller jobs go ahead.
    """
    node = session.get_one(Node, one.id)
    for candidate in (first,) if one.ask.job_id is not None else queue.candidates(one.offer):
        wanted = gangs.size(candidate.requirements)
        if wanted == 1:
            return candidate, ()
        found = gangs.partners(session, candidate.requirements, node, now, policy.present_s)
        if found.standing == "free":
            return candidate, found.nodes
        if one.ask.job_id is not None:
            words = "some that fit are busy" if found.standing == "busy" else "too few that fit are present"
            return f"Job {candidate.id} needs {wanted} nodes at once: {words}.", ()
        if found.standing == "busy":
            return f"The node keeps itself free for job {candidate.id}, which needs {wanted} at once.", ()
    return _NOTHING, ()


def _give(
    session: Session,
    chosen: Mapping[int, tuple[_Asking, Candidate]],
    members: Sequence[Node],
    found: _Round,
    now: datetime,
    policy: Policy,
) -> None:
    """Claim the jobs, make their attempts, and reply. ``members``: the other nodes of the one job of several nodes."""
    taken = jobs.take(session, list(chosen))
    for job_id, (one, _) in chosen.items():
        if job_id not in taken:
            found.held.add(job_id)
            if one.ask.job_id is None:
                found.again.append(one.place)
            else:
                found.replies[one.place] = v1.ClaimReply(reason=_state_of(session, job_id))
    if not taken:
        return
    jobs.started(session, {job.request_id for job in taken.values()})
    specs, last = job_specs(session, {job_id: job.spec for job_id, job in taken.items()})
    rows: list[tuple[Any, ...]] = []
    for job_id in taken:
        one, candidate = chosen[job_id]
        places = [one.id, *(node.id or 0 for node in members)]
        rows += _rows(job_id, last[job_id], places, one.ask.message.delivery, now, policy)
        jobs.tell(session, job_id, candidate.requirements, times=len(members))
    insert_rows(session, Attempt, _ATTEMPT, rows)
    for job_id, attempt_id in ((row[1], row[0]) for row in rows if not row[5]):
        spec = specs[job_id]
        if members:
            spec["gang"] = gangs.spec(session, session.get_one(Attempt, attempt_id))
        reply = v1.ClaimReply(attempt_id=attempt_id, lease_s=policy.lease_s, job=v1.JobSpec.model_validate(spec))
        found.replies[chosen[job_id][0].place] = reply


def _state_of(session: Session, job_id: int) -> str:
    row = session.execute(_NAMED, {"ids": [job_id]}).one()
    return f"Job {job_id} is {row.state}." if row.state != "queued" else f"Job {job_id} is being taken by another node."


def _rows(
    job_id: int, last: int, nodes_: Sequence[int], delivery: str, now: datetime, policy: Policy
) -> list[tuple[Any, ...]]:
    """An attempt for each of the nodes, its values in the order of ``_ATTEMPT``; the first is the one that asked."""
    gang = str(uuid.uuid4()) if len(nodes_) > 1 else None
    until = now + timedelta(seconds=policy.lease_s)
    rows = []
    for rank, node_id in enumerate(nodes_):
        names = str(uuid.uuid4()), job_id, node_id, last + 1 + rank, gang, rank, "" if rank else delivery
        rows.append((*names, "running", gangs.RESERVED if rank else "", "", 0, 0, "", "", now, now, until, None))
    return rows


def job_specs(
    session: Session, specs: Mapping[int, dict[str, Any]]
) -> tuple[dict[int, dict[str, Any]], dict[int, int]]:
    """The jobs as workers are told of them, without their gangs; and the number of each one's last attempt, 0 before
    the first. Where there was one, what has been delivered already is told, even by an attempt that was given back.
    """
    told: dict[int, dict[str, Any]] = {
        id_: {**spec, "job_id": id_, "sides": [], "done": []} for id_, spec in specs.items()
    }
    numbers: dict[int, int] = {}
    for job_id, last, index, role, sha, environment in session.execute(_SIDES, {"jobs": list(specs)}).tuples():
        numbers[job_id or 0] = last or 0
        if index is not None:
            side = {"index": index, "role": role, "sha": sha, "environment_fingerprint": environment or ""}
            told[job_id or 0]["sides"].append(side)
    again = [job_id for job_id, last in numbers.items() if last]
    for job_id, side_, key, replicate in session.execute(_DONE, {"jobs": again}).tuples() if again else ():
        told[job_id]["done"].append({"side": side_, "benchmark": key, "replicate": replicate})
    return told, numbers
