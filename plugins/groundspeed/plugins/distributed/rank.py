"""Inside one rank: joins the process group, calls the entry, and writes events as JSON lines. Started by ranks.py."""

from __future__ import annotations

import contextlib
import datetime as dt
import faulthandler
import importlib
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from groundspeed.plugins import gate
from groundspeed.plugins.outcomes import is_out_of_memory
from groundspeed.plugins.spi import Skip, Unsupported, WrongResult

LAST_COLLECTIVES = 5
GROUP_TIMEOUT = dt.timedelta(minutes=10)
"""Longer than any silence that ranks.py allows: it is the one that tells a hang, with stacks of every rank."""


@dataclass(slots=True)
class RankContext:
    """What an entry gets. The process group stands already."""

    rank: int
    world_size: int
    device: str
    payload: Mapping[str, Any]
    events: TextIO

    def emit(self, event: str, **fields: Any) -> None:
        """One JSON line for the benchmark process; counts as a sign of life."""
        self.events.write(json.dumps({"event": event, **fields}) + "\n")


def main() -> int:
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    # Before any thread is there: every one inherits it, and the one that waits for the signal gets it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    spec: dict[str, Any] = json.loads(sys.argv[1])
    with Path(spec["events"]).open("a", encoding="utf-8", buffering=1) as events:
        context = RankContext(spec["rank"], spec["world_size"], spec["device"], spec["payload"], events)
        threading.Thread(target=_tell_collectives, args=(context,), daemon=True).start()
        try:
            _run(spec, context)
        except WrongResult as error:
            context.emit("wrong", message=str(error))
            return 1
        except (Skip, Unsupported) as error:
            context.emit("refused", kind=type(error).__name__, message=str(error))
            return 1
        except Exception as error:  # noqa: BLE001 - the process edge: the error goes to the benchmark process as an event
            context.emit(
                "error",
                message=f"{type(error).__name__}: {error}",
                traceback=traceback.format_exc(),
                oom=is_out_of_memory(error),
            )
            return 1
        context.emit("finished")
    return 0


def _tell_collectives(context: RankContext) -> None:
    """On SIGUSR2, while the main thread hangs: what NCCL was doing, as an event. Costs nothing until it is asked."""
    while True:
        signal.sigwait({signal.SIGUSR2})
        context.emit("collectives", **last_collectives())


def last_collectives() -> dict[str, Any]:
    """The last operations in torch's flight recorder (NCCL's, newer ones: gloo too): {"last": [{name, state, …}]},
    or {"unavailable": why}.
    """
    torch = sys.modules.get("torch")
    core = getattr(getattr(torch, "_C", None), "_distributed_c10d", None)
    dump = getattr(core, "_dump_nccl_trace_json", None) or getattr(core, "_dump_fr_trace_json", None)
    if dump is None:
        return {"unavailable": "this torch has no flight recorder of collectives"}
    try:
        entries = json.loads(dump()).get("entries", [])
    except Exception as error:  # noqa: BLE001 - a private part of torch: whatever it raises, the hang is what counts
        return {"unavailable": f"the flight recorder: {error}"}
    wanted = ("profiling_name", "state", "collective_seq_id", "p2p_seq_id", "input_sizes", "time_created_ns")
    return {"last": [{name: one.get(name) for name in wanted} for one in entries[-LAST_COLLECTIVES:]]}


def _run(spec: Mapping[str, Any], context: RankContext) -> None:
    import torch
    import torch.distributed as dist

    module_name, _, function = str(spec["entry"]).partition(":")
    entry = getattr(importlib.import_module(module_name), function)
    if spec.get("gate"):
        preload(spec["payload"])
        gate.wait(spec["gate"])
    if context.device == "cpu":
        torch.set_num_threads(1)
    else:
        module = getattr(torch, context.device)
        local = int(os.environ.get("LOCAL_RANK", spec["local"]))
        module.set_device(local)
        context.device = f"{context.device}:{local}"
    backend = {"cpu": "gloo", "cuda": "nccl", "xpu": "xccl"}[context.device.partition(":")[0]]
    context.emit("progress", at="joining the process group")
    options: dict[str, Any] = {}
    if backend == "nccl":
        options["device_id"] = torch.device(context.device)
    dist.init_process_group(
        backend,
        init_method=str(spec["meeting"]),
        rank=context.rank,
        world_size=context.world_size,
        timeout=GROUP_TIMEOUT,
        **options,
    )
    try:
        entry(context)
    finally:
        dist.destroy_process_group()


def preload(payload: Mapping[str, Any]) -> None:
    """What the entry imports only once it runs: the target and what optimisers need. What fails is told there."""
    names = ["torch._dynamo", str(payload["target"]).partition(":")[0]] if payload.get("target") else []
    for name in names:
        with contextlib.suppress(Exception):
            importlib.import_module(name)


if __name__ == "__main__":
    sys.exit(main())
