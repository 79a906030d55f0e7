"""Tables of what a forge tells us and what it is told: deliveries, repositories, pull requests, outgoing actions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Column, Index, LargeBinary, UniqueConstraint
from sqlmodel import Field, SQLModel

from groundspeed.service.db.columns import big_number, json_column, time_column, time_or_none


class Delivery(SQLModel, table=True):
    """A webhook delivery, stored before it is processed; the forge's delivery id makes a replay a no-op."""

    __table_args__ = (Index("ix_delivery_state", "state", "id"),)
    id: int | None = Field(default=None, primary_key=True)
    guid: str = Field(unique=True, max_length=100)
    event: str = Field(max_length=100)
    body: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    """zlib of the raw body; dropped some time after it was processed."""
    state: str = "pending"  # pending, done, ignored, malformed, failed
    reason: str = ""
    tries: int = 0
    digest: str = Field(default="", max_length=64, index=True)
    """SHA-256 of event and raw body: the delivery id is not signed, so a replay may come under another one."""
    received_at: datetime = time_column()
    processed_at: datetime | None = time_or_none()


class ForgeRepository(SQLModel, table=True):
    """A repository on a forge and the project it belongs to. ``forge_id`` survives a rename or transfer."""

    id: int | None = Field(default=None, primary_key=True)
    project_id: int | None = Field(default=None, foreign_key="project.id", index=True)
    forge_id: int = big_number(unique=True)
    full_name: str = Field(max_length=300, index=True)
    installation_id: int | None = big_number(nullable=True)
    private: bool = False
    default_branch: str = ""
    state: str = "active"  # active, suspended, removed
    reconciled_at: datetime | None = time_or_none()
    comments_at: str = ""
    """The forge's own time up to which comments were read for commands that no delivery told; empty: not yet."""
    quiet_until: datetime | None = time_or_none()
    """The forge asked for patience, or does not answer: nothing is asked of it for this repository before."""


class PullRequest(SQLModel, table=True):
    """A pull request as last heard of, and what was done about it.

    An entry of a merge queue is one too (``kind`` "queue"): it has no number of its own and gets a negative one.
    """

    __table_args__ = (UniqueConstraint("repository_id", "number"),)
    id: int | None = Field(default=None, primary_key=True)
    repository_id: int = Field(foreign_key="forgerepository.id")
    number: int
    kind: str = "pull"  # pull, queue
    title: str = ""
    author: str = ""
    association: str = "NONE"
    state: str = "open"  # open, closed
    merged: bool = False
    draft: bool = False
    from_fork: bool = False
    head_sha: str = Field(default="", max_length=64, index=True)
    head_ref: str = ""
    base_ref: str = ""
    base_sha: str = Field(default="", max_length=64)
    labels: list[str] = json_column(list)
    updated_at: str = ""
    """The forge's own time of the state above; an older event never overwrites a newer one."""
    approved_sha: str = ""
    """The one head that a maintainer let run; a new commit needs a new approval."""
    approved_by: str = ""
    accepted_sha: str = ""
    accepted_by: str = ""
    accepted_reason: str = ""
    request_id: int | None = Field(default=None, foreign_key="request.id", index=True)
    measured_sha: str = Field(default="", max_length=64)
    """The head that ``request_id`` measures."""
    check_id: int | None = big_number(nullable=True)
    check_sha: str = Field(default="", max_length=64)
    comment_id: int | None = big_number(nullable=True)
    told: dict[str, Any] = json_column()
    """What was last said: digests of check and comment, conclusion, verdict, the head whose approval was asked for."""
    due_at: datetime | None = time_or_none(index=True)
    """Since when it waits to be looked at; None: nothing has happened since it was."""
    refresh: bool = False
    """The events did not tell its state for certain: the forge is asked before anything is decided."""
    round: int = 0
    """Raised when the same head is to be measured once more."""
    wish: dict[str, Any] = json_column()
    """What the last command asked of that round: suites, pool, against, lifted (measure although a rule says no)."""
    outcome: str = ""  # asked, approval, nothing, draft, unlabelled, cancelled, closed, error
    outcome_sha: str = Field(default="", max_length=64)
    """The head that ``outcome`` is about."""
    compared_sha: str = Field(default="", max_length=64)
    """The merge base that the head is compared with."""
    note: str = ""


class ForgeAction(SQLModel, table=True):
    """Something the forge is to be told; sent after the commit, at least once, with patience."""

    __table_args__ = (
        UniqueConstraint("idempotency_key"),
        Index("ix_forgeaction_state", "state", "not_before"),
    )
    id: int | None = Field(default=None, primary_key=True)
    kind: str  # answer, command, reply, issue
    repository_id: int = Field(foreign_key="forgerepository.id")
    pull_id: int | None = Field(default=None, foreign_key="pullrequest.id", index=True)
    idempotency_key: str = Field(max_length=200)
    payload: dict[str, Any] = json_column()
    state: str = "pending"  # pending, sent, failed, superseded
    tries: int = 0
    error: str = ""
    not_before: datetime = time_column()
    wanted: int = 1
    """Raised with each new reason to send it again; sent when nothing was added meanwhile."""
    created_at: datetime = time_column()
    sent_at: datetime | None = time_or_none()


class ForgeIssue(SQLModel, table=True):
    """The issue that tells of a regression found on the branch: one a cause."""

    id: int | None = Field(default=None, primary_key=True)
    regression_id: int = Field(foreign_key="regression.id", unique=True)
    repository_id: int = Field(foreign_key="forgerepository.id", index=True)
    number: int | None = None
    digest: str = Field(default="", max_length=64)
    closed: bool = False
    updated_at: datetime = time_column()
