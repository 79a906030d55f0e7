"""Tables of work: what asked for it, its jobs and leases, the messages that follow, and who did what."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Column, Index, UniqueConstraint, event, literal_column, text
from sqlmodel import Field, SQLModel

from groundspeed.service.db.columns import big_id, json_column, time_column, time_or_none
from groundspeed.service.db.identities import core

_RUNS = "state = 'running'"


class Request(SQLModel, table=True):
    """What asked for work."""

    __table_args__ = (UniqueConstraint("project_id", "idempotency_key"),)
    id: int | None = Field(default=None, primary_key=True)
    project_id: int = Field(foreign_key="project.id", index=True)
    kind: str  # push, pull_request, environment, schedule, campaign, manual, followup, bisect
    idempotency_key: str = Field(max_length=200)
    state: str = "pending"  # pending, planned, running, done, failed, cancelled
    priority: int = 50  # lower runs first: pull request 10, push 30, follow-up 20, by hand 20, backfill 70
    tip_sha: str = ""
    payload: dict[str, Any] = json_column()
    config: dict[str, Any] = json_column()
    """The project's configuration at the tip, as it was planned with."""
    budget_s: float = 0.0
    parent_id: int | None = Field(default=None, foreign_key="request.id")
    error: str = ""
    created_at: datetime = time_column(index=True)
    finished_at: datetime | None = time_or_none()


class Job(SQLModel, table=True):
    """One suite on one revision (or on two sides), to be run on one node in one lease."""

    __table_args__ = (
        UniqueConstraint("request_id", "key"),
        Index("ix_job_queue", "state", "priority", "project_id", "needs", "id"),
        Index("ix_job_request", "request_id", "state"),
    )
    id: int | None = Field(default=None, primary_key=True)
    request_id: int = Field(foreign_key="request.id")
    project_id: int = Field(foreign_key="project.id", index=True)
    key: str = Field(max_length=200)
    suite: str = Field(max_length=200)
    reason: str = "measure"  # measure, replicate, backfill, gate, bisect, control
    state: str = "queued"  # queued, running, done, failed, cancelled, poison
    priority: int = 50
    requirements: dict[str, Any] = json_column()
    needs: str = Field(default="", max_length=16)
    """What :func:`needs_of` says of ``requirements``: equal where they are; empty where nobody worked it out."""
    spec: dict[str, Any] = json_column()
    """A wire JobSpec without sides, done and job_id."""
    trust: str = "trusted"
    attempts: int = 0
    max_attempts: int = 3
    error: str = ""
    not_before: datetime | None = time_or_none()
    hinted_at: datetime | None = time_or_none()
    """When the broker was last told."""
    created_at: datetime = time_column()
    finished_at: datetime | None = time_or_none()


def needs_of(requirements: dict[str, Any]) -> str:
    """A short name of what is required, so that the queue can be read by kinds of jobs, however many wait."""
    text = json.dumps(requirements, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@event.listens_for(Job, "before_insert")
def _name_needs(_mapper: Any, _connection: Any, job: Job) -> None:
    job.needs = needs_of(job.requirements)


class JobSide(SQLModel, table=True):
    """A side of a job: a revision and the environment expected. A point of history has one, a gate two."""

    __table_args__ = (UniqueConstraint("job_id", "index"),)
    id: int | None = Field(default=None, primary_key=True)
    job_id: int = Field(foreign_key="job.id")
    index: int
    role: str  # point, base, head
    revision_id: int = Field(foreign_key="revision.id", index=True)
    environment_id: int | None = Field(default=None, foreign_key="environment.id")


class Attempt(SQLModel, table=True):
    """A lease of a job on a node."""

    __table_args__ = (
        UniqueConstraint("job_id", "number"),
        # No index has a column that a sign of life changes: on PostgreSQL its new row needs no new entries then.
        Index("ix_attempt_running", "node_id", sqlite_where=text(_RUNS), postgresql_where=text(_RUNS)),
    )
    id: str = Field(primary_key=True, max_length=36)
    job_id: int = Field(foreign_key="job.id")
    node_id: int = Field(foreign_key="node.id", index=True)
    number: int
    gang: str | None = Field(default=None, max_length=36, index=True)
    """Shared by the attempts of one job on several nodes; rank 0 reports and decides."""
    rank: int = 0
    delivery: str = Field(default="", max_length=100)
    state: str = "running"  # running, succeeded, failed, released, expired, cancelled
    phase: str = ""
    message: str = ""
    done: int = 0
    total: int = 0
    error_kind: str = ""
    error: str = ""
    claimed_at: datetime = time_column()
    heartbeat_at: datetime = time_column()
    expires_at: datetime = time_column()
    finished_at: datetime | None = time_or_none(index=True)


RUNS = core(Attempt).c.state == literal_column("'running'")
"""As the index ``ix_attempt_running`` says it: with a parameter in its place the planner could not know."""


class Outbox(SQLModel, table=True):
    """A message that follows a state change, in the transaction of that change."""

    id: int | None = big_id()
    topic: str  # task name, or "sse"
    payload: dict[str, Any] = json_column()
    created_at: datetime = time_column()
    sent_at: datetime | None = time_or_none(index=True)


class Bookmark(SQLModel, table=True):
    """How far a slow walk over a large table has come."""

    name: str = Field(primary_key=True, max_length=100)
    place: int = Field(sa_column=Column(BigInteger, nullable=False))


class ScheduleFire(SQLModel, table=True):
    __table_args__ = (UniqueConstraint("project_id", "name"),)
    id: int | None = Field(default=None, primary_key=True)
    project_id: int = Field(foreign_key="project.id")
    name: str = Field(max_length=200)
    fired_at: datetime = time_column()


class AuditEntry(SQLModel, table=True):
    """Who did what."""

    id: int | None = big_id()
    actor: str
    action: str
    subject_type: str
    subject_id: str = Field(index=True)
    data: dict[str, Any] = json_column()
    at: datetime = time_column(index=True)
