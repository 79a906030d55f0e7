"""How much memory a family of processes holds, looked at so seldom and so cheaply that it disturbs no measurement."""

from __future__ import annotations

import os
from pathlib import Path

from groundspeed.workers.keeper import descendants

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_SHORT = 0.12
"""Share of memory still available below which the machine counts as short."""


class MemoryWatch:
    """Says when the processes below ``root`` hold more than ``limit_bytes``.

    With ``always`` false the processes are only looked through once the whole machine is short of memory.
    """

    def __init__(self, root: int, limit_bytes: int, *, always: bool) -> None:
        self._root = root
        self._limit = limit_bytes
        self._always = always
        self.peak_bytes = 0

    def exceeded(self) -> bool:
        if not self._always and available_share() > _SHORT:
            return False
        pids = descendants(self._root)
        held = sum(resident_bytes(pid) for pid in pids)
        if held > self._limit and len(pids) > 1:
            # Forked processes share pages: count each page once before anything is killed for it.
            held = sum(proportional_bytes(pid) for pid in pids)
        self.peak_bytes = max(self.peak_bytes, held)
        return held > self._limit


def available_share() -> float:
    """Share of the machine's memory that is still available."""
    values: dict[str, int] = {}
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines()[:5]:
        name, _, rest = line.partition(":")
        values[name] = int(rest.split()[0])
    return values.get("MemAvailable", 1) / max(values.get("MemTotal", 1), 1)


def resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return 0


def proportional_bytes(pid: int) -> int:
    """Resident memory with shared pages divided among those who share them."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return resident_bytes(pid)


def oom_kills() -> int | None:
    """How many processes the kernel has killed in this control group for want of memory; None: it does not say."""
    try:
        for line in Path("/sys/fs/cgroup/memory.events").read_text(encoding="ascii").splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
    except (OSError, ValueError):
        pass
    return None
