"""When a process of the service looks for objects that refer to one another and that nobody needs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def settle_memory() -> None:
    """For one that lives long, once it has all it works with: what lives as long as the process is not looked at again
    by each collection. That alone cost a large answer half of its time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@contextmanager
def rare_collection() -> Iterator[None]:
    """While millions of objects without cycles come and go; whoever makes them looks for some from time to time."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()
