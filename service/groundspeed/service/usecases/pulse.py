"""What an operator watches: small counts of jobs, nodes, runs and what waits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlmodel import col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import Job, Node, Outbox, Run, SeriesMark


@dataclass(frozen=True, slots=True)
class Pulse:
    """What an operator watches. ``oldest_queued_s`` and ``unsent_messages`` grow when something is stuck."""

    jobs: dict[str, int]
    nodes: dict[str, int]
    silent_nodes: int
    runs: dict[str, int]
    oldest_queued_s: float
    unsent_messages: int
    unanalysed_series: int


def pulse(database: Database, now: datetime, silent_s: float) -> Pulse:
    with database.read() as session:
        jobs = session.execute(select(col(Job.state), func.count()).group_by(col(Job.state))).tuples().all()
        nodes = session.execute(select(col(Node.state), col(Node.seen_at))).tuples().all()
        runs = session.execute(select(col(Run.outcome), func.count()).group_by(col(Run.outcome))).tuples().all()
        oldest = session.execute(select(func.min(col(Job.created_at))).where(col(Job.state) == "queued")).scalar()
        unsent = session.execute(select(func.count()).where(col(Outbox.sent_at).is_(None))).scalar_one()
        dirty = session.execute(select(func.count(func.distinct(col(SeriesMark.series_id))))).scalar_one()
    states: dict[str, int] = {}
    for state, _ in nodes:
        states[state] = states.get(state, 0) + 1
    return Pulse(
        jobs=dict(jobs),
        nodes=states,
        silent_nodes=sum(seen is None or (now - seen).total_seconds() > silent_s for _, seen in nodes),
        runs=dict(runs),
        oldest_queued_s=max(0.0, (now - oldest).total_seconds()) if oldest is not None else 0.0,
        unsent_messages=int(unsent),
        unanalysed_series=int(dirty),
    )
