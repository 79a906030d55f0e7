"""Our loop against a hand-written event loop on one product, turn by turn in one process: the same thermal state."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

import torch

from groundspeed.plugins.gemm import make_product
from groundspeed.plugins.protocol import Limits
from groundspeed.plugins.timing.drive import DEVICE_STEADY
from groundspeed.plugins.timing.loop import DEVICE_CHUNK_S, Loop
from groundspeed.plugins.timing.unbroken import loop_clock


def by_hand(step, count):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(count):
        step()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3 / count


def main(out):
    limits = Limits(warmup_max_s=3.0, min_time_s=1.0, max_time_s=1.0, max_samples=100_000)
    for precision in ("bf16", "fp32"):
        step, _ = make_product(precision, 8192, "cuda:0")
        count = 600 if precision == "bf16" else 50
        by_hand(step, count * 3)
        ratios = []
        for _ in range(5):
            first = by_hand(step, count)
            ours = Loop(
                step, loop_clock("cuda:0"), limits, lambda _: None, steady_test=DEVICE_STEADY, chunk_s=DEVICE_CHUNK_S
            ).run()
            second = by_hand(step, count)
            ratios.append(statistics.median(ours.chunk.wall_s) / ((first + second) / 2) - 1)
        line = {"precision": precision, "ours_over_hand_minus_1": ratios, "hand_s": second}
        with Path(out).open("a") as file:
            file.write(json.dumps(line) + "\n")
        sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
