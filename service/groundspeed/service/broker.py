"""The embedded broker: kombu's files in a folder, read only once they are written, and soon after.

Kombu's own reader may take a message between its creation and its first byte, and then fails on the empty text. It
sleeps between two looks at the folder; here a change of the folder ends that sleep, for who sets ``glance_interval``
(seconds between two looks at the time of that change, which cost next to nothing).
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from queue import Empty
from typing import Any

from kombu.transport import filesystem
from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import loads


class Channel(filesystem.Channel):
    """As kombu's, but for how a message is taken."""

    def _get(self, queue: Any, timeout: Any = None) -> Any:  # noqa: ARG002 - the base class's signature
        folder = Path(self.data_folder_in)
        for name in sorted(os.listdir(folder)):  # noqa: PTH208 - names alone, many times a second
            if name.partition(".")[2] == f"{queue}.msg":
                payload = _take(folder / name)
                if payload:
                    return loads(bytes_to_str(payload))  # type: ignore[no-untyped-call]
        raise Empty


class Transport(filesystem.Transport):
    """As kombu's, but for how it waits."""

    Channel = Channel

    def drain_events(self, connection: Any, timeout: Any = None, **_: Any) -> None:
        """Deliver the next message; raises TimeoutError when none came within ``timeout`` seconds."""
        options = connection.client.transport_options
        folder, glance = options.get("data_folder_in", ""), options.get("glance_interval")
        cycle: Any = self.cycle
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            seen = _changed(folder) if glance else 0
            try:
                cycle.get(self._deliver, timeout=timeout)
            except Empty:
                if end is not None and time.monotonic() >= end:
                    raise TimeoutError from None
                _doze(self.polling_interval or 1.0, folder, seen, glance)
            else:
                return


def _doze(longest: float, folder: str, seen: int, glance: float | None) -> None:
    """For that many seconds, or until something came into the folder or left it."""
    end = time.monotonic() + longest
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, glance or left))
        if glance and _changed(folder) != seen:
            return


def _changed(folder: str) -> int:
    """When a file was last added to or taken from it; 0: it is not there (yet)."""
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116 - many times a second
    except OSError:
        return 0


def _take(path: Path) -> bytes:
    """The message, deleted by exactly one reader; empty when another was faster or it is still being written."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # a writer holds it until all is there
            payload = file.read()
            if payload:
                path.unlink()
            return payload
    except OSError:
        return b""
