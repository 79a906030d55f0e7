"""Signs of life from the benchmark process: JSON lines in a file that the worker follows."""

from __future__ import annotations

import json
import time
from pathlib import Path

QUIET_S = 0.2
"""Messages that follow faster than this are folded: the newest is written with the next."""


class ProgressFile:
    """Appends ``{"t": epoch seconds, "message": text}`` lines; never raises into the code that reports."""

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("a", encoding="utf-8", buffering=1)  # noqa: SIM115 - lives as long as the process
        self._last = 0.0
        self.last_message = ""

    def __call__(self, message: str, *, urgent: bool = False) -> None:
        self.last_message = message
        now = time.time()
        if not urgent and now - self._last < QUIET_S:
            return
        self._last = now
        self._file.write(json.dumps({"t": round(now, 3), "message": message}) + "\n")

    def close(self) -> None:
        self._file.close()
