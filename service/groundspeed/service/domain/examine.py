"""One open stretch of a series: its steps on the working scale, judged firm, provisional or withdrawn."""

import math
from dataclasses import dataclass

import numpy as np

from groundspeed.service.domain import tails
from groundspeed.service.domain.analyse import Analysis, Demand, Step, analyse
from groundspeed.service.domain.ends import beyond_chance, end_steps
from groundspeed.service.domain.history import Stretch
from groundspeed.service.domain.replicates import FIND_ALPHA, between_process, contrast, judge
from groundspeed.service.domain.robust import LARGEST_LOG, is_log_scale, median
from groundspeed.service.domain.series import Floats, SeriesData
from groundspeed.service.domain.short import analyse_short, spread_of

SHORT = 40
"""A stretch with fewer points than this yields provisional steps only: its noise is not known well enough."""
FEWEST = 6
"""The scatter of fewer points than this says nothing about two neighbours."""
SHORT_THRESHOLD = 3.5
BETWEEN_POINTS = 5.0
"""Two neighbouring points differ beyond the scatter of points when their medians lie this many of it apart."""


@dataclass(frozen=True, slots=True)
class DetectConfig:
    """How detection weighs evidence.

    ``alpha`` is the chance of a false step per 1,000 points of plain noise. ``min_effect`` replaces the kind's
    smallest relative change (a series' own goes before it). A step with fewer than ``min_points`` points on either
    side is provisional until ``replicates`` fresh processes on both sides bear it out.
    """

    alpha: float = 0.0025
    min_effect: float | None = None
    min_points: int = 5
    replicates: int = 3

    def threshold(self, n: int) -> float:
        """Standard errors that a step among n points must show; more where the noise is estimated from few."""
        base = -tails.normal_quantile(self.alpha / 2000.0)
        return min(base, SHORT_THRESHOLD) * (1.0 + 1.5 / n) if n < SHORT else base * (1.0 + 1.0 / n)


FARTHEST = 1e9
"""On a linear scale no value counts as farther from zero than so many typical ones: squares stay finite."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The working scale: logarithms, or multiples of ``unit`` where values are not all positive."""

    log: bool
    unit: float

    @classmethod
    def of(cls, y: Floats) -> "Scale":
        if is_log_scale(y):
            return cls(True, 1.0)
        sizes = np.abs(y)
        unit = (median(sizes) or float(np.max(sizes))) if sizes.size else 0.0
        return cls(False, unit or 1.0)

    def to(self, y: Floats) -> Floats:
        if self.log:
            logs: Floats = np.log(y)
            return logs
        most = FARTHEST * min(self.unit, 1e290)
        return np.minimum(np.maximum(y, -most), most) / self.unit

    def back(self, z: float) -> float:
        return math.exp(min(z, LARGEST_LOG)) if self.log else z * self.unit


@dataclass(frozen=True, slots=True)
class Judged:
    """A step and how sure it is."""

    step: Step
    provisional: bool
    replicated: bool = False


@dataclass(frozen=True, slots=True)
class Examination:
    """Everything about one stretch, on its working scale."""

    z: Floats
    scale: Scale
    judged: tuple[Judged, ...]
    analysis: Analysis | None
    floor: float


def examine(stretch: Stretch, series: SeriesData, config: DetectConfig) -> Examination:
    """Find and judge the steps of a stretch."""
    scale = Scale.of(stretch.y)
    z = scale.to(stretch.y)
    explicit = series.min_effect is not None or config.min_effect is not None
    floor = math.log1p(max(series.threshold(config.min_effect), 1e-9))
    if stretch.size + stretch.offset < SHORT:
        return _examine_short(stretch, series, config, scale, z, floor)
    demand = Demand(
        config.threshold(stretch.size + stretch.offset),
        floor,
        learn_floor=not explicit and series.kind in {"time", "rate", "ratio"},
        lock=stretch.lock,
        fixed=stretch.boundaries(),
    )
    found = analyse(z, demand)
    steps = [*found.steps, *end_steps(z, found)]
    judged = _judge(steps, stretch, z, found.floor, found.sd, config)
    return Examination(z, scale, tuple(judged), found, found.floor)


def _examine_short(
    stretch: Stretch, series: SeriesData, config: DetectConfig, scale: Scale, z: Floats, floor: float
) -> Examination:
    sd = spread_of(z, between_process(stretch.many), series.noise_sd, floor / 12.0)
    if sd is None or z.size < 2:
        return Examination(z, scale, (), None, floor)
    threshold = config.threshold(z.size)
    found = analyse_short(z, stretch.count.astype(float), threshold, floor, sd, stretch.boundaries())
    steps = [*(s for s in found.steps if _borne(s, stretch, found.outliers)), *end_steps(z, found)]
    return Examination(z, scale, tuple(_judge(steps, stretch, z, floor, sd, config)), found, floor)


def _borne(step: Step, stretch: Stretch, outliers: int) -> bool:
    """Not resting on one process at the first or last point where the series has outliers elsewhere too."""
    n = stretch.size
    alone = 0 if step.at == 1 else n - 1 if step.at == n - 1 else None
    if alone is None or n < 2 * FEWEST or stretch.count[alone] > 1:
        return True
    return beyond_chance(1, outliers + 1, n)


def _judge(
    steps: list[Step], stretch: Stretch, z: Floats, floor: float, sd: float, config: DetectConfig
) -> list[Judged]:
    many = {i: v for i, v in stretch.many if len(v) >= config.replicates and min(v) > 0}
    long = stretch.size + stretch.offset >= SHORT
    out = []
    for step in steps:
        if long and min(step.left, step.right) >= config.min_points:
            out.append(Judged(step, provisional=False))
            continue
        answer = _asked(step, many, floor, sd)
        if answer != "refuted":
            out.append(Judged(step, answer != "confirmed", answer == "confirmed"))
    if many:
        out += _between_replicates(out, many, stretch, floor, sd, z)
        out.sort(key=lambda j: j.step.at)
    return out


def _asked(step: Step, many: dict[int, tuple[float, ...]], floor: float, sd: float) -> str:
    """What the processes at the two points around a step say; *open* where there are too few."""
    before, after = many.get(step.at - 1), many.get(step.at)
    if before is None or after is None:
        return "open"
    seen = contrast(before, after, 0.5 * sd)
    return judge(step.delta, step.strength, seen, floor, min(len(before), len(after)))


def _between_replicates(
    known: list[Judged],
    many: dict[int, tuple[float, ...]],
    stretch: Stretch,
    floor: float,
    sd: float,
    z: Floats,
) -> list[Judged]:
    """Steps that only the processes of two neighbouring points show, such as a change undone by the next commit."""
    least = max(floor, BETWEEN_POINTS * sd if stretch.size >= FEWEST else 0.0)
    jump = np.abs(np.diff(z)) >= least
    pairs = [i for i in many if i - 1 in many and i >= max(stretch.lock, 1) and jump[i - 1]]
    out = []
    for i in pairs:
        if any(abs(j.step.at - i) <= 1 for j in known):
            continue
        seen = contrast(many[i - 1], many[i], sd)
        if abs(seen.delta) < floor or seen.p_value > FIND_ALPHA / len(pairs):
            continue
        strength = -tails.normal_quantile(max(seen.p_value, 1e-300))
        before = float(z[i - 1])
        step = Step(i, strength, seen.delta, seen.error, before, before + seen.delta, 1, 1)
        out.append(Judged(step, provisional=False, replicated=True))
    return out


def with_bounds(judged: tuple[Judged, ...], n: int) -> tuple[Judged, ...]:
    """Points on either side of each step, up to the neighbouring steps."""
    marks = [0, *[j.step.at for j in judged], n]
    return tuple(_between(j, start, end) for j, start, end in zip(judged, marks[:-2], marks[2:], strict=True))


def _between(judged: Judged, start: int, end: int) -> Judged:
    """The step with its points on either side in [start, end)."""
    s = judged.step
    if (s.left, s.right) == (s.at - start, end - s.at):
        return judged
    step = Step(s.at, s.strength, s.delta, s.error, s.before, s.after, s.at - start, end - s.at)
    return Judged(step, judged.provisional, judged.replicated)
