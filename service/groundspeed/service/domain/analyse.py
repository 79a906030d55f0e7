"""Steps of one stretch of a series, with their size and its standard error."""

import math
from dataclasses import dataclass

import numpy as np

from groundspeed.service.domain.excursions import without_recurring
from groundspeed.service.domain.modes import Modes, find_modes, segment_modes, shift
from groundspeed.service.domain.robust import median
from groundspeed.service.domain.segment import segment
from groundspeed.service.domain.series import Floats
from groundspeed.service.domain.window import Window, counting, surroundings

FILTER = 7
"""Running median, in points, that a value must disagree with to be an outlier: three in a row are, four are a step."""
CLIP = 3.0
"""An outlier counts as if it lay this many standard deviations from the running median."""
DIFFERENCE_TO_SD = 1.0484
"""Standard deviation over median |difference of neighbours| of a normal distribution."""
DRIFT_STRENGTH = 5.0
LEARNT_FLOOR = 0.002
LEARNT_FACTOR = 6.0
"""A learnt smallest effect is this many standard deviations of a point, but never under LEARNT_FLOOR."""
UNEVEN = 1.7
TIED_SHARE = 0.2
"""From so many equal neighbours on a series is taken to be on a grid."""
HALF_VIEW = 48
"""The noise near a point is measured over this many neighbours on either side."""

DECIMALS = 11
"""Differences from the first value are known to so many: what another unit's rounding changes decides nothing."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step before index ``at``: ``delta`` and its standard error ``error`` on the working scale."""

    at: int
    strength: float
    delta: float
    error: float
    before: float
    after: float
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class Analysis:
    """Steps of a stretch, and what was learnt about its noise on the way (relative)."""

    steps: tuple[Step, ...]
    sd: float
    wander: float
    """Noise of means over the widest measured scale, as a one-point standard deviation: ``sd`` if independent."""
    modes: Modes | None
    outliers: int
    slope: float
    slope_strength: float
    floor: float


@dataclass(frozen=True, slots=True)
class Demand:
    """What a step must show: strength in standard errors, and size.

    ``learn_floor``: where the series is quieter than ``floor`` needs, smaller steps count too. ``lock`` and
    ``fixed`` as in ``Window``.
    """

    threshold: float
    floor: float
    learn_floor: bool = False
    lock: int = 0
    fixed: tuple[int, ...] = ()


def analyse(z: Floats, demand: Demand) -> Analysis:
    """Find the steps of z (n ≥ 6 values)."""
    base = float(z[0])
    z = (z - base).round(DECIMALS)
    steps = np.abs(z[1:] - z[:-1])
    ordered = np.sort(steps)
    noise = max(DIFFERENCE_TO_SD * float(ordered[ordered.size // 2]), ticks(ordered))
    demand = _with_floor(demand, noise)
    least = max(demand.floor / 12.0, 1e-12)
    modes = find_modes(ordered, least)
    sd = max(noise, least)
    local = None if modes else _unevenness(steps, sd)
    typical = running_median(z)
    away = z - typical
    reach: float | Floats = 1.5 * modes.gap if modes else CLIP * sd if local is None else CLIP * sd * local[:-1]
    clipped = np.minimum(np.maximum(away, -reach), reach)
    outliers = int(np.count_nonzero(clipped != away))
    clipped += typical
    centre = float(clipped[0])
    clipped -= centre
    centre += base
    if modes is not None:
        window = Window(clipped, 0.5 * modes.gap, None, demand.lock, demand.fixed)
        raw = segment(window, demand.threshold, demand.floor, 0.5 * modes.gap)
        cuts = segment_modes(z, raw, modes, demand.threshold, demand.floor)
        cuts = [p for p in cuts if p >= demand.lock]
        return _of_modes(z, cuts, modes, outliers, demand.floor, base)
    window = Window(clipped, sd, local, demand.lock, demand.fixed)
    cuts = segment(window, demand.threshold, demand.floor, sd)
    slope, strength = window.slope(cuts)
    if abs(strength) > DRIFT_STRENGTH:
        window, cuts, slope, strength = _without_drift(clipped, window, cuts, demand, slope)
    else:
        slope = 0.0
    cuts = without_recurring(window, cuts)
    return Analysis(
        _measured(window, cuts, centre, slope), sd, window.sds[-1], None, outliers, slope, strength, demand.floor
    )


def running_median(z: Floats) -> Floats:
    """The median of the FILTER values around each; beyond its ends the series goes on as in a mirror."""
    half = FILTER // 2
    padded = np.concatenate((z[half:0:-1], z, z[-2 : -half - 2 : -1]))
    around: Floats = np.ndarray((z.size, FILTER), np.float64, padded, strides=2 * padded.strides)
    middle: Floats = np.partition(around, half, axis=1)[:, half]
    return middle


def ticks(ordered: Floats) -> float:
    """Noise of values on a coarse grid, from the sorted absolute differences of neighbours; 0.0 for others.

    Where most neighbours read the same tick their median difference is nought or one tick, whichever is more usual;
    the root mean square knows how often it is which. Steps and outliers count as a usual difference.
    """
    equal = int(ordered.searchsorted(0.0, side="right"))
    if equal < TIED_SHARE * ordered.size or equal == ordered.size:
        return 0.0
    moved = ordered[equal:]
    held = np.minimum(moved, 2.0 * float(moved[moved.size // 2]))
    return math.sqrt(float(held @ held) / (2.0 * ordered.size))


def _with_floor(demand: Demand, sd: float) -> Demand:
    """A series quieter than the floor needs shows smaller steps too, down to LEARNT_FLOOR."""
    if not demand.learn_floor:
        return demand
    floor = min(demand.floor, max(LEARNT_FLOOR, LEARNT_FACTOR * sd))
    return Demand(demand.threshold, floor, lock=demand.lock, fixed=demand.fixed)


def _unevenness(steps: Floats, sd: float) -> Floats | None:
    """Noise near each cut over the typical noise, or None where it is even; length n + 1 for n values."""
    n = steps.size + 1
    if n < 4 * HALF_VIEW:
        return None
    sums = np.zeros(n)
    np.minimum(steps, 8.0 * sd).cumsum(out=sums[1:])
    inner = (sums[2 * HALF_VIEW :] - sums[: -2 * HALF_VIEW]) / (2 * HALF_VIEW)
    if inner.max() < UNEVEN * inner.min():
        return None
    typical = float(np.partition(inner, inner.size // 2)[inner.size // 2])
    if typical < 0.1 * sd:
        return None
    inner /= typical
    out = np.empty(n + 1)
    out[HALF_VIEW : HALF_VIEW + inner.size] = inner
    out[:HALF_VIEW] = inner[0]
    out[HALF_VIEW + inner.size :] = inner[-1]
    return np.minimum(np.maximum(out, 0.4), 5.0)


def _without_drift(
    clipped: Floats, window: Window, cuts: list[int], demand: Demand, slope: float
) -> tuple[Window, list[int], float, float]:
    """Take the slope out and segment again until slope and cuts agree."""
    time = counting(clipped.size)
    strength = 0.0
    plain = window
    for _ in range(4):
        window = Window(clipped - slope * time, plain.sd, plain.local, demand.lock, demand.fixed)
        cuts = segment(window, demand.threshold, demand.floor, window.sd)
        plain.learn(window.sds)
        better, strength = plain.slope(cuts)
        if abs(better - slope) * clipped.size < 0.5 * window.sd:
            break
        slope = better
    return window, cuts, slope, strength


def _measured(window: Window, cuts: list[int], centre: float, slope: float) -> tuple[Step, ...]:
    out = []
    for a, p, b in surroundings(cuts, window.size):
        before, after = window.mean(a, p), window.mean(p, b)
        error = math.hypot(window.noise_of_mean(p, p - a), window.noise_of_mean(p, b - p))
        base = centre + slope * p
        out.append(Step(p, window.strength(a, p, b), after - before, error, base + before, base + after, p - a, b - p))
    return tuple(out)


def _of_modes(z: Floats, cuts: list[int], modes: Modes, outliers: int, floor: float, base: float) -> Analysis:
    out = []
    for a, p, b in surroundings(cuts, z.size):
        delta = shift(z[a:p], z[p:b])
        before = base + median(z[a:p])
        error = modes.spread * math.sqrt(1.0 / (p - a) + 1.0 / (b - p)) * 1.25
        out.append(Step(p, abs(delta) / error, delta, error, before, before + delta, p - a, b - p))
    return Analysis(tuple(out), modes.spread, 0.5 * modes.gap, modes, outliers, 0.0, 0.0, floor)
