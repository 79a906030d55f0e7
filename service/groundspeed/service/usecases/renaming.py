"""Benchmarks that were renamed: seen where one went and one came with its numbers, and said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from groundspeed.service.domain.renames import Line, renames
from groundspeed.service.usecases.gate_sides import Compared, Never

_ABSENT = {"lost", "missing-baseline"}
"""Nothing went wrong on the side that has no number."""


def proposed(never: Sequence[tuple[Compared, Never]]) -> list[tuple[Compared, Never]]:
    """What a job of two sides could not compare, with a word where base and head name one benchmark differently."""
    absent = [one for one, why in never if why.why in _ABSENT]
    gone = [_line(one, one.base) for one in absent if one.base]
    come = [_line(one, one.head) for one in absent if one.head]
    words: dict[int, str] = {}
    for found in renames(gone, come):
        for old, new, ratio in found.pairs:
            same = f"its numbers go on ({100 * (ratio - 1):+.1f} %)"
            words[new] = f"it looks like {found.old} renamed: {same}"
            words[old] = f"it looks renamed to {found.new}: {same}"
    return [
        (one, replace(why, words=f"{why.words}; {words[id_]}") if (id_ := one.series.id or 0) in words else why)
        for one, why in never
    ]


def _line(one: Compared, values: dict[int, float]) -> Line:
    series = one.series
    return Line(
        series.id or 0, one.suite, series.metric, series.unit, series.direction, series.hardware_id, series.params,
        list(values.values()),
    )  # fmt: skip
