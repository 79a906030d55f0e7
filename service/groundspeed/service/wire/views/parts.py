"""What is named everywhere: projects, commits, environments, series, effects and changes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

Column = tuple[float | None, ...]


class View(BaseModel):
    """Base of every model that is shown."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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
