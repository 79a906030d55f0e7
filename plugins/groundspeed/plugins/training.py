"""Training: time of a step and samples per second of the project's own training step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from groundspeed.plugins import tasks
from groundspeed.plugins.spi import (
    Context,
    Direction,
    Kind,
    Measured,
    Measurement,
    Metric,
    Needs,
    Param,
    Workload,
)
from groundspeed.plugins.timing.reference import calibrated


class Training:
    """Stepped. The target's convention is in tasks.py and docs/suites.md."""

    timing: ClassVar[Literal["stepped"]] = "stepped"
    name = "training"
    version = "1"
    description = "Training steps of the project's own model: step time, samples/s, peak memory"
    needs = Needs(packages=("torch>=2.6",), target=True)
    params: tuple[Param, ...] = (
        Param("batch_size", "int", 8, minimum=1, description="passed to the factory when it takes batch_size"),
        Param(
            "threads", "int", 0, minimum=0, description="torch's CPU threads; 0: 1 on CPU, torch's choice beside a GPU"
        ),
        Param("seed", "int", 0, minimum=0, series=False, description="of Python's, numpy's and torch's generators"),
    )

    def metrics(self) -> tuple[Metric, ...]:
        return (
            Metric(
                "step_time", "s", Direction.LOWER, Kind.TIME, clock="wall",
                description="one training step as the user feels it",
                formula="time between timing events around a step; on the CPU perf_counter",
            ),
            Metric(
                "samples_per_s", "samples/s", Direction.HIGHER, Kind.RATE, clock="wall", gate=False,
                description="the same as a rate", formula="samples per step / step_time",
            ),
            Metric(
                "step_cpu_calibrated", "s", Direction.LOWER, Kind.TIME, clock="cpu",
                description="CPU time of one step on a host of nominal speed: the steady number of a shared CPU",
                formula="step_cpu_time x 2.5 ms / CPU time of the reference workload around it (timing/reference.py)",
            ),
            Metric(
                "step_cpu_time", "s", Direction.LOWER, Kind.TIME, clock="cpu", gate=False,
                description="CPU time of this process for one step, all threads",
                formula="clock_gettime(CLOCK_PROCESS_CPUTIME_ID) around a step",
            ),
        )  # fmt: skip

    def prepare(self, context: Context) -> Workload:
        threads = tasks.set_threads(context)
        task = tasks.training_task(context)
        units = {"samples_per_s": task.samples_per_step}
        return Workload(
            step=task.step,
            units_per_step=units,
            check=task.check,
            facts={**task.facts, "threads": threads, "device": context.device},
        )

    def derive(self, workload: Workload, measurement: Measurement) -> Iterable[Measured]:
        wall = measurement.step_wall_s
        states = tuple(measurement.states)
        # Losing the CPU for a while lengthens wall time; calibrated CPU time hardly feels it: its samples all count.
        on_cpu = workload.facts["device"] == "cpu"
        # On a CPU that others use too, wall time says how busy it was: charted; CPU time is what gates.
        gate = False if on_cpu else None
        yield Measured("step_time", wall, states=states, gate=gate)
        samples = workload.units_per_step["samples_per_s"]
        yield Measured("samples_per_s", [samples / value for value in wall], states=states)
        if on_cpu:
            yield Measured("step_cpu_time", measurement.step_cpu_s, states=states)
            steady = calibrated(measurement.step_cpu_s, measurement.step_reference_s)
            yield Measured("step_cpu_calibrated", steady)


PLUGIN = Training()
