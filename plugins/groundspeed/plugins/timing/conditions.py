"""The conditions under which samples were taken. What cannot be read is recorded as not available, with why."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Conditions:
    """Read at the start and at the end of a run; ``summary`` goes into the report."""

    device: str
    device_uuid: str | None = None
    begin_s: float = 0.0
    first: dict[str, Any] = field(default_factory=dict)
    last: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def start(cls, device: str) -> Conditions:
        conditions = cls(device=device, begin_s=time.perf_counter())
        conditions.first = host_state()
        return conditions

    def stop(self) -> None:
        """Idempotent."""
        if not self.last:
            self.last = host_state()

    def summary(self) -> dict[str, Any]:
        self.stop()
        return {"host": {"before": self.first, "after": self.last}}


def host_state() -> dict[str, Any]:
    """Load, CPU frequency and stolen time of the host."""
    return {"load_1m": _load(), "cpu_mhz": _cpu_mhz(), "steal_s": _steal_s()}


def _load() -> float | dict[str, str]:
    try:
        return round(os.getloadavg()[0], 2)
    except OSError as error:
        return {"unavailable": str(error)}


def _cpu_mhz() -> float | dict[str, str]:
    path = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")
    try:
        return int(path.read_text()) / 1000
    except (OSError, ValueError):
        return {"unavailable": f"{path} cannot be read"}


def _steal_s() -> float | dict[str, str]:
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
        return int(fields[8]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return {"unavailable": "/proc/stat gives no stolen time"}
