"""Small pictures for tables and cards: sparklines, intervals, samples, conditions. Pure: models in, SVG out."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape

from groundspeed.service.pages.formats import digits, scale_of
from groundspeed.service.pages.svg import Scale, markup, number, ticks
from groundspeed.service.wire import views as v


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


def lines(t: Sequence[float | None], y: Sequence[float | None], width: int = 420, height: int = 90) -> Markup:
    """A condition over time, with its range written at the side."""
    pairs = [(a, b) for a, b in zip(t, y, strict=True) if a is not None and b is not None]
    if not pairs:
        return Markup()
    x = Scale(pairs[0][0], max(pairs[-1][0], pairs[0][0] + 1e-9), 44, width - 4)
    low, high = min(b for _, b in pairs), max(b for _, b in pairs)
    pad = (high - low) * 0.08 or abs(high) * 0.05 or 1.0
    s = Scale(low - pad, high + pad, height - 6, 6)
    path = "".join(f"{'L' if i else 'M'}{number(x(a))} {number(s(b))}" for i, (a, b) in enumerate(pairs))
    labels = "".join(
        f'<text class="tick" x="40" y="{number(s(value))}" dy="0.32em" text-anchor="end">'
        f"{escape(digits(value, 3))}</text>"
        for value in ({low, high} if high > low else {low})
    )
    return markup(
        f'<svg class="lines" viewBox="0 0 {width} {height}" aria-hidden="true">{labels}<path d="{path}"/></svg>'
    )


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
