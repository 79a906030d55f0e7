"""Where a series changed: change points, what environments did, drift, noise and class, point by point or at once."""

import math
from dataclasses import dataclass

from groundspeed.service.domain import tails
from groundspeed.service.domain.examine import DetectConfig, Examination, Judged, examine, with_bounds
from groundspeed.service.domain.findings import (
    Cause,
    ChangePoint,
    Drift,
    EnvironmentEffect,
    NoiseLedger,
    SeriesClass,
    change_kind,
)
from groundspeed.service.domain.history import GUARD, KEEP, SPAN, StaleStateError, Stretch
from groundspeed.service.domain.noise import classify, ledger
from groundspeed.service.domain.robust import LARGEST_LOG, median, relative
from groundspeed.service.domain.series import Columns, SeriesData, columns
from groundspeed.service.domain.state import DETECTOR_VERSION, DetectorState

__all__ = [
    "DETECTOR_VERSION",
    "DetectConfig",
    "Detection",
    "DetectorState",
    "StaleStateError",
    "detect",
    "detect_columns",
]

_NONE = DetectorState()
MOST_UNMEASURED = 1000
"""A suspect range lists at most this many x."""


@dataclass(frozen=True, slots=True)
class Detection:
    """All that is known of a series' history. ``change_points`` are in order of x."""

    change_points: tuple[ChangePoint, ...]
    drift: Drift | None
    series_class: SeriesClass
    noise: NoiseLedger
    state: DetectorState
    environment_effects: tuple[EnvironmentEffect, ...] = ()

    def without_state(self) -> "Detection":
        """The same for who has put the state away."""
        return Detection(self.change_points, self.drift, self.series_class, self.noise, _NONE, self.environment_effects)


def detect(series: SeriesData, config: DetectConfig | None = None, state: DetectorState | None = None) -> Detection:
    """Find the change points of ``series``.

    With ``state`` the series' points are those that came since (the answer is the same as from all points at once);
    a point that repeats the x and environment of an open one replaces it. A point at or before what the state has
    settled raises ``StaleStateError``, points out of order ``ValueError``.
    """
    return detect_columns(series, columns(series.points), config, state)


def detect_columns(
    series: SeriesData, new: Columns, config: DetectConfig | None = None, state: DetectorState | None = None
) -> Detection:
    """As ``detect``, from arrays; ``series.points`` then only feed the noise ledger and may be empty, as may
    ``new.within``, which feeds it where every point has one process.
    """
    config = config or DetectConfig()
    state = state or _NONE
    settled, effects = state.settled, state.effects
    stretch = state.stretch.extended(new)
    while stretch.size >= SPAN:
        full = stretch.head(SPAN)
        seen = examine(full, series, config)
        done = [j for j in with_bounds(seen.judged, SPAN) if j.step.at < SPAN - GUARD]
        settled += tuple(_change(j, full, seen, series) for j in done)
        start = max(SPAN - KEEP, done[-1].step.at if done else 0)
        effects += tuple(e for at, e in _effects(full, seen) if at < start)
        stretch = stretch.cut(start, SPAN)
    seen = examine(stretch, series, config)
    changes = settled + tuple(_change(j, stretch, seen, series) for j in with_bounds(seen.judged, stretch.size))
    known = effects + tuple(e for _, e in _effects(stretch, seen))
    threshold = config.threshold(max(stretch.size + stretch.offset, 1))
    noise = ledger(seen, stretch, series, threshold, state.noise, new.within)
    kept = DetectorState(settled, effects, stretch, noise)
    return Detection(changes, _drift(stretch, seen), classify(noise, stretch, series), noise, kept, known)


def _change(judged: Judged, stretch: Stretch, seen: Examination, series: SeriesData) -> ChangePoint:
    step, scale = judged.step, seen.scale
    x0, x1 = int(stretch.x[step.at - 1]), int(stretch.x[step.at])
    before, after = scale.back(step.before), scale.back(step.after)
    n = stretch.size + stretch.offset
    ratio, low, high = _interval(step.delta, step.error, step.left + step.right - 2, log=scale.log)
    env = stretch.environment[step.at - 1], stretch.environment[step.at]
    return ChangePoint(
        x_before=x0,
        x_after=x1,
        ratio=ratio,
        ratio_low=low,
        ratio_high=high,
        difference=after - before,
        strength=step.strength,
        p_value=min(1.0, 2.0 * n * tails.normal(-step.strength)),
        provisional=judged.provisional,
        kind=change_kind(after - before, series.direction),
        cause=_cause(x0, x1, int(env[0]), int(env[1])),
        unmeasured=tuple(range(x0 + 1, min(x1, x0 + 1 + MOST_UNMEASURED))),
        level_before=before,
        level_after=after,
        points_before=step.left,
        points_after=step.right,
        environment_before=_name(stretch, env[0]),
        environment_after=_name(stretch, env[1]),
        replicated=judged.replicated,
    )


def _interval(delta: float, error: float, df: int, *, log: bool) -> tuple[float, float, float]:
    """Ratio with its 95 % Student interval; NaN where ratios mean nothing."""
    if not log:
        return math.nan, math.nan, math.nan
    reach = tails.student_quantile(max(df, 1), 0.975) * error
    return _exp(delta), _exp(delta - reach), _exp(delta + reach)


def _exp(value: float) -> float:
    return math.exp(min(value, LARGEST_LOG))


def _cause(x0: int, x1: int, env0: int, env1: int) -> Cause:
    if env0 < 0 or env1 < 0 or env0 == env1:
        return "code"
    return "environment" if x0 == x1 else "both"


def _name(stretch: Stretch, code: int) -> str | None:
    return stretch.names[code] if code >= 0 else None


def _effects(stretch: Stretch, seen: Examination) -> list[tuple[int, EnvironmentEffect]]:
    """Every change of environment in the stretch with its own estimate, between the neighbouring steps."""
    places = stretch.boundaries()
    if not places:
        return []
    marks = sorted({0, stretch.size, *places, *(j.step.at for j in seen.judged)})
    sd = seen.analysis.wander if seen.analysis else seen.floor / 2.0
    out = []
    for at in places:
        k = marks.index(at)
        before, after = seen.z[marks[k - 1] : at], seen.z[at : marks[k + 1]]
        delta = median(after) - median(before)
        error = sd * math.sqrt(1.0 / before.size + 1.0 / after.size)
        ratio = _interval(delta, error, before.size + after.size - 2, log=seen.scale.log)
        x0, x1 = int(stretch.x[at - 1]), int(stretch.x[at])
        names = stretch.names[stretch.environment[at - 1]], stretch.names[stretch.environment[at]]
        out.append((at, EnvironmentEffect(x0, x1, *names, *ratio, confounded=x0 != x1)))
    return out


def _drift(stretch: Stretch, seen: Examination) -> Drift | None:
    found = seen.analysis
    if found is None or found.slope == 0.0:
        return None
    total = relative(found.slope * (stretch.size - 1))
    x0, x1 = int(stretch.x[0]), int(stretch.x[-1])
    return Drift(total, x0, x1, abs(found.slope_strength))
