"""The noise ledger of a series, and the class that follows from it."""

import math

import numpy as np

from groundspeed.service.domain.examine import Examination
from groundspeed.service.domain.findings import NoiseLedger, SeriesClass
from groundspeed.service.domain.history import Stretch
from groundspeed.service.domain.replicates import between_process
from groundspeed.service.domain.robust import median, relative
from groundspeed.service.domain.series import Floats, Point, SeriesData

NOISY_SD = 0.03
"""Spread above which a series is charted but not gated: five pairs would only show changes of some 7 %."""
LAUNCH_BOUND_SHARE = 0.5
"""Device busy for less than this share of the wall time: the number measures the host."""
MDE_POINTS = 10
POWER_Z = 0.8416
"""Normal quantile of 80 % power."""
_NOTHING = NoiseLedger(0.0, 0.0, math.nan, 0.0)


def ledger(
    examination: Examination,
    stretch: Stretch,
    series: SeriesData,
    threshold: float,
    before: NoiseLedger | None,
    within: Floats | None = None,
) -> NoiseLedger:
    """Noise by source, from the open stretch; what only raw points tell is kept from ``before`` when none came.

    ``within``: the relative spread inside the one process of each new point, instead of points that say it.
    """
    found = examination.analysis
    sd = found.sd if found else 0.0
    wander = found.wander if found else sd
    process = between_process(stretch.many)
    told = [p.within for p in series.points].count(()) < len(series.points) or (
        bool(stretch.many) and any(p.days or p.nodes for p in series.points)
    )
    parts = components(series.points) if told else None
    if within is not None and within.size:
        known = within[np.isfinite(within)]
        parts = (median(known) if known.size else None), None, None
    old = before or _NOTHING
    day = parts[1] if parts else old.between_day
    if day is None and process is not None and sd > 0.0 and stretch.size:
        day = math.sqrt(max(sd**2 - process**2 / max(float(stretch.count.sum()) / stretch.size, 1.0), 0.0))
    return NoiseLedger(
        point=sd,
        wander=wander,
        mde=relative(max((threshold + POWER_Z) * wander * math.sqrt(2.0 / MDE_POINTS), examination.floor)),
        floor=relative(examination.floor),
        mde_points=MDE_POINTS,
        within_process=parts[0] if parts else old.within_process,
        between_process=process if process is not None else old.between_process,
        between_day=day,
        between_node=parts[2] if parts else old.between_node,
        outlier_share=found.outliers / stretch.size if found else 0.0,
        mode_gap=relative(found.modes.gap) if found and found.modes else None,
        quantum=_quantum(stretch.y),
    )


def components(points: tuple[Point, ...]) -> tuple[float | None, float | None, float | None]:
    """(within process, between days, between nodes) as relative standard deviations.

    Values are compared with the median of their own point, so that steps between points do not count; a component is
    the spread of group means beyond what the spread inside groups would give.
    """
    spreads = [s for p in points for s in p.within if math.isfinite(s)]
    within = median(np.asarray(spreads)) if spreads else None
    rows = [row for point in points for row in _rows(point)]
    return within, _between([(r, day) for r, day, _ in rows]), _between([(r, node) for r, _, node in rows])


def _rows(point: Point) -> list[tuple[float, object, object]]:
    values = point.finite()
    if len(values) < 2 or len(values) != len(point.values) or min(values) <= 0.0:
        return []
    logs = np.log(np.asarray(values))
    logs -= np.median(logs)
    days: tuple[object, ...] = point.days if len(point.days) == len(values) else (None,) * len(values)
    nodes: tuple[object, ...] = point.nodes if len(point.nodes) == len(values) else (None,) * len(values)
    return list(zip(logs.tolist(), days, nodes, strict=True))


def _between(rows: list[tuple[float, object]]) -> float | None:
    """Square root of the variance component between groups (method of moments); None with fewer than two groups."""
    groups: dict[object, list[float]] = {}
    for value, key in rows:
        if key is not None:
            groups.setdefault(key, []).append(value)
    usable = [np.asarray(g) for g in groups.values() if len(g) >= 2]
    if len(usable) < 2:
        return None
    inside = sum(float(np.var(g)) * g.size for g in usable) / max(sum(g.size - 1 for g in usable), 1)
    means = np.array([float(np.mean(g)) for g in usable])
    typical = len(usable) / sum(1.0 / g.size for g in usable)
    return math.sqrt(max(float(np.var(means, ddof=1)) - inside / typical, 0.0))


def _quantum(y: Floats) -> float | None:
    """Step of a quantised timer, relative to the typical value; None where values are not on a coarse grid."""
    if y.size < 20 or np.count_nonzero(y[1:] == y[:-1]) < y.size // 20:
        return None
    distinct = np.unique(y)
    if distinct.size < 2 or distinct.size > y.size // 4:
        return None
    size = median(np.abs(y))
    return float(np.min(np.diff(distinct))) / size if size > 0.0 else None


def classify(noise: NoiseLedger, stretch: Stretch, series: SeriesData) -> SeriesClass:
    """Class of a series: what a reader may expect of it, and whether it may gate."""
    if series.busy_share is not None and series.busy_share < LAUNCH_BOUND_SHARE:
        return "launch-bound"
    if noise.mode_gap is not None:
        return "bimodal"
    if stretch.size < 5 and noise.between_process is None:
        return "unknown"
    same = int(np.count_nonzero(stretch.y[1:] == stretch.y[:-1]))
    if stretch.size >= 5 and same >= 0.9 * (stretch.size - 1):
        return "constant"
    spread = max(noise.point, noise.between_process or 0.0)
    return "noisy" if spread > NOISY_SD else "steady"


def may_gate(series_class: SeriesClass) -> bool:
    """Noisy, bimodal and launch-bound series are charted but do not gate a pull request.

    One that is not known yet may: the pairs of a gate bring their own noise.
    """
    return series_class in {"constant", "steady", "unknown"}
