"""Whose turn it is on the device: the next process imports and waits at its gate while the present one measures."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundspeed.plugins.execution import measuring_s
from groundspeed.plugins.protocol import ChildReport
from groundspeed.service.wire import v1
from groundspeed.workers import process
from groundspeed.workers.process import Command, Ended, OnLine
from groundspeed.workers.settings import WorkerSettings

LEAST_CPUS = 4
"""On fewer processors a process that starts would take some from the one that measures."""
Key = tuple[int, str, int]
"""Side, benchmark, replicate."""


class Process:
    """One command; with a gate it runs in a thread from now on, without one while it is waited for."""

    def __init__(self, command: Command, on_line: OnLine, stop: threading.Event, scratch: Path) -> None:
        self.command, self.scratch = command, scratch
        self._on_line, self._job_stop = on_line, stop
        self._given_up = threading.Event()
        self._ended: Ended | None = None
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        if command.gate is not None:
            self._thread = threading.Thread(target=self._run, name="a benchmark ahead of its turn", daemon=True)
            self._thread.start()

    def finish(self) -> Ended:
        """Lets it through and waits for its end. Raises what starting it raised."""
        if self._thread is None:
            return process.run(self.command, self._on_line, self._job_stop)
        assert self.command.gate is not None
        self.command.gate.open()
        while self._thread.is_alive():
            self._thread.join(0.25)
            if self._job_stop.is_set():
                self._given_up.set()
        if self._error is not None:
            raise self._error
        assert self._ended is not None
        return self._ended

    def clear(self) -> None:
        """Ends it if it still runs, and removes what it left. A second call does nothing."""
        if self._thread is not None:
            self._given_up.set()
            self._thread.join()
        if self.command.gate is not None:
            self.command.gate.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _run(self) -> None:
        try:
            self._ended = process.run(self.command, self._on_line, self._given_up)
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            self._error = error


@dataclass(slots=True)
class Turn:
    """A result that is there already, or a process and how its end becomes one."""

    result: v1.RunReport | None = None
    process: Process | None = None
    report: Callable[[float], v1.RunReport] | None = None

    def finish(self, began: float) -> v1.RunReport:
        """``began``: when the turn began (monotonic). Raises Stopped when the job must end."""
        if self.result is not None:
            return self.result
        assert self.report is not None
        try:
            return self.report(began)
        finally:
            self.clear()

    def clear(self) -> None:
        if self.process is not None:
            self.process.clear()


class Turns:
    """The turns of one job: those that have been started ahead, and when the present one began."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self._waiting: dict[Key, Turn] = {}
        self._began = time.monotonic()

    def run(
        self, key: Key, prepare: Callable[[Key, bool], Turn], following: Callable[[], Iterable[Key]]
    ) -> v1.RunReport:
        """Prepares what was not started ahead, starts what follows, and has the turn of ``key``."""
        turn = self._waiting.pop(key, None) or prepare(key, self.depth > 0)
        try:
            self._start(prepare, following)
            return turn.finish(self._began)
        finally:
            turn.clear()
            self._began = time.monotonic()

    def _start(self, prepare: Callable[[Key, bool], Turn], following: Callable[[], Iterable[Key]]) -> None:
        if self.depth <= 0:
            return
        wanted = list(following())[: self.depth]
        for key in [key for key in self._waiting if key not in wanted]:
            self._waiting.pop(key).clear()
        for key in wanted:
            if key not in self._waiting:
                self._waiting[key] = prepare(key, True)

    def clear(self) -> None:
        """Ends all that still wait."""
        while self._waiting:
            self._waiting.popitem()[1].clear()


def depth(settings: WorkerSettings, cpus: int, *, accelerated: bool, gang: bool) -> int:
    """How many processes start ahead of their turn. Several nodes start theirs together."""
    if gang:
        return 0
    if settings.starts_ahead >= 0:
        return settings.starts_ahead
    return 1 if accelerated and cpus >= LEAST_CPUS else 0


def turn_conditions(report: ChildReport | None, turn_s: float) -> dict[str, Any]:
    """The turn's length, and the share of it in which nothing was measured."""
    found: dict[str, Any] = {"turn_s": round(turn_s, 4)}
    if report is not None and turn_s > 0:
        found["overhead_share"] = round(1 - min(measuring_s(report.phases_s) / turn_s, 1.0), 4)
    return found
