"""Robust location and spread, and small-sample helpers."""

import math

from groundspeed.service.domain.series import Floats

LARGEST_LOG = 700.0
"""Exponents above this are cut: a ratio of 1e304 says all there is to say."""


def relative(log_change: float) -> float:
    """Relative change that a difference of logarithms amounts to."""
    return math.expm1(min(log_change, LARGEST_LOG))


def median(values: Floats) -> float:
    """Median of a non-empty array; a sort, because ``np.median`` costs thirty times as much on short ones."""
    ordered = values.copy()
    ordered.sort()
    half, odd = divmod(ordered.size, 2)
    return float(ordered[half]) if odd else 0.5 * float(ordered[half - 1] + ordered[half])


def is_log_scale(values: Floats) -> bool:
    """Ratios make sense: every value is positive (and there is one)."""
    return values.size > 0 and bool(values.min() > 0.0)
