"""Whether a device is fit to measure on, before and after. Pure functions on what was read."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from groundspeed.plugins.device.base import DeviceInfo, Process, State
from groundspeed.plugins.device.kernel_log import Fault
from groundspeed.plugins.symptoms import SYMPTOMS

HOT_C = 80.0
"""Above this a device starts too near its slowdown temperature: wait for it to cool."""
LEAK_BYTES = 1 << 30
"""Memory in use without any process: more than a driver's own."""


def node_findings(device: DeviceInfo, state: State) -> list[str]:
    """What takes the node out of use until somebody has looked. Each says what and what to do."""
    name = f"GPU {device.index} ({device.model}, {device.uuid})"
    found = []
    if state.ecc_uncorrected:
        found.append(_words("ecc-errors", name, f"{state.ecc_uncorrected} of them"))
    if state.remapped_rows_failed:
        found.append(_words("row-remap-failed", name))
    elif state.remapped_rows_pending:
        found.append(_words("row-remap-pending", name))
    return found


def fault_findings(faults: Iterable[Fault]) -> list[str]:
    """What takes the node out of use from the kernel's log: faults of devices and switches, not of programs."""
    found: dict[tuple[str, int], str] = {}
    for fault in faults:
        if not fault.of_application:
            code = "fabric" if fault.source == "switch" else "xid"
            found.setdefault((fault.pci, fault.number), _words(code, str(fault)))
    return list(found.values())


def _words(code: str, where: str, evidence: str = "") -> str:
    """In the words of doctor."""
    return f"{where}: {_said(code, evidence)}"


def _said(code: str, evidence: str) -> str:
    symptom = SYMPTOMS[code]
    return f"{symptom.what}{f' ({evidence})' if evidence else ''}: {symptom.cure}"


def clean_findings(state: State, own: Collection[int]) -> list[str]:
    """What makes a measurement now untrustworthy, in the words of doctor: other processes, leaked memory, heat."""
    found = []
    if others := foreign(state.processes, own):
        listed = ", ".join(f"process {one.pid} holds {mib(one.memory_bytes)}" for one in others[:8])
        found.append(_said("other-processes", listed))
    used = state.memory_used_bytes
    if state.processes == () and used is not None and used - state.memory_reserved_bytes > LEAK_BYTES:
        found.append(_said("leaked-memory", f"{mib(used)} are in use"))
    if state.temperature_c is not None and state.temperature_c > HOT_C:
        found.append(_said("hot", f"{state.temperature_c:.0f} °C, over {HOT_C:.0f}"))
    return found


def changes(before: State, after: State) -> list[str]:
    """Error counters that rose during a run: its result is suspect and the device too."""
    found = []
    for field, words in (("ecc_uncorrected", "uncorrected"), ("ecc_corrected", "corrected")):
        old, new = getattr(before, field), getattr(after, field)
        if old is not None and new is not None and new > old:
            cure = f": {SYMPTOMS['ecc-errors'].cure}" if words == "uncorrected" else ""
            found.append(f"{new - old} {words} ECC errors during the run{cure}")
    if after.remapped_rows_pending and not before.remapped_rows_pending:
        found.append(_said("row-remap-pending", "since this run"))
    return found


def foreign(processes: Collection[Process] | None, own: Collection[int]) -> list[Process]:
    """Processes on the device that are not of this benchmark."""
    return [process for process in processes or () if process.pid not in own]


def appeared(
    before: Collection[Process] | None, after: Collection[Process] | None, own: Collection[int]
) -> frozenset[int]:
    """Under which numbers this process came onto the device's list as it made its context.

    In a container with process numbers of its own the driver may list the host's. Empty where the list knows it by its
    own number.
    """
    listed = {process.pid for process in after or ()}
    if listed & set(own):
        return frozenset()
    return frozenset(listed - {process.pid for process in before or ()})


def belongs_to_programs(before: Collection[Process] | None) -> Callable[[int], bool]:
    """Whether a listed process is one that this process has started, or one of theirs.

    One that no file in /proc stands for, and that was not there ``before``, is taken for one of them: in a container
    with process numbers of its own the driver may list the host's.
    """
    earlier = {process.pid for process in before or ()}

    def belongs(pid: int) -> bool:
        return descends(pid) or (pid not in earlier and not Path(f"/proc/{pid}").exists())

    return belongs


def descends(pid: int) -> bool:
    """Whether a process is below this one."""
    for _ in range(64):
        if pid == os.getpid():
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return False
        if pid <= 1:
            return False
    return False


def cool_down(
    temperature: Callable[[], float | None],
    *,
    limit_c: float = HOT_C,
    at_most_s: float = 60.0,
    sleep: Callable[[float], None] = time.sleep,
) -> float | None:
    """Waits, within bounds, until the device is below the limit; returns the last temperature read, None: unknown."""
    waited = 0.0
    current = temperature()
    while current is not None and current > limit_c and waited < at_most_s:
        sleep(1.0)
        waited += 1.0
        current = temperature()
    return current


def settle(
    strangers: Callable[[], Collection[Process]],
    *,
    at_most_s: float = 1.0,
    sleep: Callable[[float], None] = time.sleep,
) -> float:
    """Waits, within bounds, for the process before to leave the device's list; returns the seconds waited.

    A process that has ended is listed until the driver has taken its context down. One that stays is somebody else's.
    """
    waited = 0.0
    while waited < at_most_s and strangers():
        sleep(0.02)
        waited = round(waited + 0.02, 2)
    return waited


def mib(size: int | None) -> str:
    return "an unknown amount" if size is None else f"{size / (1 << 20):.0f} MiB"
