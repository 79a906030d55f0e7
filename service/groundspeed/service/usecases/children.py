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


def cores() -> int:
    """Processors that this process may use; not every system keeps some from it."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
    parent = multiprocessing.parent_process()
    assert parent is not None
    # Its id as it was then: who asks for it now may already have lost it.
    threading.Thread(target=_end_with, args=(parent.pid,), daemon=True).start()


def _end_with(parent: int | None) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY_S)
    os._exit(1)
