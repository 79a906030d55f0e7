"""Going and getting more data: replicates beside a doubtful step, and the unmeasured commits inside a suspect range.

What would settle the open findings is the domain's to say (``domain.plan``); here it becomes jobs, within the budget of
the request that brought the commits. The same state of knowledge asks only once: a follow-up that brought nothing is
not repeated.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, func, or_, select
from sqlmodel import Session, col

from groundspeed.service.config.model import SuiteSection
from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import (
    Benchmark,
    ChangePoint,
    Job,
    JobSide,
    Project,
    Request,
    Result,
    Revision,
    Series,
)
from groundspeed.service.domain.detect import DetectConfig, Detection, detect
from groundspeed.service.domain.plan import Suspect, suspects
from groundspeed.service.usecases import bisect, planning, remeasure, requests
from groundspeed.service.usecases.import_tables import PLUGIN_PREFIX
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.remeasure import Wish
from groundspeed.service.usecases.series import LoadedSeries, latest_config, load_series

_OPEN = ("queued", "running")
_FOLLOWUPS = ("followup", "bisect")
NEAR = 5
"""As many points on a side as let a step stand without replicates."""
LATELY = timedelta(seconds=60)
YOUNG = 40
"""A series with fewer points has too few of them to average its noise away."""
HINT = DetectConfig(alpha=10.0, min_points=1_000_000)
"""Steps of 2.6 standard errors: too weak to be shown, strong enough to be worth fresh processes on both sides."""
MOST_HINTS = 500


def plan_for_slug(database: Database, slug: str, now: datetime) -> int:
    """As :func:`plan_followups`, for a project by its name."""
    with database.read() as session:
        project_id = requests.by_slug(session, slug).id or 0
    return plan_followups(database, project_id, now)


def plan_followups(database: Database, project_id: int, now: datetime) -> int:
    """Make jobs for what would settle the project's open findings; returns how many are new."""
    with database.transaction() as session:
        # One planner a project at a time: two must not ask for the same twice.
        project = session.scalars(held(select(Project).where(col(Project.id) == project_id))).one_or_none()
        if project is None:
            return 0
        by_hand = bisect.advance(session, project_id, now)
        parent = _parent(session, project_id)
        if parent is None or remeasure.spent(session, parent) >= remeasure.budget(parent):
            return by_hand
        ids = dict.fromkeys([*_open_series(session, project_id), *_young_series(session, project_id)])
        wishes = _merged(wish for one in ids for wish in _wishes(session, one))
        return by_hand + _make(session, parent, _not_on_their_way(session, wishes), now)


def waiting(database: Database, now: datetime) -> list[int]:
    """Projects whose last open job ended a moment ago with a finding still open.

    Results ask for follow-ups by themselves; this finds what a job that brought none has been holding up, and
    bisections by hand whose next step nobody has taken.
    """
    with database.read() as session:
        busy = select(col(Job.project_id)).where(col(Job.state).in_(_OPEN))
        query = (
            select(col(Series.project_id))
            .join(ChangePoint, col(ChangePoint.series_id) == col(Series.id))
            .join(Job, col(Job.project_id) == col(Series.project_id))
            .where(col(ChangePoint.state) == "provisional", col(Series.gate).is_(True), _ours())
            .where(col(Job.finished_at) > now - LATELY, col(Series.project_id).not_in(busy))
            .distinct()
        )
        return sorted({*session.scalars(query), *bisect.waiting(session, now)})


def _ours() -> ColumnElement[bool]:
    """Series that we measure: what was imported from another tool's files can't be measured again."""
    imported = select(col(Benchmark.id)).where(col(Benchmark.plugin).startswith(PLUGIN_PREFIX, autoescape=True))
    return col(Series.benchmark_id).not_in(imported)


def _open_series(session: Session, project_id: int) -> Sequence[int]:
    """Gated series with a finding that more data could settle."""
    doubtful = or_(col(ChangePoint.state) == "provisional", col(ChangePoint.detail)["unmeasured"].as_integer() > 0)
    query = (
        select(col(Series.id))
        .join(ChangePoint, col(ChangePoint.series_id) == col(Series.id))
        .where(col(Series.project_id) == project_id, col(Series.gate).is_(True), _ours())
        .where(col(ChangePoint.state) != "withdrawn", doubtful)
        .distinct()
        .order_by(col(Series.id))
    )
    return [one for one in session.scalars(query) if one is not None]


def _young_series(session: Session, project_id: int) -> Sequence[int]:
    """Gated series with a short history and no finding: a step may hide in their noise, and a few processes tell."""
    told = select(col(ChangePoint.series_id)).where(col(ChangePoint.state) != "withdrawn")
    points = func.count(func.distinct(col(Result.revision_id)))
    query = (
        select(col(Series.id))
        .join(Result, col(Result.series_id) == col(Series.id))
        .where(col(Series.project_id) == project_id, col(Series.gate).is_(True), _ours(), col(Series.id).not_in(told))
        .group_by(col(Series.id))
        .having(points < YOUNG)
        .order_by(col(Series.id).desc())
        .limit(MOST_HINTS)
    )
    return [one for one in session.scalars(query) if one is not None]


def _hints(loaded: LoadedSeries) -> Detection:
    """Steps in a short history that are too weak to be told."""
    data = loaded.data
    return detect(data, replace(HINT, min_effect=loaded.config.min_effect, replicates=loaded.config.replicates))


def _wishes(session: Session, series_id: int) -> list[Wish]:
    loaded = load_series(session, series_id)
    key = remeasure.benchmark_key(session, series_id)
    if key is None:
        return []
    wanted = _suite(session, loaded).confirm_replicates
    by_position = dict(loaded.revisions) | _unmeasured(session, loaded)
    measurable = tuple(sorted(by_position))
    detection = _ripe(session, loaded, detect(loaded.data, loaded.config))
    found = suspects(detection, loaded.data, wanted, measurable=measurable)
    if not found and len(loaded.data.points) < YOUNG:
        hints = _ripe(session, loaded, _hints(loaded))
        found = suspects(hints, loaded.data, wanted, most=wanted, measurable=measurable)
    return [_wish(loaded, key, suspect, by_position[suspect.x]) for suspect in found if suspect.x in by_position]


def _ripe(session: Session, loaded: LoadedSeries, detection: Detection) -> Detection:
    """Without changes near which history is still to be measured: that may move them, or settle them for nothing."""
    coming = _coming(session, loaded)
    ripe = tuple(
        change
        for change in detection.change_points
        if not any(change.x_before - NEAR < x < change.x_after + NEAR for x in coming)
    )
    return replace(detection, change_points=ripe)


def _coming(session: Session, loaded: LoadedSeries) -> list[int]:
    """Positions at which the suite is queued or running as part of history."""
    query = (
        select(col(Revision.position))
        .join(JobSide, col(JobSide.revision_id) == col(Revision.id))
        .join(Job, col(Job.id) == col(JobSide.job_id))
        .where(col(Job.project_id) == loaded.series.project_id, col(Job.suite) == loaded.suite)
        .where(col(Job.state).in_(_OPEN), col(Job.reason).in_(remeasure.HISTORY), col(Revision.position).is_not(None))
    )
    return [x for x in session.scalars(query) if x is not None]


def _wish(loaded: LoadedSeries, key: str, suspect: Suspect, revision_id: int) -> Wish:
    count = 1 if suspect.why == "bisect" else suspect.replicates
    return Wish(loaded.suite, revision_id, key, count, suspect.why)


def _unmeasured(session: Session, loaded: LoadedSeries) -> dict[int, int]:
    """Positions of the branch inside the measured stretch, with their revisions."""
    places = [point.x for point in loaded.data.points]
    if not places:
        return {}
    query = select(col(Revision.position), col(Revision.id)).where(
        col(Revision.project_id) == loaded.series.project_id,
        col(Revision.position).between(min(places), max(places)),
    )
    return {x: one for x, one in session.execute(query).tuples() if x is not None and one is not None}


def _suite(session: Session, loaded: LoadedSeries) -> SuiteSection:
    config = latest_config(session, loaded.series.project_id)
    for suite in config.get("suite", ()):
        if suite.get("name") == loaded.suite:
            return SuiteSection.model_validate(suite)
    return SuiteSection(name=loaded.suite, plugin="unknown")


def _merged(wishes: Iterable[Wish]) -> list[Wish]:
    """One wish a benchmark and commit, the largest: several metrics come from the same process."""
    best: dict[tuple[str, int, str], Wish] = {}
    for wish in wishes:
        key = (wish.suite, wish.revision_id, wish.benchmark_key)
        if key not in best or best[key].replicates < wish.replicates:
            best[key] = wish
    return list(best.values())


def _not_on_their_way(session: Session, wishes: Sequence[Wish]) -> list[Wish]:
    """Without those whose suite is about to be measured at that commit anyway: the answer may change the question."""
    query = (
        select(col(Job.suite), col(JobSide.revision_id))
        .join(JobSide, col(JobSide.job_id) == col(Job.id))
        .where(col(Job.state).in_(_OPEN), col(JobSide.revision_id).in_({wish.revision_id for wish in wishes}))
    )
    coming = set(session.execute(query).tuples())
    return [wish for wish in wishes if (wish.suite, wish.revision_id) not in coming]


def _parent(session: Session, project_id: int) -> Request | None:
    """The newest request that asked for history; its budget covers the follow-ups. An import asks for nothing."""
    query = (
        select(Request)
        .where(col(Request.project_id) == project_id, col(Request.kind).not_in((*_FOLLOWUPS, "pull_request", "import")))
        .where(col(Request.state).in_(("planned", "running", "done")))
        .order_by(col(Request.id).desc())
        .limit(1)
    )
    found: Request | None = session.scalars(query).one_or_none()
    return found


def _affordable(session: Session, parent: Request, wishes: Sequence[Wish]) -> list[tuple[Job, int]]:
    """Drafts that fit into what is left of the request's budget, the most useful first."""
    left = remeasure.budget(parent) - remeasure.spent(session, parent)
    coming = select(Job).join(Request, col(Request.id) == col(Job.request_id))
    coming = coming.where(col(Request.parent_id) == parent.id, col(Job.state).in_(_OPEN))
    left -= sum(remeasure.cost_s(session, job) for job in session.scalars(coming))
    out = []
    for group in remeasure.grouped(wishes):
        draft = remeasure.draft(session, parent.project_id, group)
        if draft is None:
            continue
        left -= remeasure.cost_s(session, draft[0])
        if left < 0:
            break
        out.append(draft)
    return out


def _make(session: Session, parent: Request, wishes: Sequence[Wish], now: datetime) -> int:
    drafts = _affordable(session, parent, wishes)
    if not drafts:
        return 0
    state = [(job.key, job.spec["benchmarks"]) for job, _ in drafts]
    digest = hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()[:32]
    new = requests.New("followup", f"followup:{digest}", parent.tip_sha, {"of": parent.id}, parent_id=parent.id)
    ref = requests.add(session, parent.project_id, new, now)
    if not ref.created:
        return 0  # the same question at the same state of knowledge was asked before
    request = session.get_one(Request, ref.id)
    request.state, request.config, request.budget_s = "planned", parent.config, parent.budget_s
    session.add(request)
    for job, revision_id in drafts:
        job.request_id, job.created_at = ref.id, now
        planning.add_job(session, job, [("point", revision_id)], now)
    return len(drafts)
