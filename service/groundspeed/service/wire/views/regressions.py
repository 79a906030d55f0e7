"""Regressions, their triage and their history."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from groundspeed.service.wire.views.charts import Spark
from groundspeed.service.wire.views.kernels import Kernels
from groundspeed.service.wire.views.parts import Change, ProjectRef, RevisionRef, SeriesRef, View
from groundspeed.service.wire.views.projects import RegressionRow


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
    spark: Spark | None = None
    """The series around the change; None beyond the first few series."""


class EnvironmentStep(View):
    """A change of environment that coincides with the change of a series: what differs, and which of the two it was."""

    series: SeriesRef
    difference: tuple[str, ...]
    """One line a facet, from and to."""
    cause: str
    """code, environment, both, neither, or unknown."""
    reason: str
    machine: str
    """What the control workload says of the machine itself; empty: nothing."""


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
    environments: tuple[EnvironmentStep, ...] = ()
    """Of the strongest changes where the environment changed too, one for each pair of environments."""
    kernels: tuple[Kernels, ...] = ()
    """Of the strongest changes, where tables of kernels were kept."""


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


class Split(View):
    """Change points (see ``affected``) that have another cause."""

    changes: Annotated[tuple[int, ...], Field(min_length=1, max_length=500)]


class Bulk(View):
    """One action for several: a state, "merge" (into the oldest), "assign" or "ignore" (until ``ignore_until``)."""

    regressions: Annotated[tuple[int, ...], Field(min_length=1, max_length=200, examples=[[12, 15]])]
    action: Annotated[str, Field(max_length=40, examples=["acknowledged"])]
    assignee: Annotated[str, Field(max_length=200, examples=["ada"])] = ""
    ignore_until: Annotated[str, Field(max_length=200, examples=["2026-05-31"])] = ""
