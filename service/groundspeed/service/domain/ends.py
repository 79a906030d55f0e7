"""What the middle of a series can't show: a step at its last one or two points."""

import math

import numpy as np

from groundspeed.service.domain.analyse import DIFFERENCE_TO_SD, Analysis, Step
from groundspeed.service.domain.robust import median
from groundspeed.service.domain.series import Floats

TAIL = 2
TAIL_THRESHOLD = 4.5
NEAR = 30
LAG = 5
ABRUPT = 0.5
"""Share of the step that must lie between the last points and the BESIDE before them: growth comes bit by bit."""
BESIDE = 3
CHANCE = 0.01
"""How likely the series' own outliers may explain the points at its end before the end is taken for a step."""


def end_steps(z: Floats, found: Analysis) -> list[Step]:
    """A step so near the end that only one or two points show it (always provisional), or none.

    The points must all lie the same way, each on its own beyond the noise, and more of them than the outliers that
    this series is known to have would put there by chance.
    """
    last = found.steps[-1].at if found.steps else 0
    near = max(found.sd, 1e-12) if found.modes is None else found.wander
    for k in (TAIL, 1):
        at = z.size - k
        calm = z[max(last, at - NEAR) : at]
        if calm.size < 3 or not beyond_chance(k, found.outliers, z.size):
            continue
        level = median(calm) + found.slope * 0.5 * (calm.size + k)
        away = [value - level for value in z[at:].tolist()]
        delta = sum(away) / k
        size = abs(delta)
        alone = min(away) if delta > 0.0 else -max(away)
        if size < found.floor or alone < max(3.0 * near, 0.5 * size):
            continue
        beside = median(calm[-BESIDE:])
        if found.modes is None and math.copysign(1.0, delta) * (float(z[at]) - beside) < ABRUPT * size:
            continue
        sd = near if found.modes else _roaming(z, near)
        error = sd * math.sqrt(1.0 / k + 1.25 / calm.size)
        if alone >= 3.0 * sd and size > TAIL_THRESHOLD * (1.0 + 3.0 / calm.size) * error:
            return [Step(at, size / error, delta, error, level, level + delta, calm.size, k)]
    return []


def beyond_chance(points: int, outliers: int, n: int) -> bool:
    """Whether so many odd points together are more than the series' own outliers would give at one place.

    ``outliers`` of n points were found in all, these among them.
    """
    share = (max(outliers - points, 0) + 0.1) / (n + 10.0)
    return bool(share**points <= CHANCE)


def _roaming(z: Floats, sd: float) -> float:
    """Spread of values LAG points apart, as the standard deviation of one: more than ``sd`` where a series roams."""
    if z.size < 3 * LAG:
        return sd
    away = np.sort(np.abs(z[LAG:] - z[:-LAG]))
    return max(sd, DIFFERENCE_TO_SD * float(away[away.size // 2]))
