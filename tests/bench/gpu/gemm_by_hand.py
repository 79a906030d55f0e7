"""Our loop against a hand-written event loop on one product, turn by turn in one process: the same thermal state.

Ours twice: with the clock that keeps the device busy between chunks, and with one that waits after each.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

import torch

from groundspeed.plugins.gemm import make_product
from groundspeed.plugins.protocol import Limits
from groundspeed.plugins.timing.clocks import clock_for
from groundspeed.plugins.timing.drive import DEVICE_STEADY
from groundspeed.plugins.timing.loop import DEVICE_CHUNK_S, Loop
from groundspeed.plugins.timing.unbroken import loop_clock

LIMITS = Limits(warmup_max_s=3.0, min_time_s=1.0, max_time_s=1.0, max_samples=100_000)
DEVICE = "cuda:0"
TURNS = 3


def by_hand(step, count):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(count):
        step()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3 / count


def ours(step, clock):
    loop = Loop(step, clock, LIMITS, lambda _: None, steady_test=DEVICE_STEADY, chunk_s=DEVICE_CHUNK_S)
    return statistics.median(loop.run().chunk.wall_s)


def main(out, *precisions):
    for precision in precisions or ("bf16", "fp32"):
        step, _ = make_product(precision, 8192, DEVICE)
        count = 600 if precision == "bf16" else 50
        by_hand(step, count * 3)
        ratios, waiting = [], []
        for _ in range(TURNS):
            first = by_hand(step, count)
            unbroken = ours(step, loop_clock(DEVICE))
            second = by_hand(step, count)
            paused = ours(step, clock_for(DEVICE))
            third = by_hand(step, count)
            ratios.append(unbroken / ((first + second) / 2) - 1)
            waiting.append(paused / ((second + third) / 2) - 1)
        line = {"precision": precision, "ours_over_hand_minus_1": ratios, "waiting_over_hand_minus_1": waiting,
                "hand_s": third}  # fmt: skip
        with Path(out).open("a") as file:
            file.write(json.dumps(line) + "\n")
        sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
