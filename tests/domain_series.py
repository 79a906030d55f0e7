"""Series for tests: a level with steps, in relative noise, from a seed."""

import math
from collections.abc import Sequence

import numpy as np

from groundspeed.service.domain.series import Point, SeriesData


def values(
    n: int, steps: Sequence[tuple[int, float]] = (), cv: float = 0.005, seed: int = 0, level: float = 1.0
) -> np.ndarray:
    """``steps`` are (index of the first point after, ratio)."""
    r = np.random.default_rng(seed)
    log = np.full(n, np.log(level))
    for at, ratio in steps:
        log[at:] += np.log(ratio)
    return np.exp(log + cv * r.normal(size=n))


def series(y: Sequence[float] | np.ndarray, *, direction: int = -1, start: int = 0, **more: object) -> SeriesData:
    """One process a point; NaN makes a gap."""
    points = tuple(Point(start + i, () if math.isnan(v) else (float(v),)) for i, v in enumerate(y))
    return SeriesData("s", direction, more.pop("kind", "time"), points, **more)  # type: ignore[arg-type]
