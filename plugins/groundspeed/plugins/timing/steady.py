"""Steady state: a test on the recent window that says when warm-up is over. Pure functions on lists of seconds."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

BATCHES = 4
"""Of each half. Samples that follow each other are alike where a host wanders, batches of them hardly: the spread
between batches says how far two halves of a steady window can lie apart, that of single samples says too little."""
QUANTILE = 2.447
"""Of Student's t, 95 % both ways, with the degrees of freedom of two halves: 2 x (BATCHES - 1)."""


@dataclass(frozen=True, slots=True)
class SteadyTest:
    """When the recent window counts as steady.

    The window is split in halves. Steady: their medians differ by no more than ``drift`` (relative) or by what the
    spread between batches explains (batch means: Conway, 1963, with medians), and the spread of the second half is not
    more than ``spread_growth`` times that of the first.
    """

    window: int = 10
    window_s: float = 0.2
    drift: float = 0.005
    spread_growth: float = 3.0

    def __post_init__(self) -> None:
        if self.window < 2 * BATCHES:
            raise ValueError(f"a window of {self.window} samples has no two halves of {BATCHES} batches")

    def holds(self, samples: Sequence[float], elapsed_s: Sequence[float]) -> bool:
        """``samples``: time of a step; ``elapsed_s``: how long each sample took as a whole. Newest last."""
        recent = self._recent(samples, elapsed_s)
        if recent is None:
            return False
        half = len(recent) // 2
        first, second = recent[:half], recent[half:]
        centre = [statistics.median(first), statistics.median(second)]
        spread = [_mad(first, centre[0]), _mad(second, centre[1])]
        allowed = max(self.drift * centre[1], QUANTILE * _standard_error(first, second))
        calm = spread[1] <= self.spread_growth * spread[0] + self.drift * centre[1]
        return abs(centre[1] - centre[0]) <= allowed and calm

    def count(self, elapsed_s: Sequence[float]) -> int:
        """How many of the newest samples fill the window in both count and time; 0: there are not enough."""
        total = 0.0
        for count, elapsed in enumerate(reversed(elapsed_s), start=1):
            total += elapsed
            if count >= self.window and total >= self.window_s:
                return count
        return 0

    def _recent(self, samples: Sequence[float], elapsed_s: Sequence[float]) -> list[float] | None:
        count = self.count(elapsed_s)
        return list(samples[-count:]) if count else None


def _mad(values: Sequence[float], centre: float) -> float:
    return statistics.median(abs(value - centre) for value in values)


def _standard_error(first: Sequence[float], second: Sequence[float]) -> float:
    """Of the difference of two halves, from the medians of the batches of each."""
    variances = [statistics.variance(_batch_medians(half)) / BATCHES for half in (first, second)]
    return float(sum(variances) ** 0.5)


def _batch_medians(values: Sequence[float]) -> list[float]:
    """``BATCHES`` medians of values that follow each other; needs as many values."""
    bounds = [index * len(values) // BATCHES for index in range(BATCHES + 1)]
    return [statistics.median(values[low:high]) for low, high in itertools.pairwise(bounds)]
