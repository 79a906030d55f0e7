"""Which open pull requests have something new to be told: found by looking, so that no lost message hides it."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.forge_tables import ForgeRepository, PullRequest
from groundspeed.service.db.tables import Project
from groundspeed.service.usecases.pulls import answer, outgoing
from groundspeed.service.usecases.pulls import report as reports
from groundspeed.service.usecases.pulls.outgoing import Desk


def look(desk: Desk, now: datetime) -> int:
    """Ask for an answer wherever what is known differs from what was told; returns how many.

    An end is told at once, progress after a pause.
    """
    with desk.database.read() as session:
        query = (
            select(PullRequest, Project)
            .join(ForgeRepository, col(ForgeRepository.id) == col(PullRequest.repository_id))
            .join(Project, col(Project.id) == col(ForgeRepository.project_id))
            .where(col(PullRequest.outcome) == "asked", col(PullRequest.state) == "open")
            .where(col(PullRequest.outcome_sha) == col(PullRequest.head_sha))
        )
        found = [(p, _changed(session, desk, p, project, now)) for p, project in session.execute(query).tuples()]
    changed = [pull for pull, is_new in found if is_new]
    for pull in changed:
        ask(desk.database, pull.id or 0, now)
    return len(changed)


def _changed(session: Session, desk: Desk, pull: PullRequest, project: Project, now: datetime) -> bool:
    end = reports.finished(session, pull)
    if end and pull.told.get("finished") == end:
        return False
    last = pull.told.get("at")
    lately = now - timedelta(seconds=desk.patience.progress_s)
    if not end and last is not None and datetime.fromisoformat(str(last)) > lately:
        return False
    return answer.seen(reports.build(session, project, pull, desk.base_url)) != pull.told.get("seen")


def ask(database: Database, pull_id: int, now: datetime) -> None:
    """Let the pull request be told what holds now."""
    with database.transaction() as session:
        pull = session.get_one(PullRequest, pull_id)
        outgoing.answer(session, session.get_one(ForgeRepository, pull.repository_id), pull_id, now)


def of_request(database: Database, request_id: int, now: datetime) -> None:
    """A request has ended: whoever waits for it is told."""
    with database.read() as session:
        query = select(col(PullRequest.id)).where(col(PullRequest.request_id) == request_id)
        found = [one for one in session.scalars(query) if one is not None]
    for pull_id in found:
        ask(database, pull_id, now)
