"""When will a waiting job be done? Its place in the queue, and an honest range: from how long such jobs took before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import Attempt, Job
from groundspeed.service.errors import NotFound
from groundspeed.service.usecases import dispatch, nodes
from groundspeed.service.usecases.matching import unmet

_LEAST, _MOST = 5, 200
_LOW, _HIGH = 0.1, 0.9


@dataclass(frozen=True, slots=True)
class Outlook:
    """``ahead`` waiting jobs go first; ``slots`` of present nodes can run this one. The times are None where too few
    such jobs have ended to tell, and ``why`` says what is missing or what the range rests on.
    """

    state: str
    ahead: int | None = None
    slots: int = 0
    earliest: datetime | None = None
    latest: datetime | None = None
    why: str = ""


def of_job(database: Database, job_id: int, now: datetime, silent_s: float) -> Outlook:
    """The outlook of a job; raises :class:`NotFound`."""
    with database.read() as session:
        job = session.get(Job, job_id)
        if job is None:
            raise NotFound(f"There is no job {job_id}.", "It may have been deleted with its project.")
        if job.state != "queued":
            return Outlook(job.state)
        count = session.execute(select(func.count()).where(dispatch.ahead(job))).scalar_one()
        slots, why = _slots(session, job, now, silent_s)
        took = _took(session, job)
    if not slots:
        return Outlook(job.state, count, 0, why=why)
    if len(took) < _LEAST:
        return Outlook(job.state, count, slots, why=f"Only {len(took)} such jobs have ended: too few to tell.")
    rounds = math.ceil((count + 1) / slots)
    low, high = (took[min(int(q * len(took)), len(took) - 1)] for q in (_LOW, _HIGH))
    start = max(job.not_before or now, now)
    return Outlook(
        job.state,
        count,
        slots,
        start + timedelta(seconds=low * max(1, count // slots)),
        start + timedelta(seconds=high * (rounds + 1)),
        f"{count} jobs go first, {slots} can run at a time; {len(took)} like it took {low:.0f} to {high:.0f} s.",
    )


def _slots(session: Session, job: Job, now: datetime, silent_s: float) -> tuple[int, str]:
    present = nodes.present(session, now, silent_s)
    active = [node for node in present if node.state == "active"]
    if not active:
        return 0, "It waits for a node: none is active."
    lacking = {o.name: unmet(job.requirements, o) for o in nodes.offers(session, active)}
    fitting = sum(node.slots for node in active if not lacking[node.name])
    first = next(iter(lacking.items()))
    return fitting, "" if fitting else f"It waits for a node that fits: {first[0]} {' and '.join(first[1])}."


def _took(session: Session, job: Job) -> Sequence[float]:
    """Seconds that the latest jobs of the project took, in order; those of the same suite where there are enough."""
    for same_suite in (True, False):
        query = (
            select(col(Attempt.claimed_at), col(Attempt.finished_at))
            .join(Job, col(Job.id) == col(Attempt.job_id))
            .where(col(Job.project_id) == job.project_id, col(Attempt.state) == "succeeded")
            .order_by(col(Attempt.finished_at).desc())
            .limit(_MOST)
        )
        if same_suite:
            query = query.where(col(Job.suite) == job.suite)
        rows = session.execute(query).tuples().all()
        took = sorted((end - begin).total_seconds() for begin, end in rows if end is not None)
        if len(took) >= _LEAST:
            return took
    return took
