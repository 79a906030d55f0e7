"""The grid of small charts and the graph."""

from __future__ import annotations

from datetime import datetime

from groundspeed.service.wire.views.parts import (
    Change,
    Column,
    Effect,
    EnvironmentRef,
    ProjectRef,
    RevisionRef,
    SeriesRef,
    View,
)


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
    pins: tuple[RevisionRef, ...] = ()
    """Commits that the address marks, those without a point among them."""
    about: str = ""
    """Of a single series: what its metric is, in the words of the plugin."""
    query: dict[str, str]


class Named(View):
    series: SeriesRef


class GraphHead(View):
    """What a graph's page begins with, known long before its points."""

    project: ProjectRef
    series: tuple[Named, ...]
    about: str = ""
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
