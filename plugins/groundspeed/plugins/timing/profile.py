"""The profiled pass: some steps under the device's own tracer.

Apart from the timed pass, because tracing slows the host; what it reads is the device's clock. CUPTI directly where it
is known, else torch.profiler (which also speaks to ROCm's and XPU's tracers).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from groundspeed.plugins.timing.cupti import CuptiTracer, CuptiUnavailable
from groundspeed.plugins.timing.kernels import Interval, KernelTable, StepTrace, split_steps, step_trace

MIN_STEPS = 10
FEW_STEPS = 60
"""So many are always read; for more the tracer is asked whether it has room."""
MAX_STEPS = 1000
AIM_S = 0.4
"""As many steps as fill this, within the bounds: a power cap swings for tenths of a second."""
REWARM_S = 0.7
REWARM_STEPS = 300
"""At most, after a tracer that took long to start: the device has cooled meanwhile."""
SLOW_START_S = 0.2


class Tracer(Protocol):
    """Records what the device does between ``start`` and ``stop``."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def now_ns(self) -> int: ...

    def room(self, steps: int) -> int: ...

    def intervals(self) -> list[Interval]: ...


@dataclass(slots=True)
class ProfileResult:
    """``steps`` empty: the tracer gave nothing, and ``unavailable`` says why."""

    steps: list[StepTrace] = field(default_factory=list)
    table: KernelTable = field(default_factory=KernelTable)
    wall_s: float = 0.0
    communication_ns: list[list[int]] = field(default_factory=list)
    """Durations of the communication kernels of each step in order of start, to be matched between ranks."""
    unavailable: str = ""
    tracer: str = ""
    started_s: float = 0.0
    """What the tracer took to start."""
    begin_s: list[float] = field(default_factory=list)
    """When each step began, on ``time.perf_counter``, and below how long it took: joins steps to the conditions."""
    took_s: list[float] = field(default_factory=list)


class TorchTracer:
    """torch.profiler with device activities only."""

    def __init__(self, kind: str) -> None:
        from torch.profiler import ProfilerActivity, profile

        activity = {"cuda": ProfilerActivity.CUDA, "xpu": ProfilerActivity.XPU}[kind]
        self._profile: Any = profile(activities=[activity], acc_events=True)

    def start(self) -> None:
        self._profile.__enter__()

    def stop(self) -> None:
        self._profile.__exit__(None, None, None)

    def now_ns(self) -> int:
        """Kineto converts the device's clock to that of the epoch."""
        return time.time_ns()

    def room(self, _steps: int) -> int:
        """None: it cannot say how much it holds, and reads slowly."""
        return 0

    def intervals(self) -> list[Interval]:
        from torch.autograd import DeviceType  # type: ignore[attr-defined, unused-ignore]

        found = [
            Interval(event.name(), event.start_ns(), event.duration_ns())
            for event in self._profile.profiler.kineto_results.events()
            if event.device_type() != DeviceType.CPU and event.duration_ns() > 0
        ]
        return sorted(found, key=lambda one: one.start_ns)


_cupti: list[CuptiTracer] = []


def open_tracer(kind: str) -> tuple[Tracer, str]:
    """The tracer and how it is called; started already. Raises KeyError when there is none for the kind."""
    import torch

    if kind == "cuda" and torch.version.hip is None:
        try:
            tracer = _cupti[0] if _cupti else CuptiTracer()
            tracer.start()
        except CuptiUnavailable as error:
            reason = str(error)
        else:
            _cupti[:] = [tracer]
            return tracer, "CUPTI"
        fallback = TorchTracer(kind)
        fallback.start()
        return fallback, f"torch.profiler ({reason})"
    other = TorchTracer(kind)
    other.start()
    return other, "torch.profiler"


def profile_steps(
    step: Callable[[], object],
    device: str,
    step_s: float,
    progress: Callable[[str], None],
    aim_s: float = AIM_S,
    most: int = MAX_STEPS,
) -> ProfileResult:
    """Traces steps of about ``step_s`` seconds each, the device waited for after every one.

    With ``most`` not over FEW_STEPS their number depends on the arguments alone, as it must where steps meet other
    processes.
    """
    import torch

    kind = device.partition(":")[0]
    if kind not in {"cuda", "xpu"}:
        return ProfileResult(unavailable=f"there is no tracer for {kind}")
    module = getattr(torch, kind)
    count = max(MIN_STEPS, min(most, int(aim_s / max(step_s, 1e-6))))
    progress(f"profiling {count} steps")
    begin = time.perf_counter()
    tracer, name = open_tracer(kind)
    started_s = time.perf_counter() - begin
    _rewarm(step, REWARM_S if started_s > SLOW_START_S else 0.0)
    module.synchronize(device)
    boundaries, times = [tracer.now_ns()], [time.perf_counter()]
    done = 0
    while done < count:
        step()
        module.synchronize(device)
        boundaries.append(tracer.now_ns())
        times.append(time.perf_counter())
        done += 1
        if done == FEW_STEPS < count:
            count = min(count, done + tracer.room(done))
        if done % 10 == 0:
            progress(f"profiled {done} steps")
    tracer.stop()
    result = read_trace(tracer.intervals(), boundaries, skip=1)
    spans = list(itertools.pairwise(times))[len(times) - 1 - len(result.steps) :]
    result.begin_s, result.took_s = [begin for begin, _ in spans], [end - begin for begin, end in spans]
    result.tracer, result.started_s, result.wall_s = name, started_s, time.perf_counter() - begin
    return result


def _rewarm(step: Callable[[], object], seconds: float) -> None:
    """Two steps at least: what they leave in the trace is before the first boundary and thrown away."""
    until = time.perf_counter() + seconds
    for index in range(REWARM_STEPS):
        step()
        if index >= 1 and time.perf_counter() >= until:
            return


def read_trace(intervals: list[Interval], boundaries_ns: list[int], skip: int) -> ProfileResult:
    """Sums up each step after the first ``skip``."""
    if not intervals:
        return ProfileResult(
            unavailable="the tracer recorded nothing: the step runs nothing on the device, another profiler holds it, "
            "or this user may not trace"
        )
    result = ProfileResult()
    for intervals_of_step in split_steps(intervals, boundaries_ns)[skip:]:
        result.steps.append(step_trace(intervals_of_step))
        result.table.add(intervals_of_step)
        result.communication_ns.append([one.duration_ns for one in intervals_of_step if one.communicates])
    result.table.steps = len(result.steps)
    return result
