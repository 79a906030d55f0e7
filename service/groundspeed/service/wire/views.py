"""What the pages show and the reading routes send: one model a page, the same for HTML and JSON.

The page at ``/X`` and the route ``GET /api/v1/X`` are made from the same model. Times are ISO 8601 in UTC, ratios are
level after over level before, values are in the unit beside them, and ``None`` stands for "not known", never for zero.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Column = tuple[float | None, ...]


class View(BaseModel):
    """Base of every model that is shown."""

    model_config = ConfigDict(extra="forbid", frozen=True)


# --- things that are named everywhere -------------------------------------------------------------------------------


class ProjectRef(View):
    slug: str
    name: str


class RevisionRef(View):
    """A commit; ``position`` is its place on the branch's history, None off the branch."""

    id: int
    sha: str
    position: int | None
    title: str
    author: str
    at: datetime


class EnvironmentRef(View):
    id: int
    label: str
    fingerprint: str


class SeriesRef(View):
    """One line of history: what was measured, how it reads, where."""

    id: int
    suite: str
    benchmark: str
    version: str
    target: str | None
    metric: str
    unit: str
    direction: int
    kind: str
    gate: bool
    params: dict[str, Any]
    hardware: str
    noise: float | None
    """Relative standard deviation from point to point."""


class Effect(View):
    """Level after over level before, with its confidence interval; ``difference`` in the series' unit."""

    ratio: float | None
    low: float | None
    high: float | None
    difference: float | None


class Change(View):
    """A step in a series: after ``before`` and not later than ``after``."""

    id: int
    series: int
    state: str
    kind: str
    cause: str
    effect: Effect
    before: RevisionRef
    after: RevisionRef
    environment_from: EnvironmentRef | None
    environment_to: EnvironmentRef | None
    regression: int | None
    at: datetime


# --- projects -------------------------------------------------------------------------------------------------------


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


class ProjectList(View):
    projects: tuple[ProjectCard, ...]
    nodes: tuple[NodeStrip, ...]


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


# --- grid -----------------------------------------------------------------------------------------------------------


class Spark(View):
    """The newest part of a series: ``x`` are positions, ``changes`` indices into them, with the kind of each."""

    x: tuple[int, ...]
    y: Column
    changes: tuple[tuple[int, str], ...]


class GridCard(View):
    series: SeriesRef
    spark: Spark
    value: float | None
    at: RevisionRef | None
    last_change: Effect | None
    last_change_kind: str
    last_change_at: datetime | None
    open_regression: int | None
    behind: int
    """Commits on the branch since the last point: a series gone silent shows."""


class Facet(View):
    """A parameter (or suite, metric, hardware) and its values with their number of series."""

    name: str
    values: tuple[tuple[str, int], ...]


class Grid(View):
    project: ProjectRef
    cards: tuple[GridCard, ...]
    facets: tuple[Facet, ...]
    total: int
    query: dict[str, str]
    next_cursor: str | None


# --- graph ----------------------------------------------------------------------------------------------------------


class Revisions(View):
    """The commits that the points stand on, as columns, oldest first."""

    id: tuple[int, ...]
    sha: tuple[str, ...]
    position: tuple[int, ...]
    at: tuple[int, ...]
    """Seconds since the epoch."""
    author: tuple[str, ...]
    title: tuple[str, ...]


class Points(View):
    """Points of one series as columns; a point is all results of one revision in one environment."""

    revision: tuple[int, ...]
    """Index into ``revisions``."""
    environment: tuple[int, ...]
    """Index into ``environments``."""
    value: Column
    """Median over processes."""
    low: Column
    high: Column
    """Range over processes; with one process, the spread of its samples."""
    count: tuple[int, ...]
    """Processes."""
    run: tuple[int, ...]
    """Newest run."""
    state: tuple[str, ...]
    """valid, degraded or rejected: the best of the processes."""


class Failure(View):
    """A run that gave no value."""

    revision: int
    """Index into ``revisions``."""
    outcome: str
    run: int


class Segment(View):
    """The level between two change points, as the detector sees it."""

    first: int
    last: int
    """Indices into the points shown."""
    level: float


class GraphSeries(View):
    series: SeriesRef
    points: Points
    total: int
    """Points in the range asked for, before thinning; thinning keeps extremes and the ends of changes."""
    segments: tuple[Segment, ...]
    changes: tuple[Change, ...]
    failures: tuple[Failure, ...]
    threshold: float | None


class EventMark(View):
    id: int
    kind: str
    title: str
    body: str
    revision: int | None
    """Index into ``revisions`` of the first commit at or after it."""
    at: datetime


class Graph(View):
    project: ProjectRef
    series: tuple[GraphSeries, ...]
    revisions: Revisions
    environments: tuple[EnvironmentRef, ...]
    events: tuple[EventMark, ...]
    siblings: tuple[SeriesRef, ...]
    """Series of the same benchmark: other parameters, metrics, hardware."""
    query: dict[str, str]


class SampleCloud(View):
    """Raw samples of one series as columns."""

    series: SeriesRef
    revision: tuple[str, ...]
    """The commit of each, by its hash."""
    run: tuple[int, ...]
    value: Column
    state: tuple[str, ...]
    truncated: bool
    """Whether there are more in the range than are sent."""


# --- regressions ----------------------------------------------------------------------------------------------------


class RegressionList(View):
    project: ProjectRef
    rows: tuple[RegressionRow, ...]
    counts: dict[str, int]
    """Number by state."""
    kind: str
    state: str
    next_cursor: str | None


class HistoryEntry(View):
    actor: str
    action: str
    data: dict[str, Any]
    at: datetime


class AffectedSeries(View):
    series: SeriesRef
    change: Change


class RegressionDetail(View):
    project: ProjectRef
    row: RegressionRow
    affected: tuple[AffectedSeries, ...]
    suspects: tuple[RevisionRef, ...]
    """Commits of the suspect range, oldest first."""
    similar: tuple[RegressionRow, ...]
    history: tuple[HistoryEntry, ...]
    moves: tuple[str, ...]
    """States that it can be put into."""


class Triage(View):
    """What is to change of a regression; what is left out stays. ``ignore_until``: a date, a commit, an environment."""

    state: str | None = None
    why: Annotated[str, Field(max_length=2000)] = ""
    assignee: str | None = None
    note: str | None = None
    link: str | None = None
    ignore_until: str | None = None


class Merge(View):
    regressions: Annotated[tuple[int, ...], Field(min_length=1, max_length=200)]


# --- a commit -------------------------------------------------------------------------------------------------------


class RevisionResult(View):
    series: SeriesRef
    value: float
    spread: float
    count: int
    run: int
    previous: float | None
    previous_at: RevisionRef | None


class RunRow(View):
    """One process in one line."""

    id: int
    job: int
    benchmark: str
    key: str
    side: int
    replicate: int
    outcome: str
    summary: str
    """First line of the evidence, where there is any."""
    node: str
    duration_s: float
    started_at: datetime
    revision: RevisionRef


class RevisionPage(View):
    project: ProjectRef
    revision: RevisionRef
    parents: tuple[str, ...]
    previous: RevisionRef | None
    next: RevisionRef | None
    state: RevisionState
    results: tuple[RevisionResult, ...]
    changes: tuple[AffectedSeries, ...]
    failures: tuple[RunRow, ...]


# --- work -----------------------------------------------------------------------------------------------------------


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


class ArtefactView(View):
    id: int
    attempt: str
    sha256: str
    kind: str
    name: str
    size_bytes: int
    stored: bool


class JobPage(View):
    row: JobRow
    benchmarks: tuple[str, ...]
    attempts: tuple[AttemptView, ...]
    runs: tuple[RunRow, ...]
    verdicts: tuple[VerdictView, ...]
    artefacts: tuple[ArtefactView, ...]
    spec: dict[str, Any]


class SampleSet(View):
    series: SeriesRef
    value: float
    spread: float
    state: str
    values: Column
    states: tuple[str, ...]


class Trace(View):
    """A condition over the run: ``t`` in seconds from its start."""

    name: str
    unit: str
    t: Column
    y: Column


class RunPage(View):
    project: ProjectRef
    run: RunRow
    job: int
    attempt: str
    plugin: str
    params: dict[str, Any]
    environment: EnvironmentRef
    facets: tuple[dict[str, Any], ...]
    build: tuple[dict[str, Any], ...]
    device: str
    hardware: str
    evidence: dict[str, Any]
    conditions: dict[str, Any]
    facts: dict[str, Any]
    phases_s: dict[str, float]
    samples: tuple[SampleSet, ...]
    traces: tuple[Trace, ...]
    artefacts: tuple[ArtefactView, ...]
    repeat: str
    """The command that measures the same again."""


# --- compare --------------------------------------------------------------------------------------------------------


class Side(View):
    """What one side of a comparison is."""

    label: str
    kind: Literal["revision", "environment", "node", "run"]
    key: str
    revision: RevisionRef | None


class CompareRow(View):
    series: SeriesRef
    base: float | None
    head: float | None
    base_count: int
    head_count: int
    effect: Effect
    answer: str
    """regressed, improved, unchanged, inconclusive or never-compared."""
    reason: str
    mde: float | None
    base_values: Column
    head_values: Column


class FacetDifference(View):
    layer: str
    name: str
    base: str | None
    head: str | None


class Compare(View):
    project: ProjectRef
    base: Side | None
    head: Side | None
    rows: tuple[CompareRow, ...]
    counts: dict[str, int]
    environment: tuple[FacetDifference, ...]
    conditions: tuple[FacetDifference, ...]
    problem: str
    """Why there is nothing to compare, and what to do."""
    query: dict[str, str]


# --- fleet ----------------------------------------------------------------------------------------------------------


class HeatCell(View):
    """A node's level for one benchmark beside the median of its peers; None: never measured there."""

    ratio: float | None
    count: int
    value: float | None


class HeatRow(View):
    series: SeriesRef
    cells: tuple[HeatCell, ...]


class Fleet(View):
    nodes: tuple[NodeStrip, ...]
    rows: tuple[HeatRow, ...]


class DeviceView(View):
    index: int
    uuid: str
    model: str
    memory_bytes: int


class NodePage(View):
    node: NodeStrip
    labels: dict[str, str]
    worker_version: str
    slots: int
    sandbox: str
    registered_at: datetime
    devices: tuple[DeviceView, ...]
    facets: tuple[dict[str, Any], ...]
    info: tuple[dict[str, Any], ...]
    environments: tuple[EnvironmentRef, ...]
    events: tuple[EventMark, ...]
    plugins: tuple[dict[str, str], ...]
    peers: tuple[HeatRow, ...]
    runs: tuple[RunRow, ...]


# --- search ---------------------------------------------------------------------------------------------------------


class Hit(View):
    kind: Literal["project", "series", "revision", "request", "regression", "node"]
    title: str
    detail: str
    url: str


class SearchResults(View):
    query: str
    hits: tuple[Hit, ...]


ProjectList.model_rebuild()
