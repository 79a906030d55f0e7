"""What a regression's change points say together: which commits all of them suspect, which of them tells most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from groundspeed.service.db.tables import ChangePoint


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

    strongest: ChangePoint
    span: Span
    lowest: ChangePoint
    """Whose commit before is the range's."""
    highest: ChangePoint
    worst: ChangePoint
    last: int = 0
    count: int = 0
    confirmed: bool = False
    recovered: bool = True
    causes: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, members: Iterable[tuple[ChangePoint, Span]]) -> Picture | None:
        """``members`` oldest first, with where they lie; None of none."""
        members = list(members)
        if not members:
            return None
        row, span = max(members, key=lambda one: _strength(one[0]))
        picture = cls(row, span, row, row, row)
        for one, there in members:
            picture._see(one, there)
        return picture

    def add(self, row: ChangePoint, span: Span) -> bool:
        """With one more member; false when that makes another picture, which has to be drawn anew."""
        if (row.id or 0) <= self.last or _strength(row) > _strength(self.strongest):
            return False
        self._see(row, span)
        return True

    def _see(self, row: ChangePoint, span: Span) -> None:
        self.count += 1
        self.last = row.id or 0
        self.confirmed = self.confirmed or row.state == "confirmed"
        self.recovered = self.recovered and bool(row.detail.get("recovered"))
        self.causes.add(row.cause)
        if _size(row) > _size(self.worst) or (_size(row) == _size(self.worst) and self.last < (self.worst.id or 0)):
            self.worst = row
        if not span.overlaps(self.span):
            return
        if span.before > self.span.before:
            self.lowest = row
        if span.after < self.span.after:
            self.highest = row
        self.span = Span(max(self.span.before, span.before), min(self.span.after, span.after))


def _strength(row: ChangePoint) -> tuple[bool, float, int]:
    return row.state == "confirmed", row.strength, -(row.id or 0)


def _size(row: ChangePoint) -> float:
    """Relative size, the same for twice as much and half as much."""
    if row.ratio is None or row.ratio <= 0:
        return 0.0
    return max(row.ratio, 1 / row.ratio)
