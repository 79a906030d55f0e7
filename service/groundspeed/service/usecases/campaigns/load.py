"""What was measured in a campaign, as arrays for the domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.campaign_tables import CampaignNode
from groundspeed.service.db.tables import Benchmark, Job, Result, Run, Series
from groundspeed.service.domain.campaigns.evidence import AFTER, AGAIN, BEFORE, Columns, Evidence, assemble
from groundspeed.service.domain.fleet.cells import Metric
from groundspeed.service.usecases import written
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
        self._series: dict[int, tuple[Series, str] | None] = {}
        """Series with their suite; None: of no use here."""
        self._lines: dict[str, int] = {}
        self._line_of: dict[tuple[int, int], int] = {}
        self._about: list[Line] = []
        self._columns: tuple[list[int], list[int], list[int], list[float]] = ([], [], [], [])
        self._power: dict[tuple[int, int], list[float]] = {}
        self._processes = 0

    def take(self, session: Session, jobs: Sequence[int]) -> None:
        runs = self._runs(session, jobs)
        query = (
            select(col(Result.run_id), col(Result.series_id), col(Result.value))
            .join(Run, col(Run.id) == col(Result.run_id))
            .where(col(Run.job_id).in_(jobs), col(Run.outcome) == "ok", col(Result.state) != "rejected")
            .order_by(col(Result.run_id), col(Result.series_id))
        )
        rows = session.execute(query).tuples().all()
        self._know(session, {series for _, series, _ in rows})
        devices, lines, sides, values = self._columns
        for run, series, value in rows:
            row, side, members = runs[run]
            line = self._line(series, members)
            if line is not None:
                devices.append(row)
                lines.append(line)
                sides.append(side)
                values.append(value)

    def _runs(self, session: Session, jobs: Sequence[int]) -> dict[int, tuple[int, int, int]]:
        """By run: the number of its device, its side, and how many devices it ran on."""
        watts = col(Run.conditions)["device"]["power_w"]["median"].as_float()
        query = select(col(Run.id), col(Run.job_id), col(Run.benchmark_key), watts)
        found: dict[int, tuple[int, int, int]] = {}
        for run, job, key, power in session.execute(
            query.where(col(Run.job_id).in_(jobs), col(Run.outcome) == "ok").order_by(col(Run.id))
        ).tuples():
            node, side, names = self._places[job]
            device = names.get(key, "")
            row = self._devices.setdefault((node, device), len(self._devices))
            found[run or 0] = (row, side, 1 + device.count("+"))
            self._processes += 1
            if power is not None and power > 0:
                self._power.setdefault((node, side), []).append(float(power))
        return found

    def _know(self, session: Session, ids: set[int]) -> None:
        new = [id_ for id_ in ids if id_ not in self._series]
        for start in range(0, len(new), _AT_ONCE):
            query = (
                select(Series, col(Benchmark.suite))
                .join(Benchmark, col(Benchmark.id) == col(Series.benchmark_id))
                .where(col(Series.id).in_(new[start : start + _AT_ONCE]))
            )
            for series, suite in session.execute(query).tuples():
                useful = series.direction != 0 and series.gate
                self._series[series.id or 0] = (series, suite) if useful else None

    def _line(self, series_id: int, members: int) -> int | None:
        known = self._line_of.get((series_id, members))
        if known is not None:
            return known
        about = self._series[series_id]
        if about is None:
            return None
        series, suite = about
        params = written.params(dict(sorted(series.params.items())))
        name = f"{suite}: {series.metric}" + (f" ({params})" if params else "")
        if members > 1:
            name += f" [{members} devices]"
        if name not in self._lines:
            self._lines[name] = len(self._lines)
            metric = Metric(name, series.direction, self._margin(series))
            self._about.append(Line(metric, series.unit, series.kind))
        self._line_of[series_id, members] = self._lines[name]
        return self._lines[name]

    def _margin(self, series: Series) -> float:
        plan = self._loaded.campaign.plan
        margins: dict[str, float] = plan["margins"]
        return float(margins.get(series.metric, margins.get(series.kind, plan["margin"])))

    def done(self) -> Measurements:
        nodes = [self._loaded.node(part).name for part in self._loaded.parts]
        devices = list(self._devices)
        evidence = assemble(
            Columns.from_lists(*self._columns),
            nodes,
            np.array([node for node, _ in devices], np.int64),
            [name for _, name in devices],
            [line.metric for line in self._about],
        )
        power = {place: float(np.median(values)) for place, values in self._power.items()}
        return Measurements(evidence, tuple(self._about), power, self._processes)
