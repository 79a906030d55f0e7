"""Intervals of a shift on the log scale: exact rank methods where they reach the level, Student's t below.

Why these and not the bootstrap: with three to ten processes a percentile bootstrap covers far less than it says
(``docs/verdicts.md`` has the figures). The signed-rank interval (Hodges & Lehmann 1963) is exact for any noise,
heavy-tailed or with modes, because the difference of two interleaved processes of the same code is symmetric around
the effect; but n pairs can't reach a level under 2^-n. Student's t can, and errs on the safe side for heavy tails.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy import special

from groundspeed.service.domain import tails
from groundspeed.service.domain.robust import median
from groundspeed.service.domain.series import Floats

MOST_EXACT = 40
"""Above this many pairs the rank distributions are taken as normal."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Estimate of a shift with a two-sided interval of ``level`` on each side, and the p-value of no shift.

    ``error`` is the standard error that the half width amounts to. ``p_student`` is Student's p-value whatever the
    method: ranks of a few pairs can't be smaller than 2^-n, and ordering many findings needs more than that.
    """

    centre: float
    low: float
    high: float
    error: float
    p_value: float
    method: str
    p_student: float = 1.0


def paired(differences: Floats, level: float, least_sd: float = 0.0) -> Interval:
    """Interval of the shift from differences of pairs (n ≥ 2); ``level`` is the error on either side."""
    n = differences.size
    counts = _signed_rank(n) if n <= MOST_EXACT else None
    error = _sd(differences, least_sd) / math.sqrt(n)
    student = _student(float(np.mean(differences)), error, n - 1, level, "t")
    if counts is None or counts[0] > level:
        return student
    walsh = np.sort(((differences[:, None] + differences[None, :]) / 2.0)[np.triu_indices(n)])
    below = int(np.searchsorted(counts, level, side="right")) - 1
    positive = int(np.count_nonzero(walsh > 0.0)) + 0.5 * int(np.count_nonzero(walsh == 0.0))
    tail = counts[math.floor(min(positive, walsh.size - positive))]
    ranked = _ranked(walsh, below, min(1.0, 2.0 * float(tail)), level, "signed rank", student.p_value)
    return _widened(ranked, least_sd / math.sqrt(n), level)


def unpaired(base: Floats, head: Floats, level: float, least_sd: float = 0.0) -> Interval:
    """Interval of the shift from two independent groups (n ≥ 2 each)."""
    m, n = base.size, head.size
    counts = _rank_sum(m, n) if max(m, n) <= MOST_EXACT else None
    va, vb = _sd(base, least_sd) ** 2 / m, _sd(head, least_sd) ** 2 / n
    df = (va + vb) ** 2 / (va**2 / (m - 1) + vb**2 / (n - 1)) if va + vb > 0.0 else m + n - 2.0
    student = _student(float(np.mean(head) - np.mean(base)), math.sqrt(va + vb), df, level, "Welch t")
    if counts is None or counts[0] > level:
        return student
    gaps = np.sort((head[:, None] - base[None, :]).ravel())
    below = int(np.searchsorted(counts, level, side="right")) - 1
    positive = int(np.count_nonzero(gaps > 0.0)) + 0.5 * int(np.count_nonzero(gaps == 0.0))
    tail = counts[math.floor(min(positive, gaps.size - positive))]
    ranked = _ranked(gaps, below, min(1.0, 2.0 * float(tail)), level, "rank sum", student.p_value)
    return _widened(ranked, least_sd * math.sqrt(1.0 / m + 1.0 / n), level)


def _ranked(ordered: Floats, below: int, p_value: float, level: float, method: str, p_student: float) -> Interval:
    low, high = float(ordered[below]), float(ordered[ordered.size - 1 - below])
    error = 0.5 * (high - low) / -tails.normal_quantile(level)
    return Interval(median(ordered), low, high, error, p_value, method, p_student)


def _widened(found: Interval, least_error: float, level: float) -> Interval:
    """Not narrower than the known noise allows, whatever luck made the ranks agree."""
    if found.error >= least_error:
        return found
    reach = -tails.normal_quantile(level) * least_error
    low, high = min(found.low, found.centre - reach), max(found.high, found.centre + reach)
    p = 2.0 * tails.normal(-abs(found.centre) / least_error)
    return replace(found, low=low, high=high, error=least_error, p_value=max(found.p_value, p))


def _student(centre: float, error: float, df: float, level: float, method: str) -> Interval:
    reach = -tails.student_quantile(df, level) * error
    p = 2.0 * tails.student(df, -abs(centre) / error) if error > 0.0 else float(centre == 0.0)
    return Interval(centre, centre - reach, centre + reach, error, min(1.0, p), method, min(1.0, p))


def _sd(values: Floats, least: float) -> float:
    return max(float(np.std(values, ddof=1)), least)


@lru_cache(maxsize=64)
def _signed_rank(n: int) -> Floats:
    """P(W ≤ w) for the signed-rank statistic of n pairs, w = 0 … n(n+1)/2."""
    ways = np.zeros(n * (n + 1) // 2 + 1)
    ways[0] = 1.0
    for rank in range(1, n + 1):
        ways[rank:] = ways[rank:] + ways[:-rank]
    total: Floats = np.cumsum(ways) / 2.0**n
    return total


@lru_cache(maxsize=256)
def _rank_sum(m: int, n: int) -> Floats:
    """P(U ≤ u) for the rank-sum statistic of groups of m and n, u = 0 … mn."""
    table = [np.ones(1) for _ in range(n + 1)]
    for i in range(1, m + 1):
        row = [np.ones(1)]
        for j in range(1, n + 1):
            ways = np.zeros(i * j + 1)
            ways[j : j + table[j].size] += table[j]
            ways[: row[j - 1].size] += row[j - 1]
            row.append(ways)
        table = row
    total: Floats = np.cumsum(table[n]) / special.comb(m + n, m)
    return total
