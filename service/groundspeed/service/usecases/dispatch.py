"""Which waiting job a node gets next, and where in the queue a job stands."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from sqlalchemy import func, or_, select
from sqlmodel import Session, col

from groundspeed.service.db.tables import Job
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.matching import Offer, unmet

_PAGE = 64


def next_job(session: Session, offer: Offer, now: datetime) -> Job | None:
    """The first waiting job that the node can run, held by this transaction; None when there is none.

    Candidates are read without a lock and then held one by one: two nodes that ask at once do not hide jobs from
    one another.
    """
    for job_id in _candidates(session, offer, now):
        query = select(Job).where(col(Job.id) == job_id, col(Job.state) == "queued")
        job: Job | None = session.scalars(held(query, skip=True)).one_or_none()
        if job is not None:
            return job
    return None


def _candidates(session: Session, offer: Offer, now: datetime) -> Iterator[int]:
    after = (-1, -1)
    while True:
        query = select(col(Job.id), col(Job.priority), col(Job.requirements)).where(
            col(Job.state) == "queued",
            or_(col(Job.not_before).is_(None), col(Job.not_before) <= now),
            or_(col(Job.priority) > after[0], (col(Job.priority) == after[0]) & (col(Job.id) > after[1])),
        )
        page = session.execute(query.order_by(col(Job.priority), col(Job.id)).limit(_PAGE)).tuples().all()
        for job_id, _, requirements in page:
            if job_id is not None and not unmet(requirements, offer):
                yield job_id
        if len(page) < _PAGE:
            return
        last_id, priority, _ = page[-1]
        after = (priority, last_id or 0)


def position(session: Session, job: Job) -> int | None:
    """How many waiting jobs of the same pool stand before this one; None when it does not wait."""
    if job.state != "queued":
        return None
    before = or_(col(Job.priority) < job.priority, (col(Job.priority) == job.priority) & (col(Job.id) < job.id))
    count: int = session.execute(select(func.count()).where(col(Job.state) == "queued", before)).scalar_one()
    return count
