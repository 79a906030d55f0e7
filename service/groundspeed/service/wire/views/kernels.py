"""Which kernels make a difference between two sides."""

from __future__ import annotations

from groundspeed.service.wire.views.parts import View


class KernelRow(View):
    """One kernel that changed. Seconds and launches are those of a step, means over the processes of a side."""

    kind: str
    """slower, faster, appeared, vanished, replaced, more-launches or fewer-launches."""
    name: str
    """Short enough to be read; ``full`` is the whole. Both come from the code under test."""
    full: str
    before: str
    """What it came in place of."""
    what: str
    """What became of it, in words."""
    base_s: float
    head_s: float
    base_launches: float
    head_launches: float
    share: float | None
    """Of the difference of all kernels; above 1 where others make up for it, None where that is not known."""


class Kernels(View):
    """The kernels of one benchmark on two sides."""

    benchmark: str
    series: int | None
    """One of its series that changed."""
    state: str
    """told, even (all alike), same, against (the other way), unsure, single (one process a side) or missing."""
    summary: str
    base_s: float | None
    """Seconds of a step in all kernels."""
    head_s: float | None
    rows: tuple[KernelRow, ...]
    others: int
    """More kernels that changed."""
    others_s: float
    """Seconds a step that all kernels without a row have more."""
