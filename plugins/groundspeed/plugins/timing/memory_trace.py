"""Recording what the allocator hands out while a task is made and takes a few steps.

On CUDA and XPU the caching allocator keeps its own peaks. On the CPU torch's allocator reports every allocation and
release to the profiler: their running sum is exact and, unlike the resident set, the same in every process.
"""

from __future__ import annotations

import gc
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from groundspeed.plugins import tasks
from groundspeed.plugins.device import open_backend
from groundspeed.plugins.spi import Context, Unsupported
from groundspeed.plugins.timing.conditions import device_uuid
from groundspeed.plugins.timing.peak import host_rss_bytes

MARK = "groundspeed:mark:"
PHASES = ("forward", "backward", "optimizer")
Mark = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class MemoryTrace:
    """Bytes. ``peak_reserved`` None: this device's allocator does not reserve."""

    peak_allocated: int
    setup_allocated: int
    host_peak: int
    peak_reserved: int | None = None
    phase_peaks: Mapping[str, int] = field(default_factory=dict)
    growth: float = 0.0
    """Bytes a step."""
    device_used: int | None = None
    """The most seen at the ends of phases; None: nothing tells it."""


@dataclass(slots=True)
class Held:
    """What marks divide a run into: (name of the mark that begins it, bytes at its end, peak within it), in order."""

    spans: list[tuple[str, int, int]] = field(default_factory=list)

    @property
    def setup(self) -> int:
        return next((end for name, end, _ in self.spans if name == "start"), 0)

    def phase_peaks(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for name, _, peak in self.spans:
            if name in PHASES:
                found[name] = max(peak, found.get(name, 0))
        return found

    def growth(self) -> float:
        """Median of the slopes between all pairs of step ends after the second (Theil 1950, Sen 1968)."""
        ends = [end for name, end, _ in self.spans if name in {"optimizer", "step"}][2:]
        slopes = [(b - a) / (j - i) for i, a in enumerate(ends) for j, b in enumerate(ends) if j > i]
        return statistics.median(slopes) if slopes else 0.0


def trace_memory(context: Context) -> MemoryTrace:
    """Makes the task and takes ``steps`` steps. Raises what the target raises."""
    kind = context.device.partition(":")[0]
    if kind == "cpu":
        return _trace_cpu(context)
    import torch

    module = getattr(torch, kind)
    if not hasattr(module, "max_memory_allocated"):
        raise Unsupported(f"the allocator of {kind} keeps no peaks: memory is measured on CUDA, ROCm, XPU and the CPU")
    return _trace_accelerator(context, module)


def _step_of(context: Context) -> Callable[[Mark], object]:
    """One step, which calls the mark at the beginning of each phase."""
    with context.phase("setup"):
        return _made_step(context)


def _made_step(context: Context) -> Callable[[Mark], object]:
    if context.params["mode"] == "inference":
        return _whole(tasks.inference_task(context).request)
    task = tasks.training_task(context)
    if task.parts is None:
        return _whole(task.step)
    parts = task.parts

    def step(mark: Mark) -> None:
        mark("forward")
        parts.optimizer.zero_grad(set_to_none=True)
        loss = parts.loss(parts.model, parts.feed())
        mark("backward")
        loss.backward()
        mark("optimizer")
        parts.optimizer.step()

    return step


def _whole(call: Callable[[], object]) -> Callable[[Mark], object]:
    """A step whose inside is not known."""

    def step(mark: Mark) -> object:
        mark("step")
        return call()

    return step


def _take_steps(context: Context, step: Callable[[Mark], object], mark: Mark) -> None:
    for index in range(int(context.params["steps"])):
        step(mark)
        context.progress(f"step {index + 1}")
    mark("end")


def _trace_accelerator(context: Context, module: Any) -> MemoryTrace:
    module.init()
    module.reset_peak_memory_stats(context.device)
    held, peaks, running = Held(), [0], ["start"]
    reserved, used = [0], [0]
    backend = open_backend()
    uuid = device_uuid(context.device, backend)

    def mark(name: str) -> None:
        module.synchronize(context.device)
        peak = int(module.max_memory_allocated(context.device))
        reserved.append(int(module.max_memory_reserved(context.device)))
        if uuid:
            used.append(backend.reading(uuid).memory_used_bytes or 0)
        held.spans.append((running[0], int(module.memory_allocated(context.device)), peak))
        peaks.append(peak)
        running[0] = name
        module.reset_peak_memory_stats(context.device)

    _take_steps(context, _step_of(context), mark)
    return MemoryTrace(
        peak_allocated=max(peaks),
        setup_allocated=held.setup,
        host_peak=host_rss_bytes(),
        peak_reserved=max(reserved),
        phase_peaks=held.phase_peaks(),
        growth=held.growth(),
        device_used=max(used) or None,
    )


def _trace_cpu(context: Context) -> MemoryTrace:
    import torch

    # torch.profiler.profile is the same recorder, but imports all of inductor first: seconds in each process.
    from torch.autograd.profiler import profile, record_function

    def mark(name: str) -> None:
        with record_function(MARK + name):
            torch.zeros(0)

    gc.collect()
    # Cycles are freed when the collector happens to run: kept still, so that the count is the same every time.
    gc.disable()
    try:
        with profile(use_kineto=True, profile_memory=True) as recording:
            _take_steps(context, _step_of(context), mark)
    finally:
        gc.enable()
    events = recording.kineto_results.events()  # type: ignore[union-attr, unused-ignore]
    marks = sorted((event.start_ns(), event.name()[len(MARK) :]) for event in events if event.name().startswith(MARK))
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    held = running_sums(changes, marks)
    return MemoryTrace(
        peak_allocated=max((peak for _, _, peak in held.spans), default=0),
        setup_allocated=held.setup,
        host_peak=host_rss_bytes(),
        phase_peaks=held.phase_peaks(),
        growth=held.growth(),
    )


def running_sums(changes: Sequence[tuple[int, int]], marks: Sequence[tuple[int, str]]) -> Held:
    """Spans between marks of (time, bytes) changes, both in order of time; what is before the first mark is "start"."""
    held, total, peak, name, position = Held(), 0, 0, "start", 0
    for at, next_name in [*marks, (sys.maxsize, "")]:
        while position < len(changes) and changes[position][0] <= at:
            total += changes[position][1]
            peak = max(peak, total)
            position += 1
        held.spans.append((name, total, peak))
        name, peak = next_name, total
    return held
