"""Memory: peak of a training step or a request, by declared kind and by phase."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import ClassVar, Literal

from groundspeed.plugins import tasks
from groundspeed.plugins.spi import Context, Direction, Kind, Measured, Metric, Needs, Param
from groundspeed.plugins.symptoms import hint
from groundspeed.plugins.timing.memory_trace import trace_memory

LEAK_BYTES = 256
"""More growth a step than a counter or two: told as a leak."""


class Memory:
    """Self-timed: a few steps under a recording of the allocator, nothing is timed."""

    timing: ClassVar[Literal["self-timed"]] = "self-timed"
    name = "memory"
    version = "1"
    description = "Peak memory of a training step or a request, by kind"
    needs = Needs(packages=("torch>=2.6",), target=True)
    imports: ClassVar[tuple[str, ...]] = ("torch._dynamo",)
    """Optimisers import it when the first is made."""
    params: tuple[Param, ...] = (
        Param("mode", "str", "training", choices=("training", "inference"), description="what the target is"),
        Param("batch_size", "int", 8, minimum=1, description="passed to the factory when it takes batch_size"),
        Param("steps", "int", 6, minimum=3, maximum=1000, series=False, description="steps recorded"),
        Param(
            "threads", "int", 0, minimum=0, description="torch's CPU threads; 0: 1 on CPU, torch's choice beside a GPU"
        ),
        Param("seed", "int", 0, minimum=0, series=False, description="of Python's, numpy's and torch's generators"),
    )

    def metrics(self) -> tuple[Metric, ...]:
        def size(name: str, description: str, formula: str, *, gate: bool = True) -> Metric:
            return Metric(name, "B", Direction.LOWER, Kind.BYTES, description, formula, gate)

        return (
            size("peak_allocated", "most bytes that torch's allocator had handed out at once",
                 "CUDA: max_memory_allocated; CPU: running sum of the allocator's events since before set-up"),
            size("setup_allocated", "bytes allocated once model and optimiser stand, before a step", "as above"),
            size("peak_reserved", "most bytes that the caching allocator took from the device", "max_memory_reserved",
                 gate=False),
            size("phase_peak", "most bytes handed out within a phase of a step (forward, backward, optimizer), where "
                 "the target returns its parts", "peak between the phase's ends, the largest of all steps", gate=False),
            size("growth_per_step", "bytes that stay allocated from step to step: more than 0 is a leak",
                 "slope through the bytes held at the end of each step after the second (Theil-Sen)", gate=False),
            size("device_used", "most bytes in use on the device, context and other libraries included",
                 "management library, the largest at the ends of phases", gate=False),
            Metric("fragmentation", "1", Direction.LOWER, Kind.RATIO, gate=False,
                   description="share of what the caching allocator took that it could not hand out at its peak",
                   formula="1 - peak_allocated / peak_reserved"),
            size("host_peak", "largest resident set, libraries included", "getrusage ru_maxrss", gate=False),
        )  # fmt: skip

    def run(self, context: Context) -> Iterable[Measured]:
        tasks.set_threads(context)
        begin = time.perf_counter()
        trace = trace_memory(context)
        yield Measured("peak_allocated", [float(trace.peak_allocated)])
        yield Measured("setup_allocated", [float(trace.setup_allocated)])
        if trace.peak_reserved is None:
            context.facts["peak_reserved"] = context.facts["fragmentation"] = (
                "not available: torch's allocator on the CPU reserves nothing"
            )
        else:
            yield Measured("peak_reserved", [float(trace.peak_reserved)])
            yield Measured("fragmentation", [max(0.0, 1 - trace.peak_allocated / max(trace.peak_reserved, 1))])
        for phase, peak in trace.phase_peaks.items():
            yield Measured("phase_peak", [float(peak)], {"phase": phase})
        yield Measured("growth_per_step", [trace.growth])
        if trace.growth > LEAK_BYTES:
            context.labels["leak"] = f"{trace.growth:.0f} bytes more are held after every step: {hint('leak')}"
        if trace.device_used is None:
            context.facts["device_used"] = "not available: no management library tells it of this device"
        else:
            # What others hold is in it, unlike in what torch's own allocator counts.
            worth = context.state_between(begin, time.perf_counter() - begin)
            yield Measured("device_used", [float(trace.device_used)], states=[worth])
        yield Measured("host_peak", [float(trace.host_peak)])


PLUGIN = Memory()
