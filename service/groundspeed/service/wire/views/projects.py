"""Projects, their overview, and the machines in one line."""

from __future__ import annotations

from datetime import datetime

from groundspeed.service.wire.views.parts import Effect, EnvironmentRef, ProjectRef, RevisionRef, SeriesRef, View


class ProjectCard(View):
    project: ProjectRef
    branch: str
    repo_url: str
    tip: RevisionRef | None
    open_regressions: int
    series: int
    queued: int
    running: int
    last_result_at: datetime | None
    config_error: str
    """Why new commits are not measured: configuration, repository, or a request that could not be planned."""


class NodeStrip(View):
    """A machine in one line."""

    id: int
    name: str
    state: str
    reason: str
    hardware: str
    environment: EnvironmentRef | None
    seen_at: datetime | None
    fresh: bool
    """Whether it has been heard of lately."""
    running: tuple[int, ...]
    """Jobs that it works on."""


class ProjectList(View):
    projects: tuple[ProjectCard, ...]
    nodes: tuple[NodeStrip, ...]


class RevisionState(View):
    """A commit and what is known of it."""

    revision: RevisionRef
    ok: int
    failed: int
    queued: int
    running: int
    regressions: int
    improvements: int


class RegressionRow(View):
    id: int
    project: str
    kind: str
    state: str
    cause: str
    title: str
    before: RevisionRef | None
    after: RevisionRef | None
    commits: int | None
    """How many commits the suspect range holds."""
    worst: Effect | None
    worst_series: SeriesRef | None
    series_count: int
    provisional: bool
    assignee: str
    note: str
    link: str
    ignore_until: str
    created_at: datetime
    updated_at: datetime


class RequestRow(View):
    id: int
    project: ProjectRef
    kind: str
    state: str
    tip: RevisionRef | None
    tip_sha: str
    jobs: dict[str, int]
    """Number of jobs by state."""
    runs_done: int
    runs_total: int
    priority: int
    error: str
    created_at: datetime
    finished_at: datetime | None


class SilentSeries(View):
    series: SeriesRef
    last: RevisionRef | None
    last_result_at: datetime | None
    behind: int
    """Commits since, on the branch."""


class Overview(View):
    card: ProjectCard
    revisions: tuple[RevisionState, ...]
    regressions: tuple[RegressionRow, ...]
    improvements: tuple[RegressionRow, ...]
    activity: tuple[RequestRow, ...]
    nodes: tuple[NodeStrip, ...]
    silent: tuple[SilentSeries, ...]
