"""From candidate cuts to the steps that stand: drop the weak, the small and the ramps, and place the rest."""

import numpy as np

from groundspeed.service.domain.scan import fill, scan
from groundspeed.service.domain.window import MIN_SEGMENT, Window, surroundings

REACH = 60
"""How far from a step, in points, its exact place is looked for."""

SNAP = 3
"""A step this near to a change of environment, in points, is that change unless the data speak against it."""

FIXED_DISCOUNT = 0.7
"""Share of the threshold that a step at a place known beforehand must reach: nothing was searched."""

VOTE_LIMIT = 6.0
"""Largest log-likelihood ratio that one point may contribute to the place of a step."""


def segment(window: Window, threshold: float, floor: float, spread: float) -> list[int]:
    """Cuts of the window: what the scan and the segments show, pruned and placed until nothing changes.

    ``floor`` is the smallest difference of levels that counts, ``spread`` the standard deviation of single points.
    """
    cuts = fill(window, scan(window, threshold), threshold)
    cuts = _snap(window, [p for p in cuts if p >= window.lock])
    for _ in range(3):
        cuts = _prune(window, cuts, threshold, floor)
        placed = _place_all(window, cuts, spread)
        if placed == cuts:
            break
        cuts = placed
    return cuts


def _snap(window: Window, cuts: list[int]) -> list[int]:
    """Move cuts that lie next to a fixed place onto it, and try every fixed place."""
    last = window.size - MIN_SEGMENT
    places = [f for f in window.fixed if max(window.lock, MIN_SEGMENT) <= f <= last]
    if not places:
        return cuts
    return sorted({p for p in cuts if all(abs(p - f) > SNAP for f in places)} | set(places))


def _prune(window: Window, cuts: list[int], threshold: float, floor: float) -> list[int]:
    """Drop the least supported cut until every one left is strong, large and abrupt."""
    cuts = list(cuts)
    worth = [_worth(window, *near, floor) for near in surroundings(cuts, window.size)]
    while cuts:
        least = min(range(len(cuts)), key=worth.__getitem__)
        if worth[least] >= threshold:
            break
        del cuts[least], worth[least]
        around = surroundings(cuts, window.size)
        for i in (least - 1, least):
            if 0 <= i < len(cuts):
                worth[i] = _worth(window, *around[i], floor)
    return cuts


def _worth(window: Window, a: int, p: int, b: int, floor: float) -> float:
    fixed = p in window.fixed
    if not fixed and window.is_ramp(a, p, b):
        return -1.0
    size = abs(window.mean(p, b) - window.mean(a, p))
    if size < floor:
        return size / floor
    return window.strength(a, p, b) / (FIXED_DISCOUNT if fixed else 1.0)


def _place_all(window: Window, cuts: list[int], spread: float) -> list[int]:
    return sorted({_place(window, *near, spread) for near in surroundings(cuts, window.size)})


def _place(window: Window, a: int, p: int, b: int, spread: float) -> int:
    """Most likely place of the step near p between the levels on its sides (each point's vote is limited)."""
    low, high = max(a, p - REACH, window.lock - MIN_SEGMENT), min(b, p + REACH)
    if high - low < 2 * MIN_SEGMENT or p in window.fixed:
        return p
    before, after = window.mean(a, p), window.mean(p, b)
    votes = (window.y[low:high] - 0.5 * (before + after)) * ((after - before) / (spread * spread))
    votes = np.minimum(np.maximum(votes, -VOTE_LIMIT), VOTE_LIMIT)
    sums = votes.cumsum()
    edge = MIN_SEGMENT - 1
    return low + MIN_SEGMENT + int(sums[edge : sums.size - MIN_SEGMENT].argmin())
