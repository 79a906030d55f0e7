"""Dense peak rates of some devices in FLOP/s, from their makers' data sheets; for shares of peak and MFU.

Sources: NVIDIA's data sheets for A100, H100 (SXM), H200 and L4, and AMD's for MI300X. Without structured sparsity.
"""

from __future__ import annotations

PEAKS: dict[str, dict[str, float]] = {
    "H200": {"fp64": 67e12, "fp32": 67e12, "tf32": 494.5e12, "fp16": 989.5e12, "bf16": 989.5e12, "fp8": 1979e12},
    "H100 80GB HBM3": {
        "fp64": 67e12, "fp32": 67e12, "tf32": 494.5e12, "fp16": 989.5e12, "bf16": 989.5e12, "fp8": 1979e12,
    },
    "A100": {"fp64": 19.5e12, "fp32": 19.5e12, "tf32": 156e12, "fp16": 312e12, "bf16": 312e12},
    "L4": {"fp32": 30.3e12, "tf32": 60e12, "fp16": 121e12, "bf16": 121e12, "fp8": 242.5e12},
    "MI300X": {
        "fp64": 163.4e12, "fp32": 163.4e12, "tf32": 653.7e12, "fp16": 1307.4e12, "bf16": 1307.4e12, "fp8": 2614.9e12,
    },
}  # fmt: skip


def peak_flops(model: str, precision: str) -> float | None:
    """None: not known for that device and precision."""
    for name, rates in PEAKS.items():
        if name in model and not (name == "L4" and "L40" in model):
            return rates.get(precision)
    return None
