"""An attempt's log: lines come in batches, perhaps twice, and are read by what comes after a line already seen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import select
from sqlmodel import col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.identities import insert_new
from groundspeed.service.db.tables import Attempt, Job, LogEntry
from groundspeed.service.db.types import clean_text
from groundspeed.service.errors import NotFound
from groundspeed.service.wire import v1


@dataclass(frozen=True, slots=True)
class Line:
    id: int
    attempt_id: str
    at: datetime
    stream: str
    text: str


def append(database: Database, attempt_id: str, batch: v1.LogBatch, max_lines: int) -> v1.Ack:
    """Keep the lines that are new; those beyond ``max_lines`` of an attempt are dropped, which the last line says."""
    kept = [line for line in batch.lines if line.seq < max_lines]
    rows = [
        {
            "attempt_id": attempt_id,
            "seq": line.seq,
            "at": _time(line.at),
            "stream": line.stream,
            "text": clean_text(line.text),
        }
        for line in kept
    ]
    if len(kept) < len(batch.lines):
        text = f"More than {max_lines} lines: the rest is not kept."
        at = _time(batch.lines[-1].at)
        rows.append({"attempt_id": attempt_id, "seq": max_lines, "at": at, "stream": "worker", "text": text})
    with database.transaction() as session:
        if session.get(Attempt, attempt_id) is None:
            raise NotFound(f"There is no attempt {attempt_id}.", "The job must be claimed first.")
        if rows:
            session.execute(insert_new(session, LogEntry), rows)
    return v1.Ack()


def after(database: Database, job_id: int, last_id: int = 0, limit: int = 500) -> list[Line]:
    """Lines of all attempts of a job, in the order they arrived, after the one with id ``last_id``."""
    with database.read() as session:
        if last_id == 0 and session.get(Job, job_id) is None:
            raise NotFound(f"There is no job {job_id}.", "It may have been deleted with its project.")
        attempts = select(col(Attempt.id)).where(col(Attempt.job_id) == job_id)
        query = select(LogEntry).where(col(LogEntry.attempt_id).in_(attempts), col(LogEntry.id) > last_id)
        rows = session.scalars(query.order_by(col(LogEntry.id)).limit(limit)).all()
        return [Line(row.id or 0, row.attempt_id, row.at, row.stream, row.text) for row in rows]


def _time(seconds: float) -> datetime:
    """A worker's clock may say anything."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)
