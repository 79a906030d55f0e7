"""What fresh processes on either side of a doubtful step say about it."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

Answer = Literal["confirmed", "refuted", "open"]

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


def contrast(before: tuple[float, ...], after: tuple[float, ...], least_sd: float) -> Contrast:
    """Compare processes before and after a step (positive values; at least two each).

    Welch's t on the logarithms; no group is believed to scatter less than ``least_sd``, because two or three
    processes agree by luck. The p-value is one-sided, in the direction seen.
    """
    a, b = np.log(np.asarray(before)), np.log(np.asarray(after))
    va = max(float(np.var(a, ddof=1)), least_sd**2) / a.size
    vb = max(float(np.var(b, ddof=1)), least_sd**2) / b.size
    error = math.sqrt(va + vb)
    df = (va + vb) ** 2 / (va**2 / (a.size - 1) + vb**2 / (b.size - 1))
    delta = float(np.mean(b) - np.mean(a))
    return Contrast(delta, error, float(special.stdtr(df, -abs(delta) / error)))


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
    """Pooled standard deviation of the logarithms of processes of one point; None without replicates."""
    total, df = 0.0, 0
    for _, values in many:
        if min(values) <= 0.0:
            continue
        logs = np.log(np.asarray(values))
        total += float(np.var(logs)) * logs.size
        df += logs.size - 1
    return math.sqrt(total / df) if df else None
