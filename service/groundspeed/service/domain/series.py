"""A series as the domain sees it: ordered points with what was measured at each, and what the metric means."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["time", "rate", "bytes", "ratio", "counter"]
Direction = Literal[-1, 0, 1]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

KINDS: tuple[Kind, ...] = ("time", "rate", "bytes", "ratio", "counter")

MIN_EFFECT: dict[Kind, float] = {"time": 0.01, "rate": 0.01, "bytes": 0.005, "ratio": 0.01, "counter": 0.002}
"""Smallest relative change worth an alert, by kind, where neither configuration nor the series says otherwise."""


@dataclass(frozen=True, slots=True)
class Point:
    """One position of history (a commit, or an event on the environment's axis).

    ``values`` holds one number per fresh process, the median of its valid samples; empty: nothing usable was
    measured, and ``outcome`` says why (``missing``, ``failed``, ``oom``, …). ``within`` is the relative spread of the
    samples inside each process, ``nodes`` and ``days`` where and when each process ran; they feed the noise ledger
    and may be empty.
    """

    x: int
    values: tuple[float, ...] = ()
    environment: str | None = None
    outcome: str = "ok"
    within: tuple[float, ...] = ()
    nodes: tuple[str, ...] = ()
    days: tuple[int, ...] = ()

    def finite(self) -> tuple[float, ...]:
        """The values that are numbers."""
        return tuple(v for v in self.values if math.isfinite(v))


@dataclass(frozen=True, slots=True)
class SeriesData:
    """One line of history: ``points`` in order of ``x``, the metric's unit, direction and kind.

    ``direction`` is -1 where lower is better, +1 where higher is, 0 where neither. ``min_effect`` is the smallest
    relative change worth an alert, ``noise_sd`` a relative between-process standard deviation known from elsewhere
    (an A/A run); both None: learnt here. ``busy_share`` is device-busy time over wall time where it was measured.
    """

    unit: str
    direction: Direction
    kind: Kind
    points: tuple[Point, ...]
    name: str = ""
    min_effect: float | None = None
    noise_sd: float | None = None
    busy_share: float | None = None

    def threshold(self, default: float | None = None) -> float:
        """Smallest relative change worth an alert: the series' own, else ``default``, else its kind's."""
        if self.min_effect is not None:
            return self.min_effect
        return MIN_EFFECT[self.kind] if default is None else default


@dataclass(frozen=True, slots=True)
class Columns:
    """Points that have a number, as arrays of one length n; ``gaps`` are the x where nothing was measured.

    ``y`` is the median over a point's processes, ``count`` how many processes, ``environment`` small integers
    (equal where the environment is, an index into ``names``), -1 for unknown. ``many`` holds the values of the points
    that have more than one, by index. ``within`` is the relative spread inside each point's one process, where no
    points are given that say it.
    """

    x: Ints
    y: Floats
    count: Ints
    environment: Ints
    gaps: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    many: tuple[tuple[int, tuple[float, ...]], ...] = ()
    within: Floats | None = None

    @classmethod
    def of(cls, x: Sequence[int], y: Sequence[float]) -> "Columns":
        """One finite value at each of the increasing ``x``, no environments; for histories that are arrays already."""
        places, values = np.asarray(x, np.int64), np.asarray(y, np.float64)
        if places.shape != values.shape or not np.isfinite(values).all() or (places[1:] <= places[:-1]).any():
            raise ValueError("x and y must be of one length, x increasing and y finite")
        return cls(places, values, np.ones(places.size, np.int64), np.full(places.size, -1, np.int64))


def median_of(values: tuple[float, ...]) -> float:
    """Median of a non-empty tuple; plain Python, because most points have one to five values."""
    ordered = sorted(values)
    half, odd = divmod(len(ordered), 2)
    return ordered[half] if odd else 0.5 * (ordered[half - 1] + ordered[half])


def columns(points: tuple[Point, ...]) -> Columns:
    """Turn points into arrays, dropping those without a finite value.

    Raises ``ValueError`` when ``x`` falls, or repeats within one environment.
    """
    return _plain_columns(points) or _columns(points)


def _plain_columns(points: tuple[Point, ...]) -> Columns | None:
    """The usual case, three times as fast: one finite value a point, no environment, in order; None for any other."""
    values = [p.values for p in points]
    if set(map(len, values)) != {1} or [p.environment for p in points].count(None) != len(points):
        return None
    x = np.array([p.x for p in points], np.int64)
    y = np.array([v for (v,) in values], np.float64)
    if not np.isfinite(y).all() or (x[1:] <= x[:-1]).any():
        return None
    return Columns(x, y, np.ones(x.size, np.int64), np.full(x.size, -1, np.int64))


def _columns(points: tuple[Point, ...]) -> Columns:
    xs: list[int] = []
    ys: list[float] = []
    counts: list[int] = []
    envs: list[int] = []
    gaps: list[int] = []
    names: dict[str, int] = {}
    many: list[tuple[int, tuple[float, ...]]] = []
    last: Point | None = None
    for point in points:
        if last is not None and point.x <= last.x and not _remeasured(last, point):
            raise ValueError(f"points must be in order of x, one an environment: {point.x} follows {last.x}")
        last = point
        values = point.values
        if len(values) != 1 or not math.isfinite(values[0]):
            values = point.finite()
        if not values:
            gaps.append(point.x)
            continue
        if len(values) > 1:
            many.append((len(xs), values))
        xs.append(point.x)
        ys.append(values[0] if len(values) == 1 else median_of(values))
        counts.append(len(values))
        name = point.environment
        envs.append(-1 if name is None else names.setdefault(name, len(names)))
    return Columns(
        np.array(xs, np.int64),
        np.array(ys, np.float64),
        np.array(counts, np.int64),
        np.array(envs, np.int64),
        tuple(gaps),
        tuple(names),
        tuple(many),
    )


def _remeasured(last: Point, point: Point) -> bool:
    """The same commit again, under another environment."""
    return point.x == last.x and point.environment != last.environment
