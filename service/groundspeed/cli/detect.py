"""``groundspeed detect``: the change points of series that come from anywhere, one JSON line a series."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from groundspeed.cli.lines import BadLineError, direction_of, field, name_of, number, plain, read

if TYPE_CHECKING:
    from groundspeed.service.domain.detect import Detection
    from groundspeed.service.domain.findings import ChangePoint
    from groundspeed.service.domain.series import SeriesData

_LARGEST_X = 2**62


def detect(
    file: Annotated[
        Path | None, typer.Argument(help="Series as JSON lines; - or nothing reads standard input.", metavar="FILE")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line a series, for programs.")] = False,
    min_effect: Annotated[
        float | None, typer.Option(min=0.0, help="Smallest relative change to report, such as 0.01.")
    ] = None,
) -> None:
    """Find the change points of series in FILE.

    A line is {"series": "name", "unit": "s", "direction": -1, "points": [{"x": 0, "values": [1.01, 1.02]}, …]} with
    the points in order of x; no values means that nothing was measured there. Optional: "kind" and, a point,
    "environment".
    """
    from groundspeed.service.domain.detect import DetectConfig
    from groundspeed.service.domain.detect import detect as find

    config, refused = DetectConfig(min_effect=min_effect), False
    for _, series in read(file, _series):
        if series is None:
            refused = True
            continue
        found = find(series, config)
        sys.stdout.write(json.dumps(_row(series, found)) + "\n" if as_json else _text(series, found))
    if refused:
        raise typer.Exit(2)


def _series(row: dict[str, Any]) -> SeriesData:
    from groundspeed.service.domain.series import KINDS, SeriesData

    kind = field(row, "kind", str, "time")
    if kind not in KINDS:
        raise BadLineError(f"has {kind!r} for 'kind'; it is one of {', '.join(KINDS)}")
    points = tuple(_point(p, i) for i, p in enumerate(field(row, "points", list)))
    for before, after in pairwise(points):
        if after.x < before.x or (after.x == before.x and after.environment == before.environment):
            raise BadLineError(f"has x = {after.x} after x = {before.x}; points come in order of x, each once")
    return SeriesData(name_of(row, "unit"), direction_of(row), kind, points, name=name_of(row, "series"))


def _point(row: Any, index: int) -> Any:
    """The samples of a point count as one value, their median: whether they are fresh processes is not said."""
    from groundspeed.service.domain.series import Point, median_of

    if not isinstance(row, dict):
        raise BadLineError(f"has no object for point {index}")
    x = field(row, "x", (int, float))
    if not abs(x) < _LARGEST_X or int(x) != x:
        raise BadLineError(f"has {x} for x of point {index}; it is a whole number")
    samples = [number(v, f"the values of point {index}") for v in field(row, "values", list, [])]
    values = tuple(v for v in samples if abs(v) < float("inf"))
    return Point(int(x), (median_of(values),) if values else (), field(row, "environment", (str, type(None)), None))


def _row(series: SeriesData, found: Detection) -> dict[str, Any]:
    drift = found.drift
    return {
        "series": series.name,
        "class": found.series_class,
        "change_points": [_change(c) for c in found.change_points],
        "drift": None if drift is None else {"total": plain(drift.total), "from": drift.x_first, "to": drift.x_last},
        "noise": {"sd": plain(found.noise.point), "mde": plain(found.noise.mde), "floor": plain(found.noise.floor)},
        "environments": [
            {
                "x": e.x_after,
                "from": e.environment_before,
                "to": e.environment_after,
                "ratio": plain(e.ratio),
                "interval": [plain(e.ratio_low), plain(e.ratio_high)],
                "confounded": e.confounded,
            }
            for e in found.environment_effects
        ],
    }


def _change(change: ChangePoint) -> dict[str, Any]:
    return {
        "x": change.x_after,
        "x_before": change.x_before,
        "ratio": plain(change.ratio),
        "interval": [plain(change.ratio_low), plain(change.ratio_high)],
        "difference": plain(change.difference),
        "strength": plain(change.strength, 4),
        "p_value": plain(change.p_value, 4),
        "provisional": change.provisional,
        "kind": change.kind,
        "cause": change.cause,
        "unmeasured": len(change.unmeasured),
    }


def _text(series: SeriesData, found: Detection) -> str:
    lines = [f"{series.name or 'series'}: {found.series_class}, {len(found.change_points)} change points"]
    for c in found.change_points:
        size = (
            f"{c.ratio:.4g}x [{c.ratio_low:.4g}, {c.ratio_high:.4g}]" if c.ratio == c.ratio else f"{c.difference:+.4g}"
        )
        doubt = " (provisional)" if c.provisional else ""
        lines.append(f"  x = {c.x_after}: {c.kind} {size} {series.unit}, {c.strength:.1f} standard errors{doubt}")
    if found.drift is not None:
        lines.append(f"  drift of {found.drift.total:+.1%} over x = {found.drift.x_first} … {found.drift.x_last}")
    return "\n".join(lines) + "\n"
