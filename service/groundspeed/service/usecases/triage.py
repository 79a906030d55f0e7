"""Which state of a regression may follow which, and who may say so: one function moves them all, and writes it down.

Drawn in docs/triage.md, which a test compares with the table here.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlmodel import Session

from groundspeed.service.db.bulk import insert_rows
from groundspeed.service.db.tables import AuditEntry, Regression
from groundspeed.service.errors import Conflict, Invalid
from groundspeed.service.usecases.cases import AnyCase

Entry = tuple[str, str, str, str, dict[str, object], datetime]
_COLUMNS = ("actor", "action", "subject_type", "subject_id", "data", "at")

MACHINE = "groundspeed"
"""The actor of what detection does by itself."""

PEOPLE = ("new", "acknowledged", "in-progress", "accepted", "false-alarm", "fixed")
"""States that a person may choose, where ``TRANSITIONS`` lets them follow the one that a regression is in."""

TRANSITIONS: dict[str, tuple[str, ...]] = {
    "new": ("acknowledged", "in-progress", "accepted", "false-alarm", "fixed", "recovered", "withdrawn", "merged"),
    "acknowledged": ("new", "in-progress", "accepted", "false-alarm", "fixed", "recovered", "merged"),
    "in-progress": ("new", "acknowledged", "accepted", "false-alarm", "fixed", "recovered", "merged"),
    "accepted": ("new", "acknowledged", "in-progress", "merged"),
    "false-alarm": ("new", "acknowledged", "in-progress", "merged"),
    "fixed": ("new", "acknowledged", "in-progress", "merged"),
    "recovered": ("new", "acknowledged", "in-progress", "accepted", "false-alarm", "fixed", "merged"),
    "withdrawn": ("new", "merged"),
    "merged": ("new",),
}
BY_MACHINE_ALONE = ("recovered", "withdrawn", "merged")
"""States that follow from what is measured, or from a merge; nobody sets them by hand."""


def move(session: Session, regression: Regression, state: str, actor: str, now: datetime, why: str = "") -> None:
    """Change the state and write who did it. Raises ``Invalid`` for a state that is none, ``Conflict`` for one that
    may not follow.
    """
    data = change(regression, state, now, why)
    if data is not None:
        session.add(regression)
        note(session, regression, "state", actor, now, data)


def change(regression: AnyCase, state: str, now: datetime, why: str = "") -> dict[str, object] | None:
    """Change the state; returns what is to be noted of it, None where it is this one already. Raises like ``move``."""
    if state not in TRANSITIONS:
        raise Invalid(f"{state!r} is no state of a regression.", f"Use one of: {', '.join(PEOPLE)}.")
    if regression.state == state:
        return None
    if state not in TRANSITIONS[regression.state]:
        allowed = [one for one in TRANSITIONS[regression.state] if one not in BY_MACHINE_ALONE]
        raise Conflict(
            f"Regression {regression.id} is {regression.state}: it cannot become {state}.",
            f"It can become: {', '.join(allowed)}.",
        )
    before, regression.state = regression.state, state
    regression.updated_at = now
    data: dict[str, object] = {"from": before, "to": state}
    if why:
        data["why"] = why
    return data


def note(
    session: Session, regression: AnyCase, action: str, actor: str, now: datetime, data: dict[str, object]
) -> None:
    """Write down who did what to a regression."""
    actor, action, subject_type, subject_id, data, at = entry(regression, action, actor, now, data)
    session.add(
        AuditEntry(actor=actor, action=action, subject_type=subject_type, subject_id=subject_id, data=data, at=at)
    )


def entry(regression: AnyCase, action: str, actor: str, now: datetime, data: dict[str, object]) -> Entry:
    """What is to be written down, for :func:`write`."""
    return actor, f"regression.{action}", "regression", str(regression.id), data, now


def write(session: Session, entries: Sequence[Entry]) -> None:
    """Write down many, in their order."""
    insert_rows(session, AuditEntry, _COLUMNS, entries)
