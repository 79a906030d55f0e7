"""What a worker says and asks: see the table in ``wire/v1.py``."""

from __future__ import annotations

from fastapi import APIRouter, Request

from groundspeed.service.api.access import Id, Now, PartsDep, Worker
from groundspeed.service.usecases import artefacts, gate, ingest, leases, logs, nodes
from groundspeed.service.usecases.artefacts import Store
from groundspeed.service.wire import v1

router = APIRouter(prefix="/api/v1", tags=["workers"])


@router.post("/workers/register")
def register(message: v1.RegisterRequest, parts: PartsDep, who: Worker, now: Now) -> v1.RegisterReply:
    who.require_node(message.node)
    return nodes.register(parts.database, message, now, parts.settings.heartbeat_s)


@router.post("/workers/{node}/heartbeat")
def node_heartbeat(
    node: str, message: v1.NodeHeartbeat, parts: PartsDep, who: Worker, now: Now
) -> v1.NodeHeartbeatReply:
    who.require_node(node)
    leases.release_silent(parts.database, node, message.attempts, now, parts.policy)
    return nodes.heartbeat(parts.database, node, message, now)


@router.post("/jobs/{job_id}/claim")
def claim(job_id: Id, message: v1.ClaimRequest, parts: PartsDep, who: Worker, now: Now) -> v1.ClaimReply:
    who.require_node(message.node)
    return leases.claim(parts.database, job_id, message, now, parts.policy)


@router.post("/workers/{node}/next")
def claim_next(node: str, message: v1.ClaimRequest, parts: PartsDep, who: Worker, now: Now) -> v1.ClaimReply:
    who.require_node(node)
    who.require_node(message.node)
    return leases.claim_next(parts.database, message, now, parts.policy)


@router.post("/attempts/{attempt_id}/heartbeat")
def heartbeat(
    attempt_id: str, message: v1.AttemptHeartbeat, parts: PartsDep, who: Worker, now: Now
) -> v1.AttemptHeartbeatReply:
    leases.check_owner(parts.database, attempt_id, who.node)
    return leases.heartbeat(parts.database, attempt_id, message, now, parts.policy)


@router.post("/attempts/{attempt_id}/log")
def log(attempt_id: str, message: v1.LogBatch, parts: PartsDep, who: Worker) -> v1.Ack:
    leases.check_owner(parts.database, attempt_id, who.node)
    return logs.append(parts.database, attempt_id, message, parts.settings.max_log_lines)


@router.post("/attempts/{attempt_id}/runs")
def runs(attempt_id: str, message: v1.RunBatch, parts: PartsDep, who: Worker, now: Now) -> v1.RunAck:
    leases.check_owner(parts.database, attempt_id, who.node)
    answer = ingest.ingest_runs(parts.database, attempt_id, message, now)
    if any(run.artefacts for run in message.runs):
        artefacts.mark_stored(parts.database, _store(parts), attempt_id)
    return answer


@router.post("/attempts/{attempt_id}/next-pair")
def next_pair(attempt_id: str, message: v1.NextPairRequest, parts: PartsDep, who: Worker, now: Now) -> v1.NextPairReply:
    leases.check_owner(parts.database, attempt_id, who.node)
    return gate.next_pair(parts.database, attempt_id, message, now)


@router.post("/attempts/{attempt_id}/finish")
def finish(attempt_id: str, message: v1.FinishRequest, parts: PartsDep, who: Worker, now: Now) -> v1.Ack:
    leases.check_owner(parts.database, attempt_id, who.node)
    answer = leases.finish(parts.database, attempt_id, message, now, parts.policy)
    gate.conclude(parts.database, attempt_id, now)
    return answer


@router.put("/attempts/{attempt_id}/artefacts/{sha256}")
async def put_artefact(attempt_id: str, sha256: str, request: Request, parts: PartsDep, who: Worker) -> v1.Ack:
    leases.check_owner(parts.database, attempt_id, who.node)
    store = _store(parts)
    if not _is_digest(sha256):
        return v1.Ack(ok=False, reason="The name of an artefact is its SHA-256 in lower-case hexadecimal.")
    artefacts.check_room(parts.database, store, attempt_id, int(request.headers.get("content-length") or 0))
    with artefacts.upload(store, sha256) as upload:
        async for chunk in request.stream():
            upload.write(chunk)
        upload.finish()
    artefacts.mark_stored(parts.database, store, attempt_id)
    return v1.Ack()


def _is_digest(text: str) -> bool:
    return len(text) == 64 and all(c in "0123456789abcdef" for c in text)


def _store(parts: PartsDep) -> Store:
    settings = parts.settings
    return Store(
        settings.data_dir.absolute() / "artefacts", settings.max_artefact_bytes, settings.max_attempt_artefact_bytes
    )
