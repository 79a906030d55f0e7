"""The reference workload: a fixed computation interleaved with the samples, to tell the host's speed from the code's.

On a shared CPU the same instructions take up to twice as long while a neighbour uses the other half of the core or the
clock is down, and CPU time counts that as the code's own. The reference suffers in the same moments by nearly the same
factor, so the ratio of the two is steady where neither is: docs/measurement.md has the figures. It is a mix of what
most workloads are made of: many small operators under modules, products of small matrices with element-wise passes
over some memory, and a backward pass.

*Calibrated* CPU time is CPU time x NOMINAL_S / CPU time of the reference around it: seconds on a host on which the
reference takes NOMINAL_S. Only ratios between such figures mean something, and only under the same torch.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

NOMINAL_S = 2.5e-3
"""About what the reference takes on an undisturbed server core of 2021."""


class Reference:
    """Called between samples; returns the CPU seconds that the reference took. Made before the target is loaded."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        for _ in range(3):
            work()

    def __call__(self) -> float:
        begin = time.process_time_ns()
        self._work()
        return (time.process_time_ns() - begin) * 1e-9


def reference_for(device: str) -> Reference | None:
    """None on accelerators, whose clocks are their own. Imports nothing: torch only where the plugin has loaded it."""
    if device != "cpu":
        return None
    torch = sys.modules.get("torch")
    return Reference(python_work if torch is None else torch_work(torch))


def python_work() -> int:
    """Bytecode alone, for plugins without torch."""
    total = 0
    for number in range(40_000):
        total += number & 7
    return total


def torch_work(torch: Any) -> Callable[[], object]:
    """One thread's worth of small operators; own tensors of an own seed, whatever the code under test sets later."""
    maker = torch.Generator().manual_seed(20260101)
    like = {"generator": maker, "dtype": torch.float32, "device": "cpu"}
    left, right = torch.randn(96, 96, **like), torch.randn(96, 96, **like)
    long = torch.randn(65_536, **like)
    layers = [(torch.randn(16, 16, **like), torch.ones(16), torch.zeros(16)) for _ in range(12)]
    small = torch.randn(4, 16, **like)
    weights = [torch.randn(32, 32, **like).requires_grad_() for _ in range(4)]
    batch = torch.randn(8, 32, **like)
    functional = torch.nn.functional

    def work() -> None:
        with torch.inference_mode():
            hidden = small
            for weight, scale, shift in layers:
                hidden = functional.linear(hidden, weight, shift)
                hidden = functional.layer_norm(functional.gelu(hidden) + hidden, (16,), scale, shift)
            for _ in range(5):
                (left @ right).relu().add_(1.0)
                long.mul(1.0001)
        with torch.enable_grad():
            for _ in range(2):
                value = batch
                for weight in weights:
                    value = torch.tanh(value @ weight)
                value.sum().backward()
                for weight in weights:
                    weight.grad = None

    return work


def calibrated(cpu_s: Sequence[float], reference_s: Sequence[float]) -> list[float]:
    """CPU time of each sample x NOMINAL_S / that of the reference around it. Both in seconds, of equal length."""
    return [cpu * NOMINAL_S / reference for cpu, reference in zip(cpu_s, reference_s, strict=True)]
