"""Fleet measurements as arrays, and the effect seen in each cell (device × metric)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_MEDIAN_VARIANCE = (1.0, 1.0, 1.0, 1.346, 1.192, 1.434, 1.288, 1.473, 1.348)
"""Variance of the median of n normal values over that of their mean, n = 0..8 (n = 0, 1, 2 by definition); π/2 for
large n. Exact values from the order statistics of the normal distribution (for example Teichroew 1956)."""


@dataclass(frozen=True, slots=True)
class Metric:
    """``direction`` -1: lower is better, +1: higher is. ``margin``: the largest worsening that is acceptable, relative
    (0.01 = 1 %).
    """

    name: str
    direction: int
    margin: float


@dataclass(frozen=True, slots=True)
class FleetData:
    """What was measured. Shapes: ``node`` (D,) node index of each device; ``before`` and ``after`` (D, M, R), one
    value (the median of a fresh process, in the metric's unit) per replicate, NaN where there is none.

    Raises ``ValueError`` on shapes that do not fit.
    """

    node: Ints
    metrics: tuple[Metric, ...]
    before: Floats
    after: Floats

    def __post_init__(self) -> None:
        devices, metrics = self.before.shape[:2]
        if self.after.shape[:2] != (devices, metrics) or self.node.shape != (devices,) or len(self.metrics) != metrics:
            raise ValueError(
                f"shapes do not fit: {self.node.shape[0]} devices, {len(self.metrics)} metrics, "
                f"before {self.before.shape}, after {self.after.shape}"
            )

    @property
    def directions(self) -> Floats:
        return np.array([m.direction for m in self.metrics], float)

    @property
    def margins(self) -> Floats:
        return np.array([m.margin for m in self.metrics], float)


@dataclass(frozen=True, slots=True)
class Cells:
    """Per device and metric, shape (D, M) each, NaN where one side is missing.

    ``level_before``, ``level_after``: log of the median, signed so that larger is worse; ``change``: their difference,
    the log worsening; ``variance``: the variance of ``change`` from replication alone; ``variance_before``,
    ``variance_after`` those of the levels.
    """

    level_before: Floats
    level_after: Floats
    change: Floats
    variance_before: Floats
    variance_after: Floats

    @property
    def variance(self) -> Floats:
        return self.variance_before + self.variance_after


def cells(data: FleetData) -> Cells:
    """Reduce replicates to one effect a cell.

    The replication variance is pooled over the devices of a metric (its median over cells, corrected for few degrees
    of freedom): three replicates say too little about their own spread, ten thousand devices say a lot together.
    Values that are not positive have no ratio and count as missing.
    """
    worse = -data.directions
    before, variance_before = _side(data.before, worse)
    after, variance_after = _side(data.after, worse)
    return Cells(before, after, after - before, variance_before, variance_after)


def _side(values: Floats, worse: Floats) -> tuple[Floats, Floats]:
    logs = np.where(values > 0, np.log(np.where(values > 0, values, 1.0)), np.nan)
    count = np.sum(np.isfinite(logs), axis=2)
    with np.errstate(invalid="ignore"):
        level = _nanmedian(logs)
        pooled = _pooled_variance(logs, count)
    factor = np.take(np.append(_MEDIAN_VARIANCE, np.pi / 2), np.minimum(count, len(_MEDIAN_VARIANCE)))
    variance = np.where(count > 0, pooled[None, :] * factor / np.maximum(count, 1), np.nan)
    return level * worse[None, :], variance


def _nanmedian(logs: Floats) -> Floats:
    """Median over the last axis, NaN only where nothing is there, without a warning for empty cells."""
    ordered = np.sort(logs, axis=2)  # NaN goes last
    count = np.sum(np.isfinite(ordered), axis=2)
    low, high = np.maximum((count - 1) // 2, 0), np.minimum(count // 2, ordered.shape[2] - 1)
    pick = 0.5 * (
        np.take_along_axis(ordered, low[:, :, None], 2)[:, :, 0]
        + np.take_along_axis(ordered, high[:, :, None], 2)[:, :, 0]
    )
    return np.where(count > 0, pick, np.nan)


def _pooled_variance(logs: Floats, count: NDArray[np.int64]) -> Floats:
    """One variance a metric, shape (M,), from cells with two replicates or more.

    A trimmed mean (the upper tenth dropped, to survive single broken cells) of the cells' unbiased variances. The
    trim biases it low by a known, small amount that is smaller than the safety given by the node-level interval, which
    does not use it.
    """
    safe = np.where(np.isfinite(logs), logs, 0.0)
    mean = np.sum(safe, axis=2) / np.maximum(count, 1)
    squares = np.sum(np.where(np.isfinite(logs), (logs - mean[:, :, None]) ** 2, 0.0), axis=2)
    variance = np.where(count > 1, squares / np.maximum(count - 1, 1), np.nan)
    out = np.zeros(logs.shape[1])
    for m in range(logs.shape[1]):
        column = np.sort(variance[np.isfinite(variance[:, m]), m])
        kept = column[: max(1, int(np.ceil(0.9 * column.size)))]
        out[m] = float(np.mean(kept)) if column.size else 0.0
    return out
