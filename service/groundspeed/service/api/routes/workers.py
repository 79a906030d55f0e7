"""What a worker says and asks: see the table in ``wire/v1.py``."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool

from groundspeed.service.api.access import Id, Now, PartsDep, Worker
from groundspeed.service.api.scheduling import SchedulingDep
from groundspeed.service.control.wiring import Parts
from groundspeed.service.usecases import artefacts, claims, ends, gate, ingest, leases, logs, nodes, signs
from groundspeed.service.usecases.artefacts import Store
from groundspeed.service.usecases.principals import Principal
from groundspeed.service.wire import v1

router = APIRouter(prefix="/api/v1", tags=["workers"])


@router.post("/workers/register")
def register(message: v1.RegisterRequest, parts: PartsDep, who: Worker, now: Now) -> v1.RegisterReply:
    """A worker says who it is, what it runs on and what it can measure."""
    who.require_node(message.node)
    return nodes.register(parts.database, message, now, parts.settings.heartbeat_s)


@router.post("/workers/{node}/heartbeat")
async def node_heartbeat(
    node: str, message: v1.NodeHeartbeat, scheduling: SchedulingDep, who: Worker
) -> v1.NodeHeartbeatReply:
    """A worker's sign of life while it has no attempt."""
    who.require_node(node)
    return await scheduling.nodes.ask(signs.NodeBeat(node, message))


@router.post("/jobs/{job_id}/claim")
async def claim(job_id: Id, message: v1.ClaimRequest, scheduling: SchedulingDep, who: Worker) -> v1.ClaimReply:
    """A worker takes the job that it was told of."""
    who.require_node(message.node)
    return await scheduling.claims.ask(claims.Ask(message, job_id))


@router.post("/workers/{node}/next")
async def claim_next(node: str, message: v1.ClaimRequest, scheduling: SchedulingDep, who: Worker) -> v1.ClaimReply:
    """A worker asks for work that no message announced."""
    who.require_node(node)
    who.require_node(message.node)
    return await scheduling.claims.ask(claims.Ask(message))


@router.post("/attempts/{attempt_id}/heartbeat")
async def heartbeat(
    attempt_id: str, message: v1.AttemptHeartbeat, parts: PartsDep, scheduling: SchedulingDep, who: Worker
) -> v1.AttemptHeartbeatReply:
    """A worker's sign of life for an attempt; the answer may stop it."""
    await _own(parts, attempt_id, who)
    return await scheduling.beats.ask(signs.Beat(attempt_id, message))


@router.post("/attempts/{attempt_id}/log")
def log(attempt_id: str, message: v1.LogBatch, parts: PartsDep, who: Worker) -> v1.Ack:
    """Lines of an attempt's log."""
    leases.check_owner(parts.database, attempt_id, who.node)
    return logs.append(parts.database, attempt_id, message, parts.settings.max_log_lines)


@router.post("/attempts/{attempt_id}/runs", response_model=v1.RunAck)
def runs(attempt_id: str, message: v1.RunBatch, parts: PartsDep, who: Worker, now: Now) -> Response:
    """Results of an attempt's processes."""
    leases.check_owner(parts.database, attempt_id, who.node)
    answer = ingest.ingest_runs(parts.database, attempt_id, message, now)
    if any(run.artefacts for run in message.runs):
        artefacts.mark_stored(parts.database, _store(parts), attempt_id, now)
    # Written here: the framework would check the answer once more, in another thread.
    return Response(answer.model_dump_json(), media_type="application/json")


@router.post("/attempts/{attempt_id}/next-pair")
def next_pair(attempt_id: str, message: v1.NextPairRequest, parts: PartsDep, who: Worker, now: Now) -> v1.NextPairReply:
    """Whether a comparison of two sides goes on after what was measured."""
    leases.check_owner(parts.database, attempt_id, who.node)
    return gate.next_pair(parts.database, attempt_id, message, now)


@router.post("/attempts/{attempt_id}/finish")
async def finish(
    attempt_id: str, message: v1.FinishRequest, parts: PartsDep, scheduling: SchedulingDep, who: Worker, now: Now
) -> v1.Ack:
    """A worker ends its attempt."""
    await _own(parts, attempt_id, who)
    ended = await scheduling.ends.ask(ends.End(attempt_id, message))
    if ended.compares:
        await run_in_threadpool(gate.conclude, parts.database, attempt_id, now)
    return ended.ack


@router.put("/attempts/{attempt_id}/artefacts/{sha256}")
async def put_artefact(
    attempt_id: str, sha256: str, request: Request, parts: PartsDep, who: Worker, now: Now
) -> v1.Ack:
    """A worker leaves a file of an attempt."""
    leases.check_owner(parts.database, attempt_id, who.node)
    store = _store(parts)
    if not _is_digest(sha256):
        return v1.Ack(ok=False, reason="The name of an artefact is its SHA-256 in lower-case hexadecimal.")
    artefacts.check_room(parts.database, store, attempt_id, int(request.headers.get("content-length") or 0))
    with artefacts.upload(store, sha256) as upload:
        async for chunk in request.stream():
            upload.write(chunk)
        upload.finish()
    await run_in_threadpool(artefacts.mark_stored, parts.database, store, attempt_id, now)
    return v1.Ack()


async def _own(parts: Parts, attempt_id: str, who: Principal) -> None:
    """As ``leases.check_owner``, on another thread where the database must be asked."""
    if who.node is None or leases.owner_known(parts.database, attempt_id):
        leases.check_owner(parts.database, attempt_id, who.node)
    else:
        await run_in_threadpool(leases.check_owner, parts.database, attempt_id, who.node)


def _is_digest(text: str) -> bool:
    return len(text) == 64 and all(c in "0123456789abcdef" for c in text)


def _store(parts: PartsDep) -> Store:
    settings = parts.settings
    return Store(
        settings.data_dir.absolute() / "artefacts", settings.max_artefact_bytes, settings.max_attempt_artefact_bytes
    )
