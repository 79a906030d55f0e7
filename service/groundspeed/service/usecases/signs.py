"""Signs of life, many at once: of attempts, which lengthens their leases, and of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import Text, bindparam, select, update
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.identities import core
from groundspeed.service.db.sets import among, one_of, update_where
from groundspeed.service.db.tables import RUNS, Attempt, Environment, Node
from groundspeed.service.usecases import expiry, gangs, nodes
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.policy import Policy
from groundspeed.service.wire import v1

_RENEWED = ("phase", "message", "done", "total", "heartbeat_at", "expires_at")
_NODES = (
    select(col(Node.id), col(Node.name), col(Node.state), col(Node.state_reason), col(Environment.fingerprint))
    .outerjoin(Environment, col(Environment.id) == col(Node.environment_id))
    .where(one_of(col(Node.name), among("names", Text)))
)
_RUNNING = select(col(Attempt.node_id), col(Attempt.id), col(Attempt.phase), col(Attempt.heartbeat_at)).where(
    one_of(col(Attempt.node_id), among("nodes")), RUNS
)
_SEEN = (
    update(core(Node))
    .where(
        core(Node).c.id.in_(
            held(select(core(Node).c.id).where(one_of(core(Node).c.id, among("ids"))).order_by(core(Node).c.id))
        )
    )
    .values(seen_at=bindparam("now"))
)


@dataclass(frozen=True, slots=True)
class Beat:
    attempt_id: str
    message: v1.AttemptHeartbeat


@dataclass(frozen=True, slots=True)
class NodeBeat:
    node: str
    message: v1.NodeHeartbeat


def of_attempts(
    database: Database, beats: Sequence[Beat], now: datetime, policy: Policy
) -> list[v1.AttemptHeartbeatReply]:
    """Lengthen the leases; each reply says whether to go on."""
    until = now + timedelta(seconds=policy.lease_s)
    latest = {beat.attempt_id: beat.message for beat in beats}
    rows = [(id_, m.phase, m.message, m.done, m.total, now, until) for id_, m in sorted(latest.items())]
    with database.transaction() as session:
        renewed = set(update_where(session, Attempt, _RENEWED, rows, where="state = 'running'"))
        ready = [beat.attempt_id for beat in beats if beat.message.phase == gangs.READY]
        together = {id_: gangs.together(session, id_) for id_ in ready}
        lost = [beat.attempt_id for beat in beats if beat.attempt_id not in renewed]
        replies = {id_: _lost(session, id_) for id_ in lost}
    for id_ in renewed:
        replies[id_] = v1.AttemptHeartbeatReply(verdict="continue", together=together.get(id_, True))
    return [replies[beat.attempt_id] for beat in beats]


def _lost(session: Session, attempt_id: str) -> v1.AttemptHeartbeatReply:
    attempt = session.get(Attempt, attempt_id)
    if attempt is None:
        return v1.AttemptHeartbeatReply(verdict="lost", reason="There is no such attempt.")
    verdict: Literal["cancel", "lost"] = "cancel" if attempt.state == "cancelled" else "lost"
    reason = f"The attempt is {attempt.state}. {attempt.error}".strip()
    return v1.AttemptHeartbeatReply(verdict=verdict, reason=reason)


def of_nodes(
    database: Database, beats: Sequence[NodeBeat], now: datetime, policy: Policy
) -> list[v1.NodeHeartbeatReply]:
    """Note that the nodes live. What a node has silently given up is taken back, findings take it out of use: those
    few are looked at one by one.
    """
    replies: dict[int, v1.NodeHeartbeatReply] = {}
    with database.transaction() as session:
        names = [beat.node for beat in beats]
        known = {row[1]: row for row in session.execute(_NODES, {"names": names}).tuples()}
        running: dict[int, list[Any]] = {row[0]: [] for row in known.values()}
        for node_id, *attempt in session.execute(_RUNNING, {"nodes": list(running)}).tuples():
            running[node_id].append(attempt)
        for i, beat in enumerate(beats):
            if (row := known.get(beat.node)) is None or not _plain(beat, row, running[row[0]], now, policy):
                continue
            waiting = any(phase == gangs.RESERVED for _, phase, _ in running[row[0]])
            replies[i] = v1.NodeHeartbeatReply(state=row[2], reason=row[3], waiting=waiting)
        seen = sorted({known[beats[i].node][0] for i in replies})
        if seen:
            session.connection().execute(_SEEN, {"ids": seen, "now": now})
    return [replies.get(i) or _one(database, beat, now, policy) for i, beat in enumerate(beats)]


def _plain(beat: NodeBeat, row: Any, running: Sequence[Any], now: datetime, policy: Policy) -> bool:
    """Whether nothing follows from this sign but that the node lives."""
    message = beat.message
    if nodes.protocol_mismatch(message.protocol) or message.hygiene or nodes.out_for_hygiene(row[2], row[3]):
        return False
    if message.environment_fingerprint and message.environment_fingerprint != row[4]:
        return False
    idle = (one for one in running if one[0] not in message.attempts)
    return not any(expiry.silent(phase, at, now, 2 * policy.heartbeat_s) for _, phase, at in idle)


def _one(database: Database, beat: NodeBeat, now: datetime, policy: Policy) -> v1.NodeHeartbeatReply:
    expiry.release_silent(database, beat.node, beat.message.attempts, now, policy)
    return nodes.heartbeat(database, beat.node, beat.message, now)
