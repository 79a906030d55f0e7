"""Two sides, side by side."""

from __future__ import annotations

from typing import Literal

from groundspeed.service.wire.views.kernels import Kernels
from groundspeed.service.wire.views.parts import Column, Effect, ProjectRef, RevisionRef, SeriesRef, View


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


class Choice(View):
    """Something that can be compared: what to write for it, and what it is."""

    value: str
    label: str


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
    kernels: tuple[Kernels, ...] = ()
    """Of benchmarks that changed, where tables of their kernels were kept."""
    choices: tuple[Choice, ...]
    """What the newest work offers, of the kind that is compared."""
    query: dict[str, str]
