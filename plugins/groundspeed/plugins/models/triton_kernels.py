"""Triton kernels of the reference workloads; imported only where Triton is. Triton reads the source: no annotations."""
# ruff: noqa: ANN001, ANN201, N803
# mypy: disable-error-code="no-untyped-def,untyped-decorator,misc"

import triton
import triton.language as tl


@triton.jit
def layernorm_gelu_kernel(x_ptr, scale_ptr, shift_ptr, out_ptr, width, epsilon, BLOCK: tl.constexpr):
    """One row: (x - mean) / sqrt(variance + epsilon) * scale + shift, then x * Φ(x) with erf. Computed in fp32."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    x = tl.load(x_ptr + row * width + columns, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / width
    centred = tl.where(inside, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / width
    scale = tl.load(scale_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    shift = tl.load(shift_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    y = centred * (1.0 / tl.sqrt(variance + epsilon)) * scale + shift
    y = 0.5 * y * (1.0 + tl.erf(y * 0.7071067811865476))
    tl.store(out_ptr + row * width + columns, y.to(out_ptr.dtype.element_ty), mask=inside)
