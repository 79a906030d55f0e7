"""Measurements of a campaign as arrays: devices × metrics × replicates, before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from groundspeed.service.domain.fleet.cells import FleetData, Floats, Ints, Metric

BEFORE, AFTER, AGAIN = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Columns:
    """One entry a value: indices of device and metric, the side, and the median of one fresh process."""

    device: Ints
    metric: Ints
    side: NDArray[np.int8]
    value: Floats

    @classmethod
    def of(cls, rows: Sequence[tuple[int, int, int, float]]) -> Columns:
        """From (device, metric, side, value)."""
        device, metric, side, value = zip(*rows, strict=True) if rows else ((), (), (), ())
        return cls.from_lists(device, metric, side, value)

    @classmethod
    def from_lists(
        cls, device: Sequence[int], metric: Sequence[int], side: Sequence[int], value: Sequence[float]
    ) -> Columns:
        """From one sequence a column, all of one length."""
        return cls(
            np.asarray(device, np.int64),
            np.asarray(metric, np.int64),
            np.asarray(side, np.int8),
            np.asarray(value, float),
        )


@dataclass(frozen=True, slots=True)
class Evidence:
    """``data`` before and after; ``again`` (D, M, R): after a node was rolled back. ``devices``: their names, "" for
    what a node was measured in as a whole; ``nodes``: names in the order of the node indices in ``data``.
    """

    data: FleetData
    again: Floats
    nodes: tuple[str, ...]
    devices: tuple[str, ...]


def assemble(
    columns: Columns, nodes: Sequence[str], device_node: Ints, devices: Sequence[str], metrics: Sequence[Metric]
) -> Evidence:
    """``device_node`` (D,): the node index of each device."""
    shape = (len(devices), len(metrics))
    sides = [_fill(columns, side, shape) for side in (BEFORE, AFTER, AGAIN)]
    data = FleetData(device_node, tuple(metrics), sides[BEFORE], sides[AFTER])
    return Evidence(data, sides[AGAIN], tuple(nodes), tuple(devices))


def _fill(columns: Columns, side: int, shape: tuple[int, int]) -> Floats:
    """(D, M, R) with as many replicates as the fullest cell has, NaN in the gaps."""
    chosen = columns.side == side
    cell = columns.device[chosen] * shape[1] + columns.metric[chosen]
    order = np.argsort(cell, kind="stable")
    cell, value = cell[order], columns.value[chosen][order]
    starts = np.searchsorted(cell, cell, side="left")
    rank = np.arange(cell.size) - starts
    depth = int(rank.max()) + 1 if rank.size else 1
    out = np.full((shape[0] * shape[1], depth), np.nan)
    out[cell, rank] = value
    return out.reshape(*shape, depth)
