"""The fleet's effect of a change, with the node as the unit of replication."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from groundspeed.service.domain.fleet.cells import Cells, Floats, Ints


@dataclass(frozen=True, slots=True)
class Effect:
    """Worsening of one metric over the fleet, as a log ratio (positive is worse).

    ``low`` and ``high`` bound it at the stated confidence; ``spread`` is the between-node standard deviation of the
    change beyond replication noise; ``p_worse`` is the one-sided p-value of "no worsening"; ``nodes`` how many count.
    """

    centre: float
    low: float
    high: float
    error: float
    df: float
    spread: float
    p_worse: float
    nodes: int


NOTHING = Effect(math.nan, -math.inf, math.inf, math.inf, 0.0, math.nan, 1.0, 0)


_SOME = 6
"""Of so many nodes one that broke on the way would make up most of the spread, and hide what the others say."""


def node_changes(cells: Cells, node: Ints, *, counted: Floats | None = None) -> tuple[Floats, Floats, Floats]:
    """Mean change of each node's devices: (change (N, M), replication variance of it (N, M), devices (N, M)).

    ``counted`` (N,) is 1 for nodes that say something about the change and 0 for those that do not (came back with
    settings lost, failed hygiene). Devices of a node share its driver, host and reboot: they are not independent
    witnesses, so the node is what is counted.
    """
    total = int(node.max()) + 1 if node.size else 0
    shape = (total, cells.change.shape[1])
    change, variance, number = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    there = np.isfinite(cells.change)
    np.add.at(change, node, np.where(there, cells.change, 0.0))
    np.add.at(variance, node, np.where(there, cells.variance, 0.0))
    np.add.at(number, node, there.astype(float))
    if counted is not None:
        number = number * counted[:, None]
    some = number > 0
    safe = np.where(some, number, 1.0)
    return np.where(some, change / safe, np.nan), np.where(some, variance / safe**2, np.nan), number


def effect_of(change: Floats, variance: Floats, *, confidence: float = 0.95, trim: float = 0.1) -> Effect:
    """The mean change over nodes of one metric, shapes (N,), NaN for nodes that do not count.

    A trimmed mean with its Student interval (Yuen & McLaughlin 1973: winsorised variance, h - 1 degrees of freedom):
    a few nodes that broke on the way must not carry the fleet's mean, they are reported by name instead. The interval
    rests on the spread between nodes and so holds without a model of the noise inside one; fewer than three nodes
    give no interval (there is no spread to learn from), and of six or more one at each end is trimmed at least.
    """
    ok = np.isfinite(change)
    values = np.sort(change[ok])
    n = values.size
    if n < 3:
        return replace(NOTHING, nodes=int(n))
    g = max(int(trim * n), 1 if n >= _SOME else 0)
    kept = values[g : n - g]
    winsorised = np.clip(values, values[g], values[n - g - 1])
    h = n - 2 * g
    deviation = float(np.sum((winsorised - winsorised.mean()) ** 2))
    between = math.sqrt(deviation / (h * (h - 1)))
    error = max(between, _floor(variance[ok], n))
    df = h - 1
    t = float(special.stdtrit(df, 0.5 + confidence / 2))
    centre = float(kept.mean())
    spread = math.sqrt(max(0.0, deviation / (h - 1) - float(np.mean(variance[ok]))))
    p = 0.5 if error == 0 else float(special.stdtr(df, -centre / error))
    return Effect(centre, centre - t * error, centre + t * error, error, df, spread, p, n)


def _floor(variance: Floats, n: int) -> float:
    """Nodes that agree by luck cannot make the interval narrower than a quarter of what replication alone gives."""
    return 0.25 * math.sqrt(float(np.mean(variance)) / n) if n else 0.0
