"""Watching branches: new commits are queued as they come, what was missed is filled in, schedules fire on time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from croniter import croniter
from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.config.model import ProjectConfig, ScheduleSection
from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import JobSide, Project, Request, Revision, ScheduleFire
from groundspeed.service.db.unique import ensure
from groundspeed.service.errors import GroundspeedError
from groundspeed.service.repo import Mirrors, Repository
from groundspeed.service.usecases import configuration, requests, revisions
from groundspeed.service.usecases.locking import held

MAX_PUSH = 500
"""Commits that one push may bring to be measured; of more, the newest."""


def due(database: Database, now: datetime) -> list[int]:
    """Projects whose branch is to be looked at now, the longest unseen first."""
    with database.read() as session:
        query = select(Project).where(col(Project.watch).is_(True)).order_by(col(Project.polled_at))
        found = session.scalars(query).all()
        return [
            project.id or 0
            for project in found
            if project.polled_at is None or project.polled_at <= now - timedelta(seconds=project.poll_interval_s)
        ]


def poll(database: Database, mirrors: Mirrors, project_id: int, now: datetime) -> list[int]:
    """Look at the branch once; returns the ids of the requests that followed.

    A repository that cannot be read now, and a configuration that is wrong at the tip, are noted with the project
    and looked at again; the commits are not lost, because the tip moves on only with their request.
    """
    with database.read() as session:
        project = session.get(Project, project_id)
        if project is None or not project.watch:
            return []
    try:
        repo = mirrors.open(project.repo_url, project.credential)
        tip = repo.branch_tip(project.branch)
        config = configuration.at(repo, tip)
    except GroundspeedError as error:
        _noted(database, project_id, str(error), now)
        return []
    with database.transaction() as session:
        project = session.scalars(held(select(Project).where(col(Project.id) == project_id))).one()
        project.polled_at, project.config_error = now, ""
        refs = [*_commits(session, project, repo, config, tip, now), *_schedules(session, project, config, tip, now)]
        session.add(project)
        return [ref.id for ref in refs if ref.created]


def _commits(
    session: Session, project: Project, repo: Repository, config: ProjectConfig, tip: str, now: datetime
) -> list[requests.Ref]:
    """New commits of the branch; at first sight the newest ``project.history``.

    When somebody has asked for commits before the first look, those are what is measured, and watching starts here.
    """
    old = project.tip_sha
    if old == tip:
        return []
    asked = old is None and _has_requests(session, project)
    rewritten = revisions.sync_branch(session, project, repo, tip)
    if asked:
        return []
    if old is None or not repo.has(old):
        commits = repo.history(tip, config.project.history)[::-1]
    else:
        commits = repo.since(old, tip)[-(config.project.history if rewritten else MAX_PUSH) :]
    shas = [commit.sha for commit in commits]
    missed = [sha for sha in _gaps(session, project, config.project.history) if sha not in shas]
    return [_push(session, project, missed + shas, tip, now)]


def _has_requests(session: Session, project: Project) -> bool:
    query = select(col(Request.id)).where(col(Request.project_id) == project.id).limit(1)
    return session.execute(query).first() is not None


def _gaps(session: Session, project: Project, history: int) -> list[str]:
    """Commits among the newest ``history`` that no job was ever made for, though one was for an older commit."""
    has_job = select(col(JobSide.id)).where(col(JobSide.revision_id) == col(Revision.id)).exists()
    query = select(col(Revision.sha), has_job).where(
        col(Revision.project_id) == project.id, col(Revision.position).is_not(None)
    )
    rows = session.execute(query.order_by(col(Revision.position).desc()).limit(history)).tuples().all()[::-1]
    start = next((i for i, (_, measured) in enumerate(rows) if measured), len(rows))
    return [sha for sha, measured in rows[start:] if not measured]


def _push(session: Session, project: Project, shas: Sequence[str], tip: str, now: datetime) -> requests.Ref:
    payload = {"shas": list(shas), "suites": []}
    new = requests.New("push", f"push:{tip}", tip, payload)
    return requests.add(session, project.id or 0, new, now)


def _schedules(
    session: Session, project: Project, config: ProjectConfig, tip: str, now: datetime
) -> list[requests.Ref]:
    """A schedule fires once for the latest time that has passed, however many were missed."""
    refs = []
    for schedule in config.schedule:
        last = _last_fire(session, project, schedule, now)
        due_at: datetime = croniter(schedule.cron, now.astimezone(UTC)).get_prev(datetime)
        if due_at <= last.fired_at:
            continue
        last.fired_at = due_at
        session.add(last)
        reference = config.project.reference if schedule.revision == "reference" else None
        payload = {"shas": [reference or tip], "suites": list(schedule.suites), "again": True}
        key = f"schedule:{schedule.name}:{due_at.astimezone(UTC):%Y-%m-%dT%H:%M}"
        refs.append(requests.add(session, project.id or 0, requests.New("schedule", key, tip, payload), now))
    return refs


def _last_fire(session: Session, project: Project, schedule: ScheduleSection, now: datetime) -> ScheduleFire:
    """The time it fired last; a schedule that is new counts from now on."""
    row = {"project_id": project.id, "name": schedule.name, "fired_at": now}
    ensure(session, ScheduleFire, [row], key=("project_id", "name"))
    query = select(ScheduleFire).where(
        col(ScheduleFire.project_id) == project.id, col(ScheduleFire.name) == schedule.name
    )
    return session.scalars(query).one()


def _noted(database: Database, project_id: int, error: str, now: datetime) -> None:
    """Keep the reason; the branch is looked at again after its interval."""
    with database.transaction() as session:
        project = session.scalars(held(select(Project).where(col(Project.id) == project_id))).one()
        project.polled_at, project.config_error = now, error
        session.add(project)


def pending(database: Database, now: datetime, older_than: timedelta = timedelta(seconds=30)) -> list[int]:
    """Requests that still wait to be planned: their message was lost, or what they waited for may have come."""
    with database.read() as session:
        query = select(col(Request.id)).where(
            col(Request.state) == "pending", col(Request.created_at) < now - older_than
        )
        return [request_id for request_id in session.scalars(query.order_by(col(Request.id)).limit(100)) if request_id]
