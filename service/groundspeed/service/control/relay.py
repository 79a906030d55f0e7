"""Sends the outbox: at once after a commit of this process, and again by the tick for what was left behind."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime

from groundspeed.service.control.app import send
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases import outbox

log = logging.getLogger(__name__)
_PAUSE_S = 2.0


class Relay(threading.Thread):
    """A thread that sends what a commit of this process left in the outbox."""

    def __init__(self, database: Database) -> None:
        super().__init__(name="outbox-relay", daemon=True)
        self._database = database
        self._wake = threading.Event()
        self._stop_asked = threading.Event()
        self._unhook: Callable[[], None] = lambda: None

    def start(self) -> None:
        self._unhook = outbox.on_commit(self._database, self._wake.set)
        super().start()

    def run(self) -> None:
        while not self._stop_asked.is_set():
            self._wake.wait()
            self._wake.clear()
            while not self._stop_asked.is_set() and not send_all(self._database):
                self._stop_asked.wait(_PAUSE_S)

    def stop(self) -> None:
        self._unhook()
        self._stop_asked.set()
        self._wake.set()
        self.join(timeout=10.0)


def send_all(database: Database) -> bool:
    """Send everything that is unsent; False when the broker or the database did not take part (they may come back)."""
    try:
        while outbox.relay(database, send, datetime.now(UTC)):
            pass
    except Exception:
        log.warning("messages wait in the outbox: the broker or the database is away", exc_info=True)
        return False
    return True
