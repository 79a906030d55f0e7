"""Reference kernels: LayerNorm followed by GELU as two operators, compiled, and as one Triton kernel."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from groundspeed.plugins.spi import Unsupported

EPSILON = 1e-5
FLOPS_PER_VALUE = 8 + 12
"""LayerNorm: mean, variance, normalisation, scale and shift; GELU with erf counted as 12 (order of magnitude only)."""


def layernorm_gelu(device: str, size: int = 0, variant: str = "", precision: str = "fp32") -> dict[str, Any]:
    """``variant`` "" or "unfused", "compile", "triton"; ``size`` rows of 4096 (0: 16384 rows, on the CPU 64 of 256)."""
    rows, width = (size or 64, 256) if device == "cpu" else (size or 16384, 4096)
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)
    x = torch.randn(rows, width, device=device, dtype=dtype)
    scale = torch.randn(width, device=device, dtype=dtype)
    shift = torch.randn(width, device=device, dtype=dtype)

    def unfused() -> torch.Tensor:
        return functional.gelu(functional.layer_norm(x, (width,), scale, shift, EPSILON))

    def reference() -> torch.Tensor:
        wide = (one.double() for one in (x, scale, shift))
        values, factor, offset = wide
        return functional.gelu(functional.layer_norm(values, (width,), factor, offset, EPSILON))

    if variant in {"", "unfused"}:
        run: Any = unfused
    elif variant == "compile":
        run = torch.compile(unfused)
    elif variant == "triton":
        run = fused(x, scale, shift)
    else:
        raise Unsupported(f"layernorm_gelu has no variant {variant!r}; there are unfused, compile and triton")
    # One read and one write of x: what a fused kernel needs to move, and the least that any can.
    return {
        "run": run,
        "bytes": 2.0 * x.numel() * x.element_size(),
        "flops": float(FLOPS_PER_VALUE * x.numel()),
        "reference": reference,
        "name": f"LayerNorm+GELU {variant or 'unfused'}",
    }


def fused(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> Any:
    """One Triton program a row, the row held in registers. Raises Unsupported."""
    if x.device.type == "cpu":
        raise Unsupported("variant triton needs a GPU, and this runs on the CPU")
    try:
        import triton
    except ImportError as error:
        raise Unsupported("variant triton needs the package triton; CUDA builds of torch bring it") from error
    from groundspeed.plugins.models.triton_kernels import layernorm_gelu_kernel

    rows, width = x.shape
    out = torch.empty_like(x)
    block = triton.next_power_of_2(width)

    def run() -> torch.Tensor:
        layernorm_gelu_kernel[(rows,)](x, scale, shift, out, width, EPSILON, BLOCK=block, num_warps=8)
        return out

    return run
