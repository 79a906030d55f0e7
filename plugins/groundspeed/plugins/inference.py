"""Inference: latency percentiles and throughput of the project's own model, one request at a time."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal

from groundspeed.plugins import modes, tasks
from groundspeed.plugins.common import SEED, THREADS, device_metrics, device_values, wall_gates
from groundspeed.plugins.spi import Context, Direction, Kind, Measured, Measurement, Metric, Needs, Param, Workload
from groundspeed.plugins.timing.loop import LATENCY_SAMPLES
from groundspeed.plugins.timing.reference import calibrated


class Inference:
    """Stepped, in latency mode: every request is waited for and is a sample of its own."""

    timing: ClassVar[Literal["stepped"]] = "stepped"
    name = "inference"
    version = "1"
    description = "Latency percentiles and throughput of the project's own model"
    needs = Needs(packages=("torch>=2.6",), target=True)
    params: tuple[Param, ...] = (
        Param("batch_size", "int", 1, minimum=1, description="passed to the factory when it takes batch_size"),
        *modes.INFERENCE_AXES,
        THREADS,
        SEED,
    )

    def metrics(self) -> tuple[Metric, ...]:
        return (
            Metric(
                "latency_p50", "s", Direction.LOWER, Kind.TIME, clock="wall",
                description="median time from request to finished answer",
                formula="median of perf_counter around a request and its synchronisation",
            ),
            Metric("latency_p90", "s", Direction.LOWER, Kind.TIME, clock="wall", gate=False,
                   description="nine of ten requests are faster", formula="90th percentile, nearest rank"),
            Metric("latency_p99", "s", Direction.LOWER, Kind.TIME, clock="wall", gate=False,
                   description="99 of 100 requests are faster", formula="99th percentile, nearest rank"),
            Metric("throughput", "samples/s", Direction.HIGHER, Kind.RATE, clock="wall", gate=False,
                   description="one request after the other", formula="batch size / latency_p50"),
            Metric("relative_error", "1", Direction.LOWER, Kind.RATIO, gate=False,
                   description="of the answer against that of fp32, eager: over the tolerance the result is wrong",
                   formula="norm(answer - reference) / norm(reference) of one request's values"),
            Metric("request_cpu_calibrated", "s", Direction.LOWER, Kind.TIME, clock="cpu",
                   description="CPU time of one request on a host of nominal speed: the steady number of a shared CPU",
                   formula="request_cpu_time x 2.5 ms / CPU time of the reference workload around it"),
            Metric("request_cpu_time", "s", Direction.LOWER, Kind.TIME, clock="cpu", gate=False,
                   description="CPU time of this process for one request, all threads",
                   formula="clock_gettime(CLOCK_PROCESS_CPUTIME_ID) around a request"),
            *device_metrics(),
        )  # fmt: skip

    def prepare(self, context: Context) -> Workload:
        threads = tasks.set_threads(context)
        task = tasks.inference_task(context)
        if task.model is None:
            tasks.refuse_axes(context, self.params)
        feed = None if task.fixed_inputs else task.feed
        task = modes.apply(task, context.params, context.device)
        task.facts |= {"threads": threads, "device": context.device, "mode": str(context.params["mode"])}
        return Workload(
            step=task.request,
            units_per_step={"throughput": task.samples_per_request},
            check=task.check,
            facts=task.facts,
            input_wait_s=None if feed is None else (lambda: feed.waited_s / max(feed.batches, 1)),
            mode="latency",
        )

    def derive(self, workload: Workload, measurement: Measurement) -> Iterable[Measured]:
        wall = measurement.step_wall_s
        states = tuple(measurement.states)
        on_cpu = workload.facts["device"] == "cpu"
        replayed = workload.facts["mode"] == "graph"
        gate = wall_gates(measurement, str(workload.facts["device"]), replayed=replayed)
        yield Measured("latency_p50", wall, states=states, gate=gate)
        yield Measured("latency_p90", [percentile(wall, 90)])
        yield Measured("latency_p99", [percentile(wall, 99)], gate=gate is not False and len(wall) >= LATENCY_SAMPLES)
        yield Measured("throughput", [workload.units_per_step["throughput"] / statistics.median(wall)])
        if "relative_error" in workload.facts:
            yield Measured("relative_error", [float(workload.facts["relative_error"])])
        if on_cpu:
            yield Measured("request_cpu_time", measurement.step_cpu_s, states=states)
            steady = calibrated(measurement.step_cpu_s, measurement.step_reference_s)
            yield Measured("request_cpu_calibrated", steady)
        yield from device_values(measurement)


def percentile(values: Sequence[float], percent: float) -> float:
    """Nearest rank: the smallest value that at least ``percent`` of the values do not exceed."""
    ordered = sorted(values)
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(int(rank), 1) - 1]


PLUGIN = Inference()
