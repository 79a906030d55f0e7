"""Memory bandwidth: the device's own memory, and between host and device, beside their physical limits."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
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
from groundspeed.plugins.device import open_backend
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
from groundspeed.plugins.timing.conditions import device_uuid

OPERATIONS = ("copy", "read", "write", "triad", "host_to_device", "device_to_host", "peer")
TRAFFIC = {"copy": 2, "read": 1, "write": 1, "triad": 3}
"""Buffers that one operation moves over the memory bus; 1 for those between places (STREAM's counting)."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """``run`` does it once; ``check`` raises WrongResult when what arrived is not what was sent."""

    run: Callable[[], object]
    check: Callable[[], None]


class MemoryBandwidth:
    """Stepped. One step is one pass over the whole buffer, which is far larger than any cache by default."""

    timing: ClassVar[Literal["stepped"]] = "stepped"
    name = "memory-bandwidth"
    version = "1"
    description = "Bytes a second of device memory, and between host and device, with the share of the physical limit"
    needs = Needs(packages=("torch>=2.6",), target=False)
    params: tuple[Param, ...] = (
        Param("operation", "str", "copy", choices=OPERATIONS,
              description="triad: a = b + 2 c; peer: to the next device"),
        Param("host_memory", "str", "pinned", choices=("pinned", "pageable"), description="of host buffers"),
        Param("bytes", "int", 0, minimum=0,
              description="a buffer; 0: 1 GiB, between host and device 256 MiB, CPU 64 MiB"),
        THREADS,
        SEED,
    )  # fmt: skip

    def metrics(self) -> tuple[Metric, ...]:
        return (
            Metric("bandwidth", "B/s", Direction.HIGHER, Kind.RATE, clock="wall",
                   description="bytes that cross the bus in a second",
                   formula="bytes x (copy 2, triad 3, else 1) / time of a pass (McCalpin's STREAM)"),
            Metric("limit_share", "1", Direction.HIGHER, Kind.RATIO, clock="wall", gate=False,
                   description="of the physical limit of device memory, or of the PCIe link",
                   formula="bandwidth / (2 x memory clock x bus width / 8), or / (lanes x rate of the generation)"),
            *cpu_metrics("one pass"),
            *device_metrics(),
        )  # fmt: skip

    def prepare(self, context: Context) -> Workload:
        threads = tasks.set_threads(context)
        operation, memory = str(context.params["operation"]), str(context.params["host_memory"])
        size = int(context.params["bytes"]) or default_bytes(operation, context.device)
        transfer = make_transfer(operation, memory, size // 4, context.device)
        moved = float(size // 4 * 4 * TRAFFIC.get(operation, 1))
        facts: dict[str, Any] = {"device": context.device, "threads": threads, "bytes_per_pass": moved}
        limit = physical_limit(operation, context.device)
        if limit:
            facts["limit_bytes_per_s"] = limit
        return Workload(
            step=transfer.run, units_per_step={"bytes": moved}, check=transfer.check, facts=facts,
        )  # fmt: skip

    def derive(self, workload: Workload, measurement: Measurement) -> Iterable[Measured]:
        device, moved = str(workload.facts["device"]), workload.units_per_step["bytes"]
        wall, states = measurement.step_wall_s, tuple(measurement.states)
        yield Measured("bandwidth", [moved / s for s in wall], states=states, gate=wall_gates(measurement, device))
        limit = float(workload.facts.get("limit_bytes_per_s", 0.0))
        if limit:
            yield Measured("limit_share", [moved / statistics.median(wall) / limit])
        yield from cpu_values(measurement, device)
        yield from device_values(measurement)


def default_bytes(operation: str, device: str) -> int:
    if device == "cpu":
        return 64 << 20
    return 1 << 30 if operation in TRAFFIC else 256 << 20


def physical_limit(operation: str, device: str) -> float | None:
    """Bytes a second, from the management library; None: not known (on a CPU, between peers)."""
    backend = open_backend()
    uuid = device_uuid(device, backend) if device != "cpu" else None
    facts = next((info.facts for info in backend.devices() if info.uuid == uuid), {}) if uuid else {}
    fact = "memory_bytes_per_s" if operation in TRAFFIC else "link_bytes_per_s" if "host" in operation else ""
    value = facts.get(fact)
    return float(value) if value else None


def make_transfer(operation: str, memory: str, count: int, device: str) -> Transfer:
    """``count`` numbers of four bytes. Raises Unsupported."""
    if operation in TRAFFIC:
        return _on_device(operation, count, device)
    if device == "cpu":
        raise Unsupported(f"{operation} moves data to or from an accelerator, and this runs on the CPU")
    return _peer(count, device) if operation == "peer" else _with_host(operation, memory, count, device)


def _on_device(operation: str, count: int, device: str) -> Transfer:
    import torch

    source = torch.rand(count, device=device)
    if operation == "read":
        wanted = float(source.sum(dtype=torch.float64))
        out = torch.empty((), device=device)
        return Transfer(
            lambda: torch.sum(source, dim=0, out=out), lambda: _close(float(out), wanted, 1e-4, "sum of what was read")
        )
    out = torch.empty_like(source)
    if operation == "write":
        return Transfer(lambda: out.fill_(3.0), lambda: _equal(out, torch.full_like(out, 3.0), "write"))
    if operation == "triad":
        other = torch.rand(count, device=device)
        return Transfer(
            lambda: torch.add(source, other, alpha=2.0, out=out), lambda: _near(out, source + 2.0 * other, "triad")
        )
    return Transfer(lambda: out.copy_(source), lambda: _equal(out, source, "copy"))


def _with_host(operation: str, memory: str, count: int, device: str) -> Transfer:
    import torch

    host = torch.rand(count, pin_memory=memory == "pinned")
    there = torch.rand(count, device=device)
    free = memory == "pinned"
    if operation == "host_to_device":
        return Transfer(lambda: there.copy_(host, non_blocking=free), lambda: _equal(there.cpu(), host, operation))

    def back() -> object:
        return host.copy_(there, non_blocking=free)

    return Transfer(back, lambda: _equal(host, there.cpu(), operation))


def _peer(count: int, device: str) -> Transfer:
    import torch

    kind, _, number = device.partition(":")
    module = getattr(torch, kind)
    if module.device_count() < 2:
        raise Unsupported("peer copies need a second device, and this process sees one")
    other = f"{kind}:{(int(number or 0) + 1) % module.device_count()}"
    source = torch.rand(count, device=device)
    out = torch.empty(count, device=other)
    return Transfer(lambda: out.copy_(source, non_blocking=True), lambda: _equal(out.cpu(), source.cpu(), "peer copy"))


def _equal(found: Any, wanted: Any, what: str) -> None:
    wrong = int((found != wanted).sum())
    if wrong:
        raise WrongResult(f"{what}: {wrong} of {found.numel()} values are not those that were sent")


def _near(found: Any, wanted: Any, what: str) -> None:
    error = float((found - wanted).abs().max())
    if not error <= 1e-6 * float(wanted.abs().max()) * 4:
        raise WrongResult(f"{what}: values differ by up to {error:.3g}")


def _close(found: float, wanted: float, limit: float, what: str) -> None:
    if not abs(found / wanted - 1) <= limit:
        raise WrongResult(f"{what}: {found} differs from {wanted} by more than {limit:g} of it")


PLUGIN = MemoryBandwidth()
