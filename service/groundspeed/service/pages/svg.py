"""Pictures drawn on the server, so that a page shows them before (and without) any script. Pure: models in, SVG out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from groundspeed.service.pages.formats import digits, quantity, scale_of, stamp
from groundspeed.service.usecases.views.history import thin
from groundspeed.service.wire import views as v

WIDTH, HEIGHT = 960, 340
LEFT, RIGHT, TOP, BOTTOM = 74, 12, 14, 36
DRAWN_POINTS, DRAWN_TOGETHER = 600, 2400
"""Of one series and of all: lines that cross each other show no more than that."""
LINKED_POINTS = 400
"""Up to so many points each is a link of its own; beyond, the table below holds the links."""


_SMALLEST = 1e-300
"""Between values that are nearer than this, floats have no room for steps."""


def markup(text: str) -> Markup:
    """``text`` as it stands: made here of numbers and of words that were escaped."""
    return Markup(text)  # noqa: S704 - see above


def number(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to pixels."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = self.low, self.high, value
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(max(value, 1e-300))
        return self.start + (at - low) / ((high - low) or 1.0) * (self.end - self.start)


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round values between two others, about ``wanted`` of them."""
    span = high - low
    if not math.isfinite(span) or span < _SMALLEST:
        return [low]
    raw = span / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def chart(graph: v.Graph) -> Markup:
    """The graph as it first appears: values over commits, levels, changes, failures, environment boundaries."""
    values = [y for s in graph.series for column in (s.points.low, s.points.high) for y in column if y is not None]
    if not values:
        return Markup()
    relative = len({s.series.unit for s in graph.series}) > 1 or graph.query.get("mode") == "relative"
    bases = [_base(graph, s) if relative else 1.0 for s in graph.series]
    log = graph.query.get("y") == "log" and min(values) > 0
    y = _value_scale(graph, bases, log=log)
    positions = graph.revisions.position
    x = Scale(positions[0], max(positions[-1], positions[0] + 1), LEFT, WIDTH - RIGHT)
    unit = "" if relative else graph.series[0].series.unit
    parts = [_axes(x, y, unit, graph), _boundaries(graph, x), _events(graph, x)]
    for slot, (series, base) in enumerate(zip(graph.series, bases, strict=True)):
        parts.append(_series(graph, series, slot % 8, (x, _divided(y, base))))
    label = ", ".join(f"{s.series.suite} {s.series.metric}" for s in graph.series[:4])
    # Its points, changes and failures are links, which an image cannot have in it.
    return markup(
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="group" aria-label="{escape(label)} over commits">'
        f"{''.join(parts)}</svg>"
    )


def _divided(y: Scale, base: float) -> Callable[[float], float]:
    return lambda value: y(value / base)


def _base(graph: v.Graph, series: v.GraphSeries) -> float:
    """What relative values are relative to: the value at the commit that ``ref`` names, else the first there is."""
    p, ref = series.points, graph.query.get("ref", "")
    at = (y for r, y in zip(p.revision, p.value, strict=True) if y and ref and graph.revisions.sha[r].startswith(ref))
    return next(at, None) or next((y for y in p.value if y), 1.0)


def _value_scale(graph: v.Graph, bases: Sequence[float], *, log: bool) -> Scale:
    every = [
        y / base
        for s, base in zip(graph.series, bases, strict=True)
        for column in (s.points.low, s.points.high)
        for y in column
        if y is not None
    ]
    low, high = min(every), max(every)
    pad = max((high - low) * 0.08, abs(high) * 0.01) or 1.0
    if log:
        return Scale(low / 1.05, high * 1.05, HEIGHT - BOTTOM, TOP, log=True)
    return Scale(low - pad, high + pad, HEIGHT - BOTTOM, TOP)


def _axes(x: Scale, y: Scale, unit: str, graph: v.Graph) -> str:
    out = []
    factor, name = scale_of(max(abs(y.low), abs(y.high)), unit)
    for value in ticks(y.low, y.high):
        at = number(y(value))
        out.append(f'<line class="gridline" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>')
        label = digits(round(value / factor, 9), 3) if unit else f"{(value - 1) * 100:+.0f} %"
        out.append(f'<text class="tick" x="{LEFT - 8}" y="{at}" dy="0.32em" text-anchor="end">{escape(label)}</text>')
    if unit:
        out.append(f'<text class="tick unit" x="{LEFT}" y="{TOP - 3}">{escape(name)}</text>')
    count, seen = len(graph.revisions.position), -1e9
    for i in range(count):
        at_x = x(graph.revisions.position[i])
        if at_x - seen < 130 or at_x > WIDTH - 128:
            continue
        seen = at_x
        label = f"{graph.revisions.sha[i][:7]} · {stamp(graph.revisions.at[i])[:10]}"
        out.append(f'<text class="tick" x="{number(at_x)}" y="{HEIGHT - 12}">{escape(label)}</text>')
    return "".join(out)


def _boundaries(graph: v.Graph, x: Scale) -> str:
    """Where a series goes on in another environment."""
    out: list[str] = []
    seen: set[tuple[int, int]] = set()
    for series in graph.series:
        points = series.points
        for i in range(1, len(points.environment)):
            if points.environment[i] == points.environment[i - 1]:
                continue
            key = (points.revision[i], points.environment[i])
            if key in seen or len(seen) > 40:
                continue
            seen.add(key)
            at = number((x(graph.revisions.position[key[0]]) + x(graph.revisions.position[points.revision[i - 1]])) / 2)
            label = graph.environments[key[1]].label
            out.append(
                f'<g class="boundary"><line x1="{at}" x2="{at}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
                f'<text x="{at}" dx="4" y="{TOP + 8}">{escape(label[:40])}</text><title>{escape(label)}</title></g>'
            )
    return "".join(out)


def _events(graph: v.Graph, x: Scale) -> str:
    out = []
    for event in graph.events[:60]:
        if event.revision is not None and event.kind == "annotation":
            at = number(x(graph.revisions.position[event.revision]))
            out.append(
                f'<g class="event"><line x1="{at}" x2="{at}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
                f'<text x="{at}" dx="4" y="{HEIGHT - BOTTOM - 6}">{escape(event.title[:40])}</text></g>'
            )
    return "".join(out)


def _series(graph: v.Graph, series: v.GraphSeries, slot: int, scales: tuple[Scale, Callable[[float], float]]) -> str:
    x, y = scales
    points, positions = series.points, graph.revisions.position
    known = [(positions[r], value) for r, value in zip(points.revision, points.value, strict=True) if value is not None]
    # Extremes stay: a picture shows no more than two values in one of its columns.
    drawn = thin([value for _, value in known], set(), min(DRAWN_POINTS, DRAWN_TOGETHER // len(graph.series)))
    at = [(x(known[i][0]), y(known[i][1])) for i in drawn]
    band = _band(series, positions, scales) if len(known) == len(drawn) else ""
    line = "".join(f"{'L' if i else 'M'}{number(px)} {number(py)}" for i, (px, py) in enumerate(at))
    out = [f'<g class="series s{slot}">{band}<path class="line" d="{line}"/>']
    for segment in series.segments:
        a, b = x(positions[points.revision[segment.first]]), x(positions[points.revision[segment.last]])
        level = number(y(segment.level))
        out.append(f'<line class="level" x1="{number(a)}" x2="{number(b)}" y1="{level}" y2="{level}"/>')
    if len(known) <= LINKED_POINTS:
        out += _dots(graph, series, scales)
    out += [_change(change, x, series, graph.project.slug) for change in series.changes]
    base = HEIGHT - BOTTOM - 4
    for failure in series.failures[:200]:
        fx = x(positions[failure.revision])
        out.append(
            f'<a href="/runs/{failure.run}"><path class="failure" d="M{number(fx - 3)} {base - 3}l6 6m0-6l-6 6"/>'
            f"<title>{escape(failure.outcome)}</title></a>"
        )
    return "".join([*out, "</g>"])


def _band(series: v.GraphSeries, positions: Sequence[int], scales: tuple[Scale, Callable[[float], float]]) -> str:
    x, y = scales
    p = series.points
    high = [(x(positions[r]), y(h)) for r, h in zip(p.revision, p.high, strict=True) if h is not None]
    low = [(x(positions[r]), y(value)) for r, value in zip(p.revision, p.low, strict=True) if value is not None]
    if not high or len(high) != len(low):
        return ""
    path = "L".join(f"{number(px)} {number(py)}" for px, py in [*high, *reversed(low)])
    return f'<path class="band" d="M{path}Z"/>'


def _dots(graph: v.Graph, series: v.GraphSeries, scales: tuple[Scale, Callable[[float], float]]) -> list[str]:
    x, y = scales
    p, out = series.points, []
    for r, value, run, state in zip(p.revision, p.value, p.run, p.state, strict=True):
        if value is None:
            continue
        title = f"{graph.revisions.sha[r][:10]} {graph.revisions.title[r]}: {quantity(value, series.series.unit)}"
        out.append(
            f'<a href="/runs/{run}"><circle class="dot {escape(state)}" cx="{number(x(graph.revisions.position[r]))}"'
            f' cy="{number(y(value))}" r="2.6"/><title>{escape(title)}</title></a>'
        )
    return out


def _change(change: v.Change, x: Scale, series: v.GraphSeries, slug: str) -> str:
    """The suspect range as a strip, and a mark at the first commit that shows the change, linked to its regression."""
    before, after = change.before.position, change.after.position
    if before is None or after is None or not x.low <= after <= x.high:
        return ""
    a, b = x(max(before, x.low)), x(after)
    kind, height = escape(change.kind), HEIGHT - TOP - BOTTOM
    label = f"{series.series.metric}: {change.after.sha[:10]} {change.after.title}"
    drawn = (
        f'<rect class="range {kind}" x="{number(a)}" width="{number(max(b - a, 1))}" y="{TOP}" height="{height}"/>'
        f'<path class="arrow {kind} {escape(change.state)}" d="M{number(b)} {TOP}l5 -9h-10z"/>'
        f"<title>{escape(label)}</title>"
    )
    if change.regression is None:
        return f"<g>{drawn}</g>"
    return f'<a href="/projects/{escape(slug)}/regressions/{change.regression}">{drawn}</a>'


_COLOURS = ("#1f6fb2", "#c2571a", "#1c8066", "#a0419b", "#8a6d00", "#4b57c9", "#b23a5b", "#5b6675")
_STYLE = (
    "text{font:11px sans-serif;fill:#545c68}.gridline{stroke:#dfe2e7}.line{fill:none;stroke:var(--c);opacity:.55}"
    ".band{fill:var(--c);opacity:.13}.dot{fill:var(--c)}.level{stroke:var(--c);stroke-width:2.2}.range{opacity:.1}"
    ".failure{fill:none;stroke:#b3261e}.regression{fill:#b3261e}.improvement{fill:#146c43}"
    ".boundary line,.event line{stroke:#545c68;stroke-dasharray:3 3}"
)


def standalone(graph: v.Graph) -> str:
    """The chart as a file of its own, with its colours; an empty picture when there is nothing to draw."""
    drawn = str(chart(graph)) or f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}"></svg>'
    colours = "".join(f".s{i}{{--c:{colour}}}" for i, colour in enumerate(_COLOURS))
    head, _, rest = drawn.partition(">")
    style = f'<style>{_STYLE}{colours}</style><rect width="100%" height="100%" fill="#fff"/>'
    return f'{head} xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}">{style}{rest}'
