"""Distributed training: DDP and FSDP over several devices, with scaling efficiency against one of them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from groundspeed.plugins import axes
from groundspeed.plugins.collectives import devices_here, world_size
from groundspeed.plugins.common import SEED
from groundspeed.plugins.distributed.nodes import Nodes
from groundspeed.plugins.distributed.ranks import Ranks
from groundspeed.plugins.spi import (
    Artefact,
    Context,
    Direction,
    Kind,
    Measured,
    Metric,
    Needs,
    Param,
    ParamValue,
    Unsupported,
)
from groundspeed.plugins.symptoms import hint
from groundspeed.plugins.targets import origin
from groundspeed.plugins.timing import classify
from groundspeed.plugins.timing.kernels import waiting_and_moving

STRAGGLES = 0.1
SCALES = 0.9
"""Two devices should be 1.8 times as fast as one."""
EXPOSED = 0.1
"""More of a step than this spent in communication beside which nothing runs."""
ENTRY = "groundspeed.plugins.distributed.train:entry"


class DistributedTraining:
    """Self-timed: ranks of their own processes step in lockstep; first one rank alone, then all of them."""

    timing: ClassVar[Literal["self-timed"]] = "self-timed"
    name = "distributed-training"
    version = "1"
    description = "Training steps under DDP or FSDP over several devices, and how well they scale"
    needs = Needs(packages=("torch>=2.6",), target=True)
    params: tuple[Param, ...] = (
        Param("parallel", "str", "ddp", choices=("ddp", "fsdp")),
        Param("world_size", "int", 0, minimum=0, description="ranks; 0: every accelerator here, or 2 on the CPU"),
        Param("batch_size", "int", 8, minimum=1, description="of each rank"),
        *axes.TRAINING_AXES,
        Param("seconds", "float", 1.5, minimum=0.0, series=False, description="of measured steps"),
        Param("silence_s", "float", 60.0, minimum=1.0, series=False, description="without progress a rank is hung"),
        SEED,
    )  # fmt: skip

    def metrics(self) -> tuple[Metric, ...]:
        def time(name: str, description: str, formula: str, **more: Any) -> Metric:
            return Metric(name, "s", Direction.LOWER, Kind.TIME, description, formula, **more)

        return (
            time("step_time", "one step of all ranks", "between timing events, slowest rank", clock="wall", gate=False),
            Metric("samples_per_s", "samples/s", Direction.HIGHER, Kind.RATE, clock="wall", gate=False,
                   description="of all ranks together", formula="ranks x batch size / step_time"),
            Metric("scaling_efficiency", "1", Direction.HIGHER, Kind.RATIO, clock="wall", gate=False,
                   description="rate of all ranks over that many times the rate of one",
                   formula="median step time of one rank alone / median step time of all"),
            time("compute_time", "compute kernels of a step: steady where their union is not: overlap with "
                 "communication slows some", "sum over kernels of median duration x count a step", clock="device"),
            time("communication_moving_time", "communication kernels while data moves",
                 "shortest duration of each collective among ranks, summed over a step", clock="device", gate=False),
            time("communication_waiting_time", "communication kernels waiting for another rank",
                 "what a rank's kernels took longer than that, mean over ranks", clock="device", gate=False),
            time("exposed_communication_time", "communication while nothing else ran on the device",
                 "busy union - compute union", clock="device", gate=False),
            Metric("exposed_communication_share", "1", Direction.LOWER, Kind.RATIO, clock="device", gate=False,
                   description="of a step's time on the wall",
                   formula="median exposed_communication_time / median step_time"),
            time("rank_time", "a step of each rank at its own pace, without communication (DDP): tells a straggler",
                 "between timing events under no_sync, the first left out", clock="wall", gate=False),
            Metric("straggler_excess", "1", Direction.LOWER, Kind.RATIO, clock="wall", gate=False,
                   description="by how much the slowest rank is slower than the others",
                   formula="largest median rank_time / median of the others - 1"),
            Metric("peak_memory", "B", Direction.LOWER, Kind.BYTES, "largest of all ranks", "max_memory_allocated"),
        )  # fmt: skip

    def devices(self, context: Context) -> tuple[str, ...]:
        return devices_here(context)

    def start_ahead(self, context: Context) -> None:
        """One rank alone and all of them, as ``run`` has them."""
        for world in sorted({1, world_size(context)}):
            context.ahead[str(world)] = make_ranks(context, world).ahead()

    def run(self, context: Context) -> Iterable[Measured]:
        if context.target is None:
            raise Unsupported('this suite needs target = "package.module:factory" in groundspeed.toml')
        if Nodes.here().count > 1:
            raise Unsupported("distributed-training runs on the devices of one node; collectives spans several")
        world = world_size(context)
        alone = self._ranks(context, 1)
        together = self._ranks(context, world)
        where: dict[str, ParamValue] = {"ranks": world}
        wall = [max(step) for step in zip(*(rank["timed"]["wall_s"] for rank in together.values()), strict=True)]
        once = statistics.median(alone[0]["timed"]["wall_s"])
        batch = float(context.params["batch_size"]) * float(context.params["accumulation"])
        begins = next(iter(together.values()))["timed"]["begin_s"]
        states = [context.state_between(begin, took) for begin, took in zip(begins, wall, strict=True)]
        yield Measured("step_time", wall, where, states)
        yield Measured("samples_per_s", [world * batch / value for value in wall], where, states)
        waited_s = max(rank["timed"]["input_wait_s"] for rank in together.values())
        context.labels.update(classify.bound_labels(statistics.median(wall), None, waited_s))
        efficiency = once / statistics.median(wall)
        yield Measured("scaling_efficiency", [efficiency], where)
        if efficiency < SCALES and context.device != "cpu":
            context.labels["poor_scaling"] = f"{efficiency:.0%} of {world} times one device: {hint('poor-scaling')}"
        if all("traced" in rank and not rank["traced"]["unavailable"] for rank in together.values()):
            yield from traced(together, where, statistics.median(wall), context)
            table = json.dumps(together[0]["traced"]["table"])
            context.keep(Artefact("kernel-table", "kernel-table.json", table))
        own = {rank: events["alone"]["wall_s"] for rank, events in together.items() if "alone" in events}
        if len(own) > 1:
            yield from stragglers(own, where, context)

    def _ranks(self, context: Context, world: int) -> dict[int, dict[str, Any]]:
        """What each rank reported, by rank and event."""
        found: dict[int, dict[str, Any]] = {number: {} for number in range(world)}
        with context.ahead.pop(str(world), None) or make_ranks(context, world) as ranks:
            for rank, event in ranks.run():
                context.progress(f"rank {rank} of {world}: {event.get('at', event['event'])}")
                found[rank][event["event"]] = event
        return found


def make_ranks(context: Context, world: int) -> Ranks:
    assert context.target is not None
    payload: dict[str, Any] = {**context.params, "target": origin(context.target)}
    return Ranks(context, ENTRY, world, payload, float(context.params["silence_s"]))


def traced(
    ranks: dict[int, dict[str, Any]], where: dict[str, ParamValue], wall_s: float, context: Context
) -> Iterable[Measured]:
    """Compute and communication apart, and waiting apart from moving, from every rank's device trace."""
    traces = {rank: events["traced"] for rank, events in ranks.items()}
    yield Measured("compute_time", [max(trace["compute_by_kernel_s"] for trace in traces.values())], where)
    exposed = [max(step) for step in zip(*(t["exposed_communication_s"] for t in traces.values()), strict=True)]
    yield Measured("exposed_communication_time", exposed, where)
    share = statistics.median(exposed) / wall_s
    yield Measured("exposed_communication_share", [share], where)
    if share > EXPOSED:
        context.labels["communication_exposed"] = f"{share:.0%} of a step: {hint('communication-exposed')}"
    steps = min(len(trace["communication_ns"]) for trace in traces.values())
    split = [
        waiting_and_moving(
            {rank: [ns * 1e-9 for ns in trace["communication_ns"][step]] for rank, trace in traces.items()}
        )
        for step in range(steps)
    ]
    moving = [next(iter(one.values()))[1] for one in split]
    waiting = [statistics.mean(waited for waited, _ in one.values()) for one in split]
    yield Measured("communication_moving_time", moving, where)
    yield Measured("communication_waiting_time", waiting, where)
    yield Measured("peak_memory", [float(max(t["peak_bytes"] for t in traces.values()))], where)


def stragglers(
    own_s: Mapping[int, Sequence[float]], where: dict[str, ParamValue], context: Context
) -> Iterable[Measured]:
    """Each rank's own time, and the rank that is slower than the others as a label and a fact."""
    for rank, values in own_s.items():
        yield Measured("rank_time", values, {**where, "rank": rank})
    medians = {rank: statistics.median(values) for rank, values in own_s.items()}
    slowest = max(medians, key=lambda rank: medians[rank])
    others = statistics.median(value for rank, value in medians.items() if rank != slowest)
    excess = medians[slowest] / others - 1
    yield Measured("straggler_excess", [excess], where)
    if excess > STRAGGLES:
        context.facts["straggler"] = slowest
        context.labels["straggler"] = (
            f"rank {slowest} takes {excess:.0%} longer for a step of its own than the others: {hint('straggler')}"
        )


PLUGIN = DistributedTraining()
