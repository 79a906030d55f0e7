"""What fresh processes on either side of a doubtful step say about it."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from groundspeed.service.domain import tails
from groundspeed.service.domain.robust import median
from groundspeed.service.domain.series import Floats

Answer = Literal["confirmed", "refuted", "open"]

HALF_OF_DIFFERENCE = 0.9539
"""Median of |a - b| for two standard normal values."""
OUTLYING = 3.0
CONFIRM_ALPHA = 0.005
AGREE_ALPHA = 0.05
STRONG = 6.0
FIND_ALPHA = 0.0005
ENOUGH_TO_REFUTE = 5
"""Processes on each side after which a step that still does not show is given up."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """Difference of the mean logarithms of two groups of processes, its standard error, and Welch's test of it."""

    delta: float
    error: float
    p_value: float


def pair_sd(groups: Iterable[Floats]) -> float:
    """Spread inside groups from the median difference of two members of one; outliers hardly move it."""
    gaps = [np.abs(g[:, None] - g[None, :])[np.triu_indices(g.size, 1)] for g in groups if g.size >= 2]
    return median(np.concatenate(gaps)) / HALF_OF_DIFFERENCE if gaps else 0.0


def _held(logs: Floats, reach: float) -> Floats:
    centre = median(logs)
    return np.minimum(np.maximum(logs, centre - reach), centre + reach)


def contrast(before: tuple[float, ...], after: tuple[float, ...], least_sd: float) -> Contrast:
    """Compare processes before and after a step (positive values; at least two each).

    Welch's t on the logarithms; no group is believed to scatter less than ``least_sd``, because two or three
    processes agree by luck, and one process far from the rest of its group does not speak for it. The p-value is
    one-sided, in the direction seen.
    """
    a, b = np.log(np.asarray(before)), np.log(np.asarray(after))
    reach = OUTLYING * max(pair_sd([a, b]), least_sd)
    a, b = _held(a, reach), _held(b, reach)
    va = max(float(np.var(a, ddof=1)), least_sd**2) / a.size
    vb = max(float(np.var(b, ddof=1)), least_sd**2) / b.size
    error = math.sqrt(va + vb)
    df = (va + vb) ** 2 / (va**2 / (a.size - 1) + vb**2 / (b.size - 1))
    delta = float(np.mean(b) - np.mean(a))
    return Contrast(delta, error, tails.student(df, -abs(delta) / error))


def judge(claimed: float, strength: float, found: Contrast, floor: float, processes: int) -> Answer:
    """Say whether the contrast bears out a claimed step (on the log scale).

    A step that its series shows by ``STRONG`` standard errors needs no more than agreement at the 5 % level.
    """
    agrees = claimed * found.delta > 0 and abs(found.delta) >= max(floor, 0.4 * abs(claimed))
    if agrees and found.p_value < (AGREE_ALPHA if strength >= STRONG else CONFIRM_ALPHA):
        return "confirmed"
    if not agrees and abs(found.delta) + 2.0 * found.error < 0.5 * abs(claimed):
        return "refuted"
    return "refuted" if processes >= ENOUGH_TO_REFUTE else "open"


def between_process(many: Iterable[tuple[int, tuple[float, ...]]]) -> float | None:
    """Standard deviation of the logarithms of processes of one point; None without replicates."""
    groups = [np.log(np.asarray(values)) for _, values in many if min(values) > 0.0]
    return pair_sd(groups) if groups else None
