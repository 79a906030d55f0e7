"""The tables, one class an entity. Keys and their reasons: docs/architecture.md.

Conventions: times are timezone-aware UTC, in and out; JSON columns hold plain dictionaries and lists; enumerations are
text with the values named in a comment (so that SQLite and PostgreSQL hold the same); large blobs are zlib-compressed.
A change here needs a migration in ``migrations/versions``; a test compares the two on both engines.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Column, Index, LargeBinary, UniqueConstraint, text
from sqlmodel import Field, SQLModel

from groundspeed.service.db.columns import big_id, big_reference, json_column, time_column, time_or_none


class Project(SQLModel, table=True):
    """A repository under watch."""

    id: int | None = Field(default=None, primary_key=True)
    slug: str = Field(unique=True, max_length=100)
    name: str = Field(max_length=200)
    repo_url: str
    branch: str = "main"
    credential: str | None = None
    """Name of the credential in the settings of service and worker."""
    watch: bool = True
    poll_interval_s: float = 15.0
    tip_sha: str | None = None
    polled_at: datetime | None = time_or_none()
    config_error: str = ""
    created_at: datetime = time_column()


class Revision(SQLModel, table=True):
    """A commit. ``position`` is its place on the branch's first-parent history (dates lie); None: not on the branch."""

    __table_args__ = (
        UniqueConstraint("project_id", "sha"),
        Index("ix_revision_position", "project_id", "position"),
    )
    id: int | None = Field(default=None, primary_key=True)
    project_id: int = Field(foreign_key="project.id")
    sha: str = Field(max_length=64, index=True)
    parents: list[str] = json_column(list)
    position: int | None = None
    author: str = ""
    authored_at: datetime = time_column()
    committed_at: datetime = time_column()
    title: str = ""
    tags: list[str] = json_column(list)


class Hardware(SQLModel, table=True):
    """A class of machine: what makes series comparable. No host name, no UUID."""

    id: int | None = Field(default=None, primary_key=True)
    fingerprint: str = Field(unique=True, max_length=64)
    label: str = ""
    facts: dict[str, Any] = json_column()


class Environment(SQLModel, table=True):
    """Tracked facets of node and stack, content-addressed."""

    id: int | None = Field(default=None, primary_key=True)
    fingerprint: str = Field(unique=True, max_length=64)
    label: str = ""
    facets: list[dict[str, Any]] = json_column(list)
    created_at: datetime = time_column()


class BuildSnapshot(SQLModel, table=True):
    """What a revision resolved (packages, compiler), content-addressed: a change here is a code change."""

    id: int | None = Field(default=None, primary_key=True)
    fingerprint: str = Field(unique=True, max_length=64)
    facets: list[dict[str, Any]] = json_column(list)


class Node(SQLModel, table=True):
    """A machine that runs benchmarks."""

    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(unique=True, max_length=200)
    state: str = "active"  # active, draining, quarantined
    state_reason: str = ""
    labels: dict[str, str] = json_column()
    protocol: int = 0
    worker_version: str = ""
    slots: int = 1
    sandbox: str = ""
    address: str = ""
    """Where other nodes reach this one."""
    hardware_id: int | None = Field(default=None, foreign_key="hardware.id")
    environment_id: int | None = Field(default=None, foreign_key="environment.id")
    info: list[dict[str, Any]] = json_column(list)
    """Facets that are not tracked."""
    registered_at: datetime = time_column()
    seen_at: datetime | None = time_or_none(index=True)


class Device(SQLModel, table=True):
    __table_args__ = (UniqueConstraint("node_id", "uuid"),)
    id: int | None = Field(default=None, primary_key=True)
    node_id: int = Field(foreign_key="node.id")
    index: int = 0
    uuid: str = Field(max_length=100, index=True)
    model: str = ""
    memory_bytes: int = 0
    facts: dict[str, Any] = json_column()


class CatalogueEntry(SQLModel, table=True):
    """A plugin that some node can run. ``node_id`` None: the catalogue shipped with the service."""

    __table_args__ = (UniqueConstraint("node_id", "plugin"),)
    id: int | None = Field(default=None, primary_key=True)
    node_id: int | None = Field(default=None, foreign_key="node.id")
    plugin: str = Field(max_length=200, index=True)
    version: str = ""
    spec: dict[str, Any] = json_column()


class Benchmark(SQLModel, table=True):
    """(project, suite, plugin, version): a raised version is a new benchmark, linked to the old."""

    __table_args__ = (UniqueConstraint("project_id", "suite", "plugin", "version"),)
    id: int | None = Field(default=None, primary_key=True)
    project_id: int = Field(foreign_key="project.id")
    suite: str = Field(max_length=200)
    plugin: str = Field(max_length=200)
    version: str = Field(max_length=200)
    target: str | None = None
    previous_id: int | None = Field(default=None, foreign_key="benchmark.id")


class Series(SQLModel, table=True):
    """One line of history: benchmark, parameters, metric and hardware class. Environments segment it."""

    id: int | None = Field(default=None, primary_key=True)
    fingerprint: str = Field(unique=True, max_length=64)
    project_id: int = Field(foreign_key="project.id", index=True)
    benchmark_id: int = Field(foreign_key="benchmark.id", index=True)
    hardware_id: int = Field(foreign_key="hardware.id")
    metric: str = Field(max_length=200)
    unit: str = Field(max_length=40)
    direction: int = 0
    kind: str = "time"
    clock: str = "none"
    gate: bool = True
    params: dict[str, Any] = json_column()
    threshold: float | None = None
    """Smallest relative change that is worth an alert; None: the default of its kind."""
    series_class: str = ""
    """steady, noisy, bimodal, launch-bound, constant … as the noise ledger says."""
    noise: dict[str, Any] = json_column()
    state: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    """The detector's own incremental state."""
    detector_version: str = ""
    last_result_at: datetime | None = time_or_none()
    created_at: datetime = time_column()


class SeriesMark(SQLModel, table=True):
    """A result of this series has come that detection has not seen.

    Rows are only added and deleted, so that reports never wait for one another or for detection: whoever analyses
    deletes the marks that it sees, and then sees their results too.
    """

    id: int | None = big_id()
    series_id: int = Field(foreign_key="series.id", index=True)
    revision_id: int | None = None
    """Where the result lies; None: look at the whole series again."""
    created_at: datetime = time_column()


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
        Index("ix_job_queue", "state", "priority", "project_id", "id"),
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


class JobSide(SQLModel, table=True):
    """A side of a job: a revision and the environment expected. A point of history has one, a gate two."""

    __table_args__ = (UniqueConstraint("job_id", "index"),)
    id: int | None = Field(default=None, primary_key=True)
    job_id: int = Field(foreign_key="job.id", index=True)
    index: int
    role: str  # point, base, head
    revision_id: int = Field(foreign_key="revision.id", index=True)
    environment_id: int | None = Field(default=None, foreign_key="environment.id")


class Attempt(SQLModel, table=True):
    """A lease of a job on a node."""

    __table_args__ = (UniqueConstraint("job_id", "number"),)
    id: str = Field(primary_key=True, max_length=36)
    job_id: int = Field(foreign_key="job.id", index=True)
    node_id: int = Field(foreign_key="node.id", index=True)
    number: int
    gang: str | None = Field(default=None, max_length=36, index=True)
    """Shared by the attempts of one job on several nodes; rank 0 reports and decides."""
    rank: int = 0
    delivery: str = Field(default="", max_length=100, index=True)
    state: str = Field(default="running", index=True)  # running, succeeded, failed, released, expired, cancelled
    phase: str = ""
    message: str = ""
    done: int = 0
    total: int = 0
    error_kind: str = ""
    error: str = ""
    claimed_at: datetime = time_column()
    heartbeat_at: datetime = time_column()
    expires_at: datetime = time_column(index=True)
    finished_at: datetime | None = time_or_none()


class Run(SQLModel, table=True):
    """One fresh process of one benchmark for one side, whatever its outcome. Failures are rows like any other."""

    __table_args__ = (
        UniqueConstraint("job_id", "side", "benchmark_key", "replicate"),
        Index("ix_run_revision", "revision_id", "benchmark_id"),
        Index(
            "ix_run_failed",
            "benchmark_id",
            "hardware_id",
            sqlite_where=text("outcome != 'ok'"),
            postgresql_where=text("outcome != 'ok'"),
        ),
    )
    id: int | None = big_id()
    job_id: int = Field(foreign_key="job.id")
    attempt_id: str = Field(foreign_key="attempt.id", index=True)
    side: int
    benchmark_key: str = Field(max_length=200)
    replicate: int
    benchmark_id: int = Field(foreign_key="benchmark.id", index=True)
    revision_id: int = Field(foreign_key="revision.id")
    hardware_id: int = Field(foreign_key="hardware.id")
    environment_id: int = Field(foreign_key="environment.id")
    build_id: int | None = Field(default=None, foreign_key="buildsnapshot.id")
    node_id: int = Field(foreign_key="node.id")
    device_uuid: str | None = None
    params: dict[str, Any] = json_column()
    outcome: str = "ok"
    evidence: dict[str, Any] = json_column()
    conditions: dict[str, Any] = json_column()
    """Summary; the trace stands compressed in ``trace``."""
    trace: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    facts: dict[str, Any] = json_column()
    phases_s: dict[str, float] = json_column()
    started_at: datetime = time_column()
    duration_s: float = 0.0
    created_at: datetime = time_column(index=True)


class Result(SQLModel, table=True):
    """Samples of one series from one run.

    On PostgreSQL the table is partitioned by a hash of the series, so that a series' rows lie together. The index
    holds all that a chart or detection reads: the row itself, with its samples, is for the page of a run. Figures and
    plans: docs/store.md.
    """

    __table_args__ = (
        UniqueConstraint("run_id", "series_id"),
        Index("ix_result_series", "series_id", "revision_id", "environment_id", "value", "spread", "state", "run_id"),
    )
    id: int | None = big_id()
    run_id: int = big_reference("run.id")
    series_id: int = Field(foreign_key="series.id")
    revision_id: int
    environment_id: int
    """As the run has them."""
    value: float
    """Median of the valid samples (of all when none is valid: ``state`` says so)."""
    spread: float = 0.0
    """Median absolute deviation of the samples, in the series' unit."""
    count: int = 0
    state: str = "valid"  # valid, degraded, rejected
    samples: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    """zlib of float64 little-endian values followed by one state byte each; thinned by retention."""
    created_at: datetime = time_column()


class Artefact(SQLModel, table=True):
    """A file that belongs to an attempt: kernel table, trace, stacks."""

    __table_args__ = (UniqueConstraint("attempt_id", "sha256", "name"),)
    id: int | None = big_id()
    attempt_id: str = Field(foreign_key="attempt.id", index=True)
    run_id: int | None = big_reference("run.id", nullable=True, index=True)
    kind: str
    name: str
    sha256: str = Field(max_length=64, index=True)
    size_bytes: int
    media_type: str = "application/octet-stream"
    stored: bool = False
    created_at: datetime = time_column()


class LogEntry(SQLModel, table=True):
    __table_args__ = (UniqueConstraint("attempt_id", "seq"),)
    id: int | None = big_id()
    attempt_id: str = Field(foreign_key="attempt.id")
    seq: int
    at: datetime = time_column()
    stream: str
    text: str


class Event(SQLModel, table=True):
    """Something from outside the code: an annotation, a changed environment, a node taken out."""

    id: int | None = Field(default=None, primary_key=True)
    kind: str  # annotation, environment, node
    project_id: int | None = Field(default=None, foreign_key="project.id", index=True)
    node_id: int | None = Field(default=None, foreign_key="node.id", index=True)
    revision_id: int | None = Field(default=None, foreign_key="revision.id")
    environment_from_id: int | None = Field(default=None, foreign_key="environment.id")
    environment_to_id: int | None = Field(default=None, foreign_key="environment.id")
    title: str
    body: str = ""
    at: datetime = time_column(index=True)
    created_at: datetime = time_column()


class Verdict(SQLModel, table=True):
    """Head against base for one series of one job."""

    __table_args__ = (UniqueConstraint("job_id", "series_id"),)
    id: int | None = Field(default=None, primary_key=True)
    job_id: int = Field(foreign_key="job.id", index=True)
    series_id: int = Field(foreign_key="series.id", index=True)
    base_revision_id: int = Field(foreign_key="revision.id")
    head_revision_id: int = Field(foreign_key="revision.id")
    base_environment_id: int | None = Field(default=None, foreign_key="environment.id")
    head_environment_id: int | None = Field(default=None, foreign_key="environment.id")
    answer: str  # regressed, improved, unchanged, inconclusive, never-compared
    reason: str = ""
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    mde: float | None = None
    pairs: int = 0
    detail: dict[str, Any] = json_column()
    created_at: datetime = time_column()


class Regression(SQLModel, table=True):
    """Change points (or verdicts) with one cause, and their triage. Improvements are kept the same way."""

    id: int | None = Field(default=None, primary_key=True)
    project_id: int = Field(foreign_key="project.id", index=True)
    kind: str = "regression"  # regression, improvement, change
    state: str = Field(default="new", index=True)
    # new, acknowledged, in-progress, accepted, false-alarm, fixed, recovered, withdrawn, merged
    # (drawn in docs/triage.md; who may move which to which: usecases/regressions.py)
    title: str = ""
    before_revision_id: int | None = Field(default=None, foreign_key="revision.id")
    after_revision_id: int | None = Field(default=None, foreign_key="revision.id")
    cause: str = "code"  # code, environment, node, both
    merged_into_id: int | None = Field(default=None, foreign_key="regression.id")
    assignee: str = ""
    note: str = ""
    link: str = ""
    ignore_until: str = ""
    ignored_at: datetime | None = time_or_none(index=True)
    """Since when it is left out of the queue, until what ``ignore_until`` names has come; None: it is not."""
    created_at: datetime = time_column(index=True)
    updated_at: datetime = time_column()
    notified_at: datetime | None = time_or_none()


class ChangePoint(SQLModel, table=True):
    """A step in a series. The row, and so its triage, survives recomputation and a move by a commit."""

    __table_args__ = (Index("ix_changepoint_series", "series_id", "state"),)
    id: int | None = Field(default=None, primary_key=True)
    series_id: int = Field(foreign_key="series.id")
    regression_id: int | None = Field(default=None, foreign_key="regression.id", index=True)
    pinned: bool = False
    """A person chose its regression: recomputation leaves it there."""
    before_revision_id: int = Field(foreign_key="revision.id")
    after_revision_id: int = Field(foreign_key="revision.id")
    environment_from_id: int | None = Field(default=None, foreign_key="environment.id")
    environment_to_id: int | None = Field(default=None, foreign_key="environment.id")
    state: str = "provisional"  # provisional, confirmed, withdrawn
    kind: str  # regression, improvement, change
    cause: str = "code"
    ratio: float | None = None
    """Level after over level before; None where levels are not all positive: read ``difference``."""
    ratio_low: float | None = None
    ratio_high: float | None = None
    difference: float = 0.0
    strength: float = 0.0
    p_value: float | None = None
    detail: dict[str, Any] = json_column()
    detector_version: str = ""
    created_at: datetime = time_column(index=True)
    updated_at: datetime = time_column()


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
