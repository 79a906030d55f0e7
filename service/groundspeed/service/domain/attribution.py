"""Code or environment: the four cells of (old, new commit) × (old, new environment), and which of the two it was.

Where a step coincides with both, the two corners that were measured say nothing. One further corner is enough: the old
commit in the new environment parts the way into a step of the environment and a step of the code.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from groundspeed.service.domain import tails

Cell = tuple[Literal["old", "new"], Literal["old", "new"]]
"""(commit, environment)."""
Cause = Literal["code", "environment", "both", "neither", "unknown"]

BEFORE: Cell = ("old", "old")
AFTER: Cell = ("new", "new")
BY_ENVIRONMENT: Cell = ("old", "new")
BY_CODE: Cell = ("new", "old")


@dataclass(frozen=True, slots=True)
class Part:
    """One leg of the way: its ratio (level after over level before) with a 95 % interval, and whether it is real."""

    ratio: float
    low: float
    high: float
    real: bool


@dataclass(frozen=True, slots=True)
class Attribution:
    """``code`` and ``environment``: what each did alone; None: its leg was not measured."""

    cause: Cause
    reason: str
    code: Part | None = None
    environment: Part | None = None


def missing(cells: Mapping[Cell, Sequence[float]]) -> tuple[Cell, ...]:
    """Corners worth measuring, the more telling first; none when one of them is there.

    >>> missing({("old", "old"): [1.0], ("new", "new"): [1.1]})
    (('old', 'new'), ('new', 'old'))
    """
    if any(cells.get(cell) for cell in (BY_ENVIRONMENT, BY_CODE)):
        return ()
    return (BY_ENVIRONMENT, BY_CODE)


def attribute(cells: Mapping[Cell, Sequence[float]], min_effect: float = 0.01, confidence: float = 0.95) -> Attribution:
    """Which of the two it was. Values are positive medians of fresh processes; ``min_effect`` is relative.

    A leg is real when its interval leaves out 1 and it is at least ``min_effect``; with a single process on a side
    there is no interval, and the answer is unknown.
    """
    for cell, words in ((BEFORE, "the old commit in the old environment"), (AFTER, "the new one in the new")):
        if not cells.get(cell):
            return Attribution("unknown", f"{words} was not measured")
    if cells.get(BY_ENVIRONMENT):
        environment = _part(cells[BEFORE], cells[BY_ENVIRONMENT], min_effect, confidence)
        code = _part(cells[BY_ENVIRONMENT], cells[AFTER], min_effect, confidence)
        how = "the old commit was measured in the new environment"
    elif cells.get(BY_CODE):
        code = _part(cells[BEFORE], cells[BY_CODE], min_effect, confidence)
        environment = _part(cells[BY_CODE], cells[AFTER], min_effect, confidence)
        how = "the new commit was measured in the old environment"
    else:
        return Attribution("unknown", "neither commit was measured in the other environment")
    if code is None or environment is None:
        return Attribution("unknown", f"{how}, with too few processes to tell", code, environment)
    cause = _cause(code.real, environment.real)
    words = f"{how}: the environment makes it {_words(environment)}, the code {_words(code)}"
    return Attribution(cause, words, code, environment)


MACHINE = 0.03
"""A control workload that moves by less says nothing of the machine."""


def moved(before: Sequence[float], after: Sequence[float]) -> float | None:
    """How a control workload changed (after over before) where that is beyond its own scatter; None: it did not.

    >>> moved([1.0, 1.01], [1.1, 1.11]) is not None, moved([1.0, 1.01], [1.0, 1.02])
    (True, None)
    """
    if not before or not after:
        return None
    ratio = float(np.median(after) / np.median(before))
    apart = min(after) > max(before) or max(after) < min(before)
    return ratio if apart and abs(ratio - 1) > MACHINE else None


def _cause(code: bool, environment: bool) -> Cause:
    if code and environment:
        return "both"
    return "code" if code else "environment" if environment else "neither"


def _part(before: Sequence[float], after: Sequence[float], least: float, confidence: float) -> Part | None:
    """Welch's interval on the logarithms."""
    a, b = np.log(np.asarray(before, float)), np.log(np.asarray(after, float))
    if a.size < 2 or b.size < 2 or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return None
    va, vb = float(a.var(ddof=1)) / a.size, float(b.var(ddof=1)) / b.size
    error = math.sqrt(va + vb)
    change = float(b.mean() - a.mean())
    if error == 0:
        return Part(math.exp(change), math.exp(change), math.exp(change), abs(change) >= math.log1p(least))
    df = (va + vb) ** 2 / (va**2 / (a.size - 1) + vb**2 / (b.size - 1))
    half = tails.student_quantile(df, 0.5 + confidence / 2) * error
    real = abs(change) > half and abs(change) >= math.log1p(least)
    return Part(math.exp(change), math.exp(change - half), math.exp(change + half), real)


def _words(part: Part) -> str:
    if not part.real:
        return f"no different ({part.ratio - 1:+.1%})"
    return f"{part.ratio - 1:+.1%} ({part.low - 1:+.1%} … {part.high - 1:+.1%})"
