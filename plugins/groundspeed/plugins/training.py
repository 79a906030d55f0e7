"""Training: time of a step, samples and tokens per second, device-busy time, memory and energy of a training step."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterable
from typing import ClassVar, Literal

from groundspeed.plugins import axes, tasks
from groundspeed.plugins.common import SEED, THREADS, device_metrics, device_values, wall_gates
from groundspeed.plugins.device.peaks import peak_flops
from groundspeed.plugins.spi import Context, Direction, Kind, Measured, Measurement, Metric, Needs, Param, Workload
from groundspeed.plugins.symptoms import hint
from groundspeed.plugins.timing.reference import calibrated


class Training:
    """Stepped. The target's convention is in tasks.py and docs/suites.md."""

    timing: ClassVar[Literal["stepped"]] = "stepped"
    name = "training"
    version = "1"
    description = "Training steps of the project's own model: step time, samples/s, peak memory"
    needs = Needs(packages=("torch>=2.6",), target=True)
    imports: ClassVar[tuple[str, ...]] = ("torch._dynamo",)
    """Optimisers import it when the first is made."""
    params: tuple[Param, ...] = (
        Param("batch_size", "int", 8, minimum=1, description="passed to the factory when it takes batch_size"),
        *axes.ONE_DEVICE_AXES,
        THREADS,
        SEED,
    )

    def metrics(self) -> tuple[Metric, ...]:
        return (
            Metric("step_time", "s", Direction.LOWER, Kind.TIME, clock="wall",
                   description="one training step as the user feels it",
                   formula="time between timing events around a step; on the CPU perf_counter"),
            Metric("samples_per_s", "samples/s", Direction.HIGHER, Kind.RATE, clock="wall", gate=False,
                   description="the same as a rate", formula="samples per step / step_time"),
            Metric("tokens_per_s", "tokens/s", Direction.HIGHER, Kind.RATE, clock="wall", gate=False,
                   description="where the target says tokens_per_step", formula="tokens per step / step_time"),
            Metric("model_flops_utilisation", "1", Direction.HIGHER, Kind.RATIO, clock="wall", gate=False,
                   description="share of the device's dense peak that the model's own arithmetic reaches",
                   formula="flops_per_step of the target / (step_time x peak of the precision), Chowdhery 2022"),
            Metric("energy_per_sample", "J", Direction.LOWER, Kind.COUNTER, gate=False,
                   description="energy of the device for one sample",
                   formula="energy_per_step / samples per step"),
            Metric("compile_time", "s", Direction.LOWER, Kind.TIME, clock="wall", gate=False,
                   description="in torch.compile, where mode is compile, all steps together",
                   formula="torch._dynamo's own record of each compilation, summed"),
            Metric("recompiles", "1", Direction.LOWER, Kind.COUNTER, gate=False,
                   description="functions compiled again because a guard failed",
                   formula="compilations - functions compiled"),
            Metric("first_step_time", "s", Direction.LOWER, Kind.TIME, clock="wall", gate=False,
                   description="the first step, compilation included where mode is compile", formula="perf_counter"),
            Metric("step_cpu_calibrated", "s", Direction.LOWER, Kind.TIME, clock="cpu",
                   description="CPU time of one step on a host of nominal speed: the steady number of a shared CPU",
                   formula="step_cpu_time x 2.5 ms / CPU time of the reference workload around it"),
            Metric("step_cpu_time", "s", Direction.LOWER, Kind.TIME, clock="cpu", gate=False,
                   description="CPU time of this process for one step, all threads",
                   formula="clock_gettime(CLOCK_PROCESS_CPUTIME_ID) around a step"),
            *device_metrics(),
        )  # fmt: skip

    def prepare(self, context: Context) -> Workload:
        threads = tasks.set_threads(context)
        task = tasks.training_task(context)
        rounds = int(context.params["accumulation"])
        step = task.step
        if task.parts is not None:
            step = axes.training_step(task.parts, context.params, context.device)
        else:
            tasks.refuse_axes(context, self.params)
        feed = task.parts.feed if task.parts is not None else None
        units = {"samples_per_s": task.samples_per_step * rounds, "tokens_per_s": task.tokens_per_step * rounds}
        return Workload(
            step=step,
            units_per_step={**units, "flops": task.flops_per_step * rounds},
            check=task.check,
            facts={
                **task.facts,
                "threads": threads,
                "device": context.device,
                "model": device_model(context.device),
                "precision": str(context.params["precision"]),
                "mode": str(context.params["mode"]),
                "flops_per_step": task.flops_per_step * rounds,
            },
            input_wait_s=None if feed is None else (lambda: rounds * feed.waited_s / max(feed.batches, 1)),
        )

    def derive(self, workload: Workload, measurement: Measurement) -> Iterable[Measured]:
        wall, states, device = measurement.step_wall_s, tuple(measurement.states), str(workload.facts["device"])
        units, replayed = workload.units_per_step, workload.facts["mode"] == "graph"
        yield Measured("step_time", wall, states=states, gate=wall_gates(measurement, device, replayed=replayed))
        for metric in ("samples_per_s", "tokens_per_s"):
            if units[metric]:
                yield Measured(metric, [units[metric] / value for value in wall], states=states)
        peak = peak_flops(str(workload.facts["model"]), str(workload.facts["precision"]))
        if peak and units["flops"]:
            yield Measured("model_flops_utilisation", [units["flops"] / statistics.median(wall) / peak])
        yield Measured("first_step_time", [measurement.first_step_s])
        if device == "cpu":
            # Losing the CPU lengthens wall time; calibrated CPU time hardly feels it: its samples all count.
            yield Measured("step_cpu_time", measurement.step_cpu_s, states=states)
            yield Measured("step_cpu_calibrated", calibrated(measurement.step_cpu_s, measurement.step_reference_s))
        if measurement.energy_j_per_step is not None and units["samples_per_s"]:
            yield Measured("energy_per_sample", [measurement.energy_j_per_step / units["samples_per_s"]])
        compiled = compilations() if workload.facts["mode"] == "compile" else None
        if compiled is not None:
            yield Measured("compile_time", [compiled[0]])
            yield Measured("recompiles", [float(compiled[1])])
            if compiled[1] > 0:
                workload.labels["recompiles"] = f"{compiled[1]} functions were compiled again: {hint('recompiles')}"
        yield from device_values(measurement)


def compilations() -> tuple[float, int] | None:
    """(seconds, recompilations) of torch.compile in this process; None: this torch keeps no such record."""
    utils = sys.modules.get("torch._dynamo.utils")
    record = getattr(utils, "get_compilation_metrics", None)
    if record is None:
        return None
    done = list(record())
    functions = {(one.co_filename, one.co_firstlineno, one.co_name) for one in done}
    seconds = sum(getattr(one, "entire_frame_compile_time_s", None) or 0.0 for one in done)
    return float(seconds), len(done) - len(functions)


def device_model(device: str) -> str:
    """The device's name, or "cpu"."""
    kind = device.partition(":")[0]
    if kind == "cpu":
        return "cpu"
    import torch

    module = getattr(torch, kind)
    return str(module.get_device_name(device)) if hasattr(module, "get_device_name") else kind


PLUGIN = Training()
