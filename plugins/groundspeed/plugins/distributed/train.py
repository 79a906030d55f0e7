"""The inside of the distributed-training plugin: one rank's steps, in lockstep with the others."""

from __future__ import annotations

import importlib
import statistics
from pathlib import Path
from typing import Any

from groundspeed.plugins import axes, tasks
from groundspeed.plugins.distributed.rank import RankContext
from groundspeed.plugins.distributed.sweep import agree
from groundspeed.plugins.spi import Context, Unsupported
from groundspeed.plugins.timing.clocks import Clock, clock_for
from groundspeed.plugins.timing.loop import quiet_collector
from groundspeed.plugins.timing.profile import FEW_STEPS, profile_steps

WARMUP_S = 1.0
MIN_WARMUP, MAX_STEPS = 5, 200
OWN_STEPS = 9


def entry(rank: RankContext) -> None:
    """Emits ``timed`` (seconds of each step) and, on an accelerator, ``traced`` (its device activities)."""
    step, model, feed = build(rank)
    clock = clock_for(rank.device)
    with quiet_collector():
        once = _warm_up(step, clock, rank)
        count = max(5, min(MAX_STEPS, int(rank.payload["seconds"] / once)))
        rank.emit("progress", at=f"measuring {count} steps", measures=True)
        chunk = clock.chunk(step, count, 1)
    waited_s = int(rank.payload["accumulation"]) * feed.waited_s / max(feed.batches, 1)
    rank.emit("timed", wall_s=chunk.wall_s, cpu_s=chunk.cpu_s, begin_s=chunk.start_s, input_wait_s=waited_s)
    if rank.device != "cpu":
        _trace(step, rank, statistics.median(chunk.wall_s))
    if hasattr(model, "no_sync"):
        _by_itself(step, model, clock, rank)


def _warm_up(step: Any, clock: Clock, rank: RankContext) -> float:
    """Seconds of a step on the slowest rank, the same in all ranks, after about WARMUP_S of steps."""
    clock.chunk(step, 3, 1)
    once = agree(statistics.median(clock.chunk(step, 2, 1).wall_s), rank)
    rank.emit("progress", at="warming up")
    return agree(statistics.median(clock.chunk(step, max(MIN_WARMUP, int(WARMUP_S / once)), 1).wall_s), rank)


def _by_itself(step: Any, model: Any, clock: Clock, rank: RankContext) -> None:
    """Each rank at its own pace, nobody waited for: who is slow is seen here, where in lockstep all are. The replicas
    part ways in it, so it comes last.
    """
    rank.emit("progress", at="stepping without communication")
    with model.no_sync():
        chunk = clock.chunk(step, OWN_STEPS, 1)
    rank.emit("alone", wall_s=chunk.wall_s[1:])


def _trace(step: Any, rank: RankContext, seconds: float) -> None:
    import torch

    once = agree(seconds, rank)
    profiled = profile_steps(
        step, rank.device, once, lambda text: rank.emit("progress", at=text), most=FEW_STEPS
    )  # fmt: skip
    module = getattr(torch, rank.device.partition(":")[0])
    table = profiled.table.as_json()
    rank.emit(
        "traced",
        unavailable=profiled.unavailable,
        busy_s=[one.busy_s for one in profiled.steps],
        compute_s=[one.compute_s for one in profiled.steps],
        exposed_communication_s=[one.exposed_communication_s for one in profiled.steps],
        communication_ns=profiled.communication_ns,
        table=table if rank.rank == 0 else None,
        compute_by_kernel_s=sum(
            row["median_s"] * row["count_per_step"] for row in table["kernels"] if not row["communication"]
        ),
        peak_bytes=int(module.max_memory_allocated(rank.device)),
    )


def build(rank: RankContext) -> tuple[Any, Any, tasks.Feed]:
    """The step of the wrapped model, that model, and what gives it batches. Raises Unsupported when the target cannot
    be split over ranks.
    """
    import torch

    payload = rank.payload
    torch.manual_seed(int(payload["seed"]))
    module_name, _, name = str(payload["target"]).partition(":")
    context = Context(
        device=rank.device,
        params=payload,
        target=getattr(importlib.import_module(module_name), name),
        workdir=Path.cwd(),
        progress=lambda text: rank.emit("progress", at=text),
        rank=rank.rank,
        world_size=rank.world_size,
    )
    rank.emit("progress", at=f"making {payload['target']}")
    task = tasks.training_task(context)
    if task.parts is None:
        raise Unsupported("data-parallel training needs a target that returns `model` and its parts, not a callable")
    if rank.world_size > 1:
        if task.parts.make_optimizer is None and payload["parallel"] == "fsdp":
            raise Unsupported("fsdp needs the target's `optimizer` to be a callable that takes the parameters")
        task.parts.model = wrap(task.parts.model, str(payload["parallel"]), rank.device)
        if task.parts.make_optimizer is not None:
            task.parts.optimizer = task.parts.make_optimizer(task.parts.model.parameters())
    return axes.training_step(task.parts, payload, rank.device), task.parts.model, task.parts.feed


def wrap(model: Any, parallel: str, device: str) -> Any:
    """DDP with torch's defaults; FSDP2 where torch has it, each child of a module list a unit of its own."""
    import torch

    if parallel == "ddp":
        from torch.nn.parallel import DistributedDataParallel

        return DistributedDataParallel(model, device_ids=None if device == "cpu" else [torch.device(device)])
    from torch.distributed.fsdp import fully_shard

    for module in model.modules():
        if isinstance(module, torch.nn.ModuleList):
            for unit in module:
                fully_shard(unit)
    fully_shard(model)
    return model
