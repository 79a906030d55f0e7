"""Where might there be a step? All scales at once, narrowest first, then what only whole segments show."""

import math

import numpy as np

from groundspeed.service.domain.series import Floats
from groundspeed.service.domain.window import CALM_RMS, CALM_SHARE, MIN_SEGMENT, SCALES, Window, edges

SHORTEST = 40
"""In fewer points than this one step reaches into every view, and the calm part of a scan is not calm."""


_SCALED = {h: 1.0 / math.sqrt(2.0 * h) for h in SCALES}


def scan(window: Window, threshold: float) -> list[int]:
    """Cuts at which the narrowest window that shows a step at all shows it best.

    A moving-sum scan at each of the window's scales; the noise of each scale is measured from the calm 80 % of that
    same scan, so a series that wanders raises its own bar. Once a cut is taken, every wider view that contains it is
    set aside (narrowest over threshold, Baranowski, Chen & Fryzlewicz 2019), so that neighbours do not blur.
    """
    views = _moving(window)
    _measure_noise(window, views)
    cuts: list[int] = []
    for k, h in enumerate(window.scales):
        view = views[k]
        bar = threshold * window.sds[k]
        while view.size:
            best = int(view.argmax())
            if view.item(best) < bar:
                break
            cut = best + h
            cuts.append(cut)
            for wider, reach in zip(views[k:], window.scales[k:], strict=True):
                # Those whose points contain the cut strictly inside.
                wider[max(0, cut - 2 * reach + 1) : cut] = 0.0
    return sorted(cuts)


def _moving(window: Window) -> list[Floats]:
    """|mean of h after - mean of h before| at cuts h … n-h of each scale h, scaled to the spread of one point."""
    total, local = window.total, window.local
    views = []
    for h in window.scales:
        step = total[h:] - total[:-h]
        view = step[h:] - step[:-h]
        np.abs(view, out=view)
        view *= _SCALED[h]
        if local is not None:
            view /= local[h : h + view.size]
        views.append(view)
    return views


def _measure_noise(window: Window, views: list[Floats]) -> None:
    """Set the window's noise per scale: never below that of single points, never falling with scale.

    Scales whose windows make up more than a twelfth of the series say too little about it (and too much about its
    steps): they take the last measured one's.
    """
    floor, limit = window.sd, window.size // 25 if window.size >= SHORTEST else 0
    limit = max(limit, window.scales[0]) if limit else 0
    sds = []
    for view, h in zip(views, window.scales, strict=True):
        if h <= limit and view.size >= 2 * MIN_SEGMENT:
            keep = max(int(view.size * CALM_SHARE), 1)
            calm = view.copy()
            calm.partition(keep - 1)
            calm = calm[:keep]
            floor = max(floor, math.sqrt(float(calm @ calm) / keep) / CALM_RMS)
        sds.append(floor)
    window.learn(sds)


def fill(window: Window, cuts: list[int], threshold: float) -> list[int]:
    """Add cuts that only whole segments show (binary segmentation between the given ones)."""
    found = list(cuts)
    todo = edges(found, window.size)
    while todo:
        a, b = todo.pop()
        p = window.best_cut(a, b)
        if p is not None and window.strength(a, p, b) > threshold:
            found.append(p)
            todo += [(a, p), (p, b)]
    return sorted(set(found))
