"""A graph as the data block of its page: what a picture needs, in as few bytes as it can be said.

The API sends the model as it is; ``web/src/packed.ts`` makes that of what is packed here. A column that holds one value
throughout is that value and a count, one that never falls is its steps. Values have eight figures and their ranges, as
distances from them, four. Commits are named by their first twelve characters, which the service understands everywhere;
a site of files, whose addresses have all forty, asks for the ``whole``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundspeed.service.wire import views as v

HASH_CHARACTERS = 12
VALUE_FIGURES = 8
RANGE_FIGURES = 4

Floats = NDArray[np.float64]


def packed(graph: v.Graph, *, whole: bool = False) -> dict[str, Any]:
    """Plain lists, numbers and wire models, to be written as JSON with what is not finite as null."""
    r = graph.revisions
    return {
        "project": {"slug": graph.project.slug, "name": graph.project.name},
        "environments": graph.environments,
        "events": graph.events,
        "siblings": graph.siblings,
        "pins": graph.pins,
        "revisions": {
            "sha": r.sha if whole else [sha[:HASH_CHARACTERS] for sha in r.sha],
            "position": _column(r.position),
            "at": _column(r.at),
            "author": _column(r.author),
            "title": r.title,
        },
        "series": [
            {**{name: getattr(s, name) for name in _AS_THEY_ARE}, "points": _points(s.points)} for s in graph.series
        ],
    }


_AS_THEY_ARE = ("series", "total", "segments", "changes", "failures")


def _points(p: v.Points) -> dict[str, Any]:
    value, low, high = (np.array(column, np.float64) for column in (p.value, p.low, p.high))
    below, above = value - low, high - value
    even = np.allclose(below, above, rtol=1e-6, atol=1e-9 * float(np.nanmax(np.abs(value), initial=0)), equal_nan=True)
    return {
        "revision": _column(p.revision),
        "environment": _column(p.environment),
        "value": _rounded(value, VALUE_FIGURES),
        "below": _rounded(below, RANGE_FIGURES),
        "above": None if even else _rounded(above, RANGE_FIGURES),
        "count": _column(p.count),
        "run": _column(p.run),
        "state": _column(p.state),
    }


def _column(values: Sequence[Any]) -> Any:
    if len(values) > 1 and values.count(values[0]) == len(values):
        return {"all": values[0], "n": len(values)}
    if len(values) > 1 and isinstance(values[0], int):
        steps = np.diff(np.array(values, np.int64), prepend=0)
        return {"steps": steps.tolist()} if (steps[1:] >= 0).all() else values
    return values


def _rounded(values: Floats, figures: int) -> list[float]:
    """With so many figures. Both ways are exact in the power of ten, so that what comes out is written short."""
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.floor(np.log10(np.abs(values)))
    places = np.where(np.isfinite(size), figures - 1 - size, 0)
    up, down = 10.0 ** np.clip(places, 0, 300), 10.0 ** np.clip(-places, 0, 300)
    out: list[float] = (np.round(values * up / down) / up * down).tolist()
    return out
