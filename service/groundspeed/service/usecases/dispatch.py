"""Which waiting job a node gets next: the most urgent first, and among equals the project that has least running.

The queue is read by *kinds*: jobs of one project at one level of urgency that require the same. Whether a node fits is
asked once a kind, so that ten thousand jobs for other nodes stand in nobody's way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from heapq import merge
from operator import attrgetter
from typing import Any

from sqlalchemy import ColumnElement, Integer, Text, and_, bindparam, func, or_, select, text
from sqlmodel import Session, col

from groundspeed.service.db.tables import Job
from groundspeed.service.db.types import JsonDocument
from groundspeed.service.usecases.matching import Offer, unmet

_PAGE, _LARGEST = 16, 512

# The kinds at the next level of urgency: one look-up in the queue's index (state, priority, project, needs, id) a kind,
# however many jobs wait. Statements of the hot path are built once: building one costs more than running it.
_LEVEL = text("""
    WITH RECURSIVE step (id, priority, project_id, needs) AS (
        SELECT * FROM (
            SELECT id, priority, project_id, needs FROM job
            WHERE state = 'queued'
            AND priority = (SELECT min(priority) FROM job WHERE state = 'queued' AND priority > :after)
            ORDER BY project_id, needs, id LIMIT 1
        ) AS first
        UNION ALL
        SELECT job.id, job.priority, job.project_id, job.needs FROM step JOIN job ON job.id = coalesce(
            (SELECT later.id FROM job AS later
            WHERE later.state = 'queued' AND later.priority = step.priority
            AND later.project_id = step.project_id AND later.needs > step.needs
            ORDER BY later.needs, later.id LIMIT 1),
            (SELECT later.id FROM job AS later
            WHERE later.state = 'queued' AND later.priority = step.priority AND later.project_id > step.project_id
            ORDER BY later.project_id, later.needs, later.id LIMIT 1)
        )
    )
    SELECT job.priority, job.project_id, job.needs, job.requirements FROM step JOIN job ON job.id = step.id
""").columns(priority=Integer, project_id=Integer, needs=Text, requirements=JsonDocument)
_BUSY = select(col(Job.project_id), func.count()).where(col(Job.state) == "running").group_by(col(Job.project_id))
_WAITING = (
    select(col(Job.id))
    .where(
        col(Job.state) == "queued",
        col(Job.priority) == bindparam("priority"),
        col(Job.project_id) == bindparam("project"),
        col(Job.needs) == bindparam("needs"),
        col(Job.id) > bindparam("after"),
        or_(col(Job.not_before).is_(None), col(Job.not_before) <= bindparam("now")),
    )
    .order_by(col(Job.id))
    .limit(bindparam("limit"))
)
_UNNAMED = _WAITING.add_columns(col(Job.requirements))


@dataclass(slots=True, eq=False)
class Candidate:
    """``kind``: where it waits; None: it was asked for by its number."""

    id: int
    requirements: dict[str, Any]
    kind: _Kind | None = None


@dataclass(slots=True, eq=False)
class _Kind:
    """Jobs that require the same, as far as they were read, in the order in which they were planned.

    ``needs`` empty: jobs whose kind nobody named, each with requirements of its own.
    """

    priority: int
    project_id: int
    needs: str
    requirements: dict[str, Any]
    size: int = _PAGE
    rows: list[Candidate] = field(default_factory=list)
    after: int = 0
    ended: bool = False

    def suits(self, offer: Offer) -> bool:
        return not self.needs or not unmet(self.requirements, offer)


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
        self._levels: list[dict[int, list[_Kind]]] = []
        """By project."""
        self._ended = False
        self._busy: dict[int, int] | None = None
        """Running jobs by project; None: nobody needs to know."""

    def candidates(self, offer: Offer) -> Iterator[Candidate]:
        """Jobs that the node can run and nobody of this round has taken, the first to be served first."""
        for level in self._each_level():
            for project_id in sorted(level, key=self._turn):
                rows = [self._each_row(kind) for kind in level[project_id] if kind.suits(offer)]
                for one in merge(*rows, key=attrgetter("id")):
                    named = one.kind is not None and one.kind.needs
                    if one.id not in self.taken and (named or not unmet(one.requirements, offer)):
                        yield one

    def take(self, candidate: Candidate) -> None:
        """It is given to somebody of this round."""
        self.taken.add(candidate.id)
        kind = candidate.kind
        if kind is None:
            return
        kind.rows.remove(candidate)
        if self._busy is not None:
            self._busy[kind.project_id] = self._busy.get(kind.project_id, 0) + 1

    def _turn(self, project_id: int) -> tuple[int, int]:
        return (self._busy or {}).get(project_id, 0), project_id

    def _each_level(self) -> Iterator[dict[int, list[_Kind]]]:
        yield from list(self._levels)
        after = next(iter(self._levels[-1].values()))[0].priority if self._levels else -1
        while not self._ended:
            found = self._session.execute(_LEVEL, {"after": after}).tuples().all()
            if not found:
                self._ended = True
                return
            after = found[0][0]
            level: dict[int, list[_Kind]] = {}
            for priority, project_id, needs, requirements in found:
                kind = _Kind(priority, project_id, needs, requirements, max(_PAGE, min(self._asking, _LARGEST)))
                level.setdefault(project_id, []).append(kind)
            if len(level) > 1 and self._busy is None:
                self._busy = dict(self._session.execute(_BUSY).tuples().all())
            self._levels.append(level)
            yield level

    def _each_row(self, kind: _Kind) -> Iterator[Candidate]:
        yield from list(kind.rows)
        while not kind.ended:
            place = {"priority": kind.priority, "project": kind.project_id, "needs": kind.needs, "after": kind.after}
            query = _WAITING if kind.needs else _UNNAMED
            page = self._session.execute(query, place | {"now": self._now, "limit": kind.size}).all()
            kind.ended = len(page) < kind.size
            kind.size = min(2 * kind.size, _LARGEST)  # whoever fits none of many would else ask many times
            if page:
                kind.after = page[-1][0]
            read = [
                Candidate(row[0], kind.requirements if kind.needs else row[1], kind)
                for row in page
                if row[0] not in self._without
            ]
            kind.rows += read
            yield from read


def ahead(job: Job) -> ColumnElement[bool]:
    """The waiting jobs that stand before this one, as far as order alone decides."""
    earlier = and_(col(Job.priority) == job.priority, col(Job.id) < job.id)
    return and_(col(Job.state) == "queued", or_(col(Job.priority) < job.priority, earlier))
