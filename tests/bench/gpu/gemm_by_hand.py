"""Our loop against a hand-written event loop on one product, turn by turn in one process: the same thermal state.

Twice: our whole loop, warm-up included, between two loops by hand of a second each; and the clock under it against loops
by hand in short turns, because a device at its power cap is not the same from one second to the next. Beside each of
these turns stand two loops by hand, which tells what the turns themselves can tell apart. A product of zeros draws too
little power to reach the cap.
"""

from __future__ import annotations

import json
import math
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
SIZE = 8192
LOOPS = 3
TURNS, TURN_S, PER_SAMPLE = 64, 0.05, 2
OF_ZEROS = "bf16 of zeros"


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
    """Means over turns that follow each other at once: of the clock and of a second hand, over the first hand's minus 1.

    Each with the half-width of its 95 % interval, from the differences within a round.
    """
    kinds = {
        "ours": lambda: statistics.mean(clock.chunk(step, samples, PER_SAMPLE).wall_s),
        "hand": lambda: by_hand(step, samples * PER_SAMPLE),
        "again": lambda: by_hand(step, samples * PER_SAMPLE),
    }
    found = {name: [] for name in kinds}
    for turn in range(TURNS):
        names = list(kinds)
        names = names[turn % 3 :] + names[: turn % 3]
        for name in names if turn % 2 == 0 else names[::-1]:
            found[name].append(kinds[name]())
            clock.synchronize()
    return {name: over(found[name], found["hand"]) for name in ("ours", "again")}


def over(ours, hand):
    """Mean of ours over the hand's minus 1, and the half-width of its interval (normal, of paired differences)."""
    mean = statistics.mean(hand)
    differences = [(one - other) / mean for one, other in zip(ours, hand, strict=True)]
    return [statistics.mean(differences), 1.96 * statistics.stdev(differences) / math.sqrt(len(differences))]


def product_of(precision):
    """A product of the suite; of zeros one like its bf16, which cannot be checked against anything else."""
    if precision != OF_ZEROS:
        return make_product(precision, SIZE, DEVICE)[0]
    left, right, out = (torch.zeros(SIZE, SIZE, device=DEVICE, dtype=torch.bfloat16) for _ in range(3))
    return lambda: torch.mm(left, right, out=out)


def main(out, *precisions):
    for precision in precisions or ("bf16", OF_ZEROS, "fp32"):
        step = product_of(precision)
        by_hand(step, 20)
        count = max(round(1.0 / by_hand(step, 20)), 1)
        by_hand(step, count * 3)
        samples = max(round(count * TURN_S / PER_SAMPLE), 2)
        fed, waiting = in_turns(step, samples, loop_clock(DEVICE)), in_turns(step, samples, clock_for(DEVICE))
        line = {
            "precision": precision,
            "ours_over_hand_minus_1": fed["ours"],
            "waiting_over_hand_minus_1": waiting["ours"],
            "hand_over_hand_minus_1": [fed["again"], waiting["again"]],
            "whole_loop_over_hand_minus_1": [whole_loop(step, count) for _ in range(LOOPS)],
            "hand_s": by_hand(step, count),
        }
        with Path(out).open("a") as file:
            file.write(json.dumps(line) + "\n")
        sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
