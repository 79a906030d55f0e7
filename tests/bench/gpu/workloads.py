"""Targets for the drivers: reference workloads with a planted delay, and the habits of other tools beside ours.

Read from the environment: GS_LANE_LOCK (a file: one process of a lane on its device at a time, imports overlap),
GS_DELAY_S (seconds added on the device to each step), GS_HOST_DELAY_S (on the host), GS_HABITS (a file to write what
other tools say about the same step in the same process), GS_SM_HZ (the clock the delay is planned for).
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import torch
import torch._dynamo  # optimisers import it; before the lane is entered

from groundspeed.plugins.models import inference as inference_models
from groundspeed.plugins.models import training as training_models


def _enter_lane() -> None:
    path = os.environ.get("GS_LANE_LOCK")
    if path:
        file = os.open(path, os.O_RDWR | os.O_CREAT)
        fcntl.flock(file, fcntl.LOCK_EX)
        # The process before frees its context as it dies: the device must be seen empty before anything is read.
        device = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
        command = ["nvidia-smi", "-i", device, "--query-compute-apps=pid", "--format=csv,noheader"]
        for _ in range(50):
            if not subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip():
                return
            time.sleep(0.05)


Timer, triton = None, None
if os.environ.get("GS_HABITS"):
    import triton.testing
    from torch.utils.benchmark import Timer

_enter_lane()
DELAY_CYCLES = int(float(os.environ.get("GS_DELAY_S", "0")) * float(os.environ.get("GS_SM_HZ", "1.98e9")))
HOST_DELAY_S = float(os.environ.get("GS_HOST_DELAY_S", "0"))


def _delayed(loss):
    def delayed(model, batch):
        if DELAY_CYCLES:
            torch.cuda._sleep(DELAY_CYCLES)
        if HOST_DELAY_S:
            end = time.perf_counter() + HOST_DELAY_S
            while time.perf_counter() < end:
                pass
        return loss(model, batch)

    return delayed


def _training(made, precision="bf16"):
    made["loss"] = _delayed(made["loss"])
    optimizer = made["optimizer"] = made["optimizer"](made["model"].parameters())

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=precision == "bf16"):
            loss = made["loss"](made["model"], made["batch"])
        loss.backward()
        optimizer.step()

    made["check"] = lambda: habits(step)
    return made


def gpt(device, batch_size=8):
    return _training(training_models.gpt(device, batch_size))


def resnet50(device, batch_size=64):
    return _training(training_models.resnet50(device, batch_size))


def bert_graph(device, batch_size=1):
    """Entered through this module so that it waits for its lane."""
    return inference_models.bert_base(device, batch_size)


def memory_gpt(device, batch_size=8):
    return training_models.gpt(device, batch_size)


def bert(device, batch_size=1):
    made = inference_models.bert_base(device, batch_size)
    made["model"].half()

    def request():
        with torch.inference_mode():
            made["model"](made["inputs"])

    made["check"] = lambda: habits(request)
    return made


def habits(step):
    """Three habits on the step just measured; seconds."""
    path = os.environ.get("GS_HABITS")
    if not path:
        return
    found = {"torch_benchmark": Timer("step()", globals={"step": step}).blocked_autorange(min_run_time=0.2).median}
    found["do_bench"] = triton.testing.do_bench(step) * 1e-3
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(20):
        step()
    torch.cuda.synchronize()
    found["mean_of_20"] = (time.perf_counter() - begin) / 20
    Path(path).write_text(json.dumps(found))


# --- things that go wrong -------------------------------------------------------------------------------------------


def out_of_memory(device):
    return lambda: torch.empty(1 << 38, device=device)


def crash(device):
    torch.ones(1, device=device)
    return lambda: os.kill(os.getpid(), signal.SIGSEGV)


def bad_kernel(device):
    """An index out of range on the device: a device-side assertion."""
    table, index = torch.zeros(8, device=device), torch.full((8,), 1 << 20, device=device)
    return lambda: (table[index], torch.cuda.synchronize())


def hang(device):
    torch.ones(1, device=device)
    return lambda: time.sleep(3600)


def steady(device):
    a = torch.randn(4096, 4096, device=device, dtype=torch.bfloat16)
    return lambda: a @ a
