"""What a pull request is told: the facts, before they become text. Pure data and the conclusion drawn from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from groundspeed.service.domain.kernels.told import Told

RowKind = Literal["regressed", "improved", "changed", "failing", "new", "never-compared", "inconclusive", "unchanged"]
Conclusion = Literal["success", "failure", "neutral", "action_required", "cancelled"]
State = Literal[
    "waiting", "running", "done", "approval", "nothing-to-measure", "draft", "unlabelled", "cancelled", "error"
]

SHOWN: tuple[RowKind, ...] = ("regressed", "failing", "improved", "changed", "new", "never-compared")
"""Kinds that a person should look at, in the order they are shown; the rest is folded to a count."""


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of one benchmark. ``effect``, ``low``, ``high`` and ``mde`` are relative (0.03 = 3 %), None where
    nothing was compared, and then ``reason`` says why.
    """

    kind: RowKind
    benchmark: str
    metric: str
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    mde: float | None = None
    reason: str = ""
    url: str = ""
    repeat: str = ""
    """One command that repeats this comparison."""
    kernels: Told | None = None
    """Which kernels make the difference, where tables of them were kept."""
    suite: str = ""
    series_id: int | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A verdict on one head. ``accepted``: the reason a maintainer gave for taking a regression as intended."""

    state: State
    base_sha: str
    head_sha: str
    url: str
    rows: tuple[Row, ...] = ()
    where: str = ""
    """Device and environment in words: "1 × H200, driver 580.159, torch 2.11"."""
    accepted: str = ""
    note: str = ""
    done: int = 0
    total: int = 0
    lines: tuple[tuple[str, int], ...] = ()
    """Where groundspeed.toml of the head declares each suite, as far as that is known."""
    approve_label: str = ""
    """The label with which a maintainer may let this head run."""

    def of(self, kind: RowKind) -> tuple[Row, ...]:
        rows = (row for row in self.rows if row.kind == kind)
        return tuple(sorted(rows, key=lambda row: (-abs(row.effect or 0.0), row.benchmark, row.metric)))

    def explained(self, *kinds: RowKind) -> tuple[tuple[str, Told], ...]:
        """By benchmark what its kernels say of rows of such kinds, the largest effect first."""
        found = ((row.benchmark, row.kernels) for kind in kinds for row in self.of(kind))
        return tuple({name: told for name, told in found if told is not None}.items())

    @property
    def compared(self) -> int:
        """Rows in which two sides were really compared."""
        return sum(row.effect is not None for row in self.rows)

    @property
    def could_have_seen(self) -> float | None:
        """The largest of the rows' smallest visible changes: what this run as a whole would have noticed."""
        values = [row.mde for row in self.rows if row.mde is not None and math.isfinite(row.mde)]
        return max(values, default=None)


def conclusion(report: Report) -> Conclusion | None:
    """How the check ends; None while it has not. Zero compared is never a success."""
    early: dict[State, Conclusion | None] = {
        "waiting": None,
        "running": None,
        "approval": "action_required",
        "nothing-to-measure": "neutral",
        "draft": "neutral",
        "unlabelled": "neutral",
        "cancelled": "cancelled",
        "error": "failure",
    }
    if report.state != "done":
        return early[report.state]
    if report.of("regressed") or report.of("failing"):
        return "neutral" if report.accepted else "failure"
    if report.compared == 0 or report.of("never-compared"):
        return "neutral"
    return "success"


def verdict(report: Report) -> str:
    """What was found, in a word or two: a pull request is told anew when this differs from what it was told last."""
    if report.state != "done":
        return report.state
    found = [kind for kind in ("regressed", "failing", "improved", "changed") if report.of(kind)]
    return "+".join(found) or ("unchanged" if report.compared else "nothing compared")
