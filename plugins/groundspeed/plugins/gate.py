"""The gate between a benchmark's imports and its first touch of the device.

Fresh processes cost seconds of imports. So that a device need not wait for them, the next process starts while the
present one measures, imports what it needs and then sleeps at its gate: blocked in one read of a named pipe, without a
timer, without a device. Whoever started it opens the gate once the process before it has ended. Standard library alone.
"""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

_OPEN = b"g"
_LOOK_S = 0.02
"""How often to look for the mark that stands for an open gate where the file system has no pipes."""


class GateClosed(Exception):
    """Whoever held the gate is gone: nobody wants the result."""


class Gate:
    """The side of whoever starts the process: made before it, opened once, closed in any case."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.opened_s: float | None = None
        """When it was opened, on ``time.monotonic``."""
        self._file = -1
        try:
            os.mkfifo(path, 0o600)
        except (OSError, NotImplementedError):
            return  # a file system without pipes: the gate is open once the file is there
        # For reading too: so the pipe opens at once, and it ends when this process does.
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def open(self, processes: int = 1) -> None:
        """Let so many processes that wait here go on; a second call does nothing."""
        if self.opened_s is not None:
            return
        self.opened_s = time.monotonic()
        if self._file >= 0:
            os.write(self._file, _OPEN * processes)
        else:
            self.path.touch()

    def close(self) -> None:
        """A process that still waits is told that nobody will come. A second call does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def wait(path: str) -> None:
    """Sleeps until the gate opens. Raises GateClosed when it never will."""
    parent = os.getppid()
    while not os.path.lexists(path):
        if os.getppid() != parent:
            raise GateClosed(_WORDS)
        time.sleep(_LOOK_S)
    if not stat.S_ISFIFO(os.stat(path).st_mode):  # noqa: PTH116 - three calls of one kind
        return
    # Not to wait for a writer: where there is none any more, reading ends at once.
    pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.set_blocking(pipe, True)
        if os.read(pipe, 1) != _OPEN:
            raise GateClosed(_WORDS)
    finally:
        os.close(pipe)


_WORDS = "the gate of this process was closed before its turn came"
