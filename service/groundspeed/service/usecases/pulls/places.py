"""Repositories of a forge and the projects they belong to; a rename or a transfer changes the name, never the id."""

from __future__ import annotations

import re
from datetime import datetime

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.addresses import apart
from groundspeed.service.db.engine import Database
from groundspeed.service.db.forge_tables import ForgeIssue, ForgeRepository
from groundspeed.service.db.tables import AuditEntry, Project, Regression
from groundspeed.service.db.unique import ensure
from groundspeed.service.domain.pulls.events import Repository
from groundspeed.service.errors import Conflict
from groundspeed.service.usecases import requests
from groundspeed.service.usecases.locking import held

_SCP = re.compile(r"^(?:[^@/]+@)?([^:/]+):(.+)$")


def known(session: Session, repository: Repository) -> ForgeRepository:
    """The row of a repository, made at first sight, held, and brought up to date with what an event said."""
    row = {
        "project_id": None,
        "forge_id": repository.id,
        "full_name": repository.full_name,
        "installation_id": repository.installation_id,
        "private": repository.private,
        "default_branch": repository.default_branch,
        "state": "active",
        "reconciled_at": None,
        "quiet_until": None,
    }
    ensure(session, ForgeRepository, [row], key=("forge_id",))
    found = session.scalars(held(select(ForgeRepository).where(col(ForgeRepository.forge_id) == repository.id))).one()
    found.full_name, found.private = repository.full_name, repository.private
    found.default_branch = repository.default_branch or found.default_branch
    found.installation_id = repository.installation_id or found.installation_id
    if found.project_id is None:
        _adopt(session, found, repository)
    session.add(found)
    session.flush()
    return found


def _adopt(session: Session, found: ForgeRepository, repository: Repository) -> None:
    """Link a repository to the project that was added by its address, if no other repository has that project.

    A name that its owner gave up can be taken by somebody else: the second repository of that name gets nothing.
    """
    place = address(repository.clone_url)
    if place is None:
        return
    taken = select(col(ForgeRepository.project_id)).where(col(ForgeRepository.project_id).is_not(None))
    for project in session.scalars(select(Project).where(col(Project.id).not_in(taken)).order_by(col(Project.id))):
        if address(project.repo_url) == place:
            _link(session, found, project)
            return


def _link(session: Session, found: ForgeRepository, project: Project) -> None:
    """What is an open regression already is known to people: no issue is opened about it."""
    found.project_id = project.id
    session.add(found)
    session.flush()
    old = select(col(Regression.id)).where(col(Regression.project_id) == project.id)
    rows = [
        {"regression_id": one, "repository_id": found.id, "number": None, "digest": "", "closed": True,
         "updated_at": project.created_at}
        for one in session.scalars(old)
    ]  # fmt: skip
    ensure(session, ForgeIssue, rows, key=("regression_id",))


def address(url: str) -> str | None:
    """``host/owner/name`` in lower case, whether the URL is for https, ssh or scp; None for a path."""
    if "://" in url:
        parts = apart(url)
        host, path = parts.hostname or "", parts.path
    elif (found := _SCP.match(url)) is not None and not url.startswith(("/", ".")):
        host, path = found[1], found[2]
    else:
        return None
    path = path.strip("/").removesuffix(".git")
    return f"{host}/{path}".lower() if host and path else None


def link(database: Database, slug: str, repository: Repository, now: datetime, actor: str) -> None:
    """Link a repository to a project by hand. Raises NotFound, and Conflict when either has another partner."""
    with database.transaction() as session:
        project = requests.by_slug(session, slug)
        found = known(session, repository)
        if found.project_id not in {None, project.id}:
            raise Conflict(f"{repository.full_name} belongs to another project.", "One repository has one project.")
        other = select(col(ForgeRepository.full_name)).where(
            col(ForgeRepository.project_id) == project.id, col(ForgeRepository.id) != found.id
        )
        if name := session.scalars(other).first():
            raise Conflict(f"{slug} belongs to {name}.", "Add the other repository as a project of its own.")
        if found.project_id is None:
            _link(session, found, project)
        found.state = "active"
        session.add(found)
        session.add(
            AuditEntry(actor=actor, action="forge.link", subject_type="project", subject_id=str(project.id),
                       data={"repository": repository.full_name}, at=now)
        )  # fmt: skip
