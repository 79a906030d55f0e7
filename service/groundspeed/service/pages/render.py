"""Templates and what they may use. A template is given one wire model and nothing of the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup
from pydantic_core import to_json

from groundspeed.service.pages import formats, packed, small, svg
from groundspeed.service.pages.assets import Assets, web_root
from groundspeed.service.usecases import written
from groundspeed.service.wire.views import Graph, View

THEMES = ("auto", "light", "dark")
ROWS = 150
"""Rows of a table on a page; the CSV holds all."""
POINTS = 50
"""Rows of points below a graph, all of its series together; each has a link to older ones."""
_PAUSE = "\0"
"""What a template writes where a part ends; no text that is kept has this character."""


@lru_cache(maxsize=1)
def assets() -> Assets:
    """The built scripts and styles."""
    return Assets(web_root() / "dist")


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Jinja, with every value escaped and every unknown name an error."""
    env = Environment(
        loader=FileSystemLoader(web_root() / "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters.update(
        quantity=formats.quantity,
        percent=formats.percent,
        share=formats.share,
        interval=formats.interval,
        params=written.params,
        conditions=formats.conditions,
        short=formats.short,
        stamp=formats.stamp,
        iso=formats.iso,
        duration=formats.duration,
        url=lambda text: quote(str(text), safe=""),
    )
    env.globals.update(
        verdict_class=formats.verdict_class,
        name_of=small.series_name,
        link_of=small.series_link,
        sparkline=small.sparkline,
        effect_bar=small.effect_bar,
        strip=small.strip,
        conditions_chart=small.conditions_chart,
        samples=small.samples,
        chart=svg.chart,
        data_block=_data_block,
        asset=assets().url,
        shared=assets().shared,
        style=assets().style,
        with_query=with_query,
        heat=heat,
        ROWS=ROWS,
        POINTS=POINTS,
        static=False,
        me=None,
        whole=None,
        pause="",
    )
    return env


def render(template: str, model: View, *, path: str, theme: str = "auto", **more: Any) -> str:
    """The page of ``model``. ``path`` is the address that it stands at, without the query."""
    chosen = theme if theme in THEMES else "auto"
    return environment().get_template(template).render(view=model, path=path, theme=chosen, **more)


def in_parts(
    template: str, head: View, whole: Callable[[], View], *, path: str, theme: str = "auto", **more: Any
) -> Iterator[str]:
    """The same page in parts, each up to a ``pause`` of its template; the first is made of ``head`` alone."""
    chosen = theme if theme in THEMES else "auto"
    given = {"view": head, "whole": whole, "pause": _PAUSE, "path": path, "theme": chosen, **more}
    pieces = environment().get_template(template).generate(given)
    part: list[str] = []
    for piece in pieces:
        if piece == _PAUSE:
            yield "".join(part)
            part.clear()
        else:
            part.append(piece)
    yield "".join(part)


def with_query(query: Mapping[str, str], **changes: str | int | None) -> str:
    """A query string with some parameters changed; None takes one away."""
    merged = {**query, **changes}
    return "?" + urlencode(
        {k: str(value) for k, value in merged.items() if value is not None and value != ""}, safe=","
    )


def heat(ratio: float | None, direction: int) -> str:
    """The class of a heat map's cell: how far a node is from its peers, and whether that is good."""
    if ratio is None:
        return "none"
    away = abs(ratio - 1)
    step = 0 if away < 0.01 else 1 if away < 0.03 else 2 if away < 0.07 else 3
    if step == 0:
        return "h0"
    good = direction != 0 and (ratio > 1) == (direction > 0)
    return f"{'good' if good else 'bad' if direction else 'off'}{step}"


def _data_block(graph: Graph, *, whole: bool) -> Markup:
    """A graph as the content of a data block: no character in it can end the block or begin a comment."""
    text = to_json(packed.packed(graph, whole=whole), inf_nan_mode="null").decode()
    safe = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Markup(safe.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))  # noqa: S704 - escaped just above
