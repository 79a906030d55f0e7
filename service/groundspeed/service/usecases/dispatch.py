"""Which waiting job a node gets next: the most urgent first, and among equals the project that has least running."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, bindparam, func, or_, select
from sqlalchemy.orm import aliased
from sqlmodel import Session, col

from groundspeed.service.db.tables import Job, Node
from groundspeed.service.usecases import gangs, nodes
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.matching import Offer, unmet

_PAGE = 32


def _projects_query() -> Select[Any]:
    """Projects with jobs waiting at a priority: one index look-up a project, however many jobs wait.

    The queue's index is (state, priority, project, id).
    """
    priority: Any = bindparam("priority")
    waiting = and_(col(Job.state) == "queued", col(Job.priority) == priority)
    step = select(func.min(col(Job.project_id)).label("project_id")).where(waiting).cte("step", recursive=True)
    later = aliased(Job)
    following = (
        select(func.min(col(later.project_id)))
        .where(col(later.state) == "queued", col(later.priority) == priority, col(later.project_id) > step.c.project_id)
        .scalar_subquery()
    )
    steps = step.union_all(select(following).where(step.c.project_id.is_not(None)))
    return select(steps.c.project_id)


# Statements of the hot path, built once: building one costs more than running it.
_PROJECTS = _projects_query()
_PRIORITY = select(func.min(col(Job.priority))).where(
    col(Job.state) == "queued", col(Job.priority) > bindparam("after")
)
_BUSY = select(col(Job.project_id), func.count()).where(col(Job.state) == "running").group_by(col(Job.project_id))
_PAGE_OF = (
    select(col(Job.id), col(Job.requirements))
    .where(
        col(Job.state) == "queued",
        col(Job.priority) == bindparam("priority"),
        col(Job.project_id) == bindparam("project"),
        col(Job.id) > bindparam("after"),
        or_(col(Job.not_before).is_(None), col(Job.not_before) <= bindparam("now")),
    )
    .order_by(col(Job.id))
    .limit(_PAGE)
)
_HOLD = held(select(Job).where(col(Job.id) == bindparam("job"), col(Job.state) == "queued"), skip=True)


def next_job(session: Session, node: Node, now: datetime, present_s: float) -> Job | str:
    """The first waiting job that the node can run, held by this transaction; or why there is none.

    Candidates are read without a lock and then held one by one: two nodes that ask at once do not hide jobs from
    one another. For a job of several nodes, of which some are busy, the node keeps itself free.
    """
    for job_id, requirements in _candidates(session, nodes.offer(session, node), now):
        if gangs.size(requirements) > 1:
            found = gangs.partners(session, requirements, node, now, present_s)
            if found.standing == "busy":
                return f"The node keeps itself free for job {job_id}, which needs {gangs.size(requirements)} at once."
            if found.standing == "few":
                continue
        job: Job | None = session.scalars(_HOLD, {"job": job_id}).one_or_none()
        if job is not None:
            return job
    return "Nothing waits that this node can run."


def _candidates(session: Session, offer: Offer, now: datetime) -> Iterator[tuple[int, dict[str, Any]]]:
    """Jobs the node can run: by priority, then project by project, then in the order in which they were planned."""
    priority = _next_priority(session, None)
    while priority is not None:
        for project_id in _projects(session, priority):
            yield from _of_project(session, offer, now, priority, project_id)
        priority = _next_priority(session, priority)


def _next_priority(session: Session, after: int | None) -> int | None:
    return session.execute(_PRIORITY, {"after": -1 if after is None else after}).scalar()


def _projects(session: Session, priority: int) -> list[int]:
    """Projects with jobs waiting at this priority, the one with the fewest running jobs first."""
    found = [one for one in session.scalars(_PROJECTS, {"priority": priority}) if one is not None]
    if len(found) < 2:
        return found
    busy: dict[int, int] = dict(session.execute(_BUSY).tuples().all())
    return sorted(found, key=lambda project_id: (busy.get(project_id, 0), project_id))


def _of_project(
    session: Session, offer: Offer, now: datetime, priority: int, project_id: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    after = 0
    while True:
        place = {"priority": priority, "project": project_id, "after": after, "now": now}
        page = session.execute(_PAGE_OF, place).tuples().all()
        for job_id, requirements in page:
            if job_id is not None and not unmet(requirements, offer):
                yield job_id, requirements
        if len(page) < _PAGE:
            return
        after = page[-1][0] or 0


def ahead(job: Job) -> ColumnElement[bool]:
    """The waiting jobs that stand before this one, as far as order alone decides."""
    earlier = and_(col(Job.priority) == job.priority, col(Job.id) < job.id)
    return and_(col(Job.state) == "queued", or_(col(Job.priority) < job.priority, earlier))
