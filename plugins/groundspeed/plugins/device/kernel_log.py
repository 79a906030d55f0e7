"""Faults of devices in the kernel's log: NVIDIA's Xid numbers and those of NVSwitch (SXid). Parsing is pure."""

from __future__ import annotations

import contextlib
import io
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

KMSG = Path("/dev/kmsg")

_XID = re.compile(
    r"NVRM: (?P<switch>S?)Xid \((?:PCI:)?(?P<pci>[0-9a-fA-F:.]+)[^)]*\): (?P<number>\d+),?\s*(?P<message>.*)"
)
_SXID = re.compile(
    r"nvidia-nvswitch\d*: SXid \((?:PCI:)?(?P<pci>[0-9a-fA-F:.]+)\): (?P<number>\d+),?\s*(?P<message>.*)"
)
_FABRIC = re.compile(r"detected NVSwitch (?P<kind>fatal|non-fatal) error (?P<number>\d+) .*?pci bus id (?P<pci>\S+)")

APPLICATION = frozenset({13, 31, 43, 45, 68, 94})
"""A program's own error: its process dies, the device stays well (NVIDIA's Xid catalogue; 94 is contained ECC)."""
MEANING = {
    13: "graphics engine exception", 31: "memory page fault", 43: "a program's channel was reset",
    45: "a program was ended early", 48: "double-bit ECC error", 62: "internal micro-controller halt",
    63: "a memory row or page is to be remapped", 64: "remapping a row or page has failed",
    68: "video processor exception",
    74: "NVLink error", 79: "the GPU has fallen off the bus", 92: "many single-bit ECC errors",
    94: "contained ECC error", 95: "uncontained ECC error", 109: "context switch time-out",
    119: "the GSP firmware does not answer",
    120: "GSP firmware error", 121: "C2C link error", 140: "unrecovered ECC error", 143: "GPU initialisation failed",
    149: "NVLink error", 154: "the GPU needs recovery",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fault:
    """One line of the log. ``pci`` as it is written there; ``source`` "gpu" or "switch"."""

    number: int
    pci: str
    message: str
    source: str = "gpu"

    @property
    def of_application(self) -> bool:
        return self.source == "gpu" and self.number in APPLICATION

    def __str__(self) -> str:
        kind = "Xid" if self.source == "gpu" else "SXid"
        meaning = MEANING.get(self.number, "") if self.source == "gpu" else ""
        return f"{kind} {self.number}{f' ({meaning})' if meaning else ''} of {self.pci}: {self.message[:200]}"


def faults(text: str) -> Iterator[Fault]:
    """Every fault in a kernel's or fabric manager's log, in its order."""
    for line in text.splitlines():
        if match := _XID.search(line):
            source = "switch" if match["switch"] else "gpu"
            yield Fault(int(match["number"]), match["pci"].rstrip(":."), match["message"].strip(), source)
        elif match := _SXID.search(line):
            yield Fault(int(match["number"]), match["pci"], match["message"].strip(), "switch")
        elif match := _FABRIC.search(line):
            yield Fault(int(match["number"]), match["pci"], f"{match['kind']} error", "switch")


def read(since_boot_s: float = 0.0, limit_bytes: int = 4 << 20) -> tuple[str, str]:
    """(text, "") of the kernel's log since so many seconds after boot; ("", why) when it may not be read."""
    file, why = _open(KMSG)
    if file is None:
        return "", why
    with contextlib.closing(file):
        return "\n".join(_messages(file, since_boot_s, limit_bytes)), ""


class FromNowOn:
    """What the kernel's log gets from now on; nothing before it is read. ``why`` is empty if it can be read."""

    def __init__(self, path: Path = KMSG) -> None:
        self._file, self.why = _open(path)
        if self._file is not None:
            self._file.seek(0, os.SEEK_END)

    def faults(self) -> list[Fault]:
        """Those of devices and switches since the last call."""
        return [] if self._file is None else list(faults("\n".join(_messages(self._file))))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _open(path: Path) -> tuple[io.FileIO | None, str]:
    try:
        return io.FileIO(os.open(path, os.O_RDONLY | os.O_NONBLOCK)), ""
    except OSError as error:
        return None, f"the kernel's log cannot be read: {error.strerror}"


def _messages(file: io.FileIO, since_boot_s: float = 0.0, limit_bytes: int = 4 << 20) -> Iterator[str]:
    """The text of each record: "priority,number,microseconds,flags;text", one a read."""
    size = 0
    while size < limit_bytes:
        try:
            record = os.read(file.fileno(), 8192)
        except BlockingIOError:
            return
        except OSError:  # a record was overwritten while reading: the next read goes on behind it
            continue
        if not record:
            return
        size += len(record)
        head, _, message = record.decode("utf-8", "replace").partition(";")
        fields = head.split(",")
        if len(fields) > 2 and fields[2].isdigit() and int(fields[2]) / 1e6 >= since_boot_s:
            yield message.split("\n", 1)[0]


def now_s() -> float:
    """Seconds since boot, on the clock of the kernel's log."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)
