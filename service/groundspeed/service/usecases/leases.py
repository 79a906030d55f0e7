"""Leases: a node claims a job, keeps it by signs of life, and ends it. The database is the truth, the broker a hint.

Every function may be called twice with the same input and answers the same: a worker repeats what it got no answer to.
Each is the case of one of what ``claims``, ``signs`` and ``ends`` do for many at once.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import bindparam, select
from sqlmodel import col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import Attempt, Node
from groundspeed.service.errors import Forbidden, NotFound
from groundspeed.service.usecases import claims, ends, signs
from groundspeed.service.usecases.expiry import expire, release_silent
from groundspeed.service.usecases.policy import Policy
from groundspeed.service.wire import v1

__all__ = [
    "Policy",
    "check_owner",
    "claim",
    "claim_next",
    "expire",
    "finish",
    "heartbeat",
    "owner_known",
    "release_silent",
]

_OWNER = (
    select(col(Node.name))
    .join(Attempt, col(Attempt.node_id) == col(Node.id))
    .where(col(Attempt.id) == bindparam("attempt"))
)


def claim(database: Database, job_id: int, message: v1.ClaimRequest, now: datetime, policy: Policy) -> v1.ClaimReply:
    """Give the named job to the node, or say why not."""
    return claims.answer(database, [claims.Ask(message, job_id)], now, policy)[0]


def claim_next(database: Database, message: v1.ClaimRequest, now: datetime, policy: Policy) -> v1.ClaimReply:
    """Give the node the first waiting job that it can run."""
    return claims.answer(database, [claims.Ask(message)], now, policy)[0]


def heartbeat(
    database: Database, attempt_id: str, message: v1.AttemptHeartbeat, now: datetime, policy: Policy
) -> v1.AttemptHeartbeatReply:
    """Lengthen the lease; the reply says whether to go on."""
    return signs.of_attempts(database, [signs.Beat(attempt_id, message)], now, policy)[0]


def finish(database: Database, attempt_id: str, message: v1.FinishRequest, now: datetime, policy: Policy) -> v1.Ack:
    """End the attempt and move its job on. ``ok`` False: the lease was lost before, and another attempt decides."""
    [found] = ends.answer(database, [ends.End(attempt_id, message)], now, policy)
    if isinstance(found, NotFound):
        raise found
    return found.ack


def owner_known(database: Database, attempt_id: str) -> bool:
    """Whether :func:`check_owner` need not ask the database."""
    return database.recent.get(("owner", attempt_id)) is not None


def check_owner(database: Database, attempt_id: str, node: str | None) -> None:
    """Raises :class:`Forbidden` when a worker's token is for another node; None: any (an operator, this machine)."""
    if node is None:
        return
    name = database.recent.get(("owner", attempt_id))
    if name is None:
        with database.read() as session:
            name = session.execute(_OWNER, {"attempt": attempt_id}).scalar()
        if name is None:
            raise NotFound(f"There is no attempt {attempt_id}.", "The job must be claimed first.")
        database.recent.put(("owner", attempt_id), name)
    if name != node:
        raise Forbidden(f"The attempt is not one of {node}.", "A worker writes its own attempts only.")
