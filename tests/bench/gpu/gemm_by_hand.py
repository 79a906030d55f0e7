"""Our loop against a hand-written event loop on one product, turn by turn in one process: the same thermal state.

Twice: our whole loop, warm-up included, between two loops by hand of a second each; and the clock under it against loops
by hand in turns of a quarter of a second, because a device at its power cap is not the same from one second to the next.
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
LOOPS, TURNS, PER_SAMPLE, SAMPLES = 3, 16, 2, 75


def by_hand(step, count):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(count):
        step()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3 / count


def whole_loop(step, count):
    """Our loop's median over the mean of the loops by hand before and after it, minus 1."""
    first = by_hand(step, count)
    loop = Loop(step, loop_clock(DEVICE), LIMITS, lambda _: None, steady_test=DEVICE_STEADY, chunk_s=DEVICE_CHUNK_S)
    ours = statistics.median(loop.run().chunk.wall_s)
    return ours / ((first + by_hand(step, count)) / 2) - 1


def in_turns(step, samples, clock):
    """The clock's mean time of a product over the hand's, minus 1, over turns that follow each other at once."""
    ours, hand = [], []
    for turn in range(TURNS):
        kinds = [(ours, lambda: statistics.mean(clock.chunk(step, samples, PER_SAMPLE).wall_s)),
                 (hand, lambda: by_hand(step, samples * PER_SAMPLE))]  # fmt: skip
        for found, measure in kinds if turn % 2 == 0 else kinds[::-1]:
            found.append(measure())
            clock.synchronize()
    return statistics.mean(ours) / statistics.mean(hand) - 1


def main(out, *precisions):
    for precision in precisions or ("bf16", "fp32"):
        step, _ = make_product(precision, 8192, DEVICE)
        count, samples = (600, SAMPLES) if precision == "bf16" else (50, 6)
        by_hand(step, count * 3)
        line = {
            "precision": precision,
            "ours_over_hand_minus_1": [in_turns(step, samples, loop_clock(DEVICE))],
            "waiting_over_hand_minus_1": [in_turns(step, samples, clock_for(DEVICE))],
            "whole_loop_over_hand_minus_1": [whole_loop(step, count) for _ in range(LOOPS)],
            "hand_s": by_hand(step, count),
        }
        with Path(out).open("a") as file:
            file.write(json.dumps(line) + "\n")
        sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
