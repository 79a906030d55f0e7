"""Bisection by hand: which commit between a good and a bad one made the difference, and what to measure to know."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from groundspeed.service.domain.replicates import ENOUGH_TO_REFUTE, Contrast, contrast, pair_sd
from groundspeed.service.domain.robust import is_log_scale, median, relative
from groundspeed.service.domain.series import Floats

Outcome = Literal["open", "found", "no-difference", "stuck"]
Values = Mapping[int, tuple[float, ...]]

ENDS_ALPHA = 0.005
"""Chance that two ends which do not differ are taken for different."""
CLEAR = 6.0
"""A process more than half so many spreads from both levels' middle is on one side: two per side in a thousand err."""
DOUBTFUL = 0.25
"""A commit nearer to the middle than this share of the difference gets further processes."""


@dataclass(frozen=True, slots=True)
class Search:
    """Where a bisection stands.

    ``good`` and ``bad`` are the nearest commits known to be so; ``measure`` has (x, further processes); ``effect`` is
    bad over good minus 1 (NaN before both ends are measured), ``words`` say it all in a sentence.
    """

    outcome: Outcome
    good: int
    bad: int
    measure: tuple[tuple[int, int], ...]
    effect: float
    words: str


def search(
    values: Values,
    good: int,
    bad: int,
    *,
    floor: float,
    commits: Collection[int],
    useless: Collection[int] = (),
    replicates: int = 3,
) -> Search:
    """Say what is known of the commits after ``good`` up to ``bad`` and what to measure next.

    ``values`` has processes by x; ``commits`` are the x that exist, ``useless`` those that can't be measured. ``floor``
    is the smallest relative difference of the ends worth a search, ``replicates`` the processes that each end gets.
    """
    logs = _logs({x: v for x, v in values.items() if good <= x <= bad and v})
    short = tuple((x, replicates - len(logs.get(x, ()))) for x in (good, bad) if len(logs.get(x, ())) < replicates)
    if short:
        lost = [x for x, _ in short if x in useless]
        if lost:
            return Search("stuck", good, bad, (), math.nan, "One of the two ends can't be measured.")
        return Search("open", good, bad, short, math.nan, "Both ends are measured first.")
    ends = contrast(_exp(logs[good]), _exp(logs[bad]), 1e-6)
    doubt = _no_difference(ends, floor, logs, good, bad)
    if doubt is not None:
        return doubt
    return _narrowed(logs, good, bad, ends, sorted(commits), frozenset(useless), replicates)


def _no_difference(ends: Contrast, floor: float, logs: dict[int, Floats], good: int, bad: int) -> Search | None:
    if abs(ends.delta) >= math.log1p(floor) and ends.p_value < ENDS_ALPHA:
        return None
    more = tuple((x, ENOUGH_TO_REFUTE - logs[x].size) for x in (good, bad) if logs[x].size < ENOUGH_TO_REFUTE)
    effect = relative(ends.delta)
    if more and abs(ends.delta) + 2.0 * ends.error >= math.log1p(floor):
        return Search("open", good, bad, more, effect, f"The ends differ by {effect:+.2%}, which may be noise.")
    words = (
        f"The two ends do not differ beyond noise ({effect:+.2%}, and the smallest worth a search is {floor:.2%}): "
        "there is nothing to find between them."
    )
    return Search("no-difference", good, bad, (), effect, words)


def _narrowed(
    logs: dict[int, Floats],
    good: int,
    bad: int,
    ends: Contrast,
    commits: list[int],
    useless: frozenset[int],
    replicates: int,
) -> Search:
    level, delta = median(logs[good]), ends.delta
    effect, low, high = relative(delta), good, bad
    while True:
        inside = [x for x in commits if low < x < high]
        known = [x for x in inside if x in logs]
        if not known:
            break
        x = _central(known, low, high)
        share = (median(logs[x]) - level) / delta
        if abs(share - 0.5) < DOUBTFUL and logs[x].size < replicates and x not in useless:
            more = ((x, replicates - logs[x].size),)
            return Search("open", low, high, more, effect, "A commit between the two levels gets further processes.")
        low, high = (x, high) if share < 0.5 else (low, x)
    free = [x for x in inside if x not in useless]
    if not inside:
        return Search("found", low, high, (), effect, f"The level changes by {effect:+.2%} at one commit.")
    if not free:
        words = f"The level changes by {effect:+.2%} here, and the {len(inside)} commits between can't be measured."
        return Search("stuck", low, high, (), effect, words)
    sd = pair_sd([logs[good], logs[bad]])
    count = min(max(math.ceil((CLEAR * sd / abs(delta)) ** 2), 1), replicates)
    words = f"The level changes by {effect:+.2%}; {len(inside)} commits between are in question."
    return Search("open", low, high, ((_central(free, low, high), count),), effect, words)


def _central(choices: list[int], low: int, high: int) -> int:
    return min(choices, key=lambda x: (abs(2 * x - low - high), x))


def _logs(values: Values) -> dict[int, Floats]:
    """Logarithms; where values are not all positive, multiples of their typical size, which add up the same way."""
    joined = np.asarray([v for row in values.values() for v in row], dtype=float)
    if joined.size and not is_log_scale(joined):
        unit = median(np.abs(joined)) or 1.0
        return {x: np.asarray(row) / unit for x, row in values.items()}
    return {x: np.log(np.asarray(row)) for x, row in values.items()}


def _exp(logs: Floats) -> tuple[float, ...]:
    return tuple(np.exp(np.clip(logs, -700.0, 700.0)).tolist())
