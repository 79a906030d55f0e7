"""Simulated fleets: nodes with devices, metrics with noise at four levels, a planted effect of a driver.

The between-process noise of each metric is drawn, with replacement, from the relative deviations of recorded GPU
processes when a folder of such recordings is given (jsonl lines with a name and a duration), else from a Student t
with four degrees of freedom at the spreads that measurement of device-busy time and of collectives showed.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from groundspeed.service.domain.fleet.cells import FleetData, Metric

Noise = Callable[[Generator, tuple[int, ...]], NDArray[np.float64]]


@dataclass(frozen=True)
class FleetShape:
    """``reboot_sd``: how much a node's change scatters though nothing changed (relative); ``level_sd``: how much
    devices of one model differ; ``slow_share``: devices that are slow cards before and after alike."""

    nodes: int = 24
    devices_per_node: int = 8
    metrics: int = 10
    replicates: int = 3
    margin: float = 0.01
    level_sd: float = 0.01
    reboot_sd: float = 0.004
    slow_share: float = 0.01
    slow_by: float = 0.08
    broken_nodes: int = 1
    broken_by: float = 0.05


def recorded_noise(folder: Path | None) -> tuple[Noise, str]:
    """Relative deviations of processes from their median, from recordings; or the stated stand-in."""
    pools = _pools(folder) if folder is not None and folder.is_dir() else []
    if not pools:
        return (lambda rng, shape: 0.004 * rng.standard_t(4, shape) / np.sqrt(2)), "Student t(4), 0.4 % a process"
    joined = np.concatenate(pools)
    return (lambda rng, shape: rng.choice(joined, shape)), f"{joined.size} recorded processes, sd {joined.std():.2%}"


def _pools(folder: Path) -> list[NDArray[np.float64]]:
    values: dict[str, list[float]] = defaultdict(list)
    for name, field in (("devtime.jsonl", "busy"), ("naive.jsonl", "warm_median")):
        path = folder / name
        if not path.is_file():
            continue
        for line in path.read_text().splitlines():
            row = json.loads(line)
            if row.get("name") in {"gemm", "copy"} or field == "busy":
                values[f"{name}:{row['name']}"].append(float(row[field]))
    return [np.log(np.array(v) / np.median(v)) for v in values.values() if len(v) > 3]


def simulate(
    rng: Generator, shape: FleetShape, noise: Noise, effect: float, affected: int | None = None
) -> tuple[FleetData, NDArray[np.int64]]:
    """One fleet before and after. ``effect``: true relative worsening in ``affected`` metrics (all when None) on
    every node. Returns the data and the indices of the broken nodes."""
    total = shape.nodes * shape.devices_per_node
    node = np.repeat(np.arange(shape.nodes), shape.devices_per_node)
    cells = (total, shape.metrics)
    level = np.log(100.0) + rng.normal(0, shape.level_sd, cells)
    slow = rng.random(total) < shape.slow_share
    level[slow] += np.log1p(shape.slow_by)
    change = np.zeros(cells)
    change[:, : shape.metrics if affected is None else affected] += np.log1p(effect)
    change += (shape.reboot_sd * rng.standard_t(4, (shape.nodes, shape.metrics)) / np.sqrt(2))[node]
    broken = rng.choice(shape.nodes, shape.broken_nodes, replace=False)
    change[np.isin(node, broken)] += np.log1p(shape.broken_by)
    replicated = (*cells, shape.replicates)
    before = np.exp(level[:, :, None] + noise(rng, replicated))
    after = np.exp((level + change)[:, :, None] + noise(rng, replicated))
    metrics = tuple(Metric(f"m{i}", -1, shape.margin) for i in range(shape.metrics))
    return FleetData(node, metrics, before, after), broken
