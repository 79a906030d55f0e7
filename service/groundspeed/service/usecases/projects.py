"""Projects: repositories under watch."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlmodel import col

from groundspeed.service.config.model import ProjectConfig
from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import AuditEntry, Project
from groundspeed.service.db.unique import ensure
from groundspeed.service.errors import Conflict, Invalid
from groundspeed.service.repo import Mirrors, Repository
from groundspeed.service.usecases import configuration
from groundspeed.service.usecases.locking import held


@dataclass(frozen=True, slots=True)
class New:
    """``branch`` None: the one the configuration names, else the repository's own HEAD."""

    repo_url: str
    branch: str | None = None
    credential: str | None = None
    watch: bool = True
    poll_interval_s: float = 15.0


@dataclass(frozen=True, slots=True)
class Added:
    id: int
    slug: str
    branch: str
    created: bool


def add(database: Database, mirrors: Mirrors, new: New, now: datetime, actor: str = "local") -> Added:
    """Put a repository under watch; the same one again brings its branch, credential and interval up to date.

    Raises :class:`Invalid` when it is no repository, has no (or a wrong) groundspeed.toml, or names a plugin or a
    parameter that cannot be; :class:`Conflict` when its name is another repository's. Nothing is written then.
    """
    repo = mirrors.open(new.repo_url, new.credential)
    branch, config = _branch_and_config(repo, new.branch)
    slug = config.project.name
    with database.transaction() as session:
        with suppress(configuration.NoWorkerYet):  # what needs the plugin waits for the worker that has it
            configuration.check(session, config)
        known = session.execute(select(col(Project.id)).where(col(Project.slug) == slug)).first() is not None
        row = Project(slug=slug, name=slug, repo_url=repo.url, created_at=now)
        ensure(session, Project, [row.model_dump(exclude={"id"})], key=("slug",))
        project: Project = session.scalars(held(select(Project).where(col(Project.slug) == slug))).one()
        if project.repo_url != repo.url:
            raise Conflict(
                f"The name {slug!r} belongs to {project.repo_url}.",
                f"Give {repo.url} another name in its groundspeed.toml: [project] name = …",
            )
        if known and project.branch != branch:
            project.tip_sha = None
        project.branch, project.credential = branch, new.credential
        project.watch, project.poll_interval_s, project.config_error = new.watch, new.poll_interval_s, ""
        session.add(project)
        if not known:
            session.add(AuditEntry(actor=actor, action="project.add", subject_type="project", subject_id=slug, at=now))
        return Added(project.id or 0, slug, branch, created=not known)


def _branch_and_config(repo: Repository, branch: str | None) -> tuple[str, ProjectConfig]:
    if branch is not None:
        return branch, configuration.at(repo, repo.branch_tip(branch))
    head = repo.head_branch()
    if head is not None and head not in repo.branches():
        raise Invalid(f"{repo.url} has no commit on {head!r} yet.", "Commit something first, or name another branch.")
    config = configuration.at(repo, repo.resolve("HEAD"))
    if "branch" not in config.project.model_fields_set and head is not None:
        return head, config
    named = config.project.branch
    return named, config if named == head else configuration.at(repo, repo.branch_tip(named))
