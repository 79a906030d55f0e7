"""What an operator watches: small counts of jobs, nodes, recent runs, and of what waits or has gone silent."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import func, select
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.forge_tables import Delivery, ForgeAction
from groundspeed.service.db.tables import Attempt, Job, Node, Outbox, Run, SeriesMark
from groundspeed.service.usecases import silence
from groundspeed.service.usecases.import_places import NODE_PREFIX

RECENT = timedelta(hours=1)
"""Runs and attempts are counted over so long: counting all of them would read the largest tables."""


@dataclass(frozen=True, slots=True)
class Pulse:
    """``oldest_queued_s`` and ``unsent_messages`` grow when something is stuck."""

    jobs: dict[str, int]
    nodes: dict[str, int]
    silent_nodes: int
    runs: dict[str, int]
    """Of the last hour, by outcome."""
    oldest_queued_s: float
    unsent_messages: int
    unanalysed_series: int
    attempts: dict[str, int] = field(default_factory=dict)
    """Of the last hour, by how they ended."""
    waiting: dict[str, int] = field(default_factory=dict)
    """Jobs that wait, by pool."""
    slots: dict[str, int] = field(default_factory=dict)
    """Jobs that the present, active nodes can run at a time, by pool."""
    silence: silence.Silence = field(default_factory=silence.Silence)
    deliveries: dict[str, int] = field(default_factory=dict)
    """Webhooks of the last 30 days, by what became of them."""
    untold: int = 0
    """Answers, replies and issues that a forge is still to be told."""


def pulse(database: Database, now: datetime, silent_s: float, series_days: float = 7.0) -> Pulse:
    """A node is silent after ``silent_s`` seconds without a sign of life, a series after ``series_days`` days without a
    result.
    """
    with database.read() as session:
        jobs = session.execute(select(col(Job.state), func.count()).group_by(col(Job.state))).tuples().all()
        nodes = session.scalars(select(Node)).all()
        oldest = session.execute(select(func.min(col(Job.created_at))).where(col(Job.state) == "queued")).scalar()
        unsent = session.execute(select(func.count()).where(col(Outbox.sent_at).is_(None))).scalar_one()
        dirty = session.execute(select(func.count(func.distinct(col(SeriesMark.series_id))))).scalar_one()
        recent, ended = _recent(session, now)
        by_state = select(col(Delivery.state), func.count()).group_by(col(Delivery.state))
        deliveries = session.execute(by_state).tuples().all()
        told = col(ForgeAction.state).in_(("pending", "sending"))
        untold = session.execute(select(func.count()).select_from(ForgeAction).where(told)).scalar_one()
        waiting = _waiting(session)
        silent = silence.find(session, silence.limits_of(silent_s, series_days), now)
    here = [node for node in nodes if node.seen_at is not None and (now - node.seen_at).total_seconds() <= silent_s]
    slots: Counter[str] = Counter()
    for node in here:
        slots[node.labels.get("pool") or "default"] += node.slots if node.state == "active" else 0
    return Pulse(
        jobs=dict(jobs),
        nodes=dict(Counter(node.state for node in nodes)),
        silent_nodes=len(nodes) - len(here),
        runs=recent,
        oldest_queued_s=max(0.0, (now - oldest).total_seconds()) if oldest is not None else 0.0,
        unsent_messages=int(unsent),
        unanalysed_series=int(dirty),
        attempts=ended,
        waiting=waiting,
        slots=dict(slots),
        silence=silent,
        deliveries=dict(deliveries),
        untold=int(untold),
    )


def _recent(session: Session, now: datetime) -> tuple[dict[str, int], dict[str, int]]:
    """Imported runs are of another time, and of no node of ours."""
    since = now - RECENT
    imported = select(col(Node.id)).where(col(Node.name).startswith(NODE_PREFIX))
    runs = select(col(Run.outcome), func.count()).where(col(Run.created_at) >= since)
    runs = runs.where(col(Run.node_id).not_in(imported)).group_by(col(Run.outcome))
    attempts = (
        select(col(Attempt.state), func.count()).where(col(Attempt.finished_at) >= since).group_by(col(Attempt.state))
    )
    return dict(session.execute(runs).tuples().all()), dict(session.execute(attempts).tuples().all())


def _waiting(session: Session) -> dict[str, int]:
    pool = func.coalesce(col(Job.requirements)["pool"].as_string(), "default")
    query = select(pool, func.count()).where(col(Job.state) == "queued").group_by(pool)
    return {name or "default": count for name, count in session.execute(query).tuples()}
