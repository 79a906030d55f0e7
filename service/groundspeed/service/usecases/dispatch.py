"""Which waiting job a node gets next: the most urgent first, and among equals the project that has least running."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, bindparam, func, literal, or_, select
from sqlalchemy.orm import aliased
from sqlmodel import Session, col

from groundspeed.service.db.tables import Job
from groundspeed.service.usecases.matching import Offer, unmet

_PAGE, _LARGEST = 16, 512


def _level_query() -> Select[Any]:
    """The next level of urgency and its projects: one index look-up a project, however many jobs wait.

    The queue's index is (state, priority, project, id). The first row has no project yet, the last has none any more.
    """
    waiting = col(Job.state) == "queued"
    first = select(func.min(col(Job.priority))).where(waiting, col(Job.priority) > bindparam("after"))
    step = select(first.scalar_subquery().label("priority"), literal(0).label("project_id")).cte("step", recursive=True)
    later = aliased(Job)
    following = (
        select(func.min(col(later.project_id)))
        .where(col(later.state) == "queued", col(later.priority) == step.c.priority)
        .where(col(later.project_id) > step.c.project_id)
        .scalar_subquery()
    )
    steps = step.union_all(select(step.c.priority, following).where(step.c.project_id.is_not(None)))
    return select(steps.c.priority, steps.c.project_id).where(steps.c.project_id > 0)


# Statements of the hot path, built once: building one costs more than running it.
_LEVEL = _level_query()
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
    .limit(bindparam("limit"))
)


@dataclass(slots=True, eq=False)
class Candidate:
    """``line``: where it waits; None: it was asked for by its number."""

    id: int
    requirements: dict[str, Any]
    line: _Line | None = None


@dataclass(slots=True, eq=False)
class _Line:
    """What waits of one project at one level, as far as it was read, in the order in which it was planned."""

    priority: int
    project_id: int
    rows: list[Candidate] = field(default_factory=list)
    after: int = 0
    size: int = _PAGE
    ended: bool = False


class Queue:
    """What waits, as one round of claims sees it: read without a lock, level by level, as far as the round needs.

    ``asking`` says how many jobs are wanted of it, ``without`` which are not.
    """

    def __init__(self, session: Session, now: datetime, asking: int = 1, without: Collection[int] = ()) -> None:
        self._session = session
        self._now = now
        self._asking = asking
        self._without = without
        self.taken: set[int] = set()
        """Jobs that this round gives to somebody."""
        self._levels: list[list[_Line]] = []
        self._ended = False
        self._busy: dict[int, int] | None = None
        """Running jobs by project; None: nobody needs to know."""

    def candidates(self, offer: Offer) -> Iterator[Candidate]:
        """Jobs that the node can run and nobody of this round has taken, the first to be served first."""
        for level in self._each_level():
            for line in sorted(level, key=self._turn):
                for one in self._each_row(line):
                    if one.id not in self.taken and not unmet(one.requirements, offer):
                        yield one

    def take(self, candidate: Candidate) -> None:
        """It is given to somebody of this round."""
        self.taken.add(candidate.id)
        line = candidate.line
        if line is None:
            return
        line.rows.remove(candidate)
        if self._busy is not None:
            self._busy[line.project_id] = self._busy.get(line.project_id, 0) + 1

    def _turn(self, line: _Line) -> tuple[int, int]:
        return (self._busy or {}).get(line.project_id, 0), line.project_id

    def _each_level(self) -> Iterator[list[_Line]]:
        yield from list(self._levels)
        while not self._ended:
            after = self._levels[-1][0].priority if self._levels else -1
            found = self._session.execute(_LEVEL, {"after": after}).tuples().all()
            if not found:
                self._ended = True
                return
            if len(found) > 1 and self._busy is None:
                self._busy = dict(self._session.execute(_BUSY).tuples().all())
            size = max(_PAGE, min(self._asking, _LARGEST))
            self._levels.append([_Line(level, project, size=size) for level, project in found])
            yield self._levels[-1]

    def _each_row(self, line: _Line) -> Iterator[Candidate]:
        yield from list(line.rows)
        while not line.ended:
            place = {"priority": line.priority, "project": line.project_id, "after": line.after, "now": self._now}
            page = self._session.execute(_PAGE_OF, place | {"limit": line.size}).tuples().all()
            line.ended = len(page) < line.size
            line.size = min(2 * line.size, _LARGEST)  # a node that fits nothing would else ask many times
            if page:
                line.after = page[-1][0] or 0
            read = [Candidate(id_ or 0, needs, line) for id_, needs in page if id_ not in self._without]
            line.rows += read
            yield from read


def ahead(job: Job) -> ColumnElement[bool]:
    """The waiting jobs that stand before this one, as far as order alone decides."""
    earlier = and_(col(Job.priority) == job.priority, col(Job.id) < job.id)
    return and_(col(Job.state) == "queued", or_(col(Job.priority) < job.priority, earlier))
