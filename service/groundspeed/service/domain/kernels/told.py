"""What people are told of a difference of kernels: the same for a check, a comment, a page and a terminal.

It is stored with the verdict that it explains. Names come from the code under test; whoever shows them escapes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from groundspeed.service.domain.kernels.difference import Difference
from groundspeed.service.domain.kernels.names import short_names
from groundspeed.service.domain.kernels.words import summary, what

MOSTLY = 0.4
"""Of the difference: a kernel that makes so much of it is named beside the metric."""


@dataclass(frozen=True, slots=True)
class ToldRow:
    """One kernel: its short name, the ``full`` one, what it came in place of, and ``what`` became of it, in words.

    Seconds and launches are those of a step; ``share`` is of the difference of all kernels, None: not known.
    """

    kind: str
    name: str
    full: str
    before: str
    what: str
    base_s: float
    head_s: float
    base_launches: float
    head_launches: float
    share: float | None


@dataclass(frozen=True, slots=True)
class Told:
    """``state``: told, even, same, against, unsure, single (see docs/kernels.md), or missing: ``summary`` says why."""

    state: str
    summary: str
    base_s: float | None = None
    head_s: float | None = None
    rows: tuple[ToldRow, ...] = ()
    others: int = 0
    others_s: float = 0.0

    @property
    def culprit(self) -> str:
        """The short name of the kernel that makes most of the difference, where one does."""
        first = self.rows[0] if self.state == "told" and self.rows else None
        return first.name if first is not None and first.share is not None and first.share >= MOSTLY else ""


def tell(found: Difference) -> Told:
    """A difference, ready to be shown."""
    names = short_names(name for row in found.rows for name in (row.name, row.before) if name)
    rows = tuple(
        ToldRow(
            kind=row.kind,
            name=names.get(row.name, row.name) or "(no name)",
            full=row.name,
            before=names.get(row.before, row.before),
            what=what(row),
            base_s=row.base_s,
            head_s=row.head_s,
            base_launches=row.base_launches,
            head_launches=row.head_launches,
            share=row.share,
        )
        for row in found.rows
    )
    return Told(found.state, summary(found), found.base_s, found.head_s, rows, found.others, found.others_s)


def missing(why: str) -> Told:
    return Told("missing", f"Which kernel did it is not known: {why}.")


def from_json(kept: Mapping[str, Any]) -> Told:
    """As it was stored."""
    return Told(**{**kept, "rows": tuple(ToldRow(**row) for row in kept.get("rows", ()))})
