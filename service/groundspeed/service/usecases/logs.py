"""An attempt's log: lines come in batches, perhaps twice, and are read by what comes after a line already seen."""

from __future__ import annotations

from datetime import UTC, datetime

from groundspeed.service.db.engine import Database
from groundspeed.service.db.identities import insert_new
from groundspeed.service.db.tables import Attempt, LogEntry
from groundspeed.service.db.types import clean_text
from groundspeed.service.errors import NotFound
from groundspeed.service.wire import v1


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


def _time(seconds: float) -> datetime:
    """A worker's clock may say anything."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)
