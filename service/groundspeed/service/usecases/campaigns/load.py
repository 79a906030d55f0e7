"""What was measured in a campaign, as arrays for the domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.campaign_tables import CampaignNode
from groundspeed.service.db.tables import Benchmark, Job, Result, Run, Series
from groundspeed.service.domain.campaigns.evidence import AFTER, AGAIN, BEFORE, Columns, Evidence, assemble
from groundspeed.service.domain.fleet.cells import Metric
from groundspeed.service.usecases.campaigns.state import Loaded

_SIDES = {"before": BEFORE, "after": AFTER, "again": AGAIN}
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Line:
    """What a column of the evidence is: for the report and for costs."""

    metric: Metric
    unit: str
    kind: str


@dataclass(frozen=True, slots=True)
class Measurements:
    evidence: Evidence
    lines: tuple[Line, ...]
    power: Mapping[tuple[int, int], float]
    """Watts by (node index, side): the median over processes and devices of what was drawn while measuring."""
    processes: int


def measurements(session: Session, loaded: Loaded) -> Measurements:
    """Every valid result of the campaign's jobs whose metric has a better direction."""
    places = _places(session, loaded.parts)
    reader = _Reader(loaded, places)
    ids = list(places)
    for start in range(0, len(ids), _AT_ONCE):
        reader.take(session, ids[start : start + _AT_ONCE])
    return reader.done()


def _places(session: Session, parts: Sequence[CampaignNode]) -> dict[int, tuple[int, int, dict[str, str]]]:
    """By job: node index, side, and the device's name of each benchmark of it."""
    found = {
        job: (index, _SIDES[side])
        for index, part in enumerate(parts)
        for side, jobs in part.jobs.items()
        for job in jobs
        if side in _SIDES
    }
    out: dict[int, tuple[int, int, dict[str, str]]] = {}
    ids = list(found)
    for start in range(0, len(ids), _AT_ONCE):
        query = select(col(Job.id), col(Job.spec)).where(col(Job.id).in_(ids[start : start + _AT_ONCE]))
        for id_, spec in session.execute(query).tuples():
            names = {b["key"]: "+".join(b.get("devices") or ()) for b in spec["benchmarks"]}
            out[id_ or 0] = (*found[id_ or 0], names)
    return out


class _Reader:
    """Numbers nodes, devices and metrics as they come."""

    def __init__(self, loaded: Loaded, places: Mapping[int, tuple[int, int, dict[str, str]]]) -> None:
        self._loaded = loaded
        self._places = places
        self._devices: dict[tuple[int, str], int] = {}
        self._lines: dict[str, int] = {}
        self._about: list[Line] = []
        self._rows: list[tuple[int, int, int, float]] = []
        self._power: dict[tuple[int, int], list[float]] = {}
        self._processes: set[int] = set()

    def take(self, session: Session, jobs: Sequence[int]) -> None:
        columns = (
            col(Run.id), col(Run.job_id), col(Run.benchmark_key), col(Run.conditions), col(Result.value), Series,
            col(Benchmark.suite),
        )  # fmt: skip
        query = (
            select(*columns)
            .join(Result, col(Result.run_id) == col(Run.id))
            .join(Series, col(Series.id) == col(Result.series_id))
            .join(Benchmark, col(Benchmark.id) == col(Series.benchmark_id))
            .where(col(Run.job_id).in_(jobs), col(Run.outcome) == "ok", col(Result.state) != "rejected")
            .where(col(Series.direction) != 0, col(Series.gate).is_(True))
            .order_by(col(Run.id), col(Series.id))
        )
        for run, job, key, conditions, value, series, suite in session.execute(query).tuples():
            node, side, names = self._places[job]
            device = names.get(key, "")
            row = self._devices.setdefault((node, device), len(self._devices))
            self._rows.append((row, self._line(series, suite, device), side, value))
            if run not in self._processes:
                self._processes.add(run or 0)
                self._watts(node, side, conditions)

    def _line(self, series: Series, suite: str, device: str) -> int:
        params = ", ".join(f"{name}={value}" for name, value in sorted(series.params.items()))
        name = f"{suite}: {series.metric}" + (f" ({params})" if params else "")
        if "+" in device:
            name += f" [{device.count('+') + 1} devices]"
        if name not in self._lines:
            self._lines[name] = len(self._lines)
            margin = self._margin(series)
            self._about.append(Line(Metric(name, series.direction, margin), series.unit, series.kind))
        return self._lines[name]

    def _margin(self, series: Series) -> float:
        plan = self._loaded.campaign.plan
        margins: dict[str, float] = plan["margins"]
        return float(margins.get(series.metric, margins.get(series.kind, plan["margin"])))

    def _watts(self, node: int, side: int, conditions: Mapping[str, Any]) -> None:
        found = _power_of(conditions)
        if found is not None:
            self._power.setdefault((node, side), []).append(found)

    def done(self) -> Measurements:
        nodes = [self._loaded.node(part).name for part in self._loaded.parts]
        devices = list(self._devices)
        evidence = assemble(
            Columns.of(self._rows),
            nodes,
            np.array([node for node, _ in devices], np.int64),
            [name for _, name in devices],
            [line.metric for line in self._about],
        )
        power = {place: float(np.median(values)) for place, values in self._power.items()}
        return Measurements(evidence, tuple(self._about), power, len(self._processes))


def _power_of(conditions: Mapping[str, Any]) -> float | None:
    """Median watts of the device while it was measured, where the conditions have it."""
    device = conditions.get("device")
    found = device.get("power_w") if isinstance(device, dict) else None
    if isinstance(found, dict):
        found = found.get("median")
    return float(found) if isinstance(found, (int, float)) and found > 0 else None
