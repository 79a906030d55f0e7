"""One cause, one regression: change points that can come from one commit (or one environment) belong together.

Ranges are half-open: a change between commits 4 and 7 suspects 5, 6 and 7. Two changes of the same kind whose suspects
overlap have one cause until more is known; when bisection parts them, the one that moved away gets its own regression.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlmodel import Session

from groundspeed.service.usecases.causes import Causes
from groundspeed.service.usecases.picture import Span
from groundspeed.service.usecases.steps import Member

OPEN = ("new", "acknowledged", "in-progress")


def regroup(causes: Causes, project_id: int, changed: Sequence[Member], now: datetime) -> None:
    """Give every changed change point its regression, and bring the regressions concerned up to date."""
    if not changed:
        return
    causes.hold(project_id)
    touched = {row.regression_id for row in changed}
    for row in changed:
        if row.state != "withdrawn" and not row.pinned:
            _settle(causes, project_id, row, now)
    touched |= {row.regression_id for row in changed}
    for regression_id in sorted(one for one in touched if one is not None):
        _refresh(causes, regression_id, now)


def refresh(session: Session, regression_id: int, now: datetime) -> None:
    """Let a regression's range, cause, title and state follow its members."""
    _refresh(Causes(session), regression_id, now)


def _refresh(causes: Causes, regression_id: int, now: datetime) -> None:
    causes.settle()
    regression = causes.regression(regression_id)
    seen = causes.picture(regression_id)
    if seen is None:
        if regression.state == "new":
            causes.move(regression, "withdrawn", now, "detection no longer sees it")
        return
    if regression.state == "withdrawn":
        causes.move(regression, "new", now, "detection sees it again")
    causes.describe(regression, seen, now)
    if regression.notified_at is None and seen.confirmed:
        regression.notified_at = now
        causes.changed(regression)
        causes.note(regression, "confirmed", now, {})
        causes.hint()
    if regression.kind != "regression":
        return
    if seen.recovered and regression.state in OPEN:
        causes.move(regression, "recovered", now, "the level before it is reached again")
        causes.hint()
    elif regression.state == "recovered" and not seen.recovered:
        causes.move(regression, "new", now, "the level has risen again")
        causes.hint()


def _settle(causes: Causes, project_id: int, row: Member, now: datetime) -> None:
    """Keep the regression that a change point has while it still fits; else find or make another."""
    (span,) = causes.spans([row])
    left = row.regression_id
    if row.regression_id is not None:
        others = [one for one in causes.members(row.regression_id) if one.id != row.id]
        if not others or any(span.overlaps(there) for there in causes.spans(others)):
            return
        causes.put(row, None)
    found = _find(causes, project_id, row, span, left)
    causes.put(row, found if found is not None else _make(causes, project_id, row, now))


def _find(causes: Causes, project_id: int, row: Member, span: Span, left: int | None) -> int | None:
    """The regression of the same kind whose suspects overlap, the nearest first; not the one that it has ``left``,
    which may lie still where it lay with it.
    """
    fitting = [
        (span.distance(there), id_)
        for there, id_ in causes.candidates(project_id, row.kind, span, left)
        if span.overlaps(there)
    ]
    if span.before == span.after:
        fitting = [entry for entry in fitting if row.environment_to_id in causes.environments(entry[1])]
    return min(fitting)[1] if fitting else None


def _make(causes: Causes, project_id: int, row: Member, now: datetime) -> int:
    made = causes.make(project_id, row, now)
    causes.note(made, "found", now, {})
    return made.id or 0
