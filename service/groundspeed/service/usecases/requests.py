"""Requests: what asks for work. The same key asks once, however often it comes."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import AuditEntry, Job, Project, Request
from groundspeed.service.db.unique import ensure
from groundspeed.service.errors import Conflict, NotFound
from groundspeed.service.repo import Mirrors
from groundspeed.service.usecases import configuration, jobs, outbox, topics
from groundspeed.service.usecases.locking import held

PRIORITY = {
    "pull_request": 10,
    "manual": 20,
    "followup": 20,
    "bisect": 20,
    "campaign": 25,
    "environment": 25,
    "push": 30,
    "schedule": 50,
    "backfill": 70,
}
"""By kind; 0 runs first."""


@dataclass(frozen=True, slots=True)
class New:
    """``payload``: ``shas`` (oldest first) or ``base`` and ``head``, ``suites`` (none: all), ``trust``, ``config_sha``.

    ``subject`` (a pull request, a branch): an open request of this kind about the same is superseded by this one.
    """

    kind: str
    key: str
    tip_sha: str = ""
    payload: dict[str, Any] = field(default_factory=dict)
    priority: int | None = None
    parent_id: int | None = None
    subject: str = ""


@dataclass(frozen=True, slots=True)
class Ref:
    """``created`` False: the key was known, and this is what came of it."""

    id: int
    state: str
    created: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """By hand or by a client: a range ``a..b`` or one commit; empty: the newest ``project.history`` of the branch.

    ``every``: only every so many-th commit, counted back from the newest; the commits between are measured where a
    finding asks for them.
    """

    kind: str = "manual"
    range: str = ""
    suites: tuple[str, ...] = ()
    key: str = ""
    priority: int | None = None
    every: int = 1


def create(database: Database, mirrors: Mirrors, slug: str, asked: Asked, now: datetime, actor: str = "") -> Ref:
    """Ask for commits of a project to be measured; without a key of its own, the same commits and suites ask once.

    Raises :class:`Invalid` for a range that is unknown or empty and for a configuration that cannot be used.
    """
    with database.read() as session:
        project = by_slug(session, slug)
    repo = mirrors.open(project.repo_url, project.credential)
    branch_tip = repo.branch_tip(project.branch)
    commits = repo.range(asked.range) if asked.range else None
    tip = commits[-1].sha if commits else branch_tip
    config = configuration.at(repo, tip)
    if commits is None:
        commits = repo.history(branch_tip, config.project.history)[::-1]
    commits = commits[::-1][:: max(asked.every, 1)][::-1]
    with database.transaction() as session:
        with suppress(configuration.NoWorkerYet):  # the request waits, and says so
            configuration.check(session, config, asked.suites)
        shas = [commit.sha for commit in commits]
        payload = {"shas": shas, "suites": list(asked.suites), "range": asked.range}
        new = New(asked.kind, asked.key or _key(asked.kind, payload), tip, payload, asked.priority)
        ref = add(session, project.id or 0, new, now)
        if ref.created:
            session.add(
                AuditEntry(actor=actor or "local", action="request.create", subject_type="request",
                           subject_id=str(ref.id), data={"range": asked.range}, at=now)
            )  # fmt: skip
        return ref


def add(session: Session, project_id: int, new: New, now: datetime) -> Ref:
    """Note a request in this transaction, with the message that gets it planned; nothing when its key is known."""
    query = select(Request).where(col(Request.project_id) == project_id, col(Request.idempotency_key) == new.key)
    known: Request | None = session.scalars(query).one_or_none()
    if known is not None:
        _reopen(session, known)
        return Ref(known.id or 0, known.state, created=False)
    priority = PRIORITY.get(new.kind, 50) if new.priority is None else new.priority
    row = Request(
        project_id=project_id,
        kind=new.kind,
        idempotency_key=new.key,
        priority=priority,
        tip_sha=new.tip_sha,
        payload=new.payload | ({"subject": new.subject} if new.subject else {}),
        parent_id=new.parent_id,
        created_at=now,
    )
    found = ensure(session, Request, [row.model_dump(exclude={"id"})], key=("project_id", "idempotency_key"))
    request_id = found[project_id, new.key]
    outbox.enqueue(session, topics.PLAN, {"request_id": request_id})
    if new.subject:
        _supersede(session, project_id, new, request_id, now)
    return Ref(request_id, "pending", created=True)


def _supersede(session: Session, project_id: int, new: New, by: int, now: datetime) -> None:
    """Nobody waits for the older answer any more."""
    query = select(Request).where(
        col(Request.project_id) == project_id,
        col(Request.kind) == new.kind,
        col(Request.state).in_(("pending", "planned", "running")),
        col(Request.id) != by,
    )
    for request in session.scalars(query.order_by(col(Request.id))).all():
        if request.payload.get("subject") == new.subject:
            reason = f"superseded by request {by}"
            jobs.cancel_all(session, request.id or 0, now, reason)
            request.state, request.error, request.finished_at = "cancelled", reason, now
            session.add(request)


def _reopen(session: Session, request: Request) -> None:
    """A request that could not be planned is planned again when it is asked for again: its cause may be gone."""
    if request.state == "failed" and request.error and not _has_jobs(session, request):
        request.state, request.error, request.finished_at = "pending", "", None
        session.add(request)
        outbox.enqueue(session, topics.PLAN, {"request_id": request.id})


def _has_jobs(session: Session, request: Request) -> bool:
    return session.execute(select(col(Job.id)).where(col(Job.request_id) == request.id).limit(1)).first() is not None


def cancel(database: Database, request_id: int, now: datetime, *, actor: str, reason: str = "by hand") -> int:
    """Stop what is open of a request; returns how many jobs were cancelled."""
    with database.transaction() as session:
        count = jobs.cancel_all(session, request_id, now, reason)
        request: Request | None = session.scalars(
            held(select(Request).where(col(Request.id) == request_id))
        ).one_or_none()
        if request is None:
            raise NotFound(f"There is no request {request_id}.", "Look at the list of requests.")
        if request.finished_at is not None and not count:
            raise Conflict(f"Request {request_id} is already {request.state}.", "There is nothing left to cancel.")
        request.state, request.error, request.finished_at = "cancelled", reason, now
        session.add(request)
        session.add(
            AuditEntry(actor=actor, action="request.cancel", subject_type="request", subject_id=str(request_id), at=now)
        )
        return count


def by_slug(session: Session, slug: str) -> Project:
    """The project, or :class:`NotFound` with the names there are."""
    project: Project | None = session.scalars(select(Project).where(col(Project.slug) == slug)).one_or_none()
    if project is None:
        known = session.scalars(select(col(Project.slug)).order_by(col(Project.slug)).limit(10)).all()
        hint = f"There are: {', '.join(known)}." if known else "Add one: groundspeed project add REPOSITORY"
        raise NotFound(f"There is no project {slug!r}.", hint)
    return project


def _key(kind: str, payload: dict[str, Any]) -> str:
    content = json.dumps([payload["shas"], payload["suites"]], sort_keys=True)
    return f"{kind}:{hashlib.sha256(content.encode()).hexdigest()[:32]}"
