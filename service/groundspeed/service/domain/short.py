"""Series of a few points: every split is tried, no point may decide alone, replicated points weigh more.

The first runs of a project have some twenty commits with one process each. Their noise is known badly, so all that is
found here is provisional until fresh processes on both sides bear it out.
"""

import math
from collections.abc import Sequence

import numpy as np

from groundspeed.service.domain.analyse import DIFFERENCE_TO_SD, Analysis, Step
from groundspeed.service.domain.segment import FIXED_DISCOUNT
from groundspeed.service.domain.series import Floats
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
        self._known: dict[tuple[int, int], tuple[float, float]] = {}
        self._best: dict[tuple[int, int], tuple[float, int]] = {}

    def level(self, a: int, b: int) -> float:
        return self._of(a, b)[0]

    def _of(self, a: int, b: int) -> tuple[float, float]:
        """(level, cost) of [a, b): the mean of what lies near the weighted median, and the bounded cost around it."""
        known = self._known.get((a, b))
        if known is None:
            known = self._known[a, b] = self._plain_of(a, b) if self._plain else self._weighted_of(a, b)
        return known

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
        """The same of all heads [a, p) and tails [p, b) at once, each a row of its values in order."""
        n = b - a
        values, sizes = np.array(self.values[a:b]), np.arange(1, n + 1)
        heads = np.where(sizes <= sizes[:, None], values, np.inf)
        tails = np.where(sizes > sizes[:, None], values, np.inf)[:-1]
        rows, sizes = np.sort(np.concatenate((heads, tails)), axis=1), np.concatenate((sizes, sizes[-2::-1]))
        nth, half = np.arange(sizes.size), sizes // 2
        centre = np.where(sizes % 2, rows[nth, half], 0.5 * (rows[nth, half - 1] + rows[nth, half]))
        near = np.abs(rows - centre[:, None]) <= 3.0 * self.sd
        some = near.sum(axis=1)
        # Summed from left to right, as one by one.
        level = np.where(some > 0, np.where(near, rows, 0.0).cumsum(axis=1)[:, -1] / np.maximum(some, 1), centre)
        away = (rows - level[:, None]) / self.sd
        squares = np.where(rows < np.inf, np.minimum(away * away, self.limit), 0.0)
        found = list(zip(level.tolist(), squares.cumsum(axis=1)[:, -1].tolist(), strict=True))
        self._known |= {(a, a + 1 + k): one for k, one in enumerate(found[:n])}
        self._known |= {(a + 1 + k, b): one for k, one in enumerate(found[n:])}

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
        """Strongest split of [a, b); one at a fixed place counts for more."""
        known = self._best.get((a, b))
        if known is None:
            if self._plain and b - a >= AT_ONCE:
                self._learn(a, b)
            found = [(self.strength(a, p, b) / (FIXED_DISCOUNT if p in fixed else 1.0), p) for p in range(a + 1, b)]
            known = self._best[a, b] = max(found, default=(0.0, a))
        return known

    def step(self, a: int, p: int, b: int) -> Step:
        before, after = self.level(a, p), self.level(p, b)
        sizes = sum(self.weights[a:p]), sum(self.weights[p:b])
        error = self.sd * math.sqrt(1.0 / sizes[0] + 1.0 / sizes[1])
        return Step(p, self.strength(a, p, b), after - before, error, before, after, p - a, b - p)

    def levels(self, cuts: list[int]) -> Floats:
        return np.concatenate([np.full(b - a, self.level(a, b)) for a, b in edges(cuts, len(self.values))])


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
