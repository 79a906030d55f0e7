"""What is kept for how long, in three classes.


*For ever*: runs, values, spreads, counts, verdicts, change points, regressions, audit: everything that a chart, a
verdict or a decision reads.
*For some months*: the raw samples behind a value, the trace of conditions behind a run's summary, kernel tables.
*For some weeks*: log lines.

Whatever a regression refers to keeps its raw samples and traces for ever: the results of its series from the last
commit that does not show it to the first that does.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, delete, exists, select, update
from sqlalchemy.orm import aliased
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import ChangePoint, KernelTable, LogEntry, Result, Revision, Run
from groundspeed.service.usecases.bookmarks import bookmark

_SAMPLES = "retention.samples"


@dataclass(frozen=True, slots=True)
class Policy:
    """Ages after which raw material goes; None: never."""

    samples: timedelta | None = timedelta(days=180)
    logs: timedelta | None = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Thinned:
    """How many results lost their samples, runs their trace, and log lines their place."""

    samples: int = 0
    traces: int = 0
    lines: int = 0

    def __add__(self, other: Thinned) -> Thinned:
        return Thinned(self.samples + other.samples, self.traces + other.traces, self.lines + other.lines)


def policy_of(samples_days: float, logs_days: float) -> Policy:
    """From settings in days, where 0 stands for: keep for ever."""
    return Policy(
        timedelta(days=samples_days) if samples_days else None, timedelta(days=logs_days) if logs_days else None
    )


def thin(db: Database, policy: Policy, now: datetime, *, runs_at_once: int = 1000, steps: int = 1000) -> Thinned:
    """Let go of what is older than the policy keeps; each step is a short transaction that remembers how far it came.

    Called again and again it does nothing until more has grown old. ``steps`` bounds one call.
    """
    done = Thinned()
    for _ in range(steps):
        with db.transaction() as session:
            step = _samples(session, policy, now, runs_at_once) if policy.samples is not None else None
        if step is None:
            break
        done += step
    for _ in range(steps):
        with db.transaction() as session:
            step = _logs(session, policy, now) if policy.logs is not None else None
        if step is None:
            break
        done += step
    return done


def _samples(session: Session, policy: Policy, now: datetime, limit: int) -> Thinned | None:
    """The next runs by their number, which grows with time; None when the next one is young."""
    mark = bookmark(session, _SAMPLES)
    cutoff = now - (policy.samples or timedelta())
    columns = col(Run.id), col(Run.created_at)
    peek = select(col(Run.created_at)).where(col(Run.id) > mark.place).order_by(col(Run.id)).limit(1)
    oldest = session.scalar(peek)
    if oldest is None or oldest >= cutoff:
        return None
    rows = session.execute(select(*columns).where(col(Run.id) > mark.place).order_by(col(Run.id)).limit(limit)).tuples()
    old = []
    for id_, created_at in rows:
        if created_at >= cutoff:
            break
        old.append(id_ or 0)
    first, last = old[0], old[-1]
    in_step = col(Result.run_id).between(first, last) & col(Result.samples).is_not(None)
    samples = session.execute(update(Result).where(in_step, ~_referred_to()).values(samples=None))
    kept = exists().where(col(Result.run_id) == col(Run.id), col(Result.samples).is_not(None))
    with_trace = col(Run.id).between(first, last) & col(Run.trace).is_not(None)
    traces = session.execute(update(Run).where(with_trace, ~kept).values(trace=None))
    held = exists().where(col(Result.run_id) == col(KernelTable.run_id), col(Result.samples).is_not(None))
    session.execute(delete(KernelTable).where(col(KernelTable.run_id).between(first, last), ~held))
    mark.place = last
    session.add(mark)
    return Thinned(_count(samples), _count(traces))


def _referred_to() -> ColumnElement[bool]:
    """Whether a result lies in the suspect range of a change point of its series that has a regression."""
    before, after, own = aliased(Revision), aliased(Revision), aliased(Revision)
    return (
        select(col(ChangePoint.id))
        .join(before, col(before.id) == col(ChangePoint.before_revision_id))
        .join(after, col(after.id) == col(ChangePoint.after_revision_id))
        .join(own, col(own.id) == col(Result.revision_id))
        .where(
            col(ChangePoint.series_id) == col(Result.series_id),
            col(ChangePoint.regression_id).is_not(None),
            col(ChangePoint.state) != "withdrawn",
            col(own.position).between(col(before.position), col(after.position)),
        )
        .correlate(Result)
        .exists()
    )


def _logs(session: Session, policy: Policy, now: datetime, limit: int = 5000) -> Thinned | None:
    """The oldest log lines by their number, up to the first that is young; None when the oldest one is."""
    cutoff = now - (policy.logs or timedelta())
    oldest = session.scalar(select(col(LogEntry.at)).order_by(col(LogEntry.id)).limit(1))
    if oldest is None or oldest >= cutoff:
        return None
    old = []
    rows = session.execute(select(col(LogEntry.id), col(LogEntry.at)).order_by(col(LogEntry.id)).limit(limit)).tuples()
    for id_, at in rows:
        if at >= cutoff:
            break
        old.append(id_ or 0)
    return Thinned(lines=_count(session.execute(delete(LogEntry).where(col(LogEntry.id).between(old[0], old[-1])))))


def _count(result: object) -> int:
    return max(int(getattr(result, "rowcount", 0)), 0)
