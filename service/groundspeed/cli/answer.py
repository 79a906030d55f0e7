"""The final table: one row for each cause, with what it did, its interval, and what it rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from groundspeed.cli.output import table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from groundspeed.service.db.engine import Database
    from groundspeed.service.usecases.findings import Finding, Findings, Member

WORDS = {"regression": "worse", "improvement": "better", "change": "changed"}


def load(db: Database, slug: str) -> Findings:
    """What the project's measurements have found."""
    from groundspeed.service.usecases.findings import findings

    return findings(db, slug)


def render(found: Findings) -> RenderableType:
    """The table for people, with a line on what was measured; one line when nothing was found."""
    counts = found.counts
    basis = f"{counts.commits} commits, {counts.runs} benchmark processes, {counts.series} series"
    failed = f", {counts.failures} failed" if counts.failures else ""
    if not found.rows:
        if not counts.series:
            nothing = f"Nothing could be measured ({basis}{failed})" if counts.runs else "Nothing was measured yet"
            return Group(Text(f"{nothing}: that is not the same as no change."), *_why(found))
        return Group(Text(f"No change of performance was found ({basis}{failed})."), *_why(found))
    rows = [row for finding in found.rows for row in _rows(finding)]
    head = ("", "commit", "title", "metric", "change", "95 % interval", "before → after", "state")
    return Group(table(head, rows, right=("change", "95 % interval")), Text(f"{basis}{failed}."), *_why(found))


def _why(found: Findings) -> list[Text]:
    """What the failures said, and where to look."""
    said = [Text(f"failed: {reason} ({count} times)") for reason, count in found.counts.reasons.items()]
    return [*said, Text("`groundspeed show COMMIT` and the pages of the runs say more.")] if said else []


def _rows(finding: Finding) -> list[tuple[str, ...]]:
    """The largest effect in full; further members of the cause under it."""
    commit = finding.commit
    first = (WORDS[finding.kind], commit.sha[:9] if commit else finding.cause, commit.title[:48] if commit else "")
    state = "confirmed" if finding.confirmed else "provisional"
    if finding.suspects is not None and finding.suspects > 1:
        state += (
            ", or the one before it" if finding.suspects == 2 else f", or one of the {finding.suspects - 1} before it"
        )
    return [
        (*(first if place == 0 else ("", "", "")), *_member(member), state if place == 0 else "")
        for place, member in enumerate(finding.members)
    ]


def _member(member: Member) -> tuple[str, str, str, str]:
    name = f"{member.suite}: {member.metric}"
    if member.ratio is None:
        return name, f"{member.difference:+.4g} {member.unit}", "", _levels(member)
    interval = ""
    if member.low is not None and member.high is not None:
        interval = f"{_percent(member.low)} … {_percent(member.high)}"
    return name, _percent(member.ratio), interval, _levels(member)


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def _levels(member: Member) -> str:
    if member.before is None or member.after is None:
        return ""
    return f"{quantity(member.before, member.unit)} → {quantity(member.after, member.unit)}"


def quantity(value: float, unit: str) -> str:
    """A value with a unit of a readable size: 0.0123 s is 12.3 ms, 3200000 B is 3.2 MB."""
    scales = {
        "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
        "B": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")),
    }
    for size, name in scales.get(unit, ()):
        if abs(value) >= size:
            return f"{value / size:.4g} {name}"
    return f"{value:.4g} {unit}".strip()
