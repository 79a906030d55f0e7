"""Every suite once on GPUs, and what must end in words: ``python3 -m tests.bench.gpu.suites OUT [short] [one]``."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from tests.bench.gpu.children import Lanes, child, environment

HERE = "tests.bench.gpu.workloads"
MODELS = "groundspeed.plugins.models"


def job(tag, plugin, target=None, **more):
    return {"tag": tag, "plugin": plugin, "target": target, **more}


def single_device(short):
    jobs = [
        job("gemm bf16", "gemm", params={"precision": "bf16"}, limits={"max_time_s": 2.0}),
        job("gpt bf16", "training", f"{MODELS}.training:gpt", params={"precision": "bf16"}),
        job("bert eager", "inference", f"{MODELS}.inference:bert_base", params={"precision": "fp16"}),
        job("bert graph", "inference", f"{MODELS}.inference:bert_base", params={"precision": "fp16", "mode": "graph"}),
        job("memory gpt", "memory", f"{MODELS}.training:gpt"),
    ]
    if short:
        return jobs
    jobs += [job(f"gemm {p}", "gemm", params={"precision": p}, limits={"max_time_s": 1.0})
             for p in ("fp64", "fp32", "tf32", "fp16", "fp8")]  # fmt: skip
    bf16 = {"precision": "bf16"}
    for name, size in (("resnet50", 64), ("vit_b16", 64), ("bert_base", 32)):
        params = {**bf16, "batch_size": size, "channels_last": name == "resnet50"}
        jobs.append(job(f"{name} bf16", "training", f"{MODELS}.training:{name}", params=params))
    for extra in ({"precision": "fp32"}, {"precision": "tf32"}, {"precision": "fp16"}, {**bf16, "fused": True},
                  {**bf16, "checkpointing": True}, {**bf16, "accumulation": 2}, {**bf16, "mode": "compile"}):  # fmt: skip
        limits = {"warmup_max_s": 20.0} if "mode" in extra else {}
        jobs.append(
            job(f"gpt {extra}", "training", f"{MODELS}.training:gpt", params=extra, limits=limits, timeout_s=240)
        )
    for params in ({"mode": "compile", "precision": "fp16"}, {"batch_size": 32, "precision": "fp16", "mode": "graph"},
                   {"mode": "onnxruntime"}, {"mode": "int8"}):  # fmt: skip
        jobs.append(job(f"bert {params}", "inference", f"{MODELS}.inference:bert_base", params=params,
                        limits={"warmup_max_s": 10.0}, timeout_s=240))  # fmt: skip
    jobs.append(job("resnet graph", "inference", f"{MODELS}.inference:resnet50", params={"mode": "graph"}))
    return jobs


def failures(lanes):
    """OOM, crash, device assertion, hang, contamination; after each a clean run of the same work on the same device."""
    for name in ("out_of_memory", "crash", "bad_kernel", "hang"):
        lanes.keep({**child("training", f"{HERE}:{name}", devices=("0",), timeout_s=20 if name == "hang" else 60),
                    "tag": name})  # fmt: skip
        lanes.keep({**child("training", f"{HERE}:steady", devices=("0",)), "tag": f"clean after {name}"})
    code = ("import torch,time\na=torch.randn(8192,8192,device='cuda',dtype=torch.bfloat16)\nend=time.time()+60\n"
            "while time.time()<end: a@a; torch.cuda.synchronize()")  # fmt: skip
    other = subprocess.Popen(
        [sys.executable, "-c", code], env=environment(CUDA_VISIBLE_DEVICES="0"), start_new_session=True
    )
    time.sleep(6)
    lanes.keep({**child("training", f"{HERE}:steady", devices=("0",)), "tag": "contaminated"})
    other.kill()
    other.wait()
    lanes.keep({**child("training", f"{HERE}:steady", devices=("0",)), "tag": "clean after contaminated"})


def several_devices(lanes, short):
    top = {"max_bytes": 1 << 20} if short else {}
    names = (
        ("all_reduce",)
        if short
        else ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv")
    )
    for name in names:
        params = {"collective": name, "factor": 2 if name == "all_reduce" else 8, "seconds_per_size": 0.1, **top}
        lanes.keep({**child("collectives", params=params), "tag": f"collectives {name}"})
    if not short:
        params = {"launch": "eager", "factor": 8, "seconds_per_size": 0.1}
        lanes.keep({**child("collectives", params=params), "tag": "collectives all_reduce eager"})
    for parallel in ("ddp",) if short else ("ddp", "fsdp"):
        params = {"parallel": parallel, "precision": "bf16"}
        lanes.keep({**child("distributed-training", f"{MODELS}.training:gpt", params), "tag": parallel})


def main(out, *flags):
    lanes = Lanes(Path(out), ["0"] if "one" in flags else ["0", "1"])
    short = "short" in flags
    jobs = single_device(short)
    by_device = {device: jobs[index :: len(lanes.devices)] for index, device in enumerate(lanes.devices)}
    lanes.ahead = 1
    lanes.run(by_device)
    if "one" not in flags:
        several_devices(lanes, short)
    if not short:
        failures(lanes)
    lines = [json.loads(line) for line in Path(out).read_text().splitlines()]
    print(len(lines), "runs,", sum(line["outcome"] == "ok" for line in lines), "ok")  # noqa: T201 - a table for people


if __name__ == "__main__":
    main(*sys.argv[1:])
