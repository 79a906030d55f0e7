"""Which devices and nodes disagree with their peers: before, after, or only in their change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from groundspeed.service.domain.fleet.cells import Bools, Cells, Floats, Ints

Where = Literal["before", "after", "always", "change"]


@dataclass(frozen=True, slots=True)
class Outlier:
    """One device that stands out in one metric. ``worse_by`` is its log worsening against the peers' median
    (positive is worse), ``q`` its false-discovery rate over all devices × metrics tested together.
    """

    device: int
    metric: int
    where: Where
    worse_by: float
    q: float


def benjamini_hochberg(p: Floats) -> Floats:
    """q-values of p-values of any shape; NaN stays NaN (Benjamini & Hochberg 1995)."""
    flat = p.ravel()
    there = np.flatnonzero(np.isfinite(flat))
    q = np.full(flat.shape, np.nan)
    if there.size:
        order = there[np.argsort(flat[there], kind="stable")]
        rank = np.arange(1, order.size + 1)
        q[order] = np.minimum(1.0, np.minimum.accumulate((flat[order] * order.size / rank)[::-1])[::-1])
    return q.reshape(p.shape)


def worse_than_peers(level: Floats, variance: Floats, group: Ints | None = None) -> tuple[Floats, Floats]:
    """How much worse each device is than its peers' median, and the one-sided p-value; shapes (D, M).

    Peers are the devices of one ``group`` (a hardware class). The scale is the robust spread of the peers (median
    absolute deviation) with the replication noise as a floor; the p-value is that of Student's t with five degrees of
    freedom, because real fleets have heavier tails than the normal and a device must be odd by that yardstick too.
    """
    excess = np.full(level.shape, np.nan)
    p = np.full(level.shape, np.nan)
    groups = np.zeros(level.shape[0], np.int64) if group is None else group
    for name in np.unique(groups):
        rows = np.flatnonzero(groups == name)
        block = level[rows]
        if rows.size < 4:  # no peers to speak of
            continue
        with np.errstate(invalid="ignore"):
            centre = _column_median(block)
            scale = 1.4826 * _column_median(np.abs(block - centre))
            floor = np.sqrt(variance[rows])
            z = (block - centre) / np.sqrt(np.maximum(scale[None, :] ** 2, floor**2) + 1e-18)
        excess[rows] = block - centre
        p[rows] = special.stdtr(5, -z)
    return excess, p


def _column_median(block: Floats) -> Floats:
    ordered = np.sort(block, axis=0)
    count = np.sum(np.isfinite(ordered), axis=0)
    low, high = np.maximum((count - 1) // 2, 0), np.minimum(count // 2, block.shape[0] - 1)
    columns = np.arange(block.shape[1])
    middle: Floats = np.where(count > 0, 0.5 * (ordered[low, columns] + ordered[high, columns]), np.nan)
    return middle


def outliers(
    cells: Cells, margins: Floats, *, group: Ints | None = None, fdr: float = 0.05, counted: Bools | None = None
) -> tuple[Outlier, ...]:
    """Devices that are worse than their peers by more than the metric's margin, at the stated false-discovery rate.

    *always*: before and after alike (a slow card, no matter of the change); *before* or *after*: only there; *change*:
    its own change is out of line though neither level need be. ``counted`` (D,) leaves devices out of the change test.
    """
    change = cells.change if counted is None else np.where(counted[:, None], cells.change, np.nan)
    tests = {
        "before": worse_than_peers(cells.level_before, cells.variance_before, group),
        "after": worse_than_peers(cells.level_after, cells.variance_after, group),
        "change": worse_than_peers(change, cells.variance, group),
    }
    q = benjamini_hochberg(np.stack([p for _, p in tests.values()]))
    hit = {
        name: (q[i] <= fdr) & (excess > np.log1p(margins)[None, :])
        for i, (name, (excess, _)) in enumerate(tests.items())
    }
    found: list[Outlier] = []
    for device, metric in np.argwhere(hit["before"] | hit["after"] | hit["change"]):
        where = _where(*(bool(hit[name][device, metric]) for name in ("before", "after", "change")))
        if where in {"before", "after"} and _on_both(tests["before"][0], tests["after"][0], margins, device, metric):
            where = "always"
        source = 1 if where == "always" and hit["after"][device, metric] else _SOURCE[where]
        excess = list(tests.values())[source][0]
        found.append(
            Outlier(int(device), int(metric), where, float(excess[device, metric]), float(q[source, device, metric]))
        )
    return tuple(sorted(found, key=lambda o: -o.worse_by))


_SOURCE = {"always": 0, "after": 1, "before": 0, "change": 2}
"""The test that an outlier's figures are taken from."""


def _on_both(before: Floats, after: Floats, margins: Floats, device: int, metric: int) -> bool:
    """Beyond the margin on both sides, though only one of them has the data to be sure: not to be called a change."""
    limit = np.log1p(margins[metric])
    return bool(before[device, metric] > limit and after[device, metric] > limit)


def _where(before: bool, after: bool, change: bool) -> Where:
    if change:
        return "change"
    if before and after:
        return "always"
    return "before" if before else "after"
