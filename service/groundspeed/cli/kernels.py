"""Which kernels make a difference, as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groundspeed.service.wire.views import Kernels


def lines(found: Iterable[Kernels]) -> Iterator[str]:
    """One for each benchmark and, under it, one for each kernel that changed."""
    from groundspeed.service.domain.kernels.words import seconds

    for one in found:
        yield f"{one.benchmark}: {one.summary}"
        for row in one.rows:
            share = "" if row.share is None else f", {100 * row.share:.0f} %"
            before = f" in place of {row.before}" if row.before else ""
            change = seconds(row.head_s - row.base_s, sign=True)
            yield f"  {change}{share}  {row.name}{before}: {row.what}"
        if one.others:
            yield f"  {seconds(one.others_s, sign=True)} a step in all others, {one.others} of which changed"
