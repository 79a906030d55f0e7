"""A commit and a run: what was measured, and under which conditions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from groundspeed.service.wire.views.kernels import Kernels
from groundspeed.service.wire.views.parts import Column, EnvironmentRef, ProjectRef, RevisionRef, SeriesRef, View
from groundspeed.service.wire.views.projects import RevisionState
from groundspeed.service.wire.views.regressions import AffectedSeries


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


class Renamed(View):
    """A benchmark that looks renamed: one ended before the commit, another begins at it with the same numbers."""

    before: str
    """The old name, of a suite or of a benchmark inside one; ``after`` is the new."""
    after: str
    series_before: SeriesRef
    """One of the old name's series; ``series_after`` is what it would go on as."""
    series_after: SeriesRef
    ratio: float
    """The new level over the old."""


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
    kernels: tuple[Kernels, ...] = ()
    """Of the changes that begin here, or of a gate on this commit, where tables of kernels were kept."""
    renamed: tuple[Renamed, ...] = ()
    notes: tuple[str, ...]
    """What people wrote at it; graphs show them."""


class RevisionHead(View):
    """What a commit's page begins with, known before its results."""

    project: ProjectRef
    revision: RevisionRef
    previous: RevisionRef | None
    next: RevisionRef | None


class ArtefactView(View):
    id: int
    attempt: str
    sha256: str
    kind: str
    name: str
    size_bytes: int
    stored: bool


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
