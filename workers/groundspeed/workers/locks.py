"""Locks on files that end with the processes that hold them, whatever way those end."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from groundspeed.workers.errors import Stopped, WorkerError


class LockTimeout(WorkerError):
    pass


@contextmanager
def locked(path: Path, *, wait_s: float, stop: threading.Event | None = None) -> Iterator[int]:
    """Hold the lock file exclusively; yields its descriptor.

    A child that inherits the descriptor holds the lock too: what a killed worker left running is waited for.
    Raises LockTimeout after ``wait_s`` seconds and Stopped when ``stop`` is set.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _acquire(fd, path, wait_s, stop)
        yield fd
    finally:
        os.close(fd)


def _acquire(fd: int, path: Path, wait_s: float, stop: threading.Event | None) -> None:
    deadline, pause_s = time.monotonic() + wait_s, 0.005
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if stop is not None and stop.is_set():
                raise Stopped("shutdown") from None
            if time.monotonic() >= deadline:
                raise LockTimeout(f"{path} has been held by another process for {wait_s:g} s") from None
        else:
            return
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.25)
