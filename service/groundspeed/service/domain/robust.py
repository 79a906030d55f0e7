"""Robust location and spread, and small-sample helpers."""

import math

import numpy as np

from groundspeed.service.domain.series import Floats

MAD_TO_SD = 1.4826
"""Standard deviation over median absolute deviation of a normal distribution."""


LARGEST_LOG = 700.0
"""Exponents above this are cut: a ratio of 1e304 says all there is to say."""


def relative(log_change: float) -> float:
    """Relative change that a difference of logarithms amounts to."""
    return math.expm1(min(log_change, LARGEST_LOG))


def median(values: Floats) -> float:
    """Median of a non-empty array; a sort, because ``np.median`` costs thirty times as much on short ones."""
    ordered = np.sort(values)
    half, odd = divmod(ordered.size, 2)
    return float(ordered[half]) if odd else 0.5 * float(ordered[half - 1] + ordered[half])


def mad_sd(values: Floats) -> float:
    """Spread as a standard deviation from the median absolute deviation; 0.0 for fewer than two values."""
    if values.size < 2:
        return 0.0
    return MAD_TO_SD * median(np.abs(values - median(values)))


def difference_sd(values: Floats) -> float:
    """Point-to-point spread that steps do not inflate: median |y[i+1] - y[i]| scaled to a standard deviation."""
    if values.size < 2:
        return 0.0
    return MAD_TO_SD * median(np.abs(np.diff(values))) / math.sqrt(2.0)


def is_log_scale(values: Floats) -> bool:
    """Ratios make sense: every value is positive (and there is one)."""
    return values.size > 0 and bool(np.min(values) > 0.0)
