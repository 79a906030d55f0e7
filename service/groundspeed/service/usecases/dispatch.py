"""Which waiting job a node gets next: the most urgent first, and among equals the project that has least running."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.orm import aliased
from sqlmodel import Session, col

from groundspeed.service.db.tables import Job
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.matching import Offer, unmet

_PAGE = 32


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
    """Jobs the node can run: by priority, then project by project, then in the order in which they were planned."""
    priority = _next_priority(session, None)
    while priority is not None:
        for project_id in _projects(session, priority):
            yield from _of_project(session, offer, now, priority, project_id)
        priority = _next_priority(session, priority)


def _next_priority(session: Session, after: int | None) -> int | None:
    query = select(func.min(col(Job.priority))).where(col(Job.state) == "queued")
    if after is not None:
        query = query.where(col(Job.priority) > after)
    return session.execute(query).scalar()


def _projects(session: Session, priority: int) -> list[int]:
    """Projects with jobs waiting at this priority, the one with the fewest running jobs first.

    One index look-up a project, however many jobs wait: the queue's index is (state, priority, project, id).
    """
    waiting = and_(col(Job.state) == "queued", col(Job.priority) == priority)
    step = select(func.min(col(Job.project_id)).label("project_id")).where(waiting).cte("step", recursive=True)
    later = aliased(Job)
    following = (
        select(func.min(col(later.project_id)))
        .where(col(later.state) == "queued", col(later.priority) == priority, col(later.project_id) > step.c.project_id)
        .scalar_subquery()
    )
    steps = step.union_all(select(following).where(step.c.project_id.is_not(None)))
    found = [one for one in session.scalars(select(steps.c.project_id)) if one is not None]
    if len(found) < 2:
        return found
    running = select(col(Job.project_id), func.count()).where(col(Job.state) == "running").group_by(col(Job.project_id))
    busy: dict[int, int] = dict(session.execute(running).tuples().all())
    return sorted(found, key=lambda project_id: (busy.get(project_id, 0), project_id))


def _of_project(session: Session, offer: Offer, now: datetime, priority: int, project_id: int) -> Iterator[int]:
    after = 0
    while True:
        query = select(col(Job.id), col(Job.requirements)).where(
            col(Job.state) == "queued",
            col(Job.priority) == priority,
            col(Job.project_id) == project_id,
            col(Job.id) > after,
            or_(col(Job.not_before).is_(None), col(Job.not_before) <= now),
        )
        page = session.execute(query.order_by(col(Job.id)).limit(_PAGE)).tuples().all()
        for job_id, requirements in page:
            if job_id is not None and not unmet(requirements, offer):
                yield job_id
        if len(page) < _PAGE:
            return
        after = page[-1][0] or 0


def ahead(job: Job) -> ColumnElement[bool]:
    """The waiting jobs that stand before this one, as far as order alone decides."""
    earlier = and_(col(Job.priority) == job.priority, col(Job.id) < job.id)
    return and_(col(Job.state) == "queued", or_(col(Job.priority) < job.priority, earlier))
