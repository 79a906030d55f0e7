"""Jobs that need several nodes: one lease for all of them or for none, and one lost releases all.

A gang is a row of attempts at one job, one a node, that share ``gang``; rank 0 is the node that asked first, and its
attempt alone reports results and decides the job. The others are *reserved* until their nodes fetch them. While too few
nodes are free a node that could take part keeps itself free: jobs of several nodes would else wait for ever.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import func, select, update
from sqlmodel import Session, col

from groundspeed.service.db.tables import RUNS, Attempt, Node
from groundspeed.service.usecases import nodes
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.matching import unmet
from groundspeed.service.wire import v1

RESERVED = "reserved"
READY = "ready"
"""A member that has built everything says so and waits for the others."""
_RUNNING = "run"
_PORTS = range(29_400, 30_400)

Standing = Literal["free", "busy", "few"]
"""Enough nodes are free; there are enough but some are busy; there are too few."""


@dataclass(frozen=True, slots=True)
class Partners:
    standing: Standing
    nodes: Sequence[Node] = ()


def size(requirements: dict[str, Any]) -> int:
    """How many nodes a job needs."""
    return max(int(requirements.get("nodes") or 1), 1)


def partners(session: Session, requirements: dict[str, Any], node: Node, now: datetime, silent_s: float) -> Partners:
    """The other members of a gang led by ``node``: present, of the same hardware, fitting, each with a free slot.

    Those chosen are held by this transaction; one that another transaction holds at this moment counts as busy.
    """
    wanted = size(requirements) - 1
    query = select(Node).where(
        col(Node.state) == "active",
        col(Node.id) != node.id,
        col(Node.hardware_id) == node.hardware_id,
        col(Node.seen_at) >= now - timedelta(seconds=silent_s),
    )
    present = session.scalars(query.order_by(col(Node.id))).all()
    fitting = [one for one in present if not unmet(requirements, nodes.offer(session, one))]
    if len(fitting) < wanted:
        return Partners("few")
    busy = _busy(session, [one.id or 0 for one in fitting])
    free = [one.id or 0 for one in fitting if busy.get(one.id or 0, 0) < one.slots][:wanted]
    if len(free) < wanted:
        return Partners("busy")
    taken = session.scalars(held(select(Node).where(col(Node.id).in_(free)).order_by(col(Node.id)), skip=True)).all()
    if len(taken) < wanted or _busy(session, free) != {id_: busy[id_] for id_ in free if id_ in busy}:
        return Partners("busy")  # one was taken between the look and the hold
    return Partners("free", taken)


def _busy(session: Session, ids: Sequence[int]) -> dict[int, int]:
    query = (
        select(col(Attempt.node_id), func.count())
        .where(col(Attempt.node_id).in_(ids), RUNS)
        .group_by(col(Attempt.node_id))
    )
    return dict(session.execute(query).tuples().all())


def join(attempt: Attempt, delivery: str) -> None:
    """The node has fetched its part."""
    attempt.phase, attempt.delivery = "", delivery


def members(session: Session, gang: str) -> Sequence[Attempt]:
    return session.scalars(select(Attempt).where(col(Attempt.gang) == gang).order_by(col(Attempt.rank))).all()


def spec(session: Session, attempt: Attempt) -> v1.GangSpec | None:
    """What this member is told: its rank, who the others are, and where they meet."""
    if attempt.gang is None:
        return None
    all_ = members(session, attempt.gang)
    known = {node.id: node for node in session.scalars(select(Node).where(col(Node.id).in_([a.node_id for a in all_])))}
    first = known[all_[0].node_id]
    return v1.GangSpec(
        id=attempt.gang,
        rank=attempt.rank,
        nodes=tuple(known[one.node_id].name for one in all_),
        host=first.address or first.name,
        port=_port(attempt.gang),
    )


def _port(gang: str) -> int:
    """Another one for each gang, so that one which ends does not meet the next."""
    return _PORTS[int(hashlib.sha256(gang.encode()).hexdigest()[:8], 16) % len(_PORTS)]


def together(session: Session, attempt_id: str) -> bool:
    """Whether every member is there and has built what it needs."""
    attempt = session.get(Attempt, attempt_id)
    if attempt is None or attempt.gang is None:
        return True
    return all(a.state == "running" and a.phase in {READY, _RUNNING} for a in members(session, attempt.gang))


def dissolve(session: Session, attempt: Attempt, now: datetime) -> None:
    """What one member's end means for the others: all are released, or all have succeeded with rank 0."""
    if attempt.gang is None or (attempt.rank and attempt.state == "succeeded"):
        return
    state = "succeeded" if attempt.state == "succeeded" else "released"
    why = "" if state == "succeeded" else f"The gang ended: its rank {attempt.rank} is {attempt.state}. {attempt.error}"
    others = update(Attempt).where(col(Attempt.gang) == attempt.gang, col(Attempt.id) != attempt.id, RUNS)
    session.execute(others.values(state=state, finished_at=now, error=why.strip()))
