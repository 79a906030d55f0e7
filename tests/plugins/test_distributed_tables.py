"""What distributed training keeps beside its numbers: the kernels of the first rank's steps."""

from __future__ import annotations

import json
from pathlib import Path

from groundspeed.plugins.distributed_training import DistributedTraining
from groundspeed.plugins.models.training import gpt_small
from groundspeed.plugins.params import resolve
from groundspeed.plugins.spi import Artefact, Context

TABLE = {"version": 1, "steps": 2, "kernels": [{"name": "gemm", "count_per_step": 4.0, "time_per_step_s": 8e-3,
                                               "median_s": 2e-3, "communication": False}]}  # fmt: skip


def events(rank: int, world: int) -> dict:
    traced = {"unavailable": "", "busy_s": [9e-3] * 2, "compute_s": [8e-3] * 2, "exposed_communication_s": [1e-3] * 2,
              "communication_ns": [[1_000_000]] * 2, "compute_by_kernel_s": 8e-3, "peak_bytes": 1 << 20,
              "table": TABLE if rank == 0 else None}  # fmt: skip
    return {"timed": {"wall_s": [10e-3] * 5, "cpu_s": [1e-3] * 5}, **({"traced": traced} if world > 1 else {})}


def test_the_kernel_table_of_the_first_rank_is_kept_with_the_result(monkeypatch, tmp_path: Path) -> None:
    plugin = DistributedTraining()
    kept: list[Artefact] = []
    monkeypatch.setattr(
        DistributedTraining, "_ranks", lambda _self, _context, world: {n: events(n, world) for n in range(world)}
    )
    params = resolve(plugin.name, plugin.params, {"world_size": 2})
    context = Context("cpu", params, gpt_small, tmp_path, lambda _text: None, keep=kept.append)
    metrics = {one.metric for one in plugin.run(context)}
    assert {"scaling_efficiency", "compute_time", "exposed_communication_share"} <= metrics
    (artefact,) = kept
    assert (artefact.kind, artefact.name) == ("kernel-table", "kernel-table.json")
    assert json.loads(artefact.content) == TABLE
