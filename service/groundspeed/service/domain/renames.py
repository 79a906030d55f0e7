"""One benchmark that went and one that came, with the same meaning and the same numbers: it was renamed. Pure.

Nothing is taken for a rename that could be another: of several that fit equally well none is proposed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from statistics import fmean, median, pstdev
from typing import Any

GOES_ON = 0.03
"""Relative difference of two levels that is none, or four times the spread of the values where that is more."""
ALIKE = 0.5
"""Of two names' characters, when more than one benchmark has the numbers."""
MUCH_ALIKE = 0.1
"""By so much the likeliest name must be ahead of the next."""
MOST_AGREE = 0.8
"""Of the series of the old name; a metric may change with what the benchmark is called."""

MOST_TRIED = 40_000
"""Pairs of series. Where more came and went, a suite was written anew."""


@dataclass(frozen=True, slots=True)
class Line:
    """A series as far as a rename can be seen in it: what it means, where it was measured, and some values."""

    id: int
    suite: str
    metric: str
    unit: str
    direction: int
    hardware: int
    params: Mapping[str, Any]
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Rename:
    """``pairs``: ids of the old and the new series, with the new level over the old."""

    old: str
    new: str
    pairs: tuple[tuple[int, int, float], ...]


def renames(gone: Sequence[Line], come: Sequence[Line]) -> list[Rename]:
    """Old names and new ones, each in one rename at most."""
    fitting: dict[tuple[str, str, str], list[tuple[Line, Line]]] = {}
    if len(gone) * len(come) > MOST_TRIED:
        return []
    for old in gone:
        for new in come:
            names = _names(old, new)
            if names is not None and _goes_on(old, new):
                fitting.setdefault(names, []).append((old, new))
    of_old: dict[tuple[str, str], list[tuple[str, list[tuple[Line, Line]]]]] = {}
    for (what, before, after), pairs in fitting.items():
        if len(pairs) >= MOST_AGREE * sum(_named(one, what, before) for one in gone):
            of_old.setdefault((what, before), []).append((after, pairs))
    chosen = {key: best for key, found in of_old.items() if (best := _likeliest(key[1], found)) is not None}
    taken = [(key[0], best[0]) for key, best in chosen.items()]
    return [
        Rename(key[1], after, tuple((old.id, new.id, _ratio(old, new)) for old, new in pairs))
        for key, (after, pairs) in chosen.items()
        if taken.count((key[0], after)) == 1
    ]


def _names(old: Line, new: Line) -> tuple[str, str, str] | None:
    """What differs between two series that mean the same: the suite, or one parameter that is a name; and both."""
    meaning = ("metric", "unit", "direction", "hardware")
    if any(getattr(old, name) != getattr(new, name) for name in meaning) or old.params.keys() != new.params.keys():
        return None
    differing = [name for name, value in old.params.items() if value != new.params[name]]
    if old.suite != new.suite:
        return ("", old.suite, new.suite) if not differing else None
    if len(differing) != 1:
        return None
    before, after = old.params[differing[0]], new.params[differing[0]]
    return (differing[0], before, after) if isinstance(before, str) and isinstance(after, str) else None


def _named(line: Line, what: str, name: str) -> bool:
    return (line.params.get(what) if what else line.suite) == name


def _goes_on(old: Line, new: Line) -> bool:
    ratio = _ratio(old, new)
    return ratio > 0 and abs(math.log(ratio)) <= max(GOES_ON, 4 * _spread(old), 4 * _spread(new))


def _ratio(old: Line, new: Line) -> float:
    before, after = median(old.values), median(new.values)
    if before == after:
        return 1.0
    return after / before if before > 0 else 0.0


def _spread(line: Line) -> float:
    mean = fmean(line.values)
    return min(pstdev(line.values) / mean, GOES_ON) if len(line.values) > 1 and mean > 0 else 0.0


def _likeliest(
    before: str, found: Sequence[tuple[str, list[tuple[Line, Line]]]]
) -> tuple[str, list[tuple[Line, Line]]] | None:
    """The one new name; of several the one that is clearly most like the old."""
    if len(found) == 1:
        return found[0]
    ranked = sorted(
        ((SequenceMatcher(None, before[:300], after[:300]).ratio(), after, pairs) for after, pairs in found),
        key=lambda one: -one[0],
    )
    first, second = ranked[0], ranked[1]
    return (first[1], first[2]) if first[0] >= ALIKE and first[0] - second[0] >= MUCH_ALIKE else None
