"""Kernel: any callable of the project, with its place under the device's measured roofline."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from groundspeed.plugins import roofline, targets, tasks
from groundspeed.plugins.common import (
    SEED,
    THREADS,
    cpu_metrics,
    cpu_values,
    device_metrics,
    device_values,
    wall_gates,
)
from groundspeed.plugins.modes import flatten
from groundspeed.plugins.outcomes import is_out_of_memory
from groundspeed.plugins.spi import (
    Artefact,
    Context,
    Direction,
    Kind,
    Measured,
    Measurement,
    Metric,
    Needs,
    Param,
    Workload,
    WrongResult,
)


@dataclass(frozen=True, slots=True)
class Task:
    """What the factory returned. ``bytes`` and ``flops`` of one call, 0 where it does not say."""

    run: Callable[[], object]
    bytes: float
    flops: float
    check: Callable[[], None] | None
    name: str


class Kernel:
    """Stepped. The target's convention is in docs/suites.md."""

    timing: ClassVar[Literal["stepped"]] = "stepped"
    name = "kernel"
    version = "1"
    description = "Any callable, such as a Triton or CUDA kernel or a fused operator: time, GB/s, FLOP/s, roofline"
    needs = Needs(packages=("torch>=2.6",), target=True)
    params: tuple[Param, ...] = (
        Param("size", "int", 0, minimum=0, description="passed to the factory when it takes size"),
        Param("variant", "str", "", description="passed to the factory when it takes variant"),
        Param("precision", "str", "fp32", choices=("fp64", "fp32", "tf32", "fp16", "bf16", "fp8"),
              description="of the matrix product that is the roofline's ceiling; passed on too"),
        Param("tolerance", "float", 1e-3, minimum=0.0, series=False,
              description="largest relative error against the target's `reference`"),
        THREADS,
        SEED,
    )  # fmt: skip

    def metrics(self) -> tuple[Metric, ...]:
        return (
            Metric("kernel_time", "s", Direction.LOWER, Kind.TIME, clock="wall",
                   description="one call", formula="time between timing events around it; on the CPU perf_counter"),
            Metric("bandwidth", "B/s", Direction.HIGHER, Kind.RATE, clock="wall", gate=False,
                   description="where the target says bytes", formula="bytes / time"),
            Metric("flops", "FLOP/s", Direction.HIGHER, Kind.RATE, clock="wall", gate=False,
                   description="where the target says flops", formula="flops / time"),
            Metric("roofline_share", "1", Direction.HIGHER, Kind.RATIO, clock="wall", gate=False,
                   description="of what the device can do at this number of FLOP a byte",
                   formula="flops rate / min(measured matmul rate, FLOP a byte x measured copy rate); without flops "
                           "bandwidth / copy rate (Williams 2009). By the device's trace where there is one"),
            Metric("ceiling_bandwidth", "B/s", Direction.HIGHER, Kind.RATE, clock="wall", gate=False,
                   description="of the device, in this process",
                   formula="2 x bytes / time of a copy of 1 GiB (CPU: 16 MiB)"),
            Metric("ceiling_flops", "FLOP/s", Direction.HIGHER, Kind.RATE, clock="wall", gate=False,
                   description="of the device, in this process",
                   formula="2 n^3 / time of a product, n 8192 (CPU: 256)"),
            *cpu_metrics("one call"),
            *device_metrics(),
        )  # fmt: skip

    def prepare(self, context: Context) -> Workload:
        threads = tasks.set_threads(context)
        task = task_of(targets.make(context), float(context.params["tolerance"]))
        facts: dict[str, float | int | str] = {
            "device": context.device,
            "threads": threads,
            "name": task.name,
            "bytes_per_call": task.bytes,
            "flops_per_call": task.flops,
            "precision": str(context.params["precision"]),
        }
        return Workload(
            step=task.run,
            units_per_step={"bytes": task.bytes, "flops": task.flops},
            check=task.check,
            facts=facts,
            artefacts=lambda: drawn(facts),
        )

    def derive(self, workload: Workload, measurement: Measurement) -> Iterable[Measured]:
        device, states = str(workload.facts["device"]), tuple(measurement.states)
        moved, flops, wall = workload.units_per_step["bytes"], workload.units_per_step["flops"], measurement.step_wall_s
        yield Measured("kernel_time", wall, states=states, gate=wall_gates(measurement, device))
        if moved:
            yield Measured("bandwidth", [moved / value for value in wall], states=states)
        if flops:
            yield Measured("flops", [flops / value for value in wall], states=states)
        if moved or flops:
            yield from placed(workload, measurement)
        yield from cpu_values(measurement, device)
        yield from device_values(measurement)


def placed(workload: Workload, measurement: Measurement) -> Iterable[Measured]:
    """The device's ceilings, measured now, and the share of them; kept in the facts for the plot."""
    moved, flops = workload.units_per_step["bytes"], workload.units_per_step["flops"]
    facts: Any = workload.facts
    ceilings = roofline.measure(str(facts["device"]), str(facts["precision"]))
    once = statistics.median(measurement.step_device_busy_s or measurement.step_wall_s)
    facts |= {"ceiling_bandwidth": ceilings.bandwidth, "ceiling_flops": ceilings.flops, "seconds": once}
    yield Measured("ceiling_bandwidth", [ceilings.bandwidth])
    yield Measured("ceiling_flops", [ceilings.flops])
    if moved and flops:
        share = flops / once / ceilings.at(flops / moved)
    else:
        share = moved / once / ceilings.bandwidth if moved else flops / once / ceilings.flops
    yield Measured("roofline_share", [share])


def drawn(facts: Mapping[str, float | int | str]) -> Iterable[Artefact]:
    """The plot, where bytes and FLOPs are known."""
    moved, flops = float(facts["bytes_per_call"]), float(facts["flops_per_call"])
    if moved and flops and "ceiling_flops" in facts:
        rates = float(facts["ceiling_bandwidth"]), float(facts["ceiling_flops"])
        ceilings = roofline.Ceilings(*rates, str(facts["precision"]))
        point = roofline.Point(str(facts["name"]), flops / moved, flops / float(facts["seconds"]))
        yield Artefact("roofline", "roofline.svg", roofline.plot(ceilings, [point]), "image/svg+xml")


def task_of(made: Any, tolerance: float) -> Task:
    """A callable, or a mapping or object with ``run`` and if wanted ``bytes``, ``flops``, ``check``, ``reference``,
    ``name``. ``reference`` is a callable whose answer that of ``run`` must be close to.
    """
    run = targets.part(made, "run")
    if run is None:
        if not callable(made):
            raise TypeError(
                f"the kernel target returned {type(made).__name__}; it must return a callable, or `run` with `bytes` "
                "and `flops` (see docs/suites.md)"
            )
        run = made
    stated, reference = targets.part(made, "check"), targets.part(made, "reference")

    def check() -> None:
        if reference is not None:
            compare(run(), reference(), tolerance)
        if stated is not None:
            stated()

    return Task(
        run=run,
        bytes=float(targets.part(made, "bytes", 0.0)),
        flops=float(targets.part(made, "flops", 0.0)),
        check=check if reference is not None or stated is not None else None,
        name=str(targets.part(made, "name", getattr(run, "__name__", "kernel"))),
    )


def compare(answer: Any, wanted: Any, tolerance: float) -> None:
    """On the device, whose double precision is faster than the way to the host; on the host where there is no room for
    it. Raises WrongResult.
    """
    try:
        error = distance(answer, wanted, here=True)
    except RuntimeError as full:
        if not is_out_of_memory(full):
            raise
        error = distance(answer, wanted, here=False)
    if not error <= tolerance:
        raise WrongResult(f"relative error {error:.2e} against the reference is over {tolerance:g}")


def distance(answer: Any, wanted: Any, *, here: bool) -> float:
    """The norm of the difference over that of what is wanted. Raises WrongResult where they cannot be compared."""
    found, reference = flatten(answer, here=here), flatten(wanted, here=here)
    if found is None or reference is None or found.shape != reference.shape:
        raise WrongResult("the kernel's answer has no floating-point tensor of the reference's shape")
    return float((found - reference).norm() / reference.norm())


PLUGIN = Kernel()
