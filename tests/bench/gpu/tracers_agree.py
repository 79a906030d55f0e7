"""CUPTI read directly against torch.profiler on the same steps of one process: ``python3 -m tests.bench.gpu.tracers_agree``."""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import torch

from groundspeed.plugins.axes import training_step
from groundspeed.plugins.models import training
from groundspeed.plugins.spi import Context
from groundspeed.plugins.tasks import training_task
from groundspeed.plugins.timing.cupti import CuptiTracer
from groundspeed.plugins.timing.profile import TorchTracer, read_trace

AXES = {"precision": "bf16", "mode": "eager", "channels_last": False, "checkpointing": False, "accumulation": 1,
        "fused": False, "batch_size": 8}  # fmt: skip


def trace(step, tracer):
    begin = time.perf_counter()
    tracer.start()
    started = time.perf_counter() - begin
    step()
    torch.cuda.synchronize()
    boundaries = [tracer.now_ns()]
    for _ in range(20):
        step()
        torch.cuda.synchronize()
        boundaries.append(tracer.now_ns())
    tracer.stop()
    begin = time.perf_counter()
    result = read_trace(tracer.intervals(), boundaries, skip=1)
    return result, started, time.perf_counter() - begin


def main():
    context = Context("cuda:0", AXES, training.gpt, Path.cwd(), lambda _: None)
    step = training_step(training_task(context).parts, AXES, "cuda:0")
    for _ in range(20):
        step()
    torch.cuda.synchronize()
    cupti = CuptiTracer()
    busy = {}
    for name, tracer in (("cupti", cupti), ("cupti again", cupti), ("torch", TorchTracer("cuda"))):
        found, started, read = trace(step, tracer)
        if not found.steps:
            sys.stdout.write(f"{name}: {found.unavailable}\n")
            continue
        busy[name] = statistics.median(one.busy_s for one in found.steps)
        launches = sorted({one.launches for one in found.steps})
        top = found.table.as_json()["kernels"][0]
        sys.stdout.write(f"{name}: busy {busy[name] * 1e3:.4f} ms, launches {launches}, start {started:.2f} s, "
                         f"read {read:.2f} s, longest {top['name'][:60]} {top['time_per_step_s'] * 1e3:.4f} ms\n")  # fmt: skip
    agree = len(busy) == 3 and abs(busy["cupti"] / busy["torch"] - 1) < 0.005
    sys.stdout.write(f"agree within 0.5 %: {agree}\n")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
