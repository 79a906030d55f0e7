"""Small pictures for tables and cards: sparklines, intervals, samples, conditions. Pure: models in, SVG out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup, escape

from groundspeed.service.pages.formats import digits, scale_of
from groundspeed.service.pages.svg import Scale, markup, number, ticks
from groundspeed.service.usecases import written
from groundspeed.service.wire import views as v


def series_name(series: v.SeriesRef, hardware: bool = True) -> Markup:
    """A series by its parts. Made here and not by a template: some pages have thousands."""
    more = f' <span class="params">{escape(written.params(series.params))}</span>' if series.params else ""
    if hardware and series.hardware:
        more += f' <span class="hardware">{escape(series.hardware)}</span>'
    name = f'<b>{escape(series.suite)}</b> <span class="metric">{escape(series.metric)}</span>'
    return markup(f'<span class="series-name">{name}{more}</span>')


def series_link(slug: str, series: v.SeriesRef, hardware: bool = True) -> Markup:
    name = series_name(series, hardware)
    return markup(f'<a class="series-link" href="/projects/{escape(slug)}/series/{series.id}">{name}</a>')


def sparkline(spark: v.Spark, width: int = 180, height: int = 36) -> Markup:
    """A series in miniature with its changes marked; x by commit."""
    pairs = [(x, y) for x, y in zip(spark.x, spark.y, strict=True) if y is not None]
    if not pairs:
        return Markup('<svg class="spark" viewBox="0 0 {} {}" aria-hidden="true"></svg>').format(width, height)
    low, high = min(y for _, y in pairs), max(y for _, y in pairs)
    # A quiet series is drawn as a flat line, not as its noise blown up to the full height.
    pad = max((high - low) * 0.1, abs(high) * 0.01, 1e-30)
    first, last = pairs[0][0], pairs[-1][0]
    sx = (width - 6) / max(last - first, 1)
    sy = (height - 4) / (high - low + 2 * pad)

    def at(x: float, y: float) -> tuple[float, float]:
        return 3 + (x - first) * sx, height - 2 - (y - low + pad) * sy

    drawn = [at(x, y) for x, y in pairs]
    line = "".join(f"{'L' if i else 'M'}{number(px)} {number(py)}" for i, (px, py) in enumerate(drawn))
    marks = []
    for index, kind in spark.changes:
        y = spark.y[index]
        if y is not None:
            px, py = at(spark.x[index], y)
            marks.append(f'<circle class="mark {escape(kind)}" cx="{number(px)}" cy="{number(py)}" r="3"/>')
    ex, ey = drawn[-1]
    end = f'<circle class="end" cx="{number(ex)}" cy="{number(ey)}" r="1.8"/>'
    body = f'<path d="{line}"/>{"".join(marks)}{end}'
    return markup(
        f'<svg class="spark" viewBox="0 0 {width} {height}" preserveAspectRatio="none" aria-hidden="true">{body}</svg>'
    )


def effect_bar(effect: v.Effect, limit: float, width: int = 160) -> Markup:
    """One line of a forest plot: the interval and its centre around no change, between −limit and +limit (relative)."""
    middle = width / 2
    body = f'<line class="zero" x1="{middle}" x2="{middle}" y1="0" y2="16"/>'
    if effect.ratio is not None:
        limit = limit or 0.01

        def at(ratio: float) -> float:
            return middle + max(-1.0, min(1.0, (ratio - 1) / limit)) * (middle - 6)

        if effect.low is not None and effect.high is not None:
            body += f'<line class="ci" x1="{number(at(effect.low))}" x2="{number(at(effect.high))}" y1="8" y2="8"/>'
        body += f'<circle class="centre" cx="{number(at(effect.ratio))}" cy="8" r="3.5"/>'
    return markup(
        f'<svg class="forest" viewBox="0 0 {width} 16" width="{width}" height="16" aria-hidden="true">{body}</svg>'
    )


def strip(groups: Sequence[Sequence[float | None]], width: int = 110, height: int = 18) -> Markup:
    """Samples of one or two sides as dots on a common scale, the first side above."""
    values = [value for group in groups for value in group if value is not None]
    if not values:
        return Markup()
    x = Scale(min(values), max(values), 4, width - 4)
    rows = len(groups)
    dots = "".join(
        f'<circle class="g{row}" cx="{number(x(value))}" cy="{number(height * (row + 0.5) / rows)}" r="2.2"/>'
        for row, group in enumerate(groups)
        for value in group
        if value is not None
    )
    return markup(
        f'<svg class="strip" viewBox="0 0 {width} {height}" width="{width}" height="{height}" aria-hidden="true">'
        f"{dots}</svg>"
    )


PANEL = 58
"""Height of one condition's part of the chart."""
PHASES = ("setup", "warmup", "measure")
"""They follow one another from the moment at which conditions began to be read."""


def conditions_chart(run: v.RunPage, width: int = 760) -> Markup:
    """Conditions over the run on one time axis, its phases shaded, and above them the samples.

    A sample carries no time of its own: they are spread evenly over the measuring phase, in their order.
    """
    traces = run.traces[:6]
    spans = _spans(run.phases_s)
    ends = [t for trace in traces for t in trace.t if t is not None] + [end for _, _, end in spans]
    if not traces or not ends:
        return Markup()
    x = Scale(0.0, max(*ends, 1e-9), 124, width - 8)
    measured = next((span for span in spans if span[0] == "measure"), None)
    first = run.samples[0] if run.samples and run.samples[0].values and measured else None
    height = 22 + PANEL * (len(traces) + (first is not None)) + 20
    out = []
    for name, begin, end in spans:
        a, b = x(begin), x(end)
        out.append(
            f'<g class="phase {name}"><rect x="{number(a)}" width="{number(max(b - a, 0.5))}" y="16" '
            f'height="{height - 36}"/><text x="{number(a + 3)}" y="11">{escape(name) if b - a > 44 else ""}</text></g>'
        )
    top = 22
    if first is not None and measured is not None:
        step = (measured[2] - measured[1]) / max(len(first.values), 1)
        at = tuple(measured[1] + step * (i + 0.5) for i in range(len(first.values)))
        out.append(_panel(x, at, first.values, (first.series.metric, first.series.unit), top, dots=first.states))
        top += PANEL
    for trace in traces:
        out.append(_panel(x, trace.t, trace.y, (_condition_name(trace.name), trace.unit), top))
        top += PANEL
    for t in ticks(0.0, x.high, 6):
        at_x = number(x(t))
        out += [f'<text class="tick" x="{at_x}" y="{height - 4}" text-anchor="middle">{escape(digits(t, 2))} s</text>']
    label = "conditions over the run: " + ", ".join(trace.name.replace("_", " ") for trace in traces)
    return markup(
        f'<svg class="conditions" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">'
        f"{''.join(out)}</svg>"
    )


def _condition_name(name: str) -> str:
    """In words, without the unit at its end, which stands with the values."""
    head, _, last = name.rpartition("_")
    return (head if head and last in {"mhz", "w", "c", "bytes"} else name).replace("_", " ")


def _spans(phases_s: Mapping[str, float]) -> list[tuple[str, float, float]]:
    """(name, begin, end) of the phases, in seconds from the first reading."""
    out, at = [], 0.0
    for name in PHASES:
        lasted = phases_s.get(name, 0.0)
        if lasted > 0:
            out.append((name, at, at + lasted))
        at += lasted
    return out


def _panel(
    x: Scale,
    t: Sequence[float | None],
    y: Sequence[float | None],
    named: tuple[str, str],
    top: int,
    dots: Sequence[str] | None = None,
) -> str:
    """One quantity over time: its name, its range, a line (or dots, each with its state)."""
    pairs = [(i, a, b) for i, (a, b) in enumerate(zip(t, y, strict=True)) if a is not None and b is not None]
    if not pairs:
        return ""
    name, unit = named
    low, high = min(b for _, _, b in pairs), max(b for _, _, b in pairs)
    # What hardly moves is drawn as hardly moving.
    pad = max((high - low) * 0.08, abs(high) * 0.01) or 1.0
    s = Scale(low - pad, high + pad, top + PANEL - 8, top + 6)
    factor, word = scale_of(high, unit)
    ends = [digits(high / factor, 3), digits(low / factor, 3)] if high > low else [digits(high / factor, 3)]
    text = f"{' … '.join(reversed(ends))} {word if word != '1' else ''}"
    out = [
        f'<text class="name" x="0" y="{top + 20}">{escape(name[:20])}<title>{escape(name)}</title></text>',
        f'<text class="tick" x="0" y="{top + 36}">{escape(text)}</text>',
    ]
    if dots is None:
        path = "".join(f"{'L' if i else 'M'}{number(x(a))} {number(s(b))}" for i, (_, a, b) in enumerate(pairs))
        return "".join([*out, f'<path d="{path}"/>'])
    out += [
        f'<circle class="dot {escape(dots[i] if i < len(dots) else "valid")}" cx="{number(x(a))}" '
        f'cy="{number(s(b))}" r="2"/>'
        for i, a, b in pairs
    ]
    return "".join(out)


def samples(
    values: Sequence[float | None], states: Sequence[str], unit: str, width: int = 760, height: int = 150
) -> Markup:
    """Samples in the order in which they were taken; those not used are hollow."""
    known = [(i, y) for i, y in enumerate(values) if y is not None]
    if not known:
        return Markup()
    x = Scale(0, max(len(values) - 1, 1), 52, width - 8)
    low, high = min(y for _, y in known), max(y for _, y in known)
    pad = (high - low) * 0.08 or abs(high) * 0.01 or 1.0
    s = Scale(low - pad, high + pad, height - 8, 18)
    factor, name = scale_of(high, unit)
    out = [f'<text class="tick" x="52" y="10">{escape(name)}</text>'] if name != "1" else []
    for value in ticks(s.low, s.high, 3):
        at = number(s(value))
        text = digits(round(value / factor, 9), 4)
        out.append(f'<line class="gridline" x1="52" x2="{width - 8}" y1="{at}" y2="{at}"/>')
        out.append(f'<text class="tick" x="46" y="{at}" dy="0.32em" text-anchor="end">{escape(text)}</text>')
    for i, y in known:
        state = states[i] if i < len(states) else "valid"
        out.append(f'<circle class="dot {escape(state)}" cx="{number(x(i))}" cy="{number(s(y))}" r="2.6"/>')
    return markup(f'<svg class="samples" viewBox="0 0 {width} {height}" aria-hidden="true">{"".join(out)}</svg>')
