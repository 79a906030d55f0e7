"""What a long-lived process of the service does once it has all it works with."""

from __future__ import annotations

import gc


def settle_memory() -> None:
    """What lives as long as the process is not looked at again by each collection: that alone cost a large answer half
    of its time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
