"""GEMM: matrix products by precision and size, sustained and in the first moments before a power cap."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal

from groundspeed.plugins import targets, tasks
from groundspeed.plugins.common import SEED, THREADS, device_metrics, device_values, wall_gates
from groundspeed.plugins.device.peaks import peak_flops
from groundspeed.plugins.spi import (
    Context,
    Direction,
    Kind,
    Measured,
    Measurement,
    Metric,
    Needs,
    Param,
    Unsupported,
    Workload,
    WrongResult,
)
from groundspeed.plugins.timing.reference import calibrated
from groundspeed.plugins.training import device_model

BURST_S = 0.05
"""Burst: the first so many seconds of load, before a power cap comes on."""
TOLERANCE = {"fp64": 1e-12, "fp32": 1e-5, "tf32": 2e-3, "fp16": 2e-3, "bf16": 1.5e-2, "fp8": 8e-2}
"""Largest ‖out - ref‖ / ‖ref‖ against fp64, per precision of the inputs (fp8: rounding of the inputs is part of it)."""
CHECKED_ROWS = 64


class Gemm:
    """Stepped. One step is one product of two square matrices of random numbers (zeros would draw less power): torch's,
    or the project's own where the suite names a target (docs/plugins.md).
    """

    timing: ClassVar[Literal["stepped"]] = "stepped"
    name = "gemm"
    version = "1"
    description = "Matrix products: FLOP/s by precision and size, sustained and burst"
    needs = Needs(packages=("torch>=2.6",), target=False)
    params: tuple[Param, ...] = (
        Param("precision", "str", "bf16", choices=("fp64", "fp32", "tf32", "fp16", "bf16", "fp8")),
        Param("size", "int", 0, minimum=0, maximum=65536, description="n of n x n; 0: 8192, on the CPU 512"),
        THREADS,
        SEED,
    )

    def metrics(self) -> tuple[Metric, ...]:
        return (
            Metric("flops_sustained", "FLOP/s", Direction.HIGHER, Kind.RATE, clock="wall",
                   description="once the clock has settled under load", formula="2 n^3 / time of a product"),
            Metric("flops_burst", "FLOP/s", Direction.HIGHER, Kind.RATE, clock="wall", gate=False,
                   description="in the first 50 ms of load", formula="2 n^3 / median time there"),
            Metric("peak_share", "1", Direction.HIGHER, Kind.RATIO, clock="wall", gate=False,
                   description="of the dense peak on the maker's data sheet", formula="flops_sustained / peak"),
            Metric("product_cpu_calibrated", "s", Direction.LOWER, Kind.TIME, clock="cpu",
                   description="on the CPU: CPU time of a product on a host of nominal speed",
                   formula="CPU time x 2.5 ms / CPU time of the reference workload around it"),
            *device_metrics(),
        )  # fmt: skip

    def prepare(self, context: Context) -> Workload:
        threads = tasks.set_threads(context)
        precision = str(context.params["precision"])
        size = int(context.params["size"]) or (512 if context.device == "cpu" else 8192)
        flops = 2.0 * size**3
        if context.target is None:
            step, check = make_product(precision, size, context.device)
        else:
            resolved = dataclasses.replace(context, params={**context.params, "size": size})
            made = targets.make(resolved)
            step, check = own_product(made, precision, size)
            flops = float(targets.part(made, "flops", flops))
        return Workload(
            step=step,
            units_per_step={"flops": flops},
            check=check,
            facts={
                "device": context.device,
                "model": device_model(context.device),
                "precision": precision,
                "size": size,
                "flops_per_step": flops,
                "threads": threads,
            },
        )

    def derive(self, workload: Workload, measurement: Measurement) -> Iterable[Measured]:
        flops, device = workload.units_per_step["flops"], str(workload.facts["device"])
        wall, states = measurement.step_wall_s, tuple(measurement.states)
        gate = wall_gates(measurement, device)
        yield Measured("flops_sustained", [flops / value for value in wall], states=states, gate=gate)
        burst = first_moments(measurement.warmup_wall_s, measurement.steps_per_sample)
        if burst:
            yield Measured("flops_burst", [flops / statistics.median(burst)])
        peak = peak_flops(str(workload.facts["model"]), str(workload.facts["precision"]))
        if peak:
            yield Measured("peak_share", [flops / statistics.median(wall) / peak])
        if device == "cpu":
            steady = calibrated(measurement.step_cpu_s, measurement.step_reference_s)
            yield Measured("product_cpu_calibrated", steady)
        yield from device_values(measurement)


def first_moments(step_s: Iterable[float], steps_per_sample: int) -> list[float]:
    """The samples that began within BURST_S of the first; seconds a step."""
    found: list[float] = []
    elapsed = 0.0
    for value in step_s:
        if elapsed >= BURST_S:
            break
        found.append(value)
        elapsed += value * steps_per_sample
    return found


def make_product(precision: str, size: int, device: str) -> tuple[Callable[[], object], Callable[[], None]]:
    """(one product, its check against fp64 on some rows). Raises Unsupported for what the device cannot do."""
    import torch

    left64 = torch.randn(size, size, device=device, dtype=torch.float32)
    right64 = torch.randn(size, size, device=device, dtype=torch.float32)
    if precision == "fp8":
        run, left, right = _fp8(left64, right64)
    else:
        dtype = {"fp64": torch.float64, "fp16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        left, right = left64.to(dtype), right64.to(dtype)
        out = torch.empty(size, size, device=device, dtype=dtype)

        def run() -> object:
            return torch.mm(left, right, out=out)

    return run, lambda: compare(run(), left, right, precision)


def compare(result: Any, left: Any, right: Any, precision: str) -> None:
    """The first rows of left @ right against fp64. Raises WrongResult."""
    rows = min(CHECKED_ROWS, len(left))
    wanted = left[:rows].double() @ right.double()
    error = float((result[:rows].double() - wanted).norm() / wanted.norm())
    if not error <= TOLERANCE[precision]:
        raise WrongResult(
            f"{precision} product of size {len(left)}: relative error {error:.2e} > {TOLERANCE[precision]:g}"
        )


def own_product(made: Any, precision: str, size: int) -> tuple[Callable[[], object], Callable[[], None]]:
    """(one product, its check) of what a target returned: a callable, or ``run`` with, if wanted, ``left`` and
    ``right``, which it multiplies, and ``check``. Raises TypeError.
    """
    run = targets.part(made, "run") or made
    if not callable(run):
        raise TypeError(
            f"the gemm target returned {type(made).__name__}; it must return a callable, or `run` with the product of "
            f"two matrices of {size} x {size} (see docs/plugins.md)"
        )
    left, right, stated = (targets.part(made, name) for name in ("left", "right", "check"))

    def check() -> None:
        if left is not None and right is not None:
            compare(run(), left, right, precision)
        if stated is not None:
            stated()

    return run, check


def _fp8(left: Any, right: Any) -> tuple[Callable[[], object], Any, Any]:
    """e4m3 inputs, fp32 accumulation, bf16 result; through torch's scaled product."""
    import torch

    if left.device.type == "cpu" or not hasattr(torch, "_scaled_mm"):
        raise Unsupported("fp8 products need an accelerator with float8 units (NVIDIA Ada and Hopper, AMD MI300)")
    if (
        left.device.type == "cuda"
        and torch.version.hip is None
        and torch.cuda.get_device_capability(left.device) < (8, 9)
    ):
        raise Unsupported("fp8 products need compute capability 8.9 (Ada) or later")
    first = left.to(torch.float8_e4m3fn)
    second = right.t().contiguous().to(torch.float8_e4m3fn).t()
    one = torch.ones((), device=left.device)
    scaled_mm = torch._scaled_mm  # noqa: SLF001 - torch has no public fp8 product yet

    def run() -> object:
        return scaled_mm(first, second, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)

    return run, first.float(), second.float()


PLUGIN = Gemm()
