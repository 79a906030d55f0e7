"""A clock of events whose chunks follow each other without the device going idle.

Between chunks the host collects garbage, reports life and asks the stop rule. A device that rests meanwhile cools, and
one at its power cap then runs faster than it could keep up. So some samples more than asked for are always in flight;
they are the first ones of the next chunk.
"""

from __future__ import annotations

import math
import resource
import time
from dataclasses import dataclass
from typing import Any

from groundspeed.plugins.timing.clocks import Chunk, Clock, EventClock, Step, clock_for

IN_FLIGHT_S = 0.03
"""Work left on the device while the host thinks; what the host does then takes a few milliseconds."""


@dataclass(slots=True)
class _Sample:
    """One sample on its way: the events around it, and what the host saw while it was launched."""

    begin: Any
    end: Any
    start_s: float
    cpu_s: float
    preempted: bool


class UnbrokenClock(EventClock):
    """For loops that take chunk after chunk of one step. Runs up to ``IN_FLIGHT_S`` of steps more than it returns.

    Not for steps that meet other processes (collectives): how many steps run depends on this process's own times.
    """

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self._of: tuple[Step, int] | None = None
        self._flying: list[_Sample] = []
        self._sample_s = 0.0

    def chunk(self, step: Step, samples: int, steps_per_sample: int) -> Chunk:
        if self._of != (step, steps_per_sample):
            self._module.synchronize()
            self._of, self._flying, self._sample_s = (step, steps_per_sample), [], 0.0
        flying, self._flying = self._flying, []
        mark = self._mark(flying)
        for _ in range(samples + self._ahead(samples) - len(flying)):
            flying.append(self._launch(step, steps_per_sample, mark))
            mark = flying[-1].end
        flying[samples - 1].end.synchronize()
        done, self._flying = flying[:samples], flying[samples:]
        chunk = Chunk()
        for one in done:
            chunk.wall_s.append(one.begin.elapsed_time(one.end) * 1e-3 / steps_per_sample)
            chunk.start_s.append(one.start_s)
            chunk.cpu_s.append(one.cpu_s / steps_per_sample)
            chunk.preempted.append(one.preempted)
        self._sample_s = sum(chunk.wall_s) / samples * steps_per_sample
        return chunk

    def synchronize(self) -> None:
        """Waits for what is in flight and forgets it."""
        super().synchronize()
        self._of, self._flying = None, []

    def _mark(self, flying: list[_Sample]) -> Any:
        """Where the next sample begins: at the end of the last one, or now if the device has run out of work."""
        if flying and not flying[-1].end.query():
            return flying[-1].end
        mark = self._module.Event(enable_timing=True)
        mark.record()
        return mark

    def _ahead(self, samples: int) -> int:
        """None for a lone sample (the first steps, and steps so long that a pause is nothing beside them)."""
        return math.ceil(IN_FLIGHT_S / self._sample_s) if samples > 1 and self._sample_s > 0 else 0

    def _launch(self, step: Step, steps: int, begin: Any) -> _Sample:
        end = self._module.Event(enable_timing=True)
        switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
        cpu_start, start = time.process_time_ns(), time.perf_counter()
        for _ in range(steps):
            step()
        end.record()
        return _Sample(
            begin,
            end,
            start,
            (time.process_time_ns() - cpu_start) * 1e-9,
            resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw > switches,
        )


def loop_clock(device: str) -> Clock:
    """The clock of a loop on one device, named as in spi.Context. Imports torch only for an accelerator."""
    if device.partition(":")[0] != "cuda":
        return clock_for(device)
    import torch

    return UnbrokenClock(torch.cuda)
