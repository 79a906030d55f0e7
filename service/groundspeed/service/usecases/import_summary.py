"""What an import did, in numbers and with the places of what was left out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from groundspeed.service.formats.records import Refused, Skipped, Where
from groundspeed.service.usecases.import_rows import Added

EXAMPLES = 20


@dataclass(slots=True)
class Reasons:
    """How often something was left out for one reason, and where (the first places only)."""

    count: int = 0
    where: list[Where] = field(default_factory=list)

    def add(self, where: Where) -> None:
        self.count += 1
        if len(self.where) < EXAMPLES:
            self.where.append(where)


@dataclass(slots=True)
class Summary:
    """What an import did. ``order`` says what the order of commits rests on, ``unplaced`` how many have no place in
    it.
    """

    project: str
    files: int = 0
    read: int = 0
    """Values that the sources hold."""
    added: Added = field(default_factory=Added)
    series: int = 0
    revisions: int = 0
    unplaced: int = 0
    order: str = ""
    skipped: dict[str, Reasons] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)

    def skip(self, skipped: Skipped) -> None:
        # the same sentence about other names or numbers is the same reason
        reason = re.sub(r"\d+(?:\.\d+)?", "N", re.sub(r'"[^"]*"', '"…"', skipped.reason))
        if len(self.skipped) >= 200 and reason not in self.skipped:
            reason = "other reasons"
        self.skipped.setdefault(reason, Reasons()).add(skipped.where)


Progress = Callable[[Summary, str], None]
"""Called after every file with the summary so far and the file's name."""


def silent(_summary: Summary, _name: str) -> None:
    return
