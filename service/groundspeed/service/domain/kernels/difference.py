"""What the kernel tables of two sides say of a difference between them.

A table is what one process saw: launches and seconds a step by kernel. Processes of the same code differ, so a kernel
counts as changed only where it differs by more than its processes do; what came, went or is launched another number of
times is exact, and one process a side shows it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from statistics import fmean, median, pvariance
from typing import Literal

from scipy.stats import t as student

Kind = Literal["slower", "faster", "appeared", "vanished", "replaced", "more-launches", "fewer-launches"]
State = Literal["told", "even", "same", "against", "unsure", "single"]

CONFIDENCE = 0.99
"""Of the interval of one kernel: tables have dozens of them."""
TOTAL_CONFIDENCE = 0.95
SAME = 0.01
"""A change of all kernels together that is smaller is none, where no smaller one is asked about."""
LEAST_SHARE = 0.03
"""Of the difference; what explains less is counted with the rest."""
LEAST_TIME = 0.0005
"""Of the time of a step."""
MOST_ROWS = 5
EVEN_ROWS = 3
MOST_PAIRED = 12
ALIKE = 0.6
"""Of two names' characters, from which one kernel may have taken the other's place."""
LAUNCHES_DIFFER = 0.005


@dataclass(frozen=True, slots=True)
class Kernel:
    """Of one step: how often it was launched, and how long it took in all, in seconds."""

    launches: float
    time_s: float


@dataclass(frozen=True, slots=True)
class Table:
    """What one process saw. ``rest_s``: seconds of a step in kernels that the table does not list."""

    kernels: Mapping[str, Kernel]
    rest_s: float = 0.0

    @property
    def total_s(self) -> float:
        return sum(one.time_s for one in self.kernels.values()) + self.rest_s

    @property
    def floor_s(self) -> float:
        """A kernel that is not listed took no longer than this."""
        return min((one.time_s for one in self.kernels.values()), default=0.0) if self.rest_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel that changed; seconds and launches are those of a step, means over processes.

    ``share``: of the difference of all kernels (above 1 where others make up for it); None where that is not known.
    ``before``: what it replaced.
    """

    kind: Kind
    name: str
    base_s: float
    head_s: float
    base_launches: float
    head_launches: float
    share: float | None = None
    before: str = ""

    @property
    def change_s(self) -> float:
        return self.head_s - self.base_s


@dataclass(frozen=True, slots=True)
class Difference:
    """Seconds of a step in all kernels, ``low_s`` to ``high_s`` the interval of their difference (None: one process a
    side). ``others``: how many more kernels changed, and what all that is not in ``rows`` makes in sum.
    """

    state: State
    base_s: float
    head_s: float
    low_s: float | None
    high_s: float | None
    base_processes: int
    head_processes: int
    rows: tuple[Row, ...] = ()
    others: int = 0
    others_s: float = 0.0

    @property
    def change_s(self) -> float:
        return self.head_s - self.base_s


@dataclass(slots=True)
class _Seen:
    """One kernel on both sides, a value a process; ``sure``: it changed."""

    name: str
    base: list[float]
    head: list[float]
    base_launches: list[float]
    head_launches: list[float]
    sure: bool = False
    before: str = ""
    kind: Kind = "slower"

    @property
    def change_s(self) -> float:
        return fmean(self.head) - fmean(self.base)


def difference(base: Sequence[Table], head: Sequence[Table], effect: float | None = None) -> Difference | None:
    """Compare two sides; None where a side has no table.

    ``effect``: how much slower the step became, relative (below 0: faster); kernels that moved by less than half of it
    are the same, and such as moved the other way do not explain it.
    """
    if not base or not head:
        return None
    seen = _seen(base, head)
    spread = _relative_spread(seen)
    totals = [one.total_s for one in base], [one.total_s for one in head]
    low, high = _interval(*totals, spread, TOTAL_CONFIDENCE)
    change = fmean(totals[1]) - fmean(totals[0])
    floor = max(one.floor_s for one in (*base, *head))
    for one in seen:
        _judge(one, spread, floor)
    changed = _pair_up([one for one in seen if one.sure])
    known = low is None or high is None or not low <= 0 <= high
    rows = _rows(changed, change if known else None, fmean(totals[0]))
    state = _state(seen, rows, totals, (low, high), effect)
    rows = rows[:EVEN_ROWS] if state == "even" else rows
    return Difference(
        state=state,
        base_s=fmean(totals[0]),
        head_s=fmean(totals[1]),
        low_s=low,
        high_s=high,
        base_processes=len(base),
        head_processes=len(head),
        rows=rows,
        others=len(changed) - len(rows),
        others_s=change - sum(row.change_s for row in rows),
    )


def _seen(base: Sequence[Table], head: Sequence[Table]) -> list[_Seen]:
    none = Kernel(0.0, 0.0)
    names = dict.fromkeys(name for table in (*base, *head) for name in table.kernels)
    out = []
    for name in names:
        left, right = ([one.kernels.get(name, none) for one in side] for side in (base, head))
        out.append(
            _Seen(
                name,
                [one.time_s for one in left],
                [one.time_s for one in right],
                [one.launches for one in left],
                [one.launches for one in right],
            )
        )
    return out


def _relative_spread(seen: Sequence[_Seen]) -> float:
    """What is usual between processes of one side, over all kernels: a spread from two or three alone may be tiny."""
    found = [
        pvariance(values) * len(values) / (len(values) - 1) / fmean(values) ** 2
        for one in seen
        for values in (one.base, one.head)
        if len(values) > 1 and min(values) > 0
    ]
    return math.sqrt(median(found)) if found else 0.0


def _interval(
    base: Sequence[float], head: Sequence[float], relative: float, confidence: float
) -> tuple[float | None, float | None]:
    """Of the difference of two means; (None, None) where a side is one process."""
    if min(len(base), len(head)) < 2:
        return None, None
    parts = []
    for values in (base, head):
        own = pvariance(values) * len(values) / (len(values) - 1)
        parts.append(max(own, (relative * fmean(values)) ** 2) / len(values))
    freedom = len(base) + len(head) - 2
    half = float(student.ppf(0.5 + confidence / 2, freedom)) * math.sqrt(sum(parts))
    change = fmean(head) - fmean(base)
    return change - half, change + half


def _judge(one: _Seen, spread: float, floor_s: float) -> None:
    """Whether, and in what way, a kernel changed."""
    b, h = fmean(one.base_launches), fmean(one.head_launches)
    if not max(one.base) or not max(one.head):
        whole = min(one.head_launches) > 0 if not max(one.base) else min(one.base_launches) > 0
        one.sure = whole and max(*one.base, *one.head) > floor_s
        one.kind = "appeared" if not max(one.base) else "vanished"
        return
    apart = min(one.head_launches) > max(one.base_launches) or max(one.head_launches) < min(one.base_launches)
    if apart and abs(h - b) > LAUNCHES_DIFFER * max(h, b):
        one.sure = True
        each = fmean(one.base) / b
        by_count, by_each = (h - b) * each, fmean(one.head) - h * each
        if abs(by_count) >= abs(by_each):
            one.kind = "more-launches" if h > b else "fewer-launches"
            return
    else:
        low, high = _interval(one.base, one.head, spread, CONFIDENCE)
        one.sure = low is not None and high is not None and not low <= 0 <= high
    one.kind = "slower" if one.change_s > 0 else "faster"


def _pair_up(changed: list[_Seen]) -> list[_Seen]:
    """What vanished and what appeared in its place: launched as often, and of all such the most like it by name."""
    gone, come = (
        sorted((one for one in changed if one.kind == kind), key=lambda one: -abs(one.change_s))[:MOST_PAIRED]
        for kind in ("vanished", "appeared")
    )
    pairs = [(old, new) for old in gone for new in come if _likeness(gone, come, old, new)]
    pairs.sort(key=lambda pair: -_likeness(gone, come, *pair))
    done: set[int] = set()
    out: list[_Seen] = []
    for old, new in pairs:
        if not {id(old), id(new)} & done:
            done |= {id(old), id(new)}
            launches = old.base_launches, new.head_launches
            out.append(_Seen(new.name, old.base, new.head, *launches, sure=True, before=old.name, kind="replaced"))
    return out + [one for one in changed if id(one) not in done]


def _likeness(gone: Sequence[_Seen], come: Sequence[_Seen], old: _Seen, new: _Seen) -> float:
    """0: no pair. Two that alone have their number of launches are one whatever they are called."""
    count = fmean(old.base_launches)
    if not math.isclose(count, fmean(new.head_launches), rel_tol=1e-3):
        return 0.0
    left = [one for one in gone if math.isclose(fmean(one.base_launches), count, rel_tol=1e-3)]
    right = [one for one in come if math.isclose(fmean(one.head_launches), count, rel_tol=1e-3)]
    if len(left) == len(right) == 1:
        return 1.0
    ratio = SequenceMatcher(None, old.name[:300], new.name[:300]).ratio()
    return ratio if ratio >= ALIKE else 0.0


def _rows(changed: Sequence[_Seen], change_s: float | None, base_s: float) -> tuple[Row, ...]:
    """The few that make most of the difference, the largest first."""
    least = max(LEAST_SHARE * abs(change_s or 0.0), LEAST_TIME * base_s)
    large = sorted((one for one in changed if abs(one.change_s) >= least), key=lambda one: -abs(one.change_s))
    return tuple(
        Row(
            kind=one.kind,
            name=one.name,
            base_s=fmean(one.base),
            head_s=fmean(one.head),
            base_launches=fmean(one.base_launches),
            head_launches=fmean(one.head_launches),
            share=one.change_s / change_s if change_s else None,
            before=one.before,
        )
        for one in large[:MOST_ROWS]
    )


def _state(
    seen: Sequence[_Seen],
    rows: Sequence[Row],
    totals: tuple[Sequence[float], Sequence[float]],
    interval: tuple[float | None, float | None],
    effect: float | None,
) -> State:
    (low, high), base = interval, fmean(totals[0])
    change = fmean(totals[1]) - base
    if low is None or high is None:
        return "told" if rows else "single"
    if _evenly(seen, rows, base, change) and not low <= 0 <= high:
        return "even"
    least = base * min(SAME, abs(effect) / 2 if effect else SAME)
    if -least <= low and high <= least:
        return "told" if _balanced(rows, least) else "same"
    if low <= 0 <= high:
        return "told" if _balanced(rows, least) else "unsure"
    if effect and (change > 0) != (effect > 0):
        return "against"
    return "told" if rows else "unsure"


def _balanced(rows: Sequence[Row], least_s: float) -> bool:
    """Kernels changed by what matters, even if others make up for it."""
    return any(abs(row.change_s) > least_s for row in rows)


def _evenly(seen: Sequence[_Seen], rows: Sequence[Row], base_s: float, change_s: float) -> bool:
    """The same kernels, as often, all slower (or faster) by about the same factor."""
    if any(row.kind not in {"slower", "faster"} for row in rows) or base_s <= 0:
        return False
    whole = change_s / base_s
    alike = [
        fmean(one.base)
        for one in seen
        if fmean(one.base) > 0 and 0.5 <= (one.change_s / fmean(one.base)) / whole <= 1.5
    ] if whole else []  # fmt: skip
    large = [time for time in alike if time >= 0.03 * base_s]
    return len(large) >= 3 and sum(alike) >= 0.8 * base_s
