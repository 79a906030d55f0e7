"""Which devices stand out among those of their model, though nothing was changed: from what was measured lately."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import Benchmark, Device, Node, Project, Result, Run, Series
from groundspeed.service.domain.campaigns.conclude import area_of, stragglers
from groundspeed.service.domain.campaigns.evidence import BEFORE, Columns, assemble
from groundspeed.service.domain.fleet.cells import Metric
from groundspeed.service.usecases import requests, written
from groundspeed.service.usecases.views import refs
from groundspeed.service.wire import campaigns as w

_CONDITIONS = (("temperature_c", "thermals: temperature", -1), ("sm_mhz", "thermals: clock_mhz under load", 1))
_MARGIN, _THERMAL_MARGIN = 0.01, 0.05
_MOST = 500_000
"""Newest results that are looked at."""


def report(database: Database, slug: str, now: datetime, days: float = 30.0, margin: float = _MARGIN) -> w.Stragglers:
    """Every metric with a better direction counts, and the devices' temperature and clocks under load.

    A device's peers are those of the same hardware class, measured with the same benchmark; results of the newest
    ``days`` count, of all commits together: a device that is slow at one of them only is not worth a name.
    """
    since = now - timedelta(days=days)
    with database.read() as session:
        project = requests.by_slug(session, slug)
        reader = _Reader(margin)
        reader.read(session, project, since)
        nodes, models = _names(session)
    found = reader.judge(nodes)
    return w.Stragglers(
        project=refs.project_ref(project),
        devices=len(reader.devices),
        metrics=len(reader.metrics),
        days=days,
        rows=tuple(
            w.Straggler(
                node=one.node, device=models.get(one.device, ("", one.device))[1], metric=one.metric,
                model=models.get(one.device, ("", ""))[0], area=area_of(one.metric), worse_by=one.worse_by, q=one.q,
            )
            for one in found
        ),
    )  # fmt: skip


def _names(session: Session) -> tuple[dict[int, str], dict[str, tuple[str, str]]]:
    nodes = {id_ or 0: name for id_, name in session.execute(select(col(Node.id), col(Node.name))).tuples()}
    query = select(col(Device.uuid), col(Device.model), col(Device.index))
    return nodes, {uuid: (model, f"gpu{i} ({uuid})") for uuid, model, i in session.execute(query).tuples()}


class _Reader:
    """Numbers devices, hardware classes and metrics as they come."""

    def __init__(self, margin: float) -> None:
        self._margin = margin
        self.devices: dict[tuple[int, str], int] = {}
        self.metrics: dict[str, tuple[int, Metric]] = {}
        self._groups: dict[int, int] = {}
        self._group_of: list[int] = []
        self._rows: list[tuple[int, int, int, float]] = []

    def read(self, session: Session, project: Project, since: datetime) -> None:
        columns = (
            col(Run.id), col(Run.node_id), col(Run.device_uuid), col(Run.hardware_id), col(Run.revision_id),
            col(Run.conditions), col(Result.value), Series, col(Benchmark.suite),
        )  # fmt: skip
        query = (
            select(*columns)
            .join(Result, col(Result.run_id) == col(Run.id))
            .join(Series, col(Series.id) == col(Result.series_id))
            .join(Benchmark, col(Benchmark.id) == col(Series.benchmark_id))
            .where(col(Series.project_id) == project.id, col(Run.created_at) >= since, col(Run.outcome) == "ok")
            .where(col(Result.state) != "rejected", col(Series.direction) != 0, col(Series.gate).is_(True))
            .order_by(col(Run.id).desc())
            .limit(_MOST)
        )
        seen: set[int | None] = set()
        levels: dict[tuple[int, int], list[tuple[int, float]]] = {}
        for run, node, device, hardware, revision, conditions, value, series, suite in session.execute(query).tuples():
            row = self._device(node, device or "", hardware)
            params = written.params(dict(sorted(series.params.items())))
            name = f"{suite}: {series.metric}" + (f" ({params})" if params else "")
            metric = self._metric(name, series.direction, self._margin)
            levels.setdefault((metric, revision), []).append((row, value))
            if run not in seen:
                seen.add(run)
                self._thermals(row, conditions)
        for (metric, _), values in levels.items():
            # Levels of commits differ by what the code does: each is held against the median of its own commit.
            middle = float(np.median([value for _, value in values]))
            if middle > 0 and len({row for row, _ in values}) > 1:
                self._rows += [(row, metric, BEFORE, value / middle) for row, value in values]

    def _device(self, node: int, uuid: str, hardware: int) -> int:
        if (node, uuid) not in self.devices:
            self.devices[node, uuid] = len(self.devices)
            self._group_of.append(self._groups.setdefault(hardware, len(self._groups)))
        return self.devices[node, uuid]

    def _metric(self, name: str, direction: int, margin: float) -> int:
        if name not in self.metrics:
            self.metrics[name] = (len(self.metrics), Metric(name, direction, margin))
        return self.metrics[name][0]

    def _thermals(self, row: int, conditions: Mapping[str, Any]) -> None:
        device = conditions.get("device")
        for key, name, direction in _CONDITIONS:
            found = device.get(key) if isinstance(device, dict) else None
            value = found.get("median") if isinstance(found, dict) else None
            if isinstance(value, (int, float)) and value > 0:
                self._rows.append((row, self._metric(name, direction, _THERMAL_MARGIN), BEFORE, float(value)))

    def judge(self, names: Mapping[int, str]) -> tuple[Any, ...]:
        if not self._rows:
            return ()
        nodes = list(dict.fromkeys(node for node, _ in self.devices))
        index = {node: i for i, node in enumerate(nodes)}
        evidence = assemble(
            Columns.of(self._rows),
            [names.get(node, str(node)) for node in nodes],
            np.array([index[node] for node, _ in self.devices], np.int64),
            [uuid for _, uuid in self.devices],
            [metric for _, metric in self.metrics.values()],
        )
        return stragglers(evidence.data, evidence.nodes, evidence.devices, self._group_of)
