"""Steady state: a test on the recent window that says when warm-up is over. Pure functions on lists of seconds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SteadyTest:
    """When the recent window counts as steady.

    The window is split in halves. Steady: their medians differ by no more than ``drift`` (relative) or by what the
    spread explains (two standard errors of a median, 1.2533 x 1.4826 x MAD / sqrt(n) each), and the spread of the
    second half is not more than ``spread_growth`` times that of the first.
    """

    window: int = 10
    window_s: float = 0.2
    drift: float = 0.005
    spread_growth: float = 3.0

    def holds(self, samples: Sequence[float], elapsed_s: Sequence[float]) -> bool:
        """``samples``: time of a step; ``elapsed_s``: how long each sample took as a whole. Newest last."""
        recent = self._recent(samples, elapsed_s)
        if recent is None:
            return False
        half = len(recent) // 2
        first, second = recent[:half], recent[half:]
        centre = [statistics.median(first), statistics.median(second)]
        spread = [_mad(first, centre[0]), _mad(second, centre[1])]
        allowed = max(self.drift * centre[1], 2 * _standard_error(spread, half))
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


def _standard_error(spread: Sequence[float], count: int) -> float:
    """Of the difference of two medians of ``count`` samples each, for a normal core."""
    one = [1.2533 * 1.4826 * mad / count**0.5 for mad in spread]
    return float(sum(value * value for value in one) ** 0.5)
