"""A thread that reads the device's conditions some times a second while samples are taken."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from groundspeed.plugins.device.base import Backend, Reading
from groundspeed.plugins.device.hygiene import foreign
from groundspeed.plugins.device.nvml import own_processes

RATE_HZ = 20.0
PROCESSES_EVERY_S = 0.5
"""The list of processes is read so often: a foreign one lives longer."""


@dataclass(slots=True)
class Trace:
    """Columns of equal length; ``t_s`` on ``time.perf_counter``. None where the device gives nothing."""

    t_s: list[float] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    foreign: list[int | None] = field(default_factory=list)
    """How many foreign processes held the device when next or last looked; None: the list cannot be read."""

    def columns(self, origin_s: float) -> dict[str, list[Any]]:
        """As kept with the result: numbers rounded to what they mean, time since the origin."""
        names = ("sm_mhz", "memory_mhz", "power_w", "temperature_c", "reasons", "utilisation", "memory_used_bytes")
        columns: dict[str, list[Any]] = {"t_s": [round(t - origin_s, 3) for t in self.t_s]}
        for name in names:
            values = [getattr(reading, name) for reading in self.readings]
            if any(value is not None for value in values):
                columns[name] = [round(value, 2) if isinstance(value, float) else value for value in values]
        if any(count is not None for count in self.foreign):
            columns["foreign"] = list(self.foreign)
        return columns


class Sampler:
    """``start`` and ``stop``; the trace may be read at any time. The thread sleeps in the driver, not in Python."""

    def __init__(
        self,
        backend: Backend,
        uuid: str,
        rate_hz: float = RATE_HZ,
        *,
        mine: Callable[[int], bool] = lambda _: False,
    ) -> None:
        """``mine``: whether a listed process that is not of this group belongs to the benchmark even so."""
        self._mine = mine
        self._backend, self._uuid, self._period = backend, uuid, 1 / rate_hz
        self._look_every = max(1, round(PROCESSES_EVERY_S * rate_hz))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="groundspeed-conditions", daemon=True)
        self.trace = Trace()
        self.strangers: dict[int, int | None] = {}
        """Foreign pid → bytes it held, of every one seen."""
        self.trouble = ""
        """Why it stopped reading, if it did."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Waits for the thread; a second call does nothing."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def _run(self) -> None:
        try:
            self._read()
        except Exception as error:  # noqa: BLE001 - the edge of a thread: what a vendor's library raises is an answer
            self.trouble = f"{type(error).__name__}: {error}"

    def _read(self) -> None:
        count: int = 0
        present: int | None = None
        while not self._stop.is_set():
            begin = time.perf_counter()
            if count % self._look_every == 0:
                present = self._look_for_strangers()
                if present:  # it may have come at any time since the last look
                    since = max(0, count - self._look_every)
                    self.trace.foreign[since:] = [max(present, one or 0) for one in self.trace.foreign[since:]]
            reading = self._backend.reading(self._uuid)
            self.trace.t_s.append(begin)
            self.trace.readings.append(reading)
            self.trace.foreign.append(present)
            count += 1
            self._stop.wait(max(0.0, self._period - (time.perf_counter() - begin)))

    def _look_for_strangers(self) -> int | None:
        processes = self._backend.processes(self._uuid)
        if processes is None:
            return None
        listed = foreign(processes, own_processes())
        found = [process for process in listed if not self._mine(process.pid)]
        for process in found:
            self.strangers[process.pid] = process.memory_bytes
        return len(found)
