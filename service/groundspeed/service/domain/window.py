"""One stretch of a series prepared for detection: clipped values, running sums, and the noise at each scale.

Everything here works on z, the logarithm of the values (or the values over their typical size where some are not
positive), so that differences are relative changes.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from groundspeed.service.domain.series import Floats

SCALES = (4, 6, 10, 16, 26, 42, 68, 110, 180, 290)
"""Half widths, in points, at which a step is looked for: a ratio of about 1.6 loses under 10 % of its strength."""

CALM_SHARE = 0.8
CALM_RMS = 0.6617
"""Root mean square of the smallest 80 % of |N(0, 1)|: turns the calm part of a scan into a standard deviation."""

MIN_SEGMENT = 3

_SPREAD = {h: math.sqrt(1.0 / h + 1.0 / h) for h in SCALES}
"""Of the difference of two means over so many points each, in standard deviations of one."""

_FROM_NOUGHT = np.arange(4097.0)
_COUNT = _FROM_NOUGHT[1:]
_INVERSE = 1.0 / _COUNT


@dataclass(slots=True)
class Window:
    """Values ``y`` with running sums: ``total[i]`` of the first i values, ``moment[i]`` of index times value.

    ``sds[k]`` is the noise, as the standard deviation of one point, that a mean over ``scales[k]`` points behaves as
    if it had: equal to ``sd`` for independent noise, larger where the series wanders. ``local`` multiplies it at
    each cut where the noise is not even. Cuts before ``lock`` were decided earlier and are not looked for again;
    at the cuts in ``fixed`` something is known to have happened (the environment changed).
    """

    y: Floats
    sd: float
    local: Floats | None = None
    lock: int = 0
    fixed: tuple[int, ...] = ()
    total: Floats = field(init=False)
    sums: list[float] = field(init=False)
    """The same, for who asks for one at a time."""
    moment: Floats = field(init=False)
    scales: list[int] = field(init=False)
    sds: list[float] = field(init=False)
    _views: list[tuple[int, float, float]] = field(init=False)
    """Each scale, its noise, and the spread of the difference of two means over as many points."""
    _strengths: dict[tuple[int, int, int], float] = field(init=False)

    def __post_init__(self) -> None:
        n = self.y.size
        self.total = np.zeros(n + 1)
        self.y.cumsum(out=self.total[1:])
        self.sums = self.total.tolist()
        self.moment = np.zeros(n + 1)
        (self.y * counting(n)).cumsum(out=self.moment[1:])
        self.scales = [h for h in SCALES if 2 * h <= n] or [SCALES[0]]
        self.learn([self.sd] * len(self.scales))

    def learn(self, sds: list[float]) -> None:
        """Take these for the noise at each scale."""
        self.sds = sds
        self._views = [(h, sd, sd * _SPREAD[h]) for h, sd in zip(self.scales, sds, strict=True)]
        self._strengths = {}

    @property
    def size(self) -> int:
        return self.y.size

    def strength(self, a: int, p: int, b: int) -> float:
        """Difference of means after and before the cut p inside [a, b), in standard errors.

        The largest over the scales: a step in a series that wanders shows best close by, any other over all points.
        """
        known = self._strengths.get((a, p, b))
        if known is None:
            known = self._strengths[a, p, b] = self._strength(a, p, b)
        return known

    def _strength(self, a: int, p: int, b: int) -> float:
        total, left, right = self.sums, p - a, b - p
        least, most = (left, right) if left < right else (right, left)
        here, best = total[p], 0.0
        for h, sd, spread in self._views:
            if h <= least:
                size = abs((total[p + h] - here) / h - (here - total[p - h]) / h) / spread
            else:
                le, ri = (left, min(h, right)) if left < right else (min(h, left), right)
                size = abs((total[p + ri] - here) / ri - (here - total[p - le]) / le)
                size /= sd * math.sqrt(1.0 / le + 1.0 / ri)
            best = max(best, size)
            if h >= most:
                break
        else:
            gap = (total[p + right] - here) / right - (here - total[p - left]) / left
            best = max(best, abs(gap) / (self.sds[-1] * math.sqrt(1.0 / left + 1.0 / right)))
        return best if self.local is None else best / float(self.local[p])

    def mean(self, a: int, b: int) -> float:
        """Mean of y[a:b]."""
        return (self.sums[b] - self.sums[a]) / (b - a)

    def noise_of_mean(self, p: int, points: int) -> float:
        """Standard error of the mean of ``points`` values next to the cut p."""
        sd = self.sds[min(bisect_left(self.scales, points), len(self.sds) - 1)]
        return sd * (1.0 if self.local is None else float(self.local[p])) / math.sqrt(points)

    def is_ramp(self, a: int, p: int, b: int) -> bool:
        """A straight line explains the surroundings of the cut better than a step does: drift, not a step.

        Both models have two parameters, so their sums of squares explained compare directly. An ideal step loses a
        quarter of its explained sum to the line and an ideal line as much to the step.
        """
        k = min(p - a, b - p)
        if k <= MIN_SEGMENT:
            return False
        total, low, high = self.sums, p - k, p + k
        gap = (total[high] - 2.0 * total[p] + total[low]) / k
        tilt = float(self.moment[high] - self.moment[low])
        tilt -= 0.5 * (low + high - 1) * (total[high] - total[low])
        length = 2.0 * k
        return tilt * tilt / (length * (length * length - 1.0) / 12.0) > gap * gap * k / 2.0

    def slope(self, cuts: list[int]) -> tuple[float, float]:
        """Common slope inside the segments between cuts, per point, and its size in standard errors."""
        num = den = 0.0
        for a, b in edges(cuts, self.size):
            length = float(b - a)
            if length < 8:
                continue
            num += float(self.moment[b] - self.moment[a])
            num -= 0.5 * (a + b - 1) * float(self.total[b] - self.total[a])
            den += length * (length * length - 1.0) / 12.0
        if den == 0.0:
            return 0.0, 0.0
        return num / den, num / math.sqrt(den) / self.sds[-1]

    def best_cut(self, a: int, b: int) -> int | None:
        """The cut of [a, b) that explains most (largest cumulative-sum statistic); None where it is too short."""
        length = b - a
        if length < 2 * MIN_SEGMENT:
            return None
        sums = self.total[a + 1 : b] - self.sums[a]
        inverse = inverses(length - 1)
        sums -= counting(length - 1, 1) * self.mean(a, b)
        sums *= sums
        sums *= inverse
        sums *= inverse[::-1]
        edge = MIN_SEGMENT - 1
        return a + MIN_SEGMENT + int(sums[edge : sums.size - edge].argmax())


def counting(n: int, start: int = 0) -> Floats:
    """The numbers start, start + 1, … as a float array of length n."""
    if start == 1 and n <= _COUNT.size:
        return _COUNT[:n]
    if start == 0 and n < _COUNT.size:
        return _FROM_NOUGHT[:n]
    return np.arange(float(start), float(start + n))


def inverses(n: int) -> Floats:
    """1, 1/2, … 1/n."""
    return _INVERSE[:n] if n <= _INVERSE.size else 1.0 / counting(n, 1)


def edges(cuts: list[int], n: int) -> list[tuple[int, int]]:
    """The segments [a, b) between cuts."""
    marks = [0, *cuts, n]
    return list(pairwise(marks))


def surroundings(cuts: list[int], n: int) -> list[tuple[int, int, int]]:
    """Each cut p between its neighbours: (a, p, b), where [a, p) and [p, b) are the segments it parts."""
    marks = [0, *cuts, n]
    return list(zip(marks[:-2], cuts, marks[2:], strict=True))
