"""Follows the progress file that a benchmark process appends to (see groundspeed.plugins.protocol)."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from groundspeed.workers.output import MAX_LINE, harmless

_MOST_BYTES = 1 << 18
"""Read at a time; of more than that only the end is looked at."""


def open_plain(path: Path) -> BinaryIO:
    """Open a file that a benchmark may have tampered with: no link is followed, no pipe is waited for.

    Raises OSError when it is anything but a plain file.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(f"{path} is not a plain file")
    return os.fdopen(fd, "rb")


class ProgressTail:
    """Reads what has been appended since the last look; tolerates half-written and meaningless lines."""

    def __init__(self, path: Path | None, emit: Callable[[str], None]) -> None:
        self._path = path
        self._emit = emit
        self._offset = 0
        self.last = ""

    def poll(self) -> bool:
        """Whether anything has been appended."""
        if self._path is None:
            return False
        try:
            size = self._path.lstat().st_size
            if size <= self._offset:
                return False
            with open_plain(self._path) as file:
                file.seek(max(self._offset, size - _MOST_BYTES))
                data = file.read(_MOST_BYTES)
        except OSError:
            return False
        whole, newline, _ = data.rpartition(b"\n")
        if not newline:
            return False
        self._offset = max(self._offset, size - _MOST_BYTES) + len(whole) + 1
        for line in whole.splitlines():
            self._take(line)
        return True

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)["message"]
        except (ValueError, KeyError, TypeError):
            return
        if isinstance(message, str):
            self.last = harmless(message[:MAX_LINE])
            self._emit(self.last)
