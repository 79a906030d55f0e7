"""Locks the clocks of a job's devices while it measures, and lets them go whatever happens.

What is locked is noted in a file first: a worker that was killed leaves the note, and the next one on the same folder
lets go of what it names.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from groundspeed.plugins.device import clocks, open_backend
from groundspeed.workers.logs import logger

_guard = threading.Lock()


@contextlib.contextmanager
def locked(note: Path, uuids: Iterable[str], mhz: int, say: Callable[[str], None]) -> Iterator[None]:
    """``note``: the file of what is locked. What cannot be locked is said and measured as it is."""
    held = [uuid for uuid in uuids if _hold(note, uuid, mhz, say)]
    try:
        yield
    finally:
        for uuid in held:
            _release(note, uuid)


def let_go(note: Path) -> None:
    """What an earlier worker on this folder left locked."""
    for uuid in _noted(note):
        _release(note, uuid)


def _hold(note: Path, uuid: str, mhz: int, say: Callable[[str], None]) -> bool:
    _write(note, add=uuid)
    value, why = clocks.hold(open_backend(), uuid, mhz)
    if why:
        _write(note, remove=uuid)
        say(f"The clock of {uuid} cannot be locked: {why}")
        return False
    say(f"The clock of {uuid} is locked at {value} MHz")
    return True


def _release(note: Path, uuid: str) -> None:
    try:
        why = clocks.release(open_backend(), uuid)
    except KeyError:
        why = "this device is no longer there"
    if why:
        logger.error("the clock of %s is still locked: %s (nvidia-smi -rgc lets it go)", uuid, why)
    _write(note, remove=uuid)


def _noted(note: Path) -> list[str]:
    try:
        return [str(uuid) for uuid in json.loads(note.read_text(encoding="utf-8"))]
    except (OSError, ValueError):
        return []


def _write(note: Path, *, add: str = "", remove: str = "") -> None:
    with _guard:
        left = sorted({*_noted(note), add} - {remove, ""})
        fresh = note.with_suffix(".tmp")
        fresh.write_text(json.dumps(left), encoding="utf-8")
        fresh.replace(note)
