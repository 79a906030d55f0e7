"""Targets for the drivers: reference workloads with a planted delay, and the habits of other tools beside ours.

Read from the environment: GS_DELAY_S (seconds added on the device to each step), GS_HOST_DELAY_S (on the host),
GS_HABITS (a file to write what other tools say about the same step in the same process), GS_SM_HZ (the clock the delay
is planned for).
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import torch
from torch.utils.benchmark import Timer

from groundspeed.plugins.models import inference as inference_models
from groundspeed.plugins.models import training as training_models
from groundspeed.plugins.models.transformer import Gpt, Shape

try:  # imported here, before the process has its turn on the device
    import triton.testing as triton_testing
except ImportError:  # a machine without a GPU
    triton_testing = None

DELAY_CYCLES = int(float(os.environ.get("GS_DELAY_S", "0")) * float(os.environ.get("GS_SM_HZ", "1.98e9")))
HOST_DELAY_S = float(os.environ.get("GS_HOST_DELAY_S", "0"))
SIX_LAYERS = Shape(layers=6)
"""Half of GPT-2 small: a step of some 9 ms on an H200, so that a process takes 2.5 s of the device and not 4."""


def _delayed(loss):
    def delayed(model, batch):
        if DELAY_CYCLES and torch.cuda.is_available():
            torch.cuda._sleep(DELAY_CYCLES)
        if HOST_DELAY_S:
            end = time.perf_counter() + HOST_DELAY_S
            while time.perf_counter() < end:
                pass
        return loss(model, batch)

    return delayed


def _training(made, precision="bf16"):
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    made["loss"] = _delayed(made["loss"])
    optimizer = made["optimizer"] = made["optimizer"](made["model"].parameters())

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(kind, dtype=torch.bfloat16, enabled=precision == "bf16"):
            loss = made["loss"](made["model"], made["batch"])
        loss.backward()
        optimizer.step()

    made["check"] = lambda: habits(step)
    return made


def gpt(device, batch_size=8):
    with torch.device(device):
        model = Gpt(SIX_LAYERS, words=50304)
    return _training(training_models.next_token_task(model, device, batch_size, 512, 50304))


def gpt_small(device, batch_size=4):
    """The same on a CPU."""
    return _training(training_models.gpt_small(device, batch_size))


def resnet50(device, batch_size=32):
    return _training(training_models.resnet50(device, batch_size))


def memory_gpt(device, batch_size=8):
    return training_models.gpt(device, batch_size)


def bert(device, batch_size=1):
    made = inference_models.bert_base(device, batch_size) if device != "cpu" else inference_models.bert_small(device)
    if device != "cpu":
        made["model"].half()

    def request():
        with torch.inference_mode():
            made["model"](made["inputs"])

    made["check"] = lambda: habits(request)
    return made


def habits(step):
    """Three habits on the step just measured; seconds. Each gets the time that its own default suite would: little."""
    path = os.environ.get("GS_HABITS")
    if not path:
        return
    accelerated = torch.cuda.is_available()
    wait = torch.cuda.synchronize if accelerated else (lambda: None)
    found = {"torch_benchmark": Timer("step()", globals={"step": step}).blocked_autorange(min_run_time=0.1).median}
    if triton_testing is not None and accelerated:
        found["do_bench"] = triton_testing.do_bench(step, warmup=10, rep=100) * 1e-3
    for _ in range(3):
        step()
    wait()
    begin = time.perf_counter()
    for _ in range(20):
        step()
    wait()
    found["mean_of_20"] = (time.perf_counter() - begin) / 20
    Path(path).write_text(json.dumps(found))


# --- things that go wrong -------------------------------------------------------------------------------------------


def out_of_memory(device):
    return lambda: torch.empty(1 << 43, device=device)


def crash(device):
    torch.ones(1, device=device)
    return lambda: os.kill(os.getpid(), signal.SIGSEGV)


def bad_kernel(device):
    """An index out of range on the device: a device-side assertion."""
    table, index = torch.zeros(8, device=device), torch.full((8,), 1 << 20, device=device)
    return lambda: (table[index], torch.cuda.synchronize() if device != "cpu" else None)


def hang(device):
    torch.ones(1, device=device)
    return lambda: time.sleep(3600)


def steady(device):
    size = 4096 if device != "cpu" else 64
    a = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    return lambda: a @ a
