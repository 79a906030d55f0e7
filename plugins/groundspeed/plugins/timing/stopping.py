"""The stop rule: enough samples when the interval of the median is narrow, within bounds of count and time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Z_95 = 1.96


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the median by order statistics (binomial, normal approximation; Conover 1999, §3.2).

    Free of any assumption on the distribution; with fewer than 6 values it is their whole range.
    """
    ordered = sorted(values)
    count = len(ordered)
    low = max(0, math.floor((count - Z_95 * math.sqrt(count)) / 2))
    high = min(count - 1, math.ceil((count + Z_95 * math.sqrt(count)) / 2))
    return ordered[low], ordered[high]


def relative_half_width(values: Sequence[float]) -> float:
    """Half the width of the median's interval over the median; infinite without values or with a median of 0."""
    if not values:
        return math.inf
    ordered = sorted(values)
    median = ordered[len(ordered) // 2]
    low, high = median_interval(ordered)
    return (high - low) / 2 / median if median > 0 else math.inf


@dataclass(frozen=True, slots=True)
class StopRule:
    """``verdict`` says whether to go on, or why not."""

    min_samples: int
    max_samples: int
    min_time_s: float
    max_time_s: float
    relative_half_width: float
    wanted_samples: int = 0
    """Aimed at as long as the time limit allows, however narrow the interval is (a tail needs them)."""

    def verdict(self, values: Sequence[float], elapsed_s: float) -> Literal["", "narrow", "samples", "time"]:
        """Empty: go on. ``elapsed_s``: time spent measuring so far."""
        count = len(values)
        if count < self.min_samples:
            # A step longer than the time limit still gives min_samples, up to three times the limit.
            return "time" if count and elapsed_s >= 3 * self.max_time_s else ""
        if count >= self.max_samples:
            return "samples"
        if elapsed_s >= self.max_time_s:
            return "time"
        if count < self.wanted_samples or elapsed_s < self.min_time_s:
            return ""
        if relative_half_width(values) <= self.relative_half_width:
            return "narrow"
        return ""
