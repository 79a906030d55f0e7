"""The worker's own log: one named logger, one line an event."""

from __future__ import annotations

import logging

logger = logging.getLogger("groundspeed.workers")


def configure(level: str = "INFO") -> None:
    """To standard error, for the entry point alone."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s worker %(levelname)s %(message)s", "%H:%M:%S"))
    logger.handlers[:] = [handler]
    logger.setLevel(level)
    logger.propagate = False
