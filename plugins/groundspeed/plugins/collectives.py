"""Collectives: bus bandwidth and latency through torch.distributed over a sweep of sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from groundspeed.plugins.device.present import accelerator_count
from groundspeed.plugins.distributed.nodes import Nodes
from groundspeed.plugins.distributed.ranks import Ranks
from groundspeed.plugins.distributed.sweep import COLLECTIVES, bus_factor
from groundspeed.plugins.spi import (
    Context,
    Direction,
    Kind,
    Measured,
    Metric,
    Needs,
    Param,
    ParamValue,
    SampleState,
    Unsupported,
)
from groundspeed.plugins.symptoms import hint
from groundspeed.plugins.targets import origin

ROTATE_BYTES = 512 << 20
"""Ten times the cache of the devices of 2024: of a buffer hardly larger than the cache, a part is still found there."""


class Collectives:
    """Self-timed: ranks of their own processes; gloo on the CPU, NCCL (RCCL) or XCCL on accelerators.

    Every size is checked for right values before and after it is timed. What was measured before a rank failed, hung or
    was wrong is kept. With a target the project's own operation is measured (docs/plugins.md).
    """

    timing: ClassVar[Literal["self-timed"]] = "self-timed"
    name = "collectives"
    version = "3"
    """2: neither what launching a row of operations takes nor what NCCL adds to a graph counts as theirs. 3: buffers
    take turns, so that the device's cache holds none of them, and a row is long enough for its ends not to show.
    """
    description = "Bandwidth and latency of collectives between devices"
    needs = Needs(packages=("torch>=2.6",), target=False)
    params: tuple[Param, ...] = (
        Param("collective", "str", "all_reduce", choices=COLLECTIVES),
        Param("dtype", "str", "float32", choices=("float32", "bfloat16", "float16", "int32")),
        Param("world_size", "int", 0, minimum=0, description="ranks; 0: every accelerator here, or 2 on the CPU"),
        Param("min_bytes", "int", 8192, minimum=4, description="smallest buffer"),
        Param(
            "max_bytes", "int", 0, minimum=0, description="largest buffer; 0: 1 GiB on accelerators, 1 MiB on the CPU"
        ),
        Param("factor", "int", 0, minimum=0, description="between sizes; 0: 2 on accelerators, 16 on the CPU"),
        Param(
            "launch",
            "str",
            "queued",
            choices=("queued", "graph", "eager"),
            description="on CUDA: queued while the device waits, captured and replayed, or as fast as Python launches;"
            " a graph is replayed over the buffers of its row and takes no turns over others",
        ),
        Param(
            "buffers",
            "str",
            "plain",
            choices=("plain", "registered"),
            description="registered (on CUDA): allocated by NCCL and known to it, read by other devices without a copy",
        ),
        Param(
            "rotate_bytes",
            "int",
            0,
            minimum=0,
            description="operations take turns over buffers of so many bytes in all, so that none is found in the"
            " device's cache; 0: 512 MiB on accelerators, one buffer on the CPU; 1: one buffer",
        ),
        Param("samples", "int", 30, minimum=5, maximum=1000, series=False, description="at most, a size"),
        Param("seconds_per_size", "float", 0.3, minimum=0.0, series=False),
        Param(
            "silence_s", "float", 60.0, minimum=1.0, series=False, description="without progress a rank counts as hung"
        ),
    )

    def metrics(self) -> tuple[Metric, ...]:
        return (
            Metric("bus_bandwidth", "B/s", Direction.HIGHER, Kind.RATE, clock="wall",
                   description="what each link carries, comparable between world sizes",
                   formula="algbw x factor: all_reduce 2(n-1)/n, all_gather and the like (n-1)/n, else 1"),
            Metric("algorithm_bandwidth", "B/s", Direction.HIGHER, Kind.RATE, clock="wall", gate=False,
                   description="buffer size over time", formula="bytes / latency"),
            Metric("latency", "s", Direction.LOWER, Kind.TIME, clock="wall",
                   description="one operation on rank 0, in a row of operations", formula="time of a row / its length"),
        )  # fmt: skip

    def devices(self, context: Context) -> tuple[str, ...]:
        return devices_here(context)

    def start_ahead(self, context: Context) -> None:
        context.ahead["ranks"] = make_ranks(context).ahead()

    def run(self, context: Context) -> Iterable[Measured]:
        world = world_size(context)
        on_cpu = context.device == "cpu"
        factor = bus_factor(str(context.params["collective"]), world)
        late: dict[int, int] = {}
        with context.ahead.get("ranks") or make_ranks(context) as ranks:
            for rank, event in ranks.run():
                context.progress(f"rank {rank}: {event.get('at', event['event'])}")
                if rank == 0 and event["event"] == "point":
                    states = states_of(event, context, late)
                    yield from values(
                        event["bytes"], event["seconds"], world, factor, states, gate=None if not on_cpu else False
                    )


def states_of(point: Mapping[str, Any], context: Context, late_by_size: dict[int, int]) -> tuple[SampleState, ...]:
    """What each sample is worth by its conditions; *degraded* where a host was late, which is counted and told."""
    states = [context.state_between(begin, took) for begin, took in zip(point["begin_s"], point["took_s"], strict=True)]
    late = [one and state is SampleState.VALID for one, state in zip(point["late"], states, strict=True)]
    if any(late):
        late_by_size[point["bytes"]] = sum(late)
        context.facts["late_rows"] = sum(late_by_size.values())
        told = ", ".join(f"{count} of {size} bytes" for size, count in late_by_size.items())
        context.labels["host_late"] = f"samples that count as degraded: {told}; {hint('host-late')}"
    return tuple(SampleState.DEGRADED if one else state for one, state in zip(late, states, strict=True))


def make_ranks(context: Context) -> Ranks:
    """Raises Unsupported when there are too few devices, or where buffers cannot be registered."""
    if context.params["buffers"] == "registered" and not context.device.startswith("cuda"):
        raise Unsupported("collectives with buffers=registered: needs NCCL, which this device does not use")
    entry, silence_s = "groundspeed.plugins.distributed.sweep:entry", float(context.params["silence_s"])
    return Ranks(context, entry, world_size(context), sweep_payload(context), silence_s)


def values(
    size: int,
    seconds: list[float],
    world: int,
    factor: float,
    states: Sequence[SampleState] = (),
    *,
    gate: bool | None,
) -> Iterable[Measured]:
    """The three metrics of one size. Gloo on a CPU moves data by the host's memory and scheduler: charted only.

    Bandwidth is the fabric's number from 4 MiB up, latency below: each gates where it means something.
    """
    where: dict[str, ParamValue] = {"bytes": size, "ranks": world}
    large = size >= 4 << 20
    bus = [size / value * factor for value in seconds]
    yield Measured("bus_bandwidth", bus, where, states, gate=gate if large else False)
    yield Measured("algorithm_bandwidth", [size / value for value in seconds], where, states)
    yield Measured("latency", seconds, where, states, gate=False if large else gate)


def world_size(context: Context) -> int:
    """Ranks in all, on all nodes of the job. Raises Unsupported when more are asked for than there are devices."""
    asked, nodes = int(context.params["world_size"]), Nodes.here()
    if context.device == "cpu":
        return asked or (2 if nodes.count == 1 else nodes.count)
    there = accelerator_count(context.device) * nodes.count
    if asked > there or there < 2:
        raise Unsupported(f"collectives between {max(asked, 2)} devices: this process sees {there}")
    return asked or there


def devices_here(context: Context) -> tuple[str, ...]:
    """Those that the ranks of this node use, a rank each."""
    kind = context.device.partition(":")[0]
    ranks = Nodes.here().ranks(world_size(context)) if kind != "cpu" else ()
    return tuple(f"{kind}:{index}" for index in range(len(ranks)))


def sweep_payload(context: Context) -> dict[str, ParamValue]:
    """The parameters with what depends on the device filled in."""
    on_cpu = context.device == "cpu"
    payload = dict(context.params)
    payload["max_bytes"] = int(payload["max_bytes"]) or (1 << 20 if on_cpu else 1 << 30)
    payload["factor"] = int(payload["factor"]) or (16 if on_cpu else 2)
    payload["rotate_bytes"] = int(payload["rotate_bytes"]) or (1 if on_cpu else ROTATE_BYTES)
    if int(payload["factor"]) < 2:
        raise ValueError("plugin 'collectives', parameter 'factor': use 0 or an int of at least 2")
    if int(payload["max_bytes"]) < int(payload["min_bytes"]):
        raise ValueError("plugin 'collectives', parameter 'max_bytes': must not be below min_bytes")
    if context.target is not None:
        payload["target"] = origin(context.target)
    return payload


PLUGIN = Collectives()
