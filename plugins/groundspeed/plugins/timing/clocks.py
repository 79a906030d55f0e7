"""Clocks: how long a run of steps took on the wall, on this process's CPU and, by events, on the device.

A clock measures a *chunk*: some samples of some steps each, with one synchronisation at the end (throughput) or one
after every step (latency). All times in seconds.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

Step = Callable[[], object]


@dataclass(slots=True)
class Chunk:
    """Samples in the order taken; the lists have equal length, one entry a sample, per step."""

    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    start_s: list[float] = field(default_factory=list)
    """When each sample began, on ``time.perf_counter``: joins samples to the conditions' trace."""
    preempted: list[bool] = field(default_factory=list)
    """Whether the kernel took the CPU away during the sample (involuntary context switches)."""

    def extend(self, other: Chunk) -> None:
        self.wall_s += other.wall_s
        self.cpu_s += other.cpu_s
        self.start_s += other.start_s
        self.preempted += other.preempted

    def newest(self, count: int) -> Chunk:
        """The last ``count`` samples."""
        first = len(self.wall_s) - count
        return Chunk(self.wall_s[first:], self.cpu_s[first:], self.start_s[first:], self.preempted[first:])


class Clock(Protocol):
    """Measures chunks on one kind of device."""

    def synchronize(self) -> None: ...

    def chunk(self, step: Step, samples: int, steps_per_sample: int) -> Chunk:
        """``samples`` samples back to back, the device waited for at the end."""
        ...

    def latency_chunk(self, step: Step, samples: int) -> Chunk:
        """Each sample one step, from call to finished on the device."""
        ...


class HostClock:
    """``perf_counter_ns`` and process CPU time (all threads of this process); nothing to wait for."""

    def synchronize(self) -> None:
        """Nothing runs behind the host's back."""

    def chunk(self, step: Step, samples: int, steps_per_sample: int) -> Chunk:
        chunk = Chunk()
        perf, cpu, usage, who = time.perf_counter_ns, time.process_time_ns, resource.getrusage, resource.RUSAGE_SELF
        repeats = range(steps_per_sample)
        for _ in range(samples):
            switches = usage(who).ru_nivcsw
            cpu_start, start = cpu(), perf()
            for _ in repeats:
                step()
            self.synchronize()
            end, cpu_end = perf(), cpu()
            chunk.preempted.append(usage(who).ru_nivcsw > switches)
            chunk.start_s.append(start * 1e-9)
            chunk.wall_s.append((end - start) * 1e-9 / steps_per_sample)
            chunk.cpu_s.append((cpu_end - cpu_start) * 1e-9 / steps_per_sample)
        return chunk

    def latency_chunk(self, step: Step, samples: int) -> Chunk:
        return self.chunk(step, samples, 1)


class AcceleratorClock(HostClock):
    """Any torch accelerator without timing events here (MPS, and XPU builds that lack them): host clock and waiting."""

    def __init__(self, module: Any) -> None:
        """``module``: torch.cuda, torch.xpu or torch.mps."""
        self._module = module

    def synchronize(self) -> None:
        self._module.synchronize()

    def latency_chunk(self, step: Step, samples: int) -> Chunk:
        """On the host's clock, the device waited for after every step, whatever ``chunk`` does: a stream that is kept
        full would tell how often answers come, not how long one takes.
        """
        return HostClock.chunk(self, step, samples, 1)


class EventClock(AcceleratorClock):
    """Timing events on the device's stream: each sample is the time between two events, nothing waited for between.

    In a steady stream that is the longer of the host's and the device's time for a step, what a user feels.
    """

    def chunk(self, step: Step, samples: int, steps_per_sample: int) -> Chunk:
        events = [self._module.Event(enable_timing=True) for _ in range(samples + 1)]
        chunk = Chunk()
        repeats = range(steps_per_sample)
        usage, who = resource.getrusage, resource.RUSAGE_SELF
        self._module.synchronize()
        events[0].record()
        for index in range(samples):
            switches = usage(who).ru_nivcsw
            cpu_start = time.process_time_ns()
            chunk.start_s.append(time.perf_counter())
            for _ in repeats:
                step()
            events[index + 1].record()
            chunk.cpu_s.append((time.process_time_ns() - cpu_start) * 1e-9 / steps_per_sample)
            chunk.preempted.append(usage(who).ru_nivcsw > switches)
        self._module.synchronize()
        for first, second in pairwise(events):
            chunk.wall_s.append(first.elapsed_time(second) * 1e-3 / steps_per_sample)
        return chunk


def clock_for(device: str) -> Clock:
    """The clock of a device name as in spi.Context. Imports torch only for an accelerator."""
    kind = device.partition(":")[0]
    if kind == "cpu":
        return HostClock()
    import torch

    if kind == "cuda":
        return EventClock(torch.cuda)
    module = getattr(torch, kind)
    return EventClock(module) if hasattr(module, "Event") and kind == "xpu" else AcceleratorClock(module)
