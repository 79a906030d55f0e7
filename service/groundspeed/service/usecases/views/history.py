"""A series' results as columns of points: those of one commit and environment together, in the order of the branch.

Columns, because a graph of many series is a hundred thousand results of which a few thousand points are shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, repeat
from operator import itemgetter
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_POWERS = np.array([float(f"1e{n}") for n in range(23)])
_BEST = ("valid", "degraded", "rejected")


@dataclass(frozen=True, slots=True)
class History:
    """Points in order of ``position``, then ``environment``. ``value`` is the median over ``many`` processes, ``low``
    and ``high`` their range (of one: the spread of its samples), ``run`` the newest, ``state`` the best of them.
    """

    position: Ints
    environment: Ints
    value: Floats
    low: Floats
    high: Floats
    many: Ints
    run: Ints
    state: Sequence[str]

    @property
    def size(self) -> int:
        return int(self.position.size)

    def some(self, places: Collection[int]) -> History:
        """The points at these indices."""
        if len(places) == self.size:
            return self
        at = np.fromiter(places, np.int64, len(places))
        return History(
            self.position[at],
            self.environment[at],
            self.value[at],
            self.low[at],
            self.high[at],
            self.many[at],
            self.run[at],
            [self.state[i] for i in places],
        )


def histories(rows: Iterable[Sequence[Any]], places: Mapping[int, int]) -> dict[int, History]:
    """By series. ``rows`` are (series, revision, environment, value, spread, state, run) in any order; those whose
    revision is not in ``places``, which gives positions, are left out.
    """
    parts: dict[int, list[Sequence[Any]]] = {}
    for series, some in groupby(rows, itemgetter(0)):
        parts.setdefault(series, []).extend(some)
    return {series: _history(part, places) for series, part in parts.items()}


def thin(values: Sequence[float] | Floats, keep: Collection[int], limit: int) -> list[int]:
    """Indices that stand for ``values``: the lowest and highest of each of ``limit / 2`` parts, ends, and ``keep``."""
    n = len(values)
    if n <= limit:
        return list(range(n))
    chosen = {0, n - 1} | {i for i in keep if 0 <= i < n}
    parts = max(1, (limit - len(chosen)) // 2)
    # Sorted by part and then by value, the ends of each part are its lowest and its highest.
    edges = np.arange(parts + 1, dtype=np.int64) * n // parts
    order = np.lexsort((np.asarray(values, np.float64), np.repeat(np.arange(parts), np.diff(edges))))
    chosen.update(order[edges[:-1]].tolist(), order[edges[1:] - 1].tolist())
    return sorted(chosen)


def short(values: Floats, figures: int) -> Floats:
    """Rounded to so many figures, which as text are fewer; what is no usual size stays as it is."""
    size = np.abs(values)
    usual = np.isfinite(values) & (size > 1e-12) & (size < 1e20)
    order = np.floor(np.log10(size, where=usual, out=np.zeros_like(size))).astype(np.int64)
    more = _POWERS[np.maximum(figures - 1 - order, 0)]
    less = _POWERS[np.maximum(order - figures + 1, 0)]
    return np.where(usual, np.rint(np.where(usual, values, 0.0) * more / less) * less / more, values)


def _history(rows: Sequence[Sequence[Any]], places: Mapping[int, int]) -> History:
    _, revision, environment, value, spread, state, run = zip(*rows, strict=True)
    at = np.fromiter(map(places.get, revision, repeat(-1)), np.int64, len(rows))
    where = np.array(environment, np.int64)
    order = np.lexsort((where, at))
    order = order[np.searchsorted(at[order], 0) :]
    at, where = at[order], where[order]
    middle, reach = np.array(value, np.float64)[order], np.array(spread, np.float64)[order]
    alone = History(
        at,
        where,
        middle,
        middle - reach,
        middle + reach,
        np.ones(at.size, np.int64),
        np.array(run, np.int64)[order],
        itemgetter(*order.tolist())(state) if order.size > 1 else [state[i] for i in order.tolist()],
    )
    first = np.ones(at.size, np.bool_)
    first[1:] = (at[1:] != at[:-1]) | (where[1:] != where[:-1])
    return alone if first.all() else _together(alone, np.flatnonzero(first).tolist())


def _together(every: History, first: Sequence[int]) -> History:
    """Median and range of several processes; rejected ones count only where there is nothing else."""
    kept = every.some(first)
    value, low, high, many, run = (
        kept.value.copy(),
        kept.low.copy(),
        kept.high.copy(),
        kept.many.copy(),
        kept.run.copy(),
    )
    state = list(kept.state)
    for k, (begin, end) in enumerate(zip(first, [*first[1:], every.size], strict=True)):
        if end - begin == 1:
            continue
        group = range(begin, end)
        state[k] = min((every.state[i] for i in group), key=_rank)
        values = [float(every.value[i]) for i in group if (every.state[i] == "rejected") == (state[k] == "rejected")]
        value[k], low[k], high[k] = median(values), min(values), max(values)
        many[k], run[k] = end - begin, every.run[begin:end].max()
    return History(kept.position, kept.environment, value, low, high, many, run, state)


def _rank(state: str) -> int:
    return _BEST.index(state) if state in _BEST else len(_BEST)
