"""A changed environment asks for measurements: the pinned reference and the last head again, on the node that changed;
and where a step coincides with a new commit *and* a new environment, the missing corner of the two by two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.campaign_tables import Campaign, CampaignNode
from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import (
    Benchmark,
    Bookmark,
    ChangePoint,
    Environment,
    Event,
    Job,
    Node,
    Project,
    Request,
    Result,
    Revision,
    Run,
    Series,
)
from groundspeed.service.domain import attribution
from groundspeed.service.domain.attribution import AFTER, BEFORE, BY_CODE, BY_ENVIRONMENT, Attribution, Cell, missing
from groundspeed.service.domain.attribution import attribute as judge
from groundspeed.service.errors import NotFound
from groundspeed.service.usecases import differences, requests
from groundspeed.service.usecases.series import latest_config, threshold

PLACE = "environment events"
REPLICATES = 4
"""Fresh processes at least, on either side of a question about an environment."""
_AT_ONCE = 50
_OPEN_STEPS = 100


def plan(database: Database, now: datetime) -> int:
    """Ask for what changed environments call for; returns how many requests are new. Asking twice asks once."""
    with database.transaction() as session:
        return _events(session, now) + _corners(session, now)


# --- a node that changed ----------------------------------------------------------------------------------------------


def _events(session: Session, now: datetime) -> int:
    place = session.get(Bookmark, PLACE)
    if place is None:
        place = Bookmark(name=PLACE, place=0)
    query = select(Event).where(col(Event.kind) == "environment", col(Event.id) > place.place)
    found = session.scalars(query.order_by(col(Event.id)).limit(_AT_ONCE)).all()
    if not found:
        return 0
    count = sum(_event(session, event, now) for event in found)
    place.place = found[-1].id or place.place
    session.add(place)
    return count


def _event(session: Session, event: Event, now: datetime) -> int:
    node = session.get(Node, event.node_id) if event.node_id is not None else None
    if node is None or event.environment_to_id != node.environment_id or _in_campaign(session, node):
        return 0  # it has changed again since, or its campaign measures it
    query = select(col(Job.project_id)).join(Run, col(Run.job_id) == col(Job.id))
    mine = query.where(col(Run.node_id) == node.id, col(Run.environment_id) == event.environment_from_id).distinct()
    return sum(_again(session, project, node, event, now) for project in session.scalars(mine).all())


def _in_campaign(session: Session, node: Node) -> bool:
    query = (
        select(col(CampaignNode.id))
        .join(Campaign, col(Campaign.id) == col(CampaignNode.campaign_id))
        .where(col(CampaignNode.node_id) == node.id, col(Campaign.state).in_(("running", "held")))
        .limit(1)
    )
    return session.execute(query).first() is not None


def _again(session: Session, project_id: int, node: Node, event: Event, now: datetime) -> int:
    project = session.get_one(Project, project_id)
    config = latest_config(session, project_id)
    reference = (config.get("project") or {}).get("reference")
    shas = [sha for sha in (reference, _last_head(session, project_id, node)) if sha]
    if not shas:
        return 0
    payload = {
        "shas": list(dict.fromkeys(shas)), "suites": [], "again": True, "node": node.name,
        "pool": node.labels.get("pool") or "default", "replicates": REPLICATES, "event": event.id, "why": event.body,
    }  # fmt: skip
    new = requests.New(
        "environment", f"environment:{event.id}", project.tip_sha or shas[-1], payload,
        subject=f"environment of {node.name}",
    )  # fmt: skip
    return int(requests.add(session, project_id, new, now).created)


def _last_head(session: Session, project_id: int, node: Node) -> str | None:
    """The newest commit of the branch that was measured on this node."""
    query = (
        select(col(Revision.sha))
        .join(Run, col(Run.revision_id) == col(Revision.id))
        .where(col(Revision.project_id) == project_id, col(Run.node_id) == node.id)
        .where(col(Revision.position).is_not(None))
        .order_by(col(Revision.position).desc())
        .limit(1)
    )
    found: str | None = session.scalars(query).first()
    return found


# --- the two by two ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Corner:
    """A cell that is missing, and the node that could measure it; ``node`` empty: none has that environment."""

    cell: Cell
    node: str


def _corners(session: Session, now: datetime) -> int:
    query = (
        select(ChangePoint)
        .where(col(ChangePoint.cause) == "both", col(ChangePoint.state) != "withdrawn")
        .order_by(col(ChangePoint.id).desc())
        .limit(_OPEN_STEPS)
    )
    return sum(_corner(session, point, now) for point in session.scalars(query).all())


def _corner(session: Session, point: ChangePoint, now: datetime) -> int:
    series = session.get_one(Series, point.series_id)
    able = [corner for corner in corners(session, point, series) if corner.node]
    if not able or not series.gate:
        return 0
    corner = able[0]
    revision = point.before_revision_id if corner.cell[0] == "old" else point.after_revision_id
    sha = session.get_one(Revision, revision).sha
    suite = session.get_one(Benchmark, series.benchmark_id).suite
    node = session.scalars(select(Node).where(col(Node.name) == corner.node)).one()
    environment = point.environment_to_id if corner.cell[1] == "new" else point.environment_from_id
    payload = {
        "shas": [sha], "suites": [suite], "again": True, "node": node.name,
        "pool": node.labels.get("pool") or "default", "replicates": REPLICATES,
        "why": f"code or environment? The {corner.cell[0]} commit in the {corner.cell[1]} environment is missing.",
    }  # fmt: skip
    key = f"attribute:{suite}:{sha[:16]}:{environment}"
    new = requests.New("environment", key[:200], sha, payload)
    return int(requests.add(session, series.project_id, new, now).created)


def corners(session: Session, point: ChangePoint, series: Series) -> list[Corner]:
    """What is worth measuring to tell code from environment, and where; empty when nothing is missing."""
    if point.environment_from_id is None or point.environment_to_id is None:
        return []
    wanted = missing(cells(session, point))
    nodes = {
        side: _node_with(session, series, environment)
        for side, environment in (("old", point.environment_from_id), ("new", point.environment_to_id))
    }
    return [Corner(cell, nodes[cell[1]]) for cell in wanted]


def _node_with(session: Session, series: Series, environment: int) -> str:
    query = (
        select(col(Node.name))
        .where(col(Node.environment_id) == environment, col(Node.hardware_id) == series.hardware_id)
        .where(col(Node.state) == "active")
        .order_by(col(Node.seen_at).desc())
        .limit(1)
    )
    return session.scalars(query).first() or ""


def cells(session: Session, point: ChangePoint) -> dict[Cell, Sequence[float]]:
    """Medians of fresh processes in each of the four corners."""
    places: dict[tuple[int, int | None], Cell] = {
        (point.before_revision_id, point.environment_from_id): BEFORE,
        (point.before_revision_id, point.environment_to_id): BY_ENVIRONMENT,
        (point.after_revision_id, point.environment_from_id): BY_CODE,
        (point.after_revision_id, point.environment_to_id): AFTER,
    }
    query = select(col(Result.revision_id), col(Result.environment_id), col(Result.value)).where(
        col(Result.series_id) == point.series_id,
        col(Result.revision_id).in_({point.before_revision_id, point.after_revision_id}),
        col(Result.environment_id).in_({point.environment_from_id, point.environment_to_id}),
        col(Result.state) != "rejected",
    )
    found: dict[Cell, list[float]] = {}
    for revision, environment, value in session.execute(query).tuples():
        if (cell := places.get((revision, environment))) is not None:
            found.setdefault(cell, []).append(value)
    return {cell: tuple(values) for cell, values in found.items()}


def causes(database: Database, slug: str, regression_id: int) -> list[dict[str, Any]]:
    """:func:`explain` for every step of a regression where the environment changed too; raises :class:`NotFound`."""
    with database.read() as session:
        query = (
            select(col(ChangePoint.id), col(ChangePoint.series_id))
            .join(Series, col(Series.id) == col(ChangePoint.series_id))
            .join(Project, col(Project.id) == col(Series.project_id))
            .where(col(ChangePoint.regression_id) == regression_id, col(Project.slug) == slug)
            .where(col(ChangePoint.state) != "withdrawn")
            .order_by(col(ChangePoint.id))
        )
        found = session.execute(query).tuples().all()
    if not found:
        raise NotFound(f"{slug} has no regression {regression_id}.", "Look at the list of regressions.")
    return [{"change_point": id_, "series": series, **explain(database, id_ or 0)} for id_, series in found]


def explain(database: Database, change_point_id: int) -> dict[str, Any]:
    """Code or environment, of one step: the answer with what it rests on, or that it cannot be known and why."""
    with database.read() as session:
        point = session.get(ChangePoint, change_point_id)
        if point is None:
            raise NotFound(f"There is no change point {change_point_id}.", "It may have been deleted.")
        return explained(session, point)


def explained(session: Session, point: ChangePoint) -> dict[str, Any]:
    """As :func:`explain`: cause, reason, what the control workload says of the machine, processes by corner, and what
    differs between the two environments.
    """
    machine = _machine(session, point)
    if point.environment_from_id == point.environment_to_id:
        why = "the environment was the same on both sides"
        return {"cause": "code", "reason": why, "machine": machine, "cells": {}, "difference": []}
    series = session.get_one(Series, point.series_id)
    suite = session.get_one(Benchmark, series.benchmark_id).suite
    config = latest_config(session, series.project_id)
    there = cells(session, point)
    answer = judge(there, threshold(config, suite, series.metric, series.kind) or 0.01)
    wanted = corners(session, point, series)
    asked = session.scalars(
        select(col(Request.state)).where(
            col(Request.project_id) == series.project_id,
            col(Request.idempotency_key).startswith(f"attribute:{suite}:"),
        )
    ).all()
    return {
        "cause": answer.cause,
        "machine": machine,
        "reason": _reason(answer, wanted, any(state in {"pending", "planned", "running"} for state in asked)),
        "cells": {f"{commit} commit, {environment} environment": len(v) for (commit, environment), v in there.items()},
        "difference": _difference(session, point),
    }


def _difference(session: Session, point: ChangePoint) -> list[str]:
    sides = [session.get(Environment, id_) for id_ in (point.environment_from_id, point.environment_to_id) if id_]
    both = [side.facets for side in sides if side is not None]
    return list(differences.in_words(*both)) if len(both) == 2 else []


def _machine(session: Session, point: ChangePoint) -> str:
    """What the control workload of the leases says of the machine itself, before and after; empty: nothing."""
    sides = (
        (point.before_revision_id, point.environment_from_id),
        (point.after_revision_id, point.environment_to_id),
    )
    before, after = (_control(session, point.series_id, *side) for side in sides)
    told = []
    for name, words in (("cpu_s", "processor"), ("device_s", "device"), ("memory_s", "memory of the device")):
        found = attribution.moved(before.get(name, ()), after.get(name, ()))
        if found is not None:
            told.append(f"the {words} took {found - 1:+.1%} for the control workload")
    return "; ".join(told)


def _control(session: Session, series: int, revision: int, environment: int | None) -> dict[str, list[float]]:
    """Seconds of the control workload by piece, one value a lease."""
    query = (
        select(col(Run.attempt_id), col(Run.conditions))
        .join(Result, col(Result.run_id) == col(Run.id))
        .where(col(Result.series_id) == series, col(Run.revision_id) == revision)
    )
    if environment is not None:
        query = query.where(col(Run.environment_id) == environment)
    leases = {attempt: conditions.get("control") for attempt, conditions in session.execute(query).tuples()}
    found: dict[str, list[float]] = {}
    for control in leases.values():
        for name, value in (control if isinstance(control, dict) else {}).items():
            if name.endswith("_s") and isinstance(value, (int, float)) and value > 0:
                found.setdefault(name, []).append(float(value))
    return found


def _reason(answer: Attribution, wanted: Sequence[Corner], coming: bool) -> str:
    if answer.cause != "unknown" or not wanted:
        return answer.reason
    able = [corner for corner in wanted if corner.node]
    if not able:
        return f"{answer.reason}, and it cannot be known: no node has either environment any more"
    where = f"{able[0].node} can measure the {able[0].cell[0]} commit in the {able[0].cell[1]} environment"
    return f"{answer.reason}; {where}{', which is on its way' if coming else ''}"
