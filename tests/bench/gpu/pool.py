"""The pool of interleaved fresh processes: ``python3 -m tests.bench.gpu.pool OUT SECONDS DEVICES WHAT …``.

WHAT: ``delays:N`` (GPT training with no delay and with 0.2, 0.5 and 1 % planted on the device, N processes of each and
a third of them with a host-side slow-down), ``same:N`` (N processes of gemm, ResNet-50 training, BERT eager and graph,
memory). Jobs of all kinds are interleaved; every process records three clocks and three habits.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.bench.gpu.children import Lanes

HERE = "tests.bench.gpu.workloads"
BUSY_S = 15.5e-3
"""Device-busy time of the GPT step on an H200: what the planted shares refer to; the trace says what was planted."""
LIMITS = {"warmup_max_s": 0.8, "min_time_s": 0.25, "max_time_s": 0.5, "max_samples": 60}
LATENCY = {**LIMITS, "max_time_s": 0.6}


def gpt(tag, **env):
    return {"tag": tag, "plugin": "training", "target": f"{HERE}:gpt", "params": {"precision": "bf16"}, "env": env,
            "limits": LIMITS}  # fmt: skip


def delays(count):
    rounds = []
    for number in range(count):
        one = [gpt("gpt +0 %")]
        one += [gpt(f"gpt +{share} %", GS_DELAY_S=BUSY_S * share / 100) for share in (0.2, 0.5, 1.0)]
        if number % 3 == 0:
            one.append(gpt("gpt host +3 ms", GS_HOST_DELAY_S=3e-3))
        rounds.append(one if number % 2 == 0 else one[::-1])
    return rounds


def same(count):
    training = {"plugin": "training", "limits": LIMITS}
    fp16 = {"precision": "fp16"}
    one = [
        {"tag": "gemm", "plugin": "gemm", "target": f"{HERE}:gpt", "params": {"precision": "bf16"}, "limits": {**LIMITS, "max_time_s": 1.0}},
        {"tag": "resnet50", "target": f"{HERE}:resnet50", **training,
         "params": {"precision": "bf16", "batch_size": 64, "channels_last": True}},
        {"tag": "bert eager", "plugin": "inference", "target": f"{HERE}:bert", "limits": LATENCY},
        {"tag": "bert graph", "plugin": "inference", "target": f"{HERE}:bert_graph",
         "params": {**fp16, "mode": "graph"}, "limits": LATENCY},
        {"tag": "memory", "plugin": "memory", "target": f"{HERE}:memory_gpt"},
    ]  # fmt: skip
    return [one if number % 2 == 0 else one[::-1] for number in range(count)]


def main(out, seconds, devices, *what):
    rounds = []
    for item in what:
        kind, _, count = item.partition(":")
        rounds += [
            (index / int(count), one) for index, one in enumerate({"delays": delays, "same": same}[kind](int(count)))
        ]
    rounds.sort(key=lambda pair: pair[0])
    names = devices.split(",")
    by_device = {name: [job for _, one in rounds[lane :: len(names)] for job in one] for lane, name in enumerate(names)}
    Lanes(Path(out), names).run(by_device, float(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
