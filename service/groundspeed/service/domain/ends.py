"""What the middle of a series can't show: its last one or two points, and series of two to five points."""

import math

import numpy as np

from groundspeed.service.domain.analyse import DIFFERENCE_TO_SD, Analysis, Step
from groundspeed.service.domain.series import Floats

TAIL = 2
TAIL_THRESHOLD = 4.5
CHANCE = 0.005
"""How likely the series' own outliers may explain the points at its end before the end is taken for a step."""


def end_steps(z: Floats, found: Analysis) -> list[Step]:
    """A step so near the end that only one or two points show it (always provisional), or none.

    The points must all lie the same way, each on its own beyond the noise, and more of them than the outliers that
    this series is known to have would put there by chance.
    """
    last = found.steps[-1].at if found.steps else 0
    sd = max(found.sd, 1e-12) if found.modes is None else found.wander
    share = (found.outliers + 0.1) / (z.size + 10.0)
    for k in (TAIL, 1):
        calm = z[last : z.size - k]
        if calm.size < 3 or share**k > CHANCE:
            continue
        level = _line_end(calm, found.slope, k)
        away = z[z.size - k :] - level
        delta = float(np.mean(away))
        error = sd * math.sqrt(1.0 / k + 1.25 / calm.size)
        alone = float(np.min(np.sign(delta) * away))
        if abs(delta) < found.floor or alone < max(3.0 * sd, 0.5 * abs(delta)):
            continue
        if abs(delta) > TAIL_THRESHOLD * (1.0 + 3.0 / calm.size) * error:
            at = z.size - k
            return [Step(at, abs(delta) / error, delta, error, level, level + delta, calm.size, k)]
    return []


def _line_end(calm: Floats, slope: float, ahead: int) -> float:
    """Level that the calm points lead one to expect after them."""
    middle = 0.5 * (calm.size - 1)
    return float(np.median(calm)) + slope * (middle + 0.5 * (ahead + 1))


def short_steps(z: Floats, floor: float, known_sd: float | None) -> list[Step]:
    """The clearest step of two to five points (always provisional), or none.

    Noise is the median difference of neighbours (of five points, one step spoils only one of four differences),
    pooled with a spread known from elsewhere; with fewer than four points only a known spread will do.
    """
    n = z.size
    if n < 2 or (n < 4 and known_sd is None):
        return []
    sd = DIFFERENCE_TO_SD * float(np.sort(np.abs(np.diff(z)))[(n - 2) // 2]) if n >= 4 else 0.0
    if known_sd is not None:
        sd = math.sqrt((5.0 * known_sd**2 + (n - 1) * sd**2) / (5.0 + n - 1))
    sd = max(sd, floor / 12.0)
    best: Step | None = None
    for p in range(1, n):
        delta = float(np.mean(z[p:]) - np.mean(z[:p]))
        error = sd * math.sqrt(1.0 / p + 1.0 / (n - p))
        if best is None or abs(delta) / error > best.strength:
            before = float(np.mean(z[:p]))
            best = Step(p, abs(delta) / error, delta, error, before, before + delta, p, n - p)
    if best is None or abs(best.delta) < floor or best.strength < 3.5 * (1.0 + 3.0 / n):
        return []
    return [best]
