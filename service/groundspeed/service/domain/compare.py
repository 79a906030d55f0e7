"""The gate: is head slower than base? Paired, interleaved, process-level replicates, four answers and an MDE.

Error control under peeking: the interval is computed anew after every finished pair, at most ``peeks`` times, each
time at ``alpha / peeks``. By the union bound the chance that any look errs is at most ``alpha``, whatever the
dependence between looks; a group-sequential boundary would gain some 10 % of width and needs normal noise.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from groundspeed.service.domain import tails
from groundspeed.service.domain.intervals import Interval, paired, unpaired
from groundspeed.service.domain.robust import median, relative
from groundspeed.service.domain.series import Direction, Floats

Answer = Literal["regressed", "improved", "changed", "unchanged", "inconclusive", "never-compared"]
Samples = Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class GateConfig:
    """``alpha`` is the chance of a false *regressed* or *improved* over all looks of one comparison.

    ``threshold`` is the smallest relative change that matters and ``power`` the one the MDE is stated for. ``peeks``:
    how many looks are taken (1: once, at the end); None: one after each pair from ``min_pairs`` to ``max_pairs``.
    ``noise_sd`` is the between-process spread that the series is known to have: no run is believed to be quieter
    than half of it.
    """

    threshold: float = 0.01
    alpha: float = 0.05
    power: float = 0.8
    direction: Direction = -1
    paired: bool = True
    min_pairs: int = 4
    max_pairs: int = 12
    peeks: int | None = 1
    noise_sd: float | None = None

    @property
    def looks(self) -> int:
        return max(self.max_pairs - self.min_pairs + 1, 1) if self.peeks is None else max(self.peeks, 1)

    @property
    def level(self) -> float:
        """Error allowed on each side at each look."""
        return self.alpha / 2.0 / self.looks


@dataclass(frozen=True, slots=True)
class Verdict:
    """Head against base, all relative: ``effect`` is head over base minus 1, ``low`` and ``high`` its interval.

    ``mde`` is the smallest effect that this run would have called with the stated power (NaN: it could not have
    called any). ``p_value`` is for no effect at all, corrected for the looks taken.
    """

    answer: Answer
    effect: float
    low: float
    high: float
    mde: float
    pairs: int
    p_value: float
    method: str
    reason: str
    p_student: float = 1.0


def process_medians(samples: Samples) -> Floats:
    """One number a process: the median of its finite samples; NaN for a process without any."""
    out = []
    for process in samples:
        values = np.asarray(process, dtype=float)
        values = values[np.isfinite(values)]
        out.append(median(values) if values.size else math.nan)
    return np.array(out, dtype=float)


def compare(base: Samples, head: Samples, config: GateConfig | None = None) -> Verdict:
    """Compare two sides, each a sequence of processes, each a sequence of samples (same unit).

    Sides that are zero throughout are equal; zero beside anything else is never compared, and the reason names both.
    """
    config = config or GateConfig()
    if not base or not head:
        side = "either side" if not base and not head else "the base" if not base else "the head"
        return never_compared(f"no process ran for {side}")
    b, h = process_medians(base), process_medians(head)
    zeros = _nothing_but_zeros(b) and _nothing_but_zeros(h)
    if zeros:
        b, h = b + 1.0, h + 1.0
    empty = [name for name, side in (("base", b), ("head", h)) if not _usable(side).any()]
    if empty:
        return never_compared(
            _why_none(b, h) or f"no process of the {' and of the '.join(empty)} gave a positive number"
        )
    interval, pairs, words = _interval(b, h, config)
    if interval is None:
        return Verdict("inconclusive", math.nan, math.nan, math.nan, math.nan, pairs, 1.0, "none", words)
    answer, reason = _answer(interval, pairs, config)
    reason = " ".join(r for r in ("0 in every process of both sides." if zeros else "", words, reason) if r)
    return Verdict(
        answer,
        relative(interval.centre),
        relative(interval.low),
        relative(interval.high),
        _mde(interval, config),
        pairs,
        min(1.0, interval.p_value * config.looks),
        interval.method,
        reason,
        min(1.0, interval.p_student * config.looks),
    )


def never_compared(reason: str) -> Verdict:
    """A comparison that did not take place: its own state, which never looks like *no change*."""
    nan = math.nan
    return Verdict("never-compared", nan, nan, nan, nan, 0, 1.0, "none", reason)


def _interval(b: Floats, h: Floats, config: GateConfig) -> tuple[Interval | None, int, str]:
    least = 0.5 * (config.noise_sd or 0.0)
    if config.paired:
        n = min(b.size, h.size)
        usable = _usable(b[:n]) & _usable(h[:n])
        lost = max(b.size, h.size) - int(usable.sum())
        words = f"{lost} of {max(b.size, h.size)} pairs had no usable partner." if lost else ""
        if usable.sum() < 2:
            return None, int(usable.sum()), f"{words} Fewer than two usable pairs.".strip()
        logs = np.log(h[:n][usable]) - np.log(b[:n][usable])
        return paired(logs, config.level, math.sqrt(2.0) * least), logs.size, words
    b, h = b[_usable(b)], h[_usable(h)]
    if min(b.size, h.size) < 2:
        return None, int(min(b.size, h.size)), "Fewer than two usable processes on a side."
    return unpaired(np.log(b), np.log(h), config.level, least), int(min(b.size, h.size)), ""


def _nothing_but_zeros(medians: Floats) -> bool:
    """A count of what never happened (leaks, recompilations, waits): equal on both sides though it has no logarithm."""
    finite = medians[np.isfinite(medians)]
    return bool(finite.size) and not finite.any()


def _why_none(base: Floats, head: Floats) -> str:
    """Words for a side that is zero throughout beside one that isn't; "" for anything else."""
    for name, zero, other, side in (("base", base, "head", head), ("head", head, "base", base)):
        if _nothing_but_zeros(zero) and _usable(side).any():
            return (
                f"the {name} is 0 in every process and the {other} has a median of {median(side[_usable(side)]):.6g}; "
                "a difference from 0 has no per cent"
            )
    return ""


def _usable(values: Floats) -> NDArray[np.bool_]:
    usable: NDArray[np.bool_] = np.isfinite(values) & (values > 0.0)
    return usable


def _mde(interval: Interval, config: GateConfig) -> float:
    """Smallest effect that clears both the interval's half width and the threshold with the stated power."""
    half = 0.5 * (interval.high - interval.low)
    extra = tails.normal_quantile(config.power) * interval.error
    return relative(max(half, math.log1p(config.threshold)) + extra)


def _answer(interval: Interval, pairs: int, config: GateConfig) -> tuple[Answer, str]:
    edge = math.log1p(config.threshold)
    if pairs < config.min_pairs:
        return "inconclusive", f"{pairs} usable pairs; {config.min_pairs} are the least that may decide."
    if (interval.low > 0.0 or interval.high < 0.0) and abs(interval.centre) >= edge:
        return _named(interval.centre, config.direction), ""
    if -edge <= interval.low and interval.high <= edge:
        small = interval.low > 0.0 or interval.high < 0.0
        return "unchanged", "There is a change, smaller than the threshold." if small else ""
    return "inconclusive", "The interval holds both no change and a change that matters."


def _named(centre: float, direction: Direction) -> Answer:
    if direction == 0:
        return "changed"
    return "improved" if (centre > 0.0) == (direction > 0) else "regressed"


def next_step(base: Samples, head: Samples, config: GateConfig | None = None) -> Literal["continue", "enough"]:
    """Whether another pair is worth its time, asked after each finished pair.

    Enough when the answer is in, when the budget of pairs is spent, or when the pairs that are left could not decide:
    at the spread seen, the interval after the last of them would still hold zero and a change that matters.
    """
    config = config or GateConfig(peeks=None)
    pairs = min(len(base), len(head))
    if pairs >= config.max_pairs:
        return "enough"
    if pairs < config.min_pairs:
        return "continue"
    if compare(base, head, config).answer != "inconclusive":
        return "enough"
    return "enough" if _hopeless(base, head, config) else "continue"


def _hopeless(base: Samples, head: Samples, config: GateConfig) -> bool:
    interval, pairs, _ = _interval(process_medians(base), process_medians(head), config)
    if interval is None or pairs < config.min_pairs:
        return False
    sd = interval.error * math.sqrt(pairs)
    half = -tails.student_quantile(config.max_pairs - 1, config.level) * sd / math.sqrt(config.max_pairs)
    could_differ = abs(interval.centre) + 2.0 * interval.error > half
    could_agree = half < 1.5 * math.log1p(config.threshold)
    return not could_differ and not could_agree
