"""Sends the outbox: at once after a commit of this process, and again by the tick for what was left behind."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from queue import Empty, SimpleQueue

from groundspeed.service.control.app import send
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases import outbox
from groundspeed.service.usecases.outbox import Message

log = logging.getLogger(__name__)
_AT_ONCE = 500


class Relay(threading.Thread):
    """A thread that sends what a commit of this process left in the outbox, and then notes that it did.

    A process that dies between the two makes a message come twice; one that dies before, or whose broker is away,
    leaves it to the tick.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(name="outbox-relay", daemon=True)
        self._database = database
        self._waiting: SimpleQueue[list[Message] | None] = SimpleQueue()
        self._unhook: Callable[[], None] = lambda: None

    def start(self) -> None:
        self._unhook = outbox.on_commit(self._database, self._waiting.put)
        super().start()

    def run(self) -> None:
        while (batch := self._waiting.get()) is not None:
            try:
                self._send(batch)
            except Exception as error:  # noqa: BLE001 - the broker or the database is away: the tick sends it later
                log.warning("messages wait in the outbox: %s", error)

    def _send(self, batch: list[Message]) -> None:
        sent: list[int] = []
        try:
            while batch:
                for message in batch:
                    send(message.topic, message.payload)
                    sent.append(message.id)
                batch = self._more() if len(sent) < _AT_ONCE else []
        finally:
            if sent:
                outbox.mark_sent(self._database, sent, datetime.now(UTC))

    def _more(self) -> list[Message]:
        """What came meanwhile, so that one statement notes it all."""
        try:
            batch = self._waiting.get_nowait()
        except Empty:
            return []
        if batch is None:
            self._waiting.put(None)
            return []
        return batch

    def stop(self) -> None:
        self._unhook()
        self._waiting.put(None)
        self.join(timeout=10.0)


def send_left_behind(database: Database) -> None:
    """Send what was left behind, by this process or another; the broker or the database may be away: then later."""
    try:
        while outbox.relay(database, send, datetime.now(UTC)):
            pass
    except Exception as error:  # noqa: BLE001 - said, and tried again by the next tick
        log.warning("messages wait in the outbox: %s", error)
