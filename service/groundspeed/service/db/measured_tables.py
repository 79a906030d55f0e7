"""Tables of what was measured: benchmarks, their series, runs, results, files and logs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Column, ForeignKey, Index, LargeBinary, UniqueConstraint, literal_column, text
from sqlmodel import Field, SQLModel

from groundspeed.service.db.columns import big_id, big_reference, json_column, time_column, time_or_none
from groundspeed.service.db.identities import core
from groundspeed.service.db.types import BigId

_FAILED = "outcome != 'ok'"


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
    continued_by_id: int | None = Field(default=None, foreign_key="series.id")
    """The benchmark has another name now: what was measured under this one belongs to that series."""
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


class Run(SQLModel, table=True):
    """One fresh process of one benchmark for one side, whatever its outcome. Failures are rows like any other."""

    __table_args__ = (
        UniqueConstraint("job_id", "side", "benchmark_key", "replicate"),
        Index("ix_run_revision", "revision_id", "benchmark_id"),
        Index(
            "ix_run_failed",
            "benchmark_id",
            "hardware_id",
            sqlite_where=text(_FAILED),
            postgresql_where=text(_FAILED),
        ),
    )
    id: int | None = big_id()
    job_id: int = Field(foreign_key="job.id")
    attempt_id: str = Field(foreign_key="attempt.id")
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


FAILED = core(Run).c.outcome != literal_column("'ok'")
"""As the index ``ix_run_failed`` says it: with a parameter in its place the planner could not know."""


class Result(SQLModel, table=True):
    """Samples of one series from one run, which says when they came.

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


class KernelTable(SQLModel, table=True):
    """What a run's process saw of its device's kernels, read from its artefact as that arrived; goes with the samples.

    A table that could not be read is a row too: ``why`` says so in words.
    """

    run_id: int = Field(sa_column=Column(BigId, ForeignKey("run.id"), primary_key=True))
    kernels: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    """zlib of JSON: ``{"rows": [[name, launches a step, seconds a step], …], "rest_s": seconds a step of others}``."""
    why: str = ""
    created_at: datetime = time_column()


class LogEntry(SQLModel, table=True):
    __table_args__ = (UniqueConstraint("attempt_id", "seq"),)
    id: int | None = big_id()
    attempt_id: str = Field(foreign_key="attempt.id")
    seq: int
    at: datetime = time_column()
    stream: str
    text: str
