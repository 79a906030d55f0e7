"""The results that an import has written, as arrays: who looks at them next need not read a million rows again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

_KINDS = (np.int64, np.int32, np.int32, np.int32, np.float64, np.float64)
"""Of runs, series, commits, environments, values and spreads, in a store that was empty."""
Arrays = tuple[NDArray[Any], ...]


@dataclass(slots=True)
class Kept:
    """Everything that was written into an empty store, but for what was rejected."""

    _parts: list[Arrays] = field(default_factory=list)

    def add(self, blocks: Iterable[Sequence[Sequence[Any]]], rows: Iterable[tuple[Any, ...]]) -> None:
        """What is written at a time: blocks of rows of one commit and environment as columns (run, series, commit,
        environment, value, spread, count), and rows that have a state and samples behind these.
        """
        valid = [row[:6] for row in rows if row[7] != "rejected"]
        arrays = [_arrays(block) for block in blocks] + ([_all_arrays(list(zip(*valid, strict=True)))] if valid else [])
        if arrays:
            self._parts.append(tuple(map(np.concatenate, zip(*arrays, strict=True))))

    def by_series(self) -> dict[int, Arrays]:
        """Commits, environments, values, spreads and runs of each series that has results, in no particular order.
        Nothing is kept afterwards.
        """
        if not self._parts:
            return {}
        columns = list(zip(*self._parts, strict=True))
        self._parts.clear()
        series = np.concatenate(columns[1])
        order = np.argsort(series, kind="stable")
        series = series[order]
        runs, *others = [np.concatenate(columns.pop(0))[order] for _ in range(len(columns))]
        starts = [0, *(np.flatnonzero(series[1:] != series[:-1]) + 1).tolist(), series.size]
        wanted = (*others[1:], runs)
        return {int(series[a]): tuple(column[a:b] for column in wanted) for a, b in pairwise(starts)}


def _arrays(block: Sequence[Sequence[Any]]) -> Arrays:
    runs, series, revisions, environments, values, spreads, _ = block
    same = [np.full(len(series), one[0], np.int32) for one in (revisions, environments)]
    return _all_arrays((runs, series, *same, values, spreads))


def _all_arrays(columns: Sequence[Any]) -> Arrays:
    return tuple(np.asarray(column, kind) for column, kind in zip(columns, _KINDS, strict=True))
