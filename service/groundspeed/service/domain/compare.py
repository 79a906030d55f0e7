"""Is head slower than base? A gate on paired, interleaved, process-level replicates."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from groundspeed.service.domain.series import Direction, Floats

Answer = Literal["regressed", "improved", "changed", "unchanged", "inconclusive"]
Samples = Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class GateConfig:
    """``alpha``: chance of a false *regressed or improved* over all looks; ``threshold``: smallest relative change
    that matters; ``peeks``: how often the pairs are looked at (1: once, at the end); ``max_pairs``: the budget.
    """

    threshold: float = 0.01
    alpha: float = 0.05
    power: float = 0.8
    direction: Direction = -1
    paired: bool = True
    min_pairs: int = 3
    max_pairs: int = 12
    peeks: int = 1
    noise_sd: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """``effect`` is head over base minus 1, ``low`` and ``high`` its interval, ``mde`` the smallest effect this run
    could have seen at the stated error rates; all relative."""

    answer: Answer
    effect: float
    low: float
    high: float
    mde: float
    pairs: int
    method: str
    reason: str


def process_medians(samples: Samples) -> Floats:
    """One number a process: the median of its finite samples; NaN for a process without any."""
    out = []
    for process in samples:
        values = np.asarray(process, float)
        values = values[np.isfinite(values)]
        out.append(float(np.median(values)) if values.size else math.nan)
    return np.array(out, float)


def compare(base: Samples, head: Samples, config: GateConfig | None = None) -> Verdict:
    """Compare two sides, each a sequence of processes, each a sequence of samples (same unit)."""
    config = config or GateConfig()
    b, h = process_medians(base), process_medians(head)
    if config.paired:
        n = min(b.size, h.size)
        ok = np.isfinite(b[:n]) & np.isfinite(h[:n]) & (b[:n] > 0) & (h[:n] > 0)
        logs = np.log(h[:n][ok]) - np.log(b[:n][ok])
        pairs = logs.size
        if pairs < 2:
            return _none(pairs, "fewer than two usable pairs")
        centre, error, df = float(np.mean(logs)), float(np.std(logs, ddof=1)) / math.sqrt(pairs), pairs - 1
    else:
        b, h = (np.log(v[np.isfinite(v) & (v > 0)]) for v in (b, h))
        pairs = min(b.size, h.size)
        if pairs < 2:
            return _none(pairs, "fewer than two usable processes on a side")
        centre = float(np.mean(h) - np.mean(b))
        va, vb = float(np.var(b, ddof=1)) / b.size, float(np.var(h, ddof=1)) / h.size
        error = math.sqrt(va + vb)
        df = b.size + h.size - 2
    level = config.alpha / 2 / max(config.peeks, 1)
    t = -float(special.stdtrit(df, level))
    low, high = math.expm1(centre - t * error), math.expm1(centre + t * error)
    mde = math.expm1((t + float(special.stdtrit(df, config.power))) * error)
    return Verdict(
        _answer(centre, low, high, pairs, config),
        math.expm1(centre),
        low,
        high,
        max(mde, 0.0),
        pairs,
        "Student t",
        "",
    )


def _none(pairs: int, reason: str) -> Verdict:
    return Verdict("inconclusive", math.nan, math.nan, math.nan, math.nan, pairs, "none", reason)


def _answer(centre: float, low: float, high: float, pairs: int, config: GateConfig) -> Answer:
    if pairs < config.min_pairs:
        return "inconclusive"
    if -config.threshold <= low and high <= config.threshold:
        return "unchanged"
    if (low > 0 or high < 0) and abs(math.expm1(centre)) >= config.threshold:
        if config.direction == 0:
            return "changed"
        return "improved" if (centre > 0) == (config.direction > 0) else "regressed"
    return "inconclusive"


def next_step(base: Samples, head: Samples, config: GateConfig | None = None) -> Literal["continue", "enough"]:
    """After a finished pair: is another one worth its time?"""
    config = config or GateConfig()
    verdict = compare(base, head, config)
    done = verdict.answer != "inconclusive" or min(len(base), len(head)) >= config.max_pairs
    return "enough" if done else "continue"
