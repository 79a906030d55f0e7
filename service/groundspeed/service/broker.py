"""The embedded broker: kombu's files in a folder, read only once they are written.

Kombu's own reader may take a message between its creation and its first byte, and then fails on the empty text.
"""

from __future__ import annotations

import fcntl
import os
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
    Channel = Channel


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
