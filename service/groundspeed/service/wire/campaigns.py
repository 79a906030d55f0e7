"""Campaigns on the wire: what is asked for, and what is shown."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from groundspeed.service.wire.v1 import Wire
from groundspeed.service.wire.views.parts import ProjectRef, RevisionRef, View

Label = Annotated[str, Field(max_length=200)]
Share = Annotated[float, Field(gt=0, le=1)]


class NewCampaign(Wire):
    """What to validate, where and how; what each field means: docs/campaigns.md."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    project: Label
    wanted: Annotated[dict[Label, Label], Field(min_length=1, max_length=20)]
    """The facets that are to change, each with the value it is to have: {"gpu.driver": "580"}."""
    where: Annotated[dict[Label, Label], Field(default_factory=dict, max_length=20)]
    nodes: Annotated[tuple[Label, ...], Field(max_length=5000)] = ()
    suites: Annotated[tuple[Label, ...], Field(max_length=100)] = ()
    scopes: dict[Label, Literal["device", "node", "fabric"]] = Field(default_factory=dict)
    revision: Label = ""
    canary: Annotated[int, Field(ge=1, le=5000)] = 1
    waves: Annotated[tuple[Share, ...], Field(min_length=1, max_length=20)] = (0.1, 0.4, 1.0)
    replicates: Annotated[int, Field(ge=2, le=50)] = 3
    margin: Share = 0.01
    margins: dict[Label, Share] = Field(default_factory=dict)
    hold: Literal["auto", "manual"] = "auto"
    max_lost: Annotated[int, Field(ge=0, le=5000)] = 1
    stop_on_no_go: bool = True
    return_s: Annotated[float, Field(ge=1, le=7_776_000)] = 3600.0
    measure_s: Annotated[float, Field(ge=1, le=7_776_000)] = 21_600.0
    fresh_s: Annotated[float, Field(ge=0, le=7_776_000)] = 86_400.0
    hook: Label = ""
    price: Annotated[float, Field(ge=0, le=1e9)] | None = None
    currency: Annotated[str, Field(max_length=10)] = ""
    note: Annotated[str, Field(max_length=2000)] = ""


class CampaignCreated(Wire):
    id: int
    name: str
    waves: tuple[tuple[str, ...], ...]
    """Node names: canaries first, then wave after wave."""
    notes: tuple[str, ...] = ()
    """What should be known before anything is changed: too few nodes for a verdict, a facet that no node tells."""


class Decide(Wire):
    """A person's decision; ``why`` stands in the audit log."""

    action: Literal["approve", "abort", "resume", "confirm"]
    why: Annotated[str, Field(max_length=2000)] = ""
    node: Label = ""


class Decided(Wire):
    said: str


class CampaignRow(View):
    name: str
    project: ProjectRef
    wanted: dict[str, str]
    state: str
    phase: str
    answer: str
    reason: str
    nodes: int
    done: int
    """Nodes that have come to an end, well or not."""
    created_at: datetime
    finished_at: datetime | None


class CampaignList(View):
    rows: tuple[CampaignRow, ...]


class CampaignMetric(View):
    """One metric over the fleet. ``worsening`` and its bounds are relative: 0.02 is 2 % worse, below 0 better."""

    metric: str
    unit: str
    direction: int
    answer: str
    worsening: float | None
    low: float | None
    high: float | None
    margin: float
    nodes: int
    spread: float | None
    reason: str


class CampaignNodeRow(View):
    name: str
    wave: int
    phase: str
    state: str
    since: datetime
    note: str
    lost: tuple[str, ...]
    other: tuple[str, ...]
    reused: bool
    counts: bool
    """Whether it says something about the change."""
    worst: str
    """The metric that became worst here, and by how much (relative)."""
    worsening: float | None
    jobs: tuple[int, ...]


class OddDevice(View):
    node: str
    device: str
    metric: str
    area: str
    where: str
    worse_by: float


class CostChange(View):
    metric: str
    unit: str
    currency: str
    money_before: float | None
    money_after: float | None
    money_change: float | None
    energy_before_kwh: float | None
    energy_after_kwh: float | None
    energy_change: float | None


class CampaignPage(View):
    """A campaign with its report. ``findings`` says in sentences all that is to be said of single nodes."""

    name: str
    project: ProjectRef
    revision: RevisionRef
    wanted: dict[str, str]
    note: str
    actor: str
    state: str
    phase: str
    reasons: tuple[str, ...]
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    rules: dict[str, str]
    """How it goes on and when it stops, by name in words."""
    answer: str
    answer_reason: str
    basis: str
    """What the answer rests on: nodes, devices, processes."""
    judged_at: datetime | None
    findings: tuple[str, ...]
    common: tuple[str, ...]
    confirmation: str
    metrics: tuple[CampaignMetric, ...]
    odd: tuple[OddDevice, ...]
    costs: tuple[CostChange, ...]
    counts: dict[str, int]
    """Nodes by state."""
    phases: tuple[tuple[str, int, int], ...]
    """(name, nodes, of which at an end), in order."""
    nodes: tuple[CampaignNodeRow, ...]
    """Those that need somebody's attention first."""


class Straggler(View):
    """A device that is worse than the others of its model, without any change."""

    node: str
    device: str
    model: str
    metric: str
    area: str
    worse_by: float
    q: float


class Stragglers(View):
    project: ProjectRef
    devices: int
    metrics: int
    days: float
    rows: tuple[Straggler, ...]


class TellEvent(Wire):
    """Something from outside the code, to be shown on the graphs."""

    title: Annotated[str, Field(min_length=1, max_length=200)]
    body: Annotated[str, Field(max_length=4000)] = ""
    project: Label = ""
    """Empty: it shows in every project."""
    node: Label = ""
    where: Annotated[dict[Label, Label], Field(default_factory=dict, max_length=20)]
    """Labels: one event for each node that has them."""
    at: datetime | None = None
    """With its zone; none: now."""


class EventsTold(Wire):
    ids: tuple[int, ...]


class CauseRow(View):
    """Code or environment, of one step in one series. ``machine``: what the control workload says of the machine."""

    change_point: int
    series: int
    cause: Literal["code", "environment", "both", "neither", "unknown"]
    reason: str
    machine: str
    cells: dict[str, int]
    """Processes in each corner of old and new commit × old and new environment."""
    difference: tuple[str, ...] = ()
    """What differs between the two environments, one line a facet."""


class Causes(View):
    rows: tuple[CauseRow, ...]
