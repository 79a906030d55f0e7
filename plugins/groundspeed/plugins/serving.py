"""Serving: latency of the project's own model under open-loop load with dynamic batching, and the load it bears."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal

from groundspeed.plugins import modes, open_loop, tasks
from groundspeed.plugins.common import SEED, THREADS
from groundspeed.plugins.inference import percentile
from groundspeed.plugins.spi import (
    Context,
    Direction,
    Kind,
    Measured,
    Metric,
    Needs,
    Param,
    Unsupported,
)
from groundspeed.plugins.symptoms import hint
from groundspeed.plugins.timing.loop import LATENCY_SAMPLES

SEARCH_STEPS = 10


class Serving:
    """Self-timed. Requests arrive as a Poisson process at a stated load, whether or not the server keeps up."""

    timing: ClassVar[Literal["self-timed"]] = "self-timed"
    name = "serving"
    version = "1"
    description = "Latency under open-loop load with dynamic batching, and the highest load within a limit"
    needs = Needs(packages=("torch>=2.6",), target=True)
    params: tuple[Param, ...] = (
        Param("load", "float", 0.0, minimum=0.0, description="requests a second; 0: half of what full batches allow"),
        Param("batch_size", "int", 8, minimum=1, description="largest batch; the target makes inputs of it"),
        Param("queue_delay_s", "float", 0.002, minimum=0.0, description="a batch that is not full goes after so long"),
        Param("limit_s", "float", 0.0, minimum=0.0,
              description="99th percentile that highest_load must keep; 0: it is not looked for"),
        *(param for param in modes.INFERENCE_AXES if param.name != "mode"),
        Param("mode", "str", "eager", choices=("eager", "compile", "int8", "fp8", "onnxruntime", "tensorrt")),
        Param("seconds", "float", 5.0, minimum=0.0, series=False, description="of load"),
        THREADS,
        SEED,
    )  # fmt: skip

    def metrics(self) -> tuple[Metric, ...]:
        def time_of(name: str, description: str, formula: str, *, gate: bool = False) -> Metric:
            return Metric(name, "s", Direction.LOWER, Kind.TIME, description, formula, gate, "wall")

        return (
            time_of("latency_p50", "median, waiting in the queue too", "finished - due in the schedule", gate=True),
            time_of("latency_p90", "nine of ten requests are faster", "90th percentile, nearest rank"),
            time_of("latency_p99", "99 of 100 requests are faster", "99th percentile, nearest rank"),
            Metric("request_rate", "requests/s", Direction.HIGHER, Kind.RATE, clock="wall", gate=False,
                   description="answers under this load", formula="requests / time from first arrival to last answer"),
            Metric("mean_batch", "1", Direction.NEUTRAL, Kind.COUNTER, gate=False,
                   description="requests that were served together", formula="mean over batches"),
            Metric("capacity", "requests/s", Direction.HIGHER, Kind.RATE, clock="wall", gate=False,
                   description="closed loop, full batches one after the other",
                   formula="batch_size / median time of a full batch"),
            Metric("highest_load", "requests/s", Direction.HIGHER, Kind.RATE, clock="wall", gate=False,
                   description="whose 99th percentile keeps limit_s",
                   formula="by doubling, then halving the distance, to 3 % or 10 runs; 0: none does"),
        )  # fmt: skip

    def run(self, context: Context) -> Iterable[Measured]:
        tasks.set_threads(context)
        with context.phase("setup"):
            answer, check = make_server(context)
        batching = open_loop.Batching(int(context.params["batch_size"]), float(context.params["queue_delay_s"]))
        with context.phase("warmup"):
            capacity = batching.largest / warm_up(answer, batching.largest)
        with context.phase("check"):
            check()
        load = float(context.params["load"]) or capacity / 2
        context.facts.update({"load": load, "capacity": capacity})
        served = under(load, context, batching, answer)
        states = [context.state_between(served.begin_s + due, took) for due, took in served.requests]
        yield Measured("capacity", [capacity])
        gate = False if context.device == "cpu" else None
        yield Measured("latency_p50", served.latency_s, states=states, gate=gate)
        yield Measured("latency_p90", [percentile(served.latency_s, 90)])
        yield Measured("latency_p99", [percentile(served.latency_s, 99)])
        yield Measured("request_rate", [served.rate])
        yield Measured("mean_batch", [statistics.mean(served.batches)])
        if len(served.latency_s) < LATENCY_SAMPLES:
            context.labels["tail_from_few"] = f"{len(served.latency_s)} requests: {hint('tail-from-few')}"
        if served.overloaded:
            context.labels["overloaded"] = f"{load:.4g} requests/s are too many: {hint('overloaded')}"
        limit = float(context.params["limit_s"])
        if limit:

            def meets(rate: float) -> bool:
                seen = under(rate, context, batching, answer)
                return not seen.overloaded and percentile(seen.latency_s, 99) <= limit

            yield Measured("highest_load", [open_loop.highest(meets, capacity / 2, steps=SEARCH_STEPS)])


def under(
    load: float, context: Context, batching: open_loop.Batching, answer: Callable[[int], object]
) -> open_loop.Served:
    """One run at a load; a load so low that no request falls into the time is one request."""
    seconds = float(context.params["seconds"])
    arrivals = open_loop.poisson(load, seconds, int(context.params["seed"])) or [0.0]
    context.progress(f"{load:.4g} requests/s")
    give_up_s = max(2 * seconds, 2 * float(context.params["limit_s"]), 1.0)
    return open_loop.serve(arrivals, batching, answer, context.progress, give_up_s=give_up_s)


def make_server(context: Context) -> tuple[Callable[[int], object], Callable[[], None]]:
    """(serves the first n of a batch and waits for the device, the accuracy check). Raises Unsupported."""
    task = tasks.inference_task(context)
    if task.model is None or task.feed is None:
        raise Unsupported("serving needs a target that returns `model` and `inputs`, not a callable")
    applied = modes.apply(task, context.params, context.device)
    source, size = task.feed.source, [int(context.params["batch_size"])]
    task.feed.source = lambda: cut(source(), size[0])
    wait = waiter(context.device)

    def answer(count: int) -> object:
        size[0] = count
        found = applied.request()
        wait()
        return found

    def check() -> None:
        size[0] = int(context.params["batch_size"])
        if applied.check is not None:
            applied.check()
        context.facts.update(applied.facts)

    return answer, check


def waiter(device: str) -> Callable[[], object]:
    if device == "cpu":
        return lambda: None
    import torch

    synchronize: Callable[[], object] = getattr(torch, device.partition(":")[0]).synchronize
    return synchronize


def cut(value: Any, count: int) -> Any:
    """The first ``count`` of a batch, within nested containers."""
    import torch

    if isinstance(value, torch.Tensor):
        return value[:count]
    if isinstance(value, dict):
        return {key: cut(item, count) for key, item in value.items()}
    return type(value)(cut(item, count) for item in value) if isinstance(value, tuple | list) else value


def warm_up(answer: Callable[[int], object], largest: int) -> float:
    """Seconds of a full batch, after every size has been seen once (compilation, plans of libraries)."""
    for size in sorted({1, largest, *range(1, min(largest, 16) + 1)}):
        answer(size)
    times = []
    for _ in range(7):
        begin = time.perf_counter()
        answer(largest)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


PLUGIN = Serving()
