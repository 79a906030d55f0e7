"""What commands print: tables and lines for people, JSON for programs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def harmless(text: str) -> str:
    """Without control characters: titles of commits, names and messages of benchmarks are anybody's to write."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


class _Console(Console):
    """Lets no escape sequence through that came with what is shown; its own are segments of control or style."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for one in super().render(renderable, options):
            yield one if one.control else Segment(harmless(one.text), one.style)


def console(*, quiet: bool = False) -> Console:
    """Standard output; without colours and as wide as its content needs when it is no terminal."""
    out = _Console(highlight=False, quiet=quiet)
    return out if out.is_terminal else _Console(highlight=False, width=4000, no_color=True, soft_wrap=True, quiet=quiet)


def show_json(value: Any) -> None:
    """Write ``value`` as JSON; pydantic models and dates included."""
    sys.stdout.write(json.dumps(value, indent=2, default=_plain) + "\n")


def counted(number: int, thing: str) -> str:
    """``1 token``, ``2 tokens``."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def report_done(sentence: str, json: bool, **facts: Any) -> None:
    """What a command that changes something says when it is done: a sentence, or its facts as JSON."""
    if json:
        show_json(facts)
    else:
        console().print(sentence, markup=False)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = ()) -> Table:
    """A plain table; ``right`` names the columns of figures."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for heading in headings:
        made.add_column(heading, justify="right" if heading in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*row)
    return made


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    return str(value)
