"""Memory: peak of a training step or a request, by declared kind and by phase."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from groundspeed.plugins import tasks
from groundspeed.plugins.spi import Context, Direction, Kind, Measured, Metric, Needs, Param
from groundspeed.plugins.timing.memory_trace import trace_memory


class Memory:
    """Self-timed: a few steps under a recording of the allocator, nothing is timed."""

    timing: ClassVar[Literal["self-timed"]] = "self-timed"
    name = "memory"
    version = "1"
    description = "Peak memory of a training step or a request, by kind"
    needs = Needs(packages=("torch>=2.6",), target=True)
    params: tuple[Param, ...] = (
        Param("mode", "str", "training", choices=("training", "inference"), description="what the target is"),
        Param("batch_size", "int", 8, minimum=1, description="passed to the factory when it takes batch_size"),
        Param("steps", "int", 3, minimum=2, maximum=1000, series=False, description="steps recorded"),
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
            size("host_peak", "largest resident set, libraries included", "getrusage ru_maxrss", gate=False),
        )  # fmt: skip

    def run(self, context: Context) -> Iterable[Measured]:
        tasks.set_threads(context)
        trace = trace_memory(context)
        yield Measured("peak_allocated", [float(trace.peak_allocated)])
        yield Measured("setup_allocated", [float(trace.setup_allocated)])
        if trace.peak_reserved is not None:
            yield Measured("peak_reserved", [float(trace.peak_reserved)])
        yield Measured("host_peak", [float(trace.host_peak)])


PLUGIN = Memory()
