"""Recording what the allocator hands out while a task is made and takes a few steps.

On CUDA and XPU the caching allocator keeps its own peaks. On the CPU torch's allocator reports every allocation and
release to the profiler: their running sum is exact and, unlike the resident set, the same in every process.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from groundspeed.plugins import tasks
from groundspeed.plugins.spi import Context
from groundspeed.plugins.timing.peak import host_rss_bytes

SETUP_MARK = "groundspeed:setup-done"


@dataclass(frozen=True, slots=True)
class MemoryTrace:
    """Bytes. ``peak_reserved`` None: this device's allocator does not reserve."""

    peak_allocated: int
    setup_allocated: int
    host_peak: int
    peak_reserved: int | None = None


def trace_memory(context: Context) -> MemoryTrace:
    """Makes the task and takes ``steps`` steps. Raises what the target raises."""
    kind = context.device.partition(":")[0]
    if kind == "cpu":
        return _trace_cpu(context)
    import torch

    return _trace_accelerator(context, getattr(torch, kind))


def _step_of(context: Context) -> Callable[[], object]:
    if context.params["mode"] == "inference":
        return tasks.inference_task(context).request
    return tasks.training_task(context).step


def _take_steps(context: Context, step: Callable[[], object]) -> None:
    for index in range(int(context.params["steps"])):
        step()
        context.progress(f"step {index + 1}")


def _trace_accelerator(context: Context, module: Any) -> MemoryTrace:
    module.init()
    module.reset_peak_memory_stats(context.device)
    step = _step_of(context)
    module.synchronize(context.device)
    setup = int(module.memory_allocated(context.device))
    _take_steps(context, step)
    module.synchronize(context.device)
    return MemoryTrace(
        peak_allocated=int(module.max_memory_allocated(context.device)),
        setup_allocated=setup,
        host_peak=host_rss_bytes(),
        peak_reserved=int(module.max_memory_reserved(context.device)),
    )


def _trace_cpu(context: Context) -> MemoryTrace:
    import torch

    # torch.profiler.profile is the same recorder, but imports all of inductor first: seconds in each process.
    from torch.autograd.profiler import profile, record_function

    gc.collect()
    # Cycles are freed when the collector happens to run: kept still, so that the count is the same every time.
    gc.disable()
    try:
        with profile(use_kineto=True, profile_memory=True) as recording:
            step = _step_of(context)
            with record_function(SETUP_MARK):
                torch.zeros(0)
            _take_steps(context, step)
    finally:
        gc.enable()
    events = recording.kineto_results.events()  # type: ignore[union-attr, unused-ignore]
    mark = next(event.start_ns() for event in events if event.name() == SETUP_MARK)
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    peak, setup = running_peak(changes, mark)
    return MemoryTrace(peak_allocated=peak, setup_allocated=setup, host_peak=host_rss_bytes())


def running_peak(changes: list[tuple[int, int]], mark_ns: int) -> tuple[int, int]:
    """(largest running sum, running sum at the mark) of (time, bytes) changes in order of time."""
    total = peak = setup = 0
    for at_ns, change in changes:
        if at_ns <= mark_ns:
            setup = total + change
        total += change
        peak = max(peak, total)
    return peak, setup
