"""Leaving a regression out of the queue until something has come: a date, a commit, another environment."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import ChangePoint, Environment, Regression, Result, Revision, Run
from groundspeed.service.errors import Invalid
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.notifications import hints
from groundspeed.service.usecases.triage import MACHINE, note

_COMMIT = re.compile(r"^(?:commit )?([0-9a-f]{7,64})$")
_HOW = "Give a date (2026-05-31), a commit (its hash), or: environment (any other one, or one by its name)."


def understood(session: Session, project_id: int, text: str, now: datetime) -> str:
    """The condition in the one way in which it is kept. Raises ``Invalid`` for what can never come."""
    text = text.strip()
    if not text:
        return ""
    if text == "environment" or text.startswith("environment "):
        return " ".join(text.split())
    if found := _COMMIT.match(text.lower()):
        return f"commit {_full(session, project_id, found[1])}"
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise Invalid(f"{text[:80]!r} is nothing that could be waited for.", _HOW) from None
    if day <= now.date():
        raise Invalid(f"{day.isoformat()} is over.", "Give a later date.")
    return day.isoformat()


def _full(session: Session, project_id: int, sha: str) -> str:
    """The whole hash where the commit is known; one that has not come yet stays as it was given."""
    query = select(col(Revision.sha)).where(col(Revision.project_id) == project_id, col(Revision.sha).startswith(sha))
    found = session.scalars(query.limit(2)).all()
    if len(found) > 1:
        raise Invalid(f"More than one commit begins with {sha}.", "Give more of the hash.")
    return found[0] if found else sha


def wake(db: Database, now: datetime) -> int:
    """Put those back into the queue whose time has come; returns how many."""
    with db.read() as session:
        waiting = session.scalars(select(col(Regression.id)).where(col(Regression.ignored_at).is_not(None))).all()
    return sum(_wake(db, one, now) for one in waiting if one is not None)


def _wake(db: Database, regression_id: int, now: datetime) -> bool:
    with db.transaction() as session:
        row = session.scalars(held(select(Regression).where(col(Regression.id) == regression_id))).one()
        if row.ignored_at is None or not _come(session, row, row.ignored_at, now):
            return False
        waited, row.ignore_until, row.ignored_at, row.updated_at = row.ignore_until, "", None, now
        session.add(row)
        note(session, row, "over", MACHINE, now, {"ignored_until": waited})
        hints.hint(session)
        return True


def _come(session: Session, row: Regression, since: datetime, now: datetime) -> bool:
    """Whether what was waited for is there. Commits and environments count once there is a result of a series of it."""
    kind, _, rest = row.ignore_until.partition(" ")
    mine = select(col(ChangePoint.series_id)).where(col(ChangePoint.regression_id) == row.id)
    results = col(Result.series_id).in_(mine)
    if kind == "commit":
        wanted = select(col(Revision.position)).where(
            col(Revision.project_id) == row.project_id, col(Revision.sha).startswith(rest)
        )
        at = session.scalar(wanted.limit(1))
        there = select(col(Result.id)).join(Revision, col(Revision.id) == col(Result.revision_id))
        return (
            at is not None and session.scalar(there.where(results, col(Revision.position) >= at).limit(1)) is not None
        )
    if kind == "environment":
        in_it = select(col(Run.id)).join(Result, col(Result.run_id) == col(Run.id))
        in_it = in_it.where(results, col(Result.environment_id) == col(Environment.id))
        before, after = in_it.where(col(Run.created_at) <= since), in_it.where(col(Run.created_at) > since)
        named = (col(Environment.label) == rest) | col(Environment.fingerprint).startswith(rest)
        new = select(col(Environment.id))
        new = new.where(col(Environment.id).in_(select(col(Result.environment_id)).where(results)))
        new = new.where(named, after.exists()) if rest else new.where(~before.exists())
        return session.scalar(new.limit(1)) is not None
    return now >= datetime.combine(date.fromisoformat(row.ignore_until), datetime.min.time(), UTC)
