"""The kernels behind a verdict as Markdown. Their names are a stranger's: inline code that cannot be broken out of;
what is said of them, in numbers alone, is ours. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from groundspeed.service.domain.kernels.told import Told, ToldRow
from groundspeed.service.domain.kernels.words import seconds
from groundspeed.service.forge.escape import code, markdown

NAME = 150
"""Characters of a name."""
MOST = 3
"""Benchmarks whose kernels are shown; the page has all."""


def sections(explained: Sequence[tuple[str, Told]], budget: int) -> tuple[list[str], int]:
    """The lines for some benchmarks and what is left of ``budget``; a benchmark that does not fit is counted."""
    if not explained:
        return [], budget
    lines = ["", "**Which kernel**"]
    used = sum(len(line) + 1 for line in lines)
    shown = 0
    for benchmark, told in explained[:MOST]:
        block = _block(benchmark, told)
        size = sum(len(line) + 1 for line in block)
        if used + size + 80 > budget:
            break
        lines += block
        used += size
        shown += 1
    if shown < len(explained):
        lines += ["", f"… and of {len(explained) - shown} more benchmarks: see the details"]
        used += len(lines[-1]) + 2
    return lines, max(0, budget - used)


def _block(benchmark: str, told: Told) -> list[str]:
    summary = markdown(told.summary, 500) if told.state == "missing" else told.summary
    lines = ["", f"{markdown(benchmark)}: {summary}"]
    if told.rows:
        lines += ["", "| kernel | what | a step | share |", "|---|---|--:|--:|", *map(_line, told.rows)]
    if told.others:
        more = f"{told.others} more kernels" if told.others > 1 else "1 more kernel"
        lines += ["", f"<sub>{more} changed; all others together: {seconds(told.others_s, sign=True)} a step</sub>"]
    return lines


def _line(row: ToldRow) -> str:
    name = code(row.name, NAME)
    if row.before:
        name += f" in place of {code(row.before, NAME)}"
    share = "" if row.share is None else f"{100 * row.share:.0f} %"
    change = seconds(row.head_s - row.base_s, sign=True)
    return f"| {name} | {row.what} | {change} | {share} |"
