"""Attention: scaled-dot-product attention through one backend, forward or with its backward pass."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from groundspeed.plugins import tasks
from groundspeed.plugins.common import (
    SEED,
    THREADS,
    cpu_metrics,
    cpu_values,
    device_metrics,
    device_values,
    wall_gates,
)
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
    ParamValue,
    Unsupported,
    Workload,
    WrongResult,
)
from groundspeed.plugins.training import device_model

BACKENDS = ("flash", "efficient", "cudnn", "math")
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
TOLERANCE = {"fp32": 1e-5, "fp16": 2e-3, "bf16": 1.6e-2}
"""Largest ‖out - ref‖ / ‖ref‖ against float64 of the same rounded inputs, forward; twice that for gradients."""
REFERENCE_ROWS = 1024
BACKWARD_SHARE = 2.5
"""FLOPs of the backward pass over those of the forward pass (Dao 2023, FlashAttention-2, section 4.1)."""
_CANNOT = ("No available kernel", "No viable backend", "cuDNN", "No execution plan", "not implemented for")
_NAMES = {
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
    "math": "MATH",
}


@dataclass(frozen=True, slots=True)
class Case:
    """Tensors are (batch, heads, length, head_size)."""

    backend: str
    dtype: str
    batch: int
    heads: int
    length: int
    head_size: int
    causal: bool
    backward: bool
    device: str

    def flops(self) -> float:
        """Two matrix products; causal: half of each; with the backward pass 3.5 times that."""
        forward = 4.0 * self.batch * self.heads * self.length**2 * self.head_size
        return forward * (0.5 if self.causal else 1.0) * (1 + BACKWARD_SHARE if self.backward else 1.0)


class Attention:
    """Stepped. One step is one call on random inputs; the others' backends are switched off."""

    timing: ClassVar[Literal["stepped"]] = "stepped"
    name = "attention"
    version = "1"
    description = "Scaled-dot-product attention by backend, length, head size, causal or not, forward and backward"
    needs = Needs(packages=("torch>=2.6",), target=False)
    params: tuple[Param, ...] = (
        Param("backend", "str", "flash", choices=BACKENDS, description="of torch's scaled_dot_product_attention"),
        Param("length", "int", 0, minimum=0, maximum=1 << 20, description="sequence; 0: 4096, on the CPU 128"),
        Param("head_size", "int", 0, minimum=0, maximum=1024, description="0: 128, on the CPU 32"),
        Param("heads", "int", 0, minimum=0, maximum=1024, description="0: 16, on the CPU 4"),
        Param("batch_size", "int", 0, minimum=0, description="0: 4, on the CPU 1"),
        Param("dtype", "str", "bf16", choices=tuple(DTYPES)),
        Param("causal", "bool", True, description="each position sees those before it"),
        Param("direction", "str", "forward", choices=("forward", "both"), description="both: with the backward pass"),
        THREADS,
        SEED,
    )

    def metrics(self) -> tuple[Metric, ...]:
        return (
            Metric("attention_time", "s", Direction.LOWER, Kind.TIME, clock="wall",
                   description="one call", formula="time between timing events around it; on the CPU perf_counter"),
            Metric("flops", "FLOP/s", Direction.HIGHER, Kind.RATE, clock="wall", gate=False,
                   description="arithmetic that the result needs, over time",
                   formula="4 x batch x heads x length^2 x head_size (causal: half; both: x 3.5) / attention_time; "
                           "Dao 2023"),
            Metric("device_flops", "FLOP/s", Direction.HIGHER, Kind.RATE, clock="device", gate=False,
                   description="the same by the device's own trace", formula="FLOPs / device_busy_time"),
            Metric("peak_share", "1", Direction.HIGHER, Kind.RATIO, clock="wall", gate=False,
                   description="of the dense peak on the maker's data sheet", formula="flops / peak of the precision"),
            Metric("relative_error", "1", Direction.LOWER, Kind.RATIO, gate=False,
                   description="distance from a float64 reference on the same rounded inputs, one head of one sample",
                   formula="‖out - ref‖ / ‖ref‖, the largest of output and gradients"),
            *cpu_metrics("one call"),
            *device_metrics(),
        )  # fmt: skip

    def prepare(self, context: Context) -> Workload:
        threads = tasks.set_threads(context)
        case = case_of(context.params, context.device)
        call, check = make_call(case)
        facts: dict[str, float | int | str] = {
            "device": context.device,
            "model": device_model(context.device),
            "precision": case.dtype,
            "flops_per_step": case.flops(),
            "threads": threads,
        }

        def checked() -> None:
            facts["relative_error"] = check()

        return Workload(step=call, units_per_step={"flops": case.flops()}, check=checked, facts=facts)

    def derive(self, workload: Workload, measurement: Measurement) -> Iterable[Measured]:
        device, flops = str(workload.facts["device"]), workload.units_per_step["flops"]
        wall, states = measurement.step_wall_s, tuple(measurement.states)
        yield Measured("attention_time", wall, states=states, gate=wall_gates(measurement, device))
        yield Measured("flops", [flops / value for value in wall], states=states)
        if measurement.step_device_busy_s:
            yield Measured("device_flops", [flops / value for value in measurement.step_device_busy_s])
        peak = peak_flops(str(workload.facts["model"]), str(workload.facts["precision"]))
        if peak:
            yield Measured("peak_share", [flops / statistics.median(wall) / peak])
        yield Measured("relative_error", [float(workload.facts["relative_error"])])
        yield from cpu_values(measurement, device)
        yield from device_values(measurement)


def case_of(params: Mapping[str, ParamValue], device: str) -> Case:
    small = device == "cpu"
    return Case(
        backend=str(params["backend"]),
        dtype=str(params["dtype"]),
        batch=int(params["batch_size"]) or (1 if small else 4),
        heads=int(params["heads"]) or (4 if small else 16),
        length=int(params["length"]) or (128 if small else 4096),
        head_size=int(params["head_size"]) or (32 if small else 128),
        causal=bool(params["causal"]),
        backward=params["direction"] == "both",
        device=device,
    )


def make_call(case: Case) -> tuple[Callable[[], object], Callable[[], float]]:
    """(one call, the check, which returns the relative error). Raises Unsupported with the backend's own reasons."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    dtype = getattr(torch, DTYPES[case.dtype])
    shape = (case.batch, case.heads, case.length, case.head_size)
    query, key, value = [torch.randn(shape, device=case.device, dtype=dtype) for _ in range(3)]
    if case.backward:
        for tensor in (query, key, value):
            tensor.requires_grad_()
    upstream = torch.randn(shape, device=case.device, dtype=dtype)
    backend = getattr(SDPBackend, _NAMES[case.backend], None)
    if backend is None:
        raise Unsupported(f"this torch ({torch.__version__}) has no backend {case.backend}")

    def call() -> Any:
        for tensor in (query, key, value):
            tensor.grad = None
        with sdpa_kernel(backend):
            out: Any = scaled_dot_product_attention(query, key, value, is_causal=case.causal)
        if case.backward:
            out.backward(upstream)
        return out

    first_call(call, case)

    def check() -> float:
        return compare(case, (query, key, value, upstream), call())

    return call, check


_OTHERS = "has been runtime disabled"
"""What torch says of the backends that were not asked for."""


def first_call(call: Callable[[], object], case: Case) -> None:
    """A backend that cannot run the shape says why in warnings, and then that no kernel is available."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            call()
        except RuntimeError as error:
            text = str(error)
            if not any(words in text for words in _CANNOT):
                raise
            reasons = [line for one in said if (line := plain(str(one.message))) and _OTHERS not in line]
            shape = f"length {case.length}, head size {case.head_size}, {case.dtype}, on {case.device}"
            why = "; ".join(dict.fromkeys(reasons)) or text.splitlines()[0]
            raise Unsupported(f"backend {case.backend} does not run this shape ({shape}): {why}") from error


def plain(warning: str) -> str:
    """A reason without the place in torch's source; "" for the headings between the reasons."""
    text = warning.partition(" (Triggered internally")[0].strip()
    return "" if text.endswith("not used because:") else text


def compare(case: Case, tensors: tuple[Any, Any, Any, Any], out: Any) -> float:
    """The largest relative error of output and gradients of the first head. Raises WrongResult over the bound."""
    wanted = reference(case, [one[0, 0].detach().double() for one in tensors])
    found = {"output": out[0, 0].detach()}
    if case.backward:
        names = ("gradient of query", "gradient of key", "gradient of value")
        found |= {name: one.grad[0, 0] for name, one in zip(names, tensors[:3], strict=True)}
    worst = 0.0
    for name, one in found.items():
        limit = TOLERANCE[case.dtype] * (1 if name == "output" else 2)
        error = float((one.double() - wanted[name]).norm() / wanted[name].norm())
        if not error <= limit:
            raise WrongResult(
                f"{case.backend} {case.dtype}, length {case.length}: {name} is off by {error:.2e}, allowed {limit:g}"
            )
        worst = max(worst, error)
    return worst


def reference(case: Case, tensors: list[Any]) -> dict[str, Any]:
    """Output and gradients of one head in float64, a block of queries at a time so that long sequences fit."""
    import torch

    query, key, value, upstream = tensors
    key.requires_grad_(case.backward)
    value.requires_grad_(case.backward)
    places = torch.arange(case.length, device=query.device)
    outputs, to_query = [], []
    to_key, to_value = torch.zeros_like(key), torch.zeros_like(value)
    for start in range(0, case.length, REFERENCE_ROWS):
        rows = slice(start, start + REFERENCE_ROWS)
        block = query[rows].clone().requires_grad_(case.backward)
        scores = block @ key.T / case.head_size**0.5
        if case.causal:
            scores = scores.masked_fill(places[None, :] > places[rows, None], float("-inf"))
        answer = scores.softmax(-1) @ value
        outputs.append(answer.detach())
        if case.backward:
            gradients = torch.autograd.grad(answer, (block, key, value), upstream[rows])
            to_query.append(gradients[0])
            to_key += gradients[1]
            to_value += gradients[2]
    found = {"output": torch.cat(outputs)}
    if case.backward:
        found |= {"gradient of query": torch.cat(to_query), "gradient of key": to_key, "gradient of value": to_value}
    return found


PLUGIN = Attention()
