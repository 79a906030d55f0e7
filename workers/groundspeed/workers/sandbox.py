"""The place where untrusted code is confined. Without a working sandbox such code is refused, in words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from groundspeed.workers.process import Command

if TYPE_CHECKING:
    from groundspeed.workers.runner import Side


class Confinement(Protocol):
    """Wraps commands so that they reach nothing but what they need."""

    def for_build(self, command: Command, checkout: Path, environment: Path) -> Command: ...

    def for_run(self, command: Command, side: Side, staged: Path, scratch: Path) -> Command: ...


def available() -> tuple[str, str]:
    """Name of the working sandbox and, if there is none, why."""
    return "", "this worker has no sandbox for untrusted code"
