"""Whether there is an accelerator at all, without importing torch: a CPU-only node must not pay for the question."""

from __future__ import annotations

import sys
from pathlib import Path


def accelerator_possible() -> bool:
    """False only when it is certain: a Linux without any NVIDIA, AMD or Intel device file (WSL's /dev/dxg included)."""
    if sys.platform != "linux":
        return True
    devices = Path("/dev")
    return (
        any((devices / name).exists() for name in ("nvidiactl", "nvidia0", "kfd", "dxg"))
        or any(devices.glob("nvidia[0-9]*"))
        or any(devices.glob("dri/renderD*"))
    )


def choose(asked: str) -> str:
    """The device meant by "auto": the first accelerator that torch sees, else "cpu"; another name stays."""
    if asked != "auto":
        return asked
    if not accelerator_possible():
        return "cpu"
    import torch

    if torch.cuda.is_available():
        return "cuda:0"
    for kind in ("xpu", "mps"):
        module = getattr(torch, kind, None)
        if module is not None and module.is_available():
            return f"{kind}:0" if kind == "xpu" else kind
    return "cpu"


def accelerator_count(device: str) -> int:
    """How many devices of that kind this process may use; 0 for the CPU."""
    kind = device.partition(":")[0]
    if kind == "cpu":
        return 0
    import torch

    return 1 if kind == "mps" else int(getattr(torch, kind).device_count())
