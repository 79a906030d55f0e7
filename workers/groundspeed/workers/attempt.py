"""One attempt while it runs: its lease kept alive, its log lines sent, and the one place that says stop."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from typing import Any, Self

from groundspeed.service.wire import v1
from groundspeed.workers.client import Client
from groundspeed.workers.errors import ServiceRefused, ServiceUnavailable, Stopped
from groundspeed.workers.logs import logger

_LOG_EVERY_S = 0.5
_LOG_MOST = 5000
_LOG_BATCH = 500
_LINE_MOST = 8000
_MEET_EVERY_S = 0.5


class Attempt:
    """Starts its threads on entering and ends them on leaving the block."""

    def __init__(self, client: Client, attempt_id: str, lease_s: float) -> None:
        self.id = attempt_id
        self.stop = threading.Event()
        """Set when the job must end at once; ``check`` says why."""
        self.control: dict[str, Any] = {}
        """What the control workload took in this lease."""
        self._client = client
        self._every_s = max(lease_s / 3.0, 0.2)
        self._reason = ""
        self._ended = threading.Event()
        self._beat = v1.AttemptHeartbeat()
        self._beat_now = threading.Event()
        self._together = threading.Event()
        self._lines: deque[v1.LogLine] = deque()
        self._seq = 0
        self._told = 0
        """Number of the last line that the service has been sent."""
        self._guard = threading.Lock()
        self._threads = [
            threading.Thread(target=self._keep_lease, name=f"lease {attempt_id}", daemon=True),
            threading.Thread(target=self._send_lines, name=f"log {attempt_id}", daemon=True),
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._beat_now.set()
        for thread in self._threads:
            thread.join(5.0)

    def end(self, reason: str) -> None:
        """Ask the job to stop: "shutdown", "cancel" or "lost". The first reason counts."""
        with self._guard:
            self._reason = self._reason or reason
        self.stop.set()

    def check(self) -> None:
        """Raises Stopped when the job must end."""
        if self.stop.is_set():
            raise Stopped(self._reason or "shutdown")

    def phase(self, phase: str, message: str = "", done: int = 0, total: int = 0) -> None:
        """What is being done, told with the next sign of life (at once when the phase is new)."""
        new = phase != self._beat.phase
        self._beat = v1.AttemptHeartbeat(phase=phase, message=message[:500], done=done, total=total)
        if new:
            self._beat_now.set()

    def meet(self) -> None:
        """Wait until every node of the gang has come this far. Raises Stopped when the job must end."""
        self._together.clear()
        self.phase("ready", "Waits for the other nodes")
        while not self._together.wait(_MEET_EVERY_S):
            self.check()
            self._beat_now.set()

    def line(self, stream: str, text: str, run: v1.RunKey | None = None) -> None:
        """Queue a log line; when the service is away for long the oldest lines are dropped, which the log says."""
        with self._guard:
            self._seq += 1
            made = {"seq": self._seq, "at": time.time(), "stream": stream, "text": text[:_LINE_MOST], "run": run}
            self._lines.append(v1.LogLine.model_validate(made))
            if len(self._lines) > _LOG_MOST:
                self._lines.popleft()

    def _keep_lease(self) -> None:
        while not self._ended.is_set():
            self._beat_now.clear()
            try:
                beat = self._beat
                reply = self._client.heartbeat(self.id, beat)
            except ServiceUnavailable as error:
                logger.warning("attempt %s: no sign of life possible: %s", self.id, error)
            except ServiceRefused as error:
                logger.warning("attempt %s: %s", self.id, error)
                if error.status in {404, 409, 410}:
                    self.end("lost")
            else:
                if reply.together:
                    self._met(beat)
                if reply.verdict != "continue":
                    logger.info("attempt %s: %s %s", self.id, reply.verdict, reply.reason)
                    self.end(reply.verdict)
            self._beat_now.wait(self._every_s)

    def _met(self, beat: v1.AttemptHeartbeat) -> None:
        """Only the answer to a sign of life that said "ready" tells anything."""
        if beat.phase == "ready":
            self._together.set()

    def _send_lines(self) -> None:
        while not self._ended.wait(_LOG_EVERY_S):
            self._send_batches()
        self._send_batches()

    def _send_batches(self) -> None:
        while True:
            with self._guard:
                batch = tuple(self._lines)[:_LOG_BATCH]
            if not batch:
                return
            if missing := batch[0].seq - self._told - 1:
                batch = (_gap(batch[0], missing), *batch)
            with contextlib.suppress(ServiceRefused):  # a refused line is refused for good; the results matter more
                try:
                    self._client.log(self.id, v1.LogBatch(lines=batch))
                except ServiceUnavailable:
                    return
            with self._guard:
                self._told = batch[-1].seq
                while self._lines and self._lines[0].seq <= self._told:
                    self._lines.popleft()


def _gap(after: v1.LogLine, lines: int) -> v1.LogLine:
    """What stands in the log where lines were dropped, under the number of the last of them."""
    text = f"{lines} lines before this one were dropped: the service could not be reached for too long."
    return v1.LogLine.model_validate({"seq": after.seq - 1, "at": after.at, "stream": "worker", "text": text})
