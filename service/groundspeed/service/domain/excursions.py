"""A few points off the level and back again: a step that was soon undone, or what this series does by chance anyway."""

import math

import numpy as np

from groundspeed.service.domain.window import Window

LONGEST = 30
"""An excursion has at most so many points; a longer one is a level of its own."""
EXPECTED = 0.01
"""It stands when the series' own odd points, at the rate they have elsewhere, give fewer like it than this."""


def without_recurring(window: Window, cuts: list[int]) -> list[int]:
    """Drop pairs of cuts around points that the series shows as often elsewhere, one by one.

    A series with a rare second mode, or on a coarse grid, has four such points in a row now and then; nothing about
    them is a step. The points around the excursion say how often one lies as far out.
    """
    kept = list(cuts)
    k = 0
    while k + 1 < len(kept):
        a = kept[k - 1] if k else 0
        p, q = kept[k], kept[k + 1]
        b = kept[k + 2] if k + 2 < len(kept) else window.size
        if q - p <= LONGEST and p >= window.lock and _recurs(window, a, p, q, b):
            del kept[k : k + 2]
            k = max(k - 1, 0)
        else:
            k += 1
    return kept


def _recurs(window: Window, a: int, p: int, q: int, b: int) -> bool:
    left, inside, right = window.mean(a, p), window.mean(p, q), window.mean(q, b)
    if (inside - left) * (inside - right) <= 0.0:
        return False
    sign = 1.0 if inside > left else -1.0
    edge = sign * 0.5 * (inside + (max(left, right) if sign > 0.0 else min(left, right)))
    around = np.concatenate((window.y[a:p], window.y[q:b]))
    rate = (float(np.count_nonzero(sign * around > edge)) + 0.5) / (around.size + 1.0)
    length, out = q - p, int(np.count_nonzero(sign * window.y[p:q] > edge))
    if out == 0:
        return True
    ways = math.lgamma(length + 1) - math.lgamma(out + 1) - math.lgamma(length - out + 1)
    return math.log(window.size) + ways + out * math.log(min(rate, 1.0)) > math.log(EXPECTED)
