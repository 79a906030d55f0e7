"""Sends the outbox: at once after a commit of this process, and again by the tick for what was left behind."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from queue import Empty, SimpleQueue

from groundspeed.service.control.app import send
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases import outbox
from groundspeed.service.usecases.outbox import Message
from groundspeed.service.usecases.topics import ANALYSE

log = logging.getLogger(__name__)
_AT_ONCE = 500
NOTED_WITHIN_S = 0.2
"""Well below the age at which others take an unnoted message for one left behind (``outbox.LEFT_BEHIND``)."""
GATHER_S = 0.05
"""Reports come in bursts: detection is told of the first at once, and of what comes within this time together."""
_MOST_SERIES = 100
"""Longer lists of series go as they are: several control workers are to share them."""


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
        self._sent: list[int] = []
        self._since: float | None = None
        """When the first of ``_sent`` was sent."""
        self._told = -GATHER_S
        """When detection was told last."""

    def start(self) -> None:
        self._unhook = outbox.on_commit(self._database, self._waiting.put)
        super().start()

    def run(self) -> None:
        while (batch := self._next()) is not None:
            try:
                self._send(batch)
            except Exception as error:  # noqa: BLE001 - the broker or the database is away: the tick sends it later
                log.warning("messages wait in the outbox: %s", error)
        self._note()

    def _next(self) -> list[Message] | None:
        """All that was committed since; empty when it is time to note what was sent, None at the end.

        What is for detection alone waits for more of its kind when detection was told a moment ago.
        """
        found: list[Message] | None = []
        try:
            found = self._waiting.get(timeout=NOTED_WITHIN_S if self._sent else None)
            while found is not None and len(found) < _AT_ONCE:
                patient = all(message.topic == ANALYSE for message in found)
                wait = self._told + GATHER_S - time.monotonic() if patient else 0.0
                more = self._waiting.get(timeout=max(0.0, wait))
                if more is None:
                    self._waiting.put(None)
                    break
                found = found + more
        except Empty:
            pass
        return found

    def _send(self, batch: list[Message]) -> None:
        try:
            if batch:
                together = _together(batch)
                gone = send([message for message, _ in together])
                self._sent += [id_ for _, ids in together[:gone] for id_ in ids]
                if any(message.topic == ANALYSE for message in batch):
                    self._told = time.monotonic()
        finally:
            if self._sent and (not batch or len(self._sent) >= _AT_ONCE or self._overdue()):
                self._note()
            elif self._since is None:
                self._since = time.monotonic()

    def _overdue(self) -> bool:
        return self._since is not None and time.monotonic() - self._since > NOTED_WITHIN_S

    def _note(self) -> None:
        """One statement for many: noting each by itself would cost as much as the commit it followed."""
        sent, self._sent, self._since = self._sent, [], None
        if sent:
            outbox.mark_sent(self._database, sent, datetime.now(UTC))

    def stop(self) -> None:
        self._unhook()
        self._waiting.put(None)
        self.join(timeout=10.0)


def _together(batch: Sequence[Message]) -> list[tuple[Message, list[int]]]:
    """Messages to send, each with the ids of those that it stands for: short lists of series become one."""
    out: list[tuple[Message, list[int]]] = []
    series: dict[int, None] = {}
    ids: list[int] = []
    for message in batch:
        own = message.payload.get("series_ids", ()) if message.topic == ANALYSE else ()
        if own and len(series) + len(own) <= _MOST_SERIES:
            series.update(dict.fromkeys(own))
            ids.append(message.id)
        else:
            out.append((message, [message.id]))
    if ids:
        out.append((Message(ids[0], ANALYSE, {"series_ids": list(series)}), ids))
    return out


def send_left_behind(database: Database) -> None:
    """Send what was left behind, by this process or another; the broker or the database may be away: then later."""
    try:
        while outbox.relay(database, send, datetime.now(UTC)):
            pass
    except Exception as error:  # noqa: BLE001 - said, and tried again by the next tick
        log.warning("messages wait in the outbox: %s", error)
