"""What a regression's change points say together: which commits all of them suspect, which of them tells most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from groundspeed.service.usecases.cases import AnyCase
from groundspeed.service.usecases.steps import Member


@dataclass(frozen=True, slots=True)
class Span:
    """Suspect positions (before, after]; equal where the environment changed on one commit."""

    before: int
    after: int

    def overlaps(self, other: Span) -> bool:
        if self.before == self.after or other.before == other.after:
            return self == other
        return max(self.before, other.before) < min(self.after, other.after)

    def distance(self, other: Span) -> int:
        return abs(self.before - other.before) + abs(self.after - other.after)


@dataclass(slots=True)
class Picture:
    """Of members in the order of their ids: the range starts as the strongest one's, and every other that overlaps it
    narrows it.
    """

    strongest: Member
    start: Span
    """Where the strongest lies."""
    span: Span
    lowest: Member
    """Whose commit before is the range's."""
    highest: Member
    worst: Member
    most: float
    """The size of the worst."""
    last: int = 0
    count: int = 0
    confirmed: bool = False
    recovered: bool = True
    causes: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, members: Iterable[tuple[Member, Span]]) -> Picture | None:
        """``members`` oldest first, with where they lie; None of none."""
        members = list(members)
        if not members:
            return None
        row, span = max(members, key=lambda one: _strength(one[0]))
        picture = cls(row, span, span, row, row, row, _size(row))
        for one, there in members:
            picture._see(one, there)
        return picture

    def add(self, row: Member, span: Span) -> bool:
        """With one more member; false when that makes another picture, which has to be drawn anew."""
        if (row.id or 0) <= self.last:
            return False
        if _strength(row) > _strength(self.strongest):
            if span != self.start:
                return False
            self.strongest = row  # what was seen from where it lies stays as it is
        self._see(row, span)
        return True

    def _see(self, row: Member, span: Span) -> None:
        self.count += 1
        self.last = row.id or 0
        self.confirmed = self.confirmed or row.state == "confirmed"
        self.recovered = self.recovered and bool(row.detail.get("recovered"))
        self.causes.add(row.cause)
        size = _size(row)
        if size > self.most or (size == self.most and self.last < (self.worst.id or 0)):
            self.worst, self.most = row, size
        if span is self.span or not span.overlaps(self.span):
            return
        if span.before > self.span.before:
            self.lowest, self.span = row, Span(span.before, self.span.after)
        if span.after < self.span.after:
            self.highest, self.span = row, Span(self.span.before, span.after)


@dataclass(frozen=True, slots=True)
class Said:
    """What the row of a regression is to say of its members."""

    ends: tuple[int, int]
    """The commits between which they lie."""
    cause: str
    worst: Member
    count: int

    @classmethod
    def of(cls, seen: Picture) -> Said:
        cause = next((one for one in ("code", "both", "environment", "node") if one in seen.causes), "code")
        return cls((seen.lowest.before_revision_id, seen.highest.after_revision_id), cause, seen.worst, seen.count)

    def title(self, suite: str, metric: str, unit: str) -> str:
        """The worst of them, and how many more there are."""
        worst = self.worst
        amount = f"{100 * (worst.ratio - 1):+.1f} %" if worst.ratio is not None else f"{worst.difference:+.3g} {unit}"
        more = f" and {self.count - 1} more" if self.count > 1 else ""
        return f"{suite}: {metric} {amount}{more}"

    def write(self, regression: AnyCase, names: tuple[str, str, str], now: datetime) -> bool:
        """Bring the row up to date; ``names``: benchmark, metric and unit of the worst. Returns whether it was not."""
        title = self.title(*names)
        was = (regression.before_revision_id, regression.after_revision_id), regression.cause, regression.title
        if was == (self.ends, self.cause, title):
            return False
        regression.before_revision_id, regression.after_revision_id = self.ends
        regression.cause, regression.title, regression.updated_at = self.cause, title, now
        return True


def _strength(row: Member) -> tuple[bool, float, int]:
    return row.state == "confirmed", row.strength, -(row.id or 0)


def _size(row: Member) -> float:
    """Relative size, the same for twice as much and half as much."""
    if row.ratio is None or row.ratio <= 0:
        return 0.0
    return max(row.ratio, 1 / row.ratio)
