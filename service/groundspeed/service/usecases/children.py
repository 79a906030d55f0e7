"""Processes beside this one, for work that goes on while it writes."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import threading
import time
from multiprocessing.context import BaseContext

_LOOK_EVERY_S = 1.0


def context() -> BaseContext:
    """How to start them. A copy of this process stands ready at once; where that is not safe (other threads may hold
    locks that nobody would release in the copy) a new one is started, which has to import all that it needs.
    """
    safe = sys.platform == "linux" and threading.active_count() == 1
    return multiprocessing.get_context("fork" if safe else "spawn")


def settle() -> None:
    """In such a process, first. What it was copied with is left alone, above all connections to the database; it ends
    when the process does that it works for, which may be killed.
    """
    gc.freeze()
    gc.disable()
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY_S)
    os._exit(1)
