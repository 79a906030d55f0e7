"""How long a lease lasts, and how patient the service is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Policy:
    """``retry_delay_s`` is doubled for each further attempt; ``heartbeat_s`` is what workers are asked for."""

    lease_s: float = 60.0
    heartbeat_s: float = 10.0
    retry_delay_s: float = 15.0

    @property
    def present_s(self) -> float:
        """A node silent for longer is not counted on for a job of several nodes."""
        return 3 * self.heartbeat_s
