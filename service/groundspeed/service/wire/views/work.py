"""Requests, jobs, attempts and what they wrote."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from groundspeed.service.wire.views.parts import Effect, ProjectRef, RevisionRef, SeriesRef, View
from groundspeed.service.wire.views.projects import RequestRow
from groundspeed.service.wire.views.runs import ArtefactView, RunRow


class JobRow(View):
    id: int
    request: int
    project: ProjectRef
    suite: str
    reason: str
    state: str
    revisions: tuple[RevisionRef, ...]
    attempts: int
    max_attempts: int
    phase: str
    message: str
    done: int
    total: int
    node: str
    position: int | None
    """Place in the queue, from 1, while it waits."""
    error: str
    created_at: datetime
    finished_at: datetime | None


class Activity(View):
    project: ProjectRef | None
    requests: tuple[RequestRow, ...]
    running: tuple[JobRow, ...]
    queued: tuple[JobRow, ...]
    queued_total: int
    next_cursor: str | None


class RequestPage(View):
    row: RequestRow
    jobs: tuple[JobRow, ...]
    jobs_total: int
    parent: int | None
    children: tuple[int, ...]
    why: dict[str, Any]
    """What was asked for, in the words of the request."""


class LogLineView(View):
    seq: int
    at: datetime
    stream: str
    text: str


class AttemptView(View):
    id: str
    number: int
    node: str
    state: str
    phase: str
    message: str
    done: int
    total: int
    error_kind: str
    error: str
    claimed_at: datetime
    finished_at: datetime | None
    log: tuple[LogLineView, ...]
    log_total: int


class AttemptNews(View):
    """Where an attempt stands, and the lines since one last looked."""

    state: str
    phase: str
    message: str
    done: int
    total: int
    lines: tuple[LogLineView, ...]


class RequestNews(View):
    """Where a request stands: the state of each job by its id, runs done and to do of those that run."""

    state: str
    jobs: dict[str, str]
    done: int
    total: int


class VerdictView(View):
    series: SeriesRef
    answer: str
    reason: str
    effect: Effect
    mde: float | None
    pairs: int


class JobPage(View):
    row: JobRow
    benchmarks: tuple[str, ...]
    attempts: tuple[AttemptView, ...]
    runs: tuple[RunRow, ...]
    verdicts: tuple[VerdictView, ...]
    artefacts: tuple[ArtefactView, ...]
    spec: dict[str, Any]
