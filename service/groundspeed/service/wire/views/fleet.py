"""Machines beside their peers."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from groundspeed.service.wire.views.charts import EventMark
from groundspeed.service.wire.views.parts import EnvironmentRef, SeriesRef, View
from groundspeed.service.wire.views.projects import NodeStrip
from groundspeed.service.wire.views.runs import RunRow


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
    imported: tuple[NodeStrip, ...]
    """Machines of which only other tools' results are known: they run nothing."""
    rows: tuple[HeatRow, ...]


class DeviceView(View):
    index: int
    uuid: str
    model: str
    memory_bytes: int


class NodeEnvironment(View):
    environment: EnvironmentRef
    since: datetime
    """When the node's first run in it began."""


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
    environments: tuple[NodeEnvironment, ...]
    events: tuple[EventMark, ...]
    plugins: tuple[dict[str, str], ...]
    peers: tuple[HeatRow, ...]
    runs: tuple[RunRow, ...]
    hygiene: tuple[tuple[str, int], ...]
    """What made the surroundings of its newest runs doubtful, and in how many of them."""
    hygiene_runs: int
    """How many of those runs say anything of their surroundings."""
