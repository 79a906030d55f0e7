"""Names of the tasks that pull requests are worked on with, and how often what failed is tried again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

DELIVERY = "groundspeed.control.delivery"
PULL = "groundspeed.control.pull"
TELL = "groundspeed.control.pull_action"

LEFT_BEHIND = timedelta(seconds=5)
"""What a lost message should have brought is looked for after so long."""


def stamp(at: datetime) -> str:
    """A time as forges write it; such texts sort as their times do."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


@dataclass(frozen=True, slots=True)
class Patience:
    """Pauses, in seconds: ``backoff_s`` after a first failure, doubled up to ``longest_s``; open pull requests are
    read again every ``reconcile_s``; progress is shown at most every ``progress_s``.
    """

    backoff_s: float = 5.0
    longest_s: float = 120.0
    reconcile_s: float = 300.0
    progress_s: float = 20.0

    def after(self, tries: int) -> timedelta:
        """The pause after so many failures in a row."""
        return timedelta(seconds=min(self.backoff_s * 2.0 ** max(0, min(tries, 30) - 1), self.longest_s))
