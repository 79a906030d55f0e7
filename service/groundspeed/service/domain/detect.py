"""Where did this series change?"""

import json
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from groundspeed.service.domain.findings import (
    Cause,
    ChangePoint,
    Drift,
    NoiseLedger,
    SeriesClass,
    change_kind,
)
from groundspeed.service.domain.robust import difference_sd, is_log_scale
from groundspeed.service.domain.series import Columns, Floats, Point, SeriesData, columns

DETECTOR_VERSION = "0"


@dataclass(frozen=True, slots=True)
class DetectConfig:
    """``alpha`` is the chance of a false change point per series looked at; ``min_effect`` overrides the kind's."""

    alpha: float = 0.001
    min_effect: float | None = None
    min_points: int = 5
    """A change with fewer points than this on either side is provisional (unless replicates confirm it)."""
    replicates: int = 3
    """Fresh processes on either side of a change that confirm it."""


@dataclass(frozen=True, slots=True)
class DetectorState:
    """What detection must keep so that the next point costs little."""

    points: tuple[Point, ...] = ()

    def to_bytes(self) -> bytes:
        rows = [[p.x, list(p.values), p.environment, p.outcome] for p in self.points]
        return zlib.compress(json.dumps({"version": DETECTOR_VERSION, "points": rows}).encode())

    @classmethod
    def from_bytes(cls, data: bytes) -> "DetectorState | None":
        """None when the state is another detector version's: detect from all points again."""
        doc = json.loads(zlib.decompress(data))
        if doc.get("version") != DETECTOR_VERSION:
            return None
        return cls(tuple(Point(x, tuple(v), env, outcome) for x, v, env, outcome in doc["points"]))


@dataclass(frozen=True, slots=True)
class Detection:
    """All that is known of a series' history."""

    change_points: tuple[ChangePoint, ...]
    drift: Drift | None
    series_class: SeriesClass
    noise: NoiseLedger
    state: DetectorState


class StaleStateError(ValueError):
    """A point lies before what the state has settled: detect again from all points."""


def detect(series: SeriesData, config: DetectConfig | None = None, state: DetectorState | None = None) -> Detection:
    """Find the change points of ``series``.

    With ``state`` the series' points are those that came after it (same answer as from all points at once); a point
    that lies before what the state has settled raises ``StaleStateError``.
    """
    config = config or DetectConfig()
    if state is not None:
        if state.points and series.points and series.points[0].x <= state.points[-1].x:
            raise StaleStateError("points before the newest known one: detect again from all points")
        series = replace(series, points=state.points + series.points)
    cols = columns(series.points)
    log = is_log_scale(cols.y)
    work = np.log(cols.y) if log else cols.y
    sigma = difference_sd(work)
    found = tuple(
        _change(series, config, cols, work, log, sigma, *cut) for cut in _cuts(work, sigma, series, config, log)
    )
    ledger = NoiseLedger(point=sigma, mde=5.0 * sigma * math.sqrt(2.0 / 10))
    series_class: SeriesClass = "unknown" if cols.y.size < 5 else "constant" if sigma == 0 else "steady"
    return Detection(found, None, series_class, ledger, DetectorState(series.points))


def _cuts(
    work: Floats, sigma: float, series: SeriesData, config: DetectConfig, log: bool
) -> Iterator[tuple[int, int, int]]:
    """(start, cut, end) of every accepted step, by binary segmentation on clipped values."""
    n = work.size
    if n < 2:
        return
    floor = math.log1p(series.threshold(config.min_effect)) if log else 0.0
    noise = max(sigma, floor / 8.0, 1e-12)
    crit = -float(special.ndtri(config.alpha / max(2 * n, 2)))
    todo = [(0, n)]
    cuts: list[int] = []
    while todo:
        a, b = todo.pop()
        if b - a < 2:
            continue
        segment = work[a:b]
        centre = np.median(segment)
        total = np.cumsum(segment - centre)
        k = np.arange(1, b - a)
        gap = (total[-1] - total[:-1]) / (b - a - k) - total[:-1] / k
        z = np.abs(gap) / (noise * np.sqrt(1.0 / k + 1.0 / (b - a - k)))
        best = int(np.argmax(z))
        if z[best] > crit and abs(gap[best]) > floor:
            cuts.append(a + best + 1)
            todo += [(a, a + best + 1), (a + best + 1, b)]
    cuts.sort()
    edges = [0, *cuts, n]
    for i in range(1, len(edges) - 1):
        yield edges[i - 1], edges[i], edges[i + 1]


def _change(
    series: SeriesData,
    config: DetectConfig,
    cols: Columns,
    work: Floats,
    log: bool,
    sigma: float,
    start: int,
    cut: int,
    end: int,
) -> ChangePoint:
    before, after = work[start:cut], work[cut:end]
    low, high = float(np.median(before)), float(np.median(after))
    error = max(1.25 * sigma, 1e-12) * math.sqrt(1 / before.size + 1 / after.size)
    delta = high - low
    x0, x1 = int(cols.x[cut - 1]), int(cols.x[cut])
    level0, level1 = (math.exp(low), math.exp(high)) if log else (low, high)
    ratios = [math.exp(delta + k * 1.96 * error) for k in (0, -1, 1)] if log else [math.nan] * 3
    firm = min(before.size, after.size) >= config.min_points or min(cols.count[cut - 1 : cut + 1]) >= config.replicates
    cause: Cause = "environment" if cols.environment[cut] != cols.environment[cut - 1] else "code"
    return ChangePoint(
        x0,
        x1,
        *ratios,
        difference=level1 - level0,
        strength=abs(delta) / error,
        p_value=float(min(1.0, 2 * special.ndtr(-abs(delta) / error) * work.size)),
        provisional=not firm,
        kind=change_kind(level1 - level0, series.direction),
        cause=cause,
        unmeasured=tuple(range(x0 + 1, x1)),
        level_before=level0,
        level_after=level1,
        points_before=int(before.size),
        points_after=int(after.size),
    )
