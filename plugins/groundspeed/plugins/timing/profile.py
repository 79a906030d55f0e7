"""The profiled pass: some steps under the device's own tracer (CUPTI, ROCm's or XPU's, through torch.profiler).

Apart from the timed pass, because tracing slows the host; what it reads is the device's clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from groundspeed.plugins.timing.kernels import Interval, KernelTable, StepTrace, split_steps, step_trace

MIN_STEPS = 10
MAX_STEPS = 60
AIM_S = 0.4
"""As many steps as fill this, within the bounds."""
REWARM_S = 0.7
REWARM_STEPS = 300
"""At most: a trace of many small kernels costs the host more than it warms the device."""


@dataclass(slots=True)
class ProfileResult:
    """``steps`` empty: the tracer gave nothing, and ``unavailable`` says why."""

    steps: list[StepTrace] = field(default_factory=list)
    table: KernelTable = field(default_factory=KernelTable)
    wall_s: float = 0.0
    communication_ns: list[list[int]] = field(default_factory=list)
    """Durations of the communication kernels of each step in order of start, to be matched between ranks."""
    unavailable: str = ""
    started_s: float = 0.0
    stopped_s: float = 0.0
    """What the tracer took to start and to hand over what it has."""


def profile_steps(
    step: Callable[[], object], device: str, step_s: float, progress: Callable[[str], None]
) -> ProfileResult:
    """Traces steps of about ``step_s`` seconds each, the device waited for after every one."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    kind = device.partition(":")[0]
    activity = {"cuda": ProfilerActivity.CUDA, "xpu": ProfilerActivity.XPU}.get(kind)
    if activity is None:
        return ProfileResult(unavailable=f"torch.profiler has no tracer for {kind}")
    module = getattr(torch, kind)
    count = max(MIN_STEPS, min(MAX_STEPS, int(AIM_S / max(step_s, 1e-6))))
    boundaries: list[int] = []
    progress(f"profiling {count} steps")
    begin = time.perf_counter()
    # The tracer takes seconds to start, and the device cools meanwhile: some steps bring it back to where it was.
    # They are traced and thrown away with the first boundary.
    with profile(activities=[activity], acc_events=True) as tracer:
        warm_until = time.perf_counter() + REWARM_S
        for _ in range(REWARM_STEPS):
            step()
            if time.perf_counter() >= warm_until:
                break
        module.synchronize(device)
        boundaries.append(time.time_ns())
        for index in range(count):
            step()
            module.synchronize(device)
            boundaries.append(time.time_ns())
            if index % 10 == 9:
                progress(f"profiled {index + 1} steps")
        ended = time.perf_counter()
    result = read_trace(intervals_of(tracer), boundaries, skip=1)
    result.started_s, result.stopped_s = warm_until - REWARM_S - begin, time.perf_counter() - ended
    result.wall_s = time.perf_counter() - begin
    return result


def intervals_of(tracer: Any) -> list[Interval]:
    """All activities on accelerators, in order of start."""
    from torch.autograd import DeviceType

    events = tracer.profiler.kineto_results.events()
    found = [
        Interval(event.name(), event.start_ns(), event.duration_ns())
        for event in events
        if event.device_type() != DeviceType.CPU and event.duration_ns() > 0
    ]
    return sorted(found, key=lambda one: one.start_ns)


def read_trace(intervals: list[Interval], boundaries_ns: list[int], skip: int) -> ProfileResult:
    """Sums up each step after the first ``skip``."""
    if not intervals:
        return ProfileResult(unavailable="the tracer recorded nothing: another profiler holds it, or no rights")
    result = ProfileResult()
    for intervals_of_step in split_steps(intervals, boundaries_ns)[skip:]:
        result.steps.append(step_trace(intervals_of_step))
        result.table.add(intervals_of_step)
        result.communication_ns.append([one.duration_ns for one in intervals_of_step if one.communicates])
    result.table.steps = len(result.steps)
    return result
