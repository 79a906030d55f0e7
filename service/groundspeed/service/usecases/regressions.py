"""What people do with regressions: state, owner, note, link, merge and split; each one transaction with its audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import select, update
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import ChangePoint, Regression
from groundspeed.service.errors import Conflict, Invalid, NotFound
from groundspeed.service.usecases import grouping, ignoring
from groundspeed.service.usecases.locking import held, hold_project
from groundspeed.service.usecases.notifications import hints
from groundspeed.service.usecases.triage import BY_MACHINE_ALONE, PEOPLE, move, note

LIMITS = {"assignee": 200, "note": 10_000, "link": 2_000, "ignore_until": 200}
"""Characters of the fields that people write."""


def set_state(db: Database, regression_id: int, state: str, now: datetime, *, actor: str, why: str = "") -> None:
    """Triage. Raises ``NotFound``, ``Invalid`` for a state that people may not choose, ``Conflict`` for one that may
    not follow the present one.
    """
    with db.transaction() as session:
        regression = _held(session, regression_id)
        if state in BY_MACHINE_ALONE:
            raise Invalid(f"{state!r} follows from what is measured.", f"Use one of: {', '.join(PEOPLE)}.")
        move(session, regression, state, actor, now, why)


def edit(db: Database, regression_id: int, fields: Mapping[str, str], now: datetime, *, actor: str) -> None:
    """Change what people keep with a regression: any of ``assignee``, ``note``, ``link`` and ``ignore_until`` (a date,
    a commit, "environment": see ``ignoring``); "" empties a field. Raises ``NotFound``, ``Invalid``.
    """
    wanted = {name: value.strip() for name, value in fields.items()}
    unknown = sorted(set(wanted) - set(LIMITS))
    if unknown:
        raise Invalid(f"A regression has no field {unknown[0]!r}.", f"Use: {', '.join(LIMITS)}.")
    for name, value in wanted.items():
        if len(value) > LIMITS[name]:
            raise Invalid(f"{name} has {len(value)} characters.", f"Shorten it to {LIMITS[name]}.")
    if wanted.get("link") and not wanted["link"].startswith(("http://", "https://")):
        raise Invalid(f"{wanted['link'][:80]!r} is no link.", "Give an address that starts with https:// or http://.")
    with db.transaction() as session:
        regression = _held(session, regression_id)
        changed = {name: value for name, value in wanted.items() if getattr(regression, name) != value}
        if not changed:
            return
        if "ignore_until" in changed:
            changed["ignore_until"] = ignoring.understood(session, regression.project_id, changed["ignore_until"], now)
            regression.ignored_at = now if changed["ignore_until"] else None
        before = {name: getattr(regression, name) for name in changed}
        for name, value in changed.items():
            setattr(regression, name, value)
        regression.updated_at = now
        session.add(regression)
        note(session, regression, "edit", actor, now, {"from": before, "to": changed})
        if changed.get("assignee"):
            hints.hint(session)


def merge(db: Database, regression_ids: Sequence[int], into: int, now: datetime, *, actor: str) -> None:
    """One cause after all: the change points of ``regression_ids`` go to ``into`` and stay there whatever is
    recomputed. Raises ``NotFound``, ``Conflict`` for another project's or for one that is merged already.
    """
    with db.transaction() as session:
        _hold_projects(session, [*regression_ids, into])
        found = {one: _held(session, one) for one in sorted({*regression_ids, into})}
        target = found.pop(into)
        if not found:
            raise Invalid("There is nothing to merge.", "Name at least one other regression.")
        for other in found.values():
            if other.project_id != target.project_id:
                raise Conflict(f"Regression {other.id} is another project's.", "Merge within one project.")
            if "merged" in (other.state, target.state):
                raise Conflict("A regression that is merged already cannot be merged.", "Use the one it went into.")
        members = col(ChangePoint.regression_id).in_([*found, into])
        session.execute(update(ChangePoint).where(members).values(regression_id=into, pinned=True))
        session.expire_all()
        for other in found.values():
            other.merged_into_id = into
            move(session, other, "merged", actor, now, f"into {into}")
        note(session, target, "merge", actor, now, {"merged": sorted(found)})
        session.flush()
        grouping.refresh(session, into, now)


def split(db: Database, regression_id: int, change_point_ids: Sequence[int], now: datetime, *, actor: str) -> int:
    """Two causes after all: these change points become a regression of their own, which starts in the state of the
    old one; returns its id. Raises ``NotFound``, ``Invalid`` when none or all would go.
    """
    with db.transaction() as session:
        _hold_projects(session, [regression_id])
        regression = _held(session, regression_id)
        rows = session.scalars(select(ChangePoint).where(col(ChangePoint.regression_id) == regression_id)).all()
        going = [row for row in rows if row.id in set(change_point_ids)]
        if len(going) != len(set(change_point_ids)):
            raise NotFound(f"Not all of these change points belong to regression {regression_id}.", "Look at it again.")
        if not going or len(going) == len(rows):
            raise Invalid("A split leaves at least one change point on either side.", "Choose some, not all.")
        other = Regression(
            project_id=regression.project_id,
            kind=going[0].kind,
            state=regression.state,
            assignee=regression.assignee,
            created_at=now,
            updated_at=now,
            notified_at=regression.notified_at,
        )
        session.add(other)
        session.flush()
        for row in rows:
            row.pinned = True
            if row in going:
                row.regression_id = other.id
            session.add(row)
        session.flush()
        data: dict[str, object] = {"new": other.id, "change_points": sorted(set(change_point_ids))}
        note(session, regression, "split", actor, now, data)
        for one in (regression_id, other.id or 0):
            grouping.refresh(session, one, now)
        return other.id or 0


def _hold_projects(session: Session, regression_ids: Sequence[int]) -> None:
    """Detection is not to move change points meanwhile."""
    query = select(col(Regression.project_id)).where(col(Regression.id).in_(regression_ids))
    for project_id in sorted(set(session.scalars(query))):
        hold_project(session, project_id)


def _held(session: Session, regression_id: int) -> Regression:
    query = held(select(Regression).where(col(Regression.id) == regression_id))
    found = session.scalars(query).one_or_none()
    if found is None:
        raise NotFound(f"There is no regression {regression_id}.", "The list of regressions has them all.")
    return found
