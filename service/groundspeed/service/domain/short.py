"""Series of a few points: every split is tried, no point may decide alone, replicated points weigh more.

The first runs of a project have some twenty commits with one process each. Their noise is known badly, so all that is
found here is provisional until fresh processes on both sides bear it out.
"""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from groundspeed.service.domain.analyse import DIFFERENCE_TO_SD, Analysis, Step
from groundspeed.service.domain.segment import FIXED_DISCOUNT
from groundspeed.service.domain.series import Floats, Ints
from groundspeed.service.domain.window import edges, surroundings

LIMIT = 4.0
"""A point counts as if it lay no further than this many standard deviations from its level …"""
LIMIT_FEW = 8.0
FEW = 12
"""… or LIMIT_FEW in a series of fewer points than this, which has no points to waste."""
MOST_STEPS = 6
AT_ONCE = 8
"""From so many points on all heads and tails of a segment cost less together than one by one."""


def analyse_short(
    z: Floats, weight: Floats, threshold: float, floor: float, sd: float, fixed: Sequence[int] = ()
) -> Analysis:
    """Steps of z (2 ≤ n < 40), where point i stands for ``weight[i]`` processes and scatters by ``sd``."""
    limit = LIMIT if z.size >= FEW else LIMIT_FEW
    table = _Costs(z, weight, sd, limit)
    cuts: list[int] = []
    while len(cuts) < MOST_STEPS:
        best = max(table.best(a, b, fixed) for a, b in edges(cuts, z.size))
        if best[0] < threshold:
            break
        cuts = sorted([*cuts, best[1]])
    cuts = _prune(table, cuts, threshold, floor, fixed)
    steps = tuple(table.step(*near) for near in surroundings(cuts, z.size))
    away = np.abs(z - table.levels(cuts)) > 3.0 * sd
    return Analysis(steps, sd, sd, None, int(away.sum()), 0.0, 0.0, floor)


def spread_of(z: Floats, between: float | None, known: float | None, least: float) -> float | None:
    """Standard deviation of one point from what there is; None where nothing tells.

    The median difference of neighbours (a single step spoils one of them), the spread between processes of one point,
    and a spread known from elsewhere, which counts like five differences.
    """
    sd = between
    if z.size >= 4:
        steps = np.sort(np.abs(np.diff(z)))
        sd = max(sd or 0.0, DIFFERENCE_TO_SD * float(steps[(steps.size - 1) // 2]))
    if known is not None:
        have = z.size - 1 if sd is not None else 0
        sd = math.sqrt((5.0 * known**2 + have * (sd or 0.0) ** 2) / (5.0 + have))
    return None if sd is None else max(sd, least)


class _Costs:
    """Bounded squared distances of segments from their weighted medians."""

    def __init__(self, z: Floats, weight: Floats, sd: float, limit: float) -> None:
        self.values, self.weights = z.tolist(), weight.tolist()
        self.sd, self.limit = sd, limit * limit
        self._plain = set(self.weights) == {1.0}
        self._z = z
        # Of [a, b) at a and b; not a number where it is not known yet.
        self._levels, self._costs = np.full((2, z.size + 1, z.size + 1), math.nan)
        self._best: dict[tuple[int, int], tuple[float, int]] = {}

    def level(self, a: int, b: int) -> float:
        return self._of(a, b)[0]

    def _of(self, a: int, b: int) -> tuple[float, float]:
        """(level, cost) of [a, b): the mean of what lies near the weighted median, and the bounded cost around it."""
        level, cost = self._levels.item(a, b), self._costs.item(a, b)
        if math.isnan(cost):
            level, cost = self._plain_of(a, b) if self._plain else self._weighted_of(a, b)
            self._levels[a, b], self._costs[a, b] = level, cost
        return level, cost

    def _plain_of(self, a: int, b: int) -> tuple[float, float]:
        """The usual case, where each point is one process, in half the time."""
        values, sd, limit = sorted(self.values[a:b]), self.sd, self.limit
        half, odd = divmod(b - a, 2)
        centre = values[half] if odd else 0.5 * (values[half - 1] + values[half])
        far = 3.0 * sd
        # Values are in order: where the outermost lie near, all do.
        within = abs(values[0] - centre) <= far and abs(values[-1] - centre) <= far
        near = values if within else [v for v in values if abs(v - centre) <= far]
        # One by one from left to right, as _learn adds: newer Pythons' sum is another in its last digits.
        total = cost = 0.0
        for v in near:
            total += v
        level = total / len(near) if near else centre
        for v in values:
            away = (v - level) / sd
            cost += square if (square := away * away) < limit else limit
        return level, cost

    def _learn(self, a: int, b: int) -> None:
        """The same of all heads [a, p) and tails [p, b) at once, each a column of its values in order."""
        of, low, high, filled = _parts(b - a)
        rows = np.where(of, self._z[a:b], np.inf)
        rows.sort(axis=1)
        parts = rows.T.copy()
        centre = 0.5 * (parts.take(low) + parts.take(high))
        near = np.abs(parts - centre) <= 3.0 * self.sd
        some = near.sum(axis=0)
        # Along columns numpy adds one after the other, as one by one; -0.0 is what changes nothing when added.
        total = np.where(near, parts, 0.0).sum(axis=0, initial=-0.0)
        level = np.where(some > 0, total / np.maximum(some, 1), centre)
        away = (parts - level) / self.sd
        away *= away
        cost = np.where(filled, np.minimum(away, self.limit), 0.0).sum(axis=0)
        for table, found in (self._levels, level), (self._costs, cost):
            table[a, a + 1 : b + 1] = found[: b - a]
            table[a + 1 : b, b] = found[b - a :]

    def _weighted_of(self, a: int, b: int) -> tuple[float, float]:
        pairs = sorted(zip(self.values[a:b], self.weights[a:b], strict=True))
        half, reached, centre = 0.5 * sum(w for _, w in pairs), 0.0, 0.0
        for k, (value, w) in enumerate(pairs):
            reached += w
            if reached >= half:
                centre = 0.5 * (value + pairs[k + 1][0]) if reached == half and k + 1 < len(pairs) else value
                break
        near = [(v, w) for v, w in pairs if abs(v - centre) <= 3.0 * self.sd]
        level = sum(v * w for v, w in near) / sum(w for _, w in near) if near else centre
        cost = sum(w * min(((v - level) / self.sd) ** 2, self.limit) for v, w in pairs)
        return level, cost

    def strength(self, a: int, p: int, b: int) -> float:
        gain = self._of(a, b)[1] - self._of(a, p)[1] - self._of(p, b)[1]
        return math.sqrt(max(gain, 0.0))

    def best(self, a: int, b: int, fixed: Sequence[int]) -> tuple[float, int]:
        """Strongest split of [a, b), of equals the last; one at a fixed place counts for more."""
        known = self._best.get((a, b))
        if known is None:
            at_once = self._plain and b - a >= AT_ONCE
            known = self._best[a, b] = (self._best_at_once if at_once else self._best_of)(a, b, fixed)
        return known

    def _best_of(self, a: int, b: int, fixed: Sequence[int]) -> tuple[float, int]:
        found = [(self.strength(a, p, b) / (FIXED_DISCOUNT if p in fixed else 1.0), p) for p in range(a + 1, b)]
        return max(found, default=(0.0, a))

    def _best_at_once(self, a: int, b: int, fixed: Sequence[int]) -> tuple[float, int]:
        self._learn(a, b)
        gain = self._costs[a, b] - self._costs[a, a + 1 : b] - self._costs[a + 1 : b, b]
        strength = np.sqrt(np.maximum(gain, 0.0))
        for p in fixed:
            if a < p < b:
                strength[p - a - 1] /= FIXED_DISCOUNT
        last = strength.size - 1 - int(strength[::-1].argmax())
        return float(strength[last]), a + 1 + last

    def step(self, a: int, p: int, b: int) -> Step:
        before, after = self.level(a, p), self.level(p, b)
        sizes = sum(self.weights[a:p]), sum(self.weights[p:b])
        error = self.sd * math.sqrt(1.0 / sizes[0] + 1.0 / sizes[1])
        return Step(p, self.strength(a, p, b), after - before, error, before, after, p - a, b - p)

    def levels(self, cuts: list[int]) -> Floats:
        return np.concatenate([np.full(b - a, self.level(a, b)) for a, b in edges(cuts, len(self.values))])


@cache
def _parts(n: int) -> tuple[NDArray[np.bool_], Ints, Ints, NDArray[np.bool_]]:
    """Of n values the n heads and then the n - 1 tails: which values are in each, a row each; and where its two
    middle ones lie once it is in order, a column each, and which places of that column it fills.
    """
    at = np.arange(n)
    heads = at <= at[:, None]
    of = np.concatenate((heads, ~heads[:-1]))
    sizes, nth = of.sum(axis=1), np.arange(2 * n - 1)
    return of, (sizes - 1) // 2 * nth.size + nth, sizes // 2 * nth.size + nth, at[:, None] < sizes


def _prune(table: _Costs, cuts: list[int], threshold: float, floor: float, fixed: Sequence[int]) -> list[int]:
    """Drop the weakest split until all are strong and large enough."""
    n = len(table.values)
    while cuts:
        worth = []
        for a, p, b in surroundings(cuts, n):
            size = abs(table.level(p, b) - table.level(a, p))
            strength = table.strength(a, p, b) / (FIXED_DISCOUNT if p in fixed else 1.0)
            worth.append(strength if size >= floor else size / max(floor, 1e-300))
        least = min(range(len(cuts)), key=worth.__getitem__)
        if worth[least] >= threshold:
            break
        cuts = cuts[:least] + cuts[least + 1 :]
    return cuts
