"""What distributed training keeps beside its numbers: the kernels of the first rank's steps."""

from __future__ import annotations

import json
from pathlib import Path

from groundspeed.plugins.distributed_training import DistributedTraining
from groundspeed.plugins.models.training import gpt_small
from groundspeed.plugins.params import resolve
from groundspeed.plugins.spi import Artefact, Context, SampleState

TABLE = {"version": 1, "steps": 2, "kernels": [{"name": "gemm", "count_per_step": 4.0, "time_per_step_s": 8e-3,
                                               "median_s": 2e-3, "communication": False}]}  # fmt: skip


def events(rank: int, world: int) -> dict:
    traced = {"unavailable": "", "busy_s": [9e-3] * 2, "compute_s": [8e-3] * 2, "exposed_communication_s": [1e-3] * 2,
              "communication_ns": [[1_000_000]] * 2, "compute_by_kernel_s": 8e-3, "peak_bytes": 1 << 20,
              "table": TABLE if rank == 0 else None}  # fmt: skip
    timed = {"wall_s": [10e-3] * 5, "cpu_s": [1e-3] * 5, "begin_s": [10e-3 * step for step in range(5)],
             "input_wait_s": 4e-4}  # fmt: skip
    return {"timed": timed, **({"traced": traced} if world > 1 else {})}


def test_the_kernel_table_of_the_first_rank_is_kept_with_the_result(monkeypatch, tmp_path: Path) -> None:
    plugin = DistributedTraining()
    kept: list[Artefact] = []
    monkeypatch.setattr(
        DistributedTraining, "_ranks", lambda _self, _context, world: {n: events(n, world) for n in range(world)}
    )
    params = resolve(plugin.name, plugin.params, {"world_size": 2})
    context = Context(
        "cuda:0", params, gpt_small, tmp_path, lambda _text: None, keep=kept.append,
        state_between=lambda begin, _took: SampleState.REJECTED if begin > 35e-3 else SampleState.VALID,
    )  # fmt: skip
    monkeypatch.setattr("groundspeed.plugins.distributed_training.world_size", lambda _context: 2)
    found = {one.metric: one for one in plugin.run(context)}
    assert {"scaling_efficiency", "compute_time", "exposed_communication_share"} <= set(found)
    assert found["step_time"].states.count(SampleState.REJECTED) == 1
    assert context.labels == {}
    monkeypatch.setattr("groundspeed.plugins.timing.classify.INPUT_BOUND_SHARE", 0.01)
    monkeypatch.setattr("groundspeed.plugins.distributed_training.EXPOSED", 0.05)
    monkeypatch.setattr("groundspeed.plugins.distributed_training.SCALES", 1.1)
    list(plugin.run(context))
    assert context.labels["communication_exposed"].startswith("10% of a step: collectives are not hidden")
    assert context.labels["input_bound"].startswith("4% of a step is waiting for the next batch")
    assert context.labels["poor_scaling"].startswith("100% of 2 times one device: ")
    artefact = kept[0]
    assert (artefact.kind, artefact.name) == ("kernel-table", "kernel-table.json")
    assert json.loads(artefact.content) == TABLE
