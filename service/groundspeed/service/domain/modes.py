"""Series that jump between two or three levels a fixed distance apart: fold the modes away before looking for steps."""

import cmath
import math
from dataclasses import dataclass

import numpy as np

from groundspeed.service.domain.segment import segment
from groundspeed.service.domain.series import Floats
from groundspeed.service.domain.window import MIN_SEGMENT, Window, edges, surroundings

QUARTILE_OF_DIFFERENCE = 0.4506
"""First quartile of |a - b| for two standard normal values."""
HALF_OF_DIFFERENCE = 0.9539
"""Median of |a - b| for two standard normal values."""

SWITCH_SHARE = 0.15
"""Fewer neighbours than this a mode apart: outliers, not modes."""
MIN_POINTS = 40
BANDWIDTH = 0.7
"""Width of the kernel in spreads of a mode."""
OUTLYING_DENSITY = 0.02


@dataclass(frozen=True, slots=True)
class Modes:
    """Distance between neighbouring modes, and the spread of points inside one."""

    gap: float
    spread: float


def find_modes(steps: Floats, least: float) -> Modes | None:
    """Modes from the sorted absolute differences of neighbours, or None.

    Neighbours in one mode differ by noise, others by the gap: two clusters of differences with nothing between.
    ``least`` is the smallest spread to reckon with.
    """
    n = steps.size
    if n < MIN_POINTS - 1:
        return None
    spread = max(float(steps[n // 4]) / QUARTILE_OF_DIFFERENCE, least)
    for _ in range(2):
        same = int(steps.searchsorted(6.0 * spread))
        if n - same < SWITCH_SHARE * n or same < n // 4:
            return None
        spread = max(float(steps[same // 2]) / HALF_OF_DIFFERENCE, least)
    far = steps[same:]
    quartiles = float(far[far.size // 4]), float(far[(3 * far.size) // 4])
    if quartiles[1] - quartiles[0] > 5.0 * spread:
        return None
    return Modes(float(far[far.size // 2]), spread)


def segment_modes(z: Floats, raw: list[int], modes: Modes, threshold: float, floor: float) -> list[int]:
    """Cuts of a series with modes: those seen through the modes (``raw``), those seen after folding, placed again."""
    cuts = list(raw)
    for a, b in edges(raw, z.size):
        if b - a < 4 * MIN_SEGMENT:
            continue
        folded = _fold(z[a:b], modes.gap)
        window = Window(folded, modes.spread)
        cuts += [a + p for p in segment(window, threshold, floor, modes.spread)]
    cuts = _apart(z, sorted(set(cuts)))
    for _ in range(2):
        cuts = sorted({_place(z, *near, modes) for near in surroundings(cuts, z.size)})
    return _prune(z, _apart(z, cuts), modes, floor)


def _fold(z: Floats, gap: float) -> Floats:
    """Distance of each value to its nearest mode, with the modes where most values lie."""
    turn = 2.0 * math.pi / gap
    centre = cmath.phase(complex(np.exp(1j * turn * z).sum())) / turn
    folded = z - centre
    folded -= gap * np.round(folded / gap)
    return folded


def shift(before: Floats, after: Floats) -> float:
    """Difference of level that mode occupancy does not touch: the median difference of matching quantiles.

    One side may spend more time in the slow mode by chance; most quantiles then still lie in the same mode.
    """
    gaps = np.sort(_quantiles(after) - _quantiles(before))
    return float(gaps[gaps.size // 2])


_AT = np.linspace(0.06, 0.94, 23)


def _quantiles(values: Floats) -> Floats:
    """Linear quantiles; ``np.quantile`` takes ten times as long for as few as these."""
    ordered = np.sort(values)
    place = _AT * (ordered.size - 1)
    low = place.astype(np.int64)
    high = np.minimum(low + 1, ordered.size - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _apart(z: Floats, cuts: list[int]) -> list[int]:
    """Of two cuts with too few points between them to know their modes keep the one with the clearer change."""
    cuts = list(cuts)
    k = 0
    while k + 1 < len(cuts):
        if cuts[k + 1] - cuts[k] > 2 * MIN_SEGMENT:
            k += 1
            continue
        start = cuts[k - 1] if k else 0
        end = cuts[k + 2] if k + 2 < len(cuts) else z.size
        sizes = [abs(shift(z[start:p], z[p:end])) for p in cuts[k : k + 2]]
        del cuts[k if sizes[0] < sizes[1] else k + 1]
    return cuts


def _prune(z: Floats, cuts: list[int], modes: Modes, floor: float) -> list[int]:
    """Drop cuts whose level does not change once the modes are matched."""
    cuts = list(cuts)
    while cuts:
        sizes = [abs(shift(z[a:p], z[p:b])) for a, p, b in surroundings(cuts, z.size)]
        least = min(range(len(cuts)), key=sizes.__getitem__)
        if sizes[least] >= max(floor, 1.5 * modes.spread):
            break
        del cuts[least]
    return cuts


def _place(z: Floats, a: int, p: int, b: int, modes: Modes) -> int:
    """Most likely place of the step near p by smoothed densities of the values on its sides."""
    left, right = z[max(a, p - 100) : p], z[p : min(b, p + 100)]
    low, high = max(a, p - 40), min(b, p + 40)
    if min(left.size, right.size) < MIN_SEGMENT or high - low < 2 * MIN_SEGMENT:
        return p
    near = z[low:high]
    votes = _log_density(near, right, modes.spread) - _log_density(near, left, modes.spread)
    sums = np.cumsum(votes)
    edge = MIN_SEGMENT - 1
    return low + MIN_SEGMENT + int(np.argmin(sums[edge : sums.size - MIN_SEGMENT]))


def _log_density(at: Floats, values: Floats, spread: float) -> Floats:
    """Logarithm of a kernel density (in units of one over the spread), with a floor for outliers."""
    away = (at[:, None] - values[None, :]) * (1.0 / (BANDWIDTH * spread))
    away *= away
    away *= -0.5
    np.exp(away, out=away)
    density: Floats = np.log(away.mean(axis=1) + OUTLYING_DENSITY)
    return density
