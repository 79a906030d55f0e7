"""What this node is: hardware class, devices, and the facts of its environment, as wire models."""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from groundspeed.service.wire import v1
from groundspeed.workers.settings import machine_memory_bytes
from groundspeed.workers.stack import Stack, is_gpu_name

_TRACKED_TORCH = {"torch", "triton", "numpy"}


def stack_facets(stack: Stack, name: str) -> tuple[v1.Facet, ...]:
    """Python and the shared packages. Tracked: what can move a number; the rest is told for information."""
    facets = [
        v1.Facet(layer="stack", name="stack", value=name),
        v1.Facet(layer="stack", name="python", value=f"{stack.implementation} {stack.version}"),
    ]
    if stack.torch is None:
        facets.append(
            v1.Facet(layer="stack", name="package.torch", value=None, reason="no torch is installed in the stack")
        )
    for canonical, found in sorted(stack.shared.items()):
        tracked = canonical in _TRACKED_TORCH or is_gpu_name(canonical)
        facets.append(v1.Facet(layer="stack", name=f"package.{canonical}", value=found.version, tracked=tracked))
    return tuple(facets)


def to_wire(facets: Iterable[Any]) -> tuple[v1.Facet, ...]:
    """The device layer's facets (data classes with the wire's fields), the last of each name."""
    names = set(v1.Facet.model_fields)
    found: dict[tuple[str, str], v1.Facet] = {}
    for facet in facets:
        raw = dataclasses.asdict(facet) if dataclasses.is_dataclass(facet) and not isinstance(facet, type) else facet
        made = v1.Facet.model_validate({k: v for k, v in dict(raw).items() if k in names})
        found[made.layer, made.name] = made
    return tuple(found.values())


def merge(*groups: Iterable[v1.Facet]) -> tuple[v1.Facet, ...]:
    """One facet a name: the first group that could read it wins."""
    found: dict[tuple[str, str], v1.Facet] = {}
    for group in groups:
        for facet in group:
            known = found.get((facet.layer, facet.name))
            if known is None or (known.value is None and facet.value is not None):
                found[facet.layer, facet.name] = facet
    return tuple(found.values())


def choose(found: Iterable[v1.Facet], track: Iterable[str], info: Iterable[str]) -> tuple[v1.Facet, ...]:
    """The facets with those that ``track`` names counting, and those that ``info`` names told for information only.

    Names are patterns as of file names: ``gpu*.vbios``. What both name counts.
    """
    wanted, plain = tuple(track), tuple(info)
    if not wanted and not plain:
        return tuple(found)
    return tuple(facet.model_copy(update={"tracked": _counts(facet, wanted, plain)}) for facet in found)


def _counts(facet: v1.Facet, track: tuple[str, ...], info: tuple[str, ...]) -> bool:
    if any(fnmatchcase(facet.name, pattern) for pattern in track):
        return True
    return facet.tracked and not any(fnmatchcase(facet.name, pattern) for pattern in info)


def basic_facets() -> tuple[v1.Facet, ...]:
    """What any Linux says of itself."""
    return (
        v1.Facet(layer="node", name="kernel", value=platform.release()),
        v1.Facet(layer="node", name="cpu", value=cpu_model()),
        v1.Facet(layer="node", name="os", value=_os_name(), tracked=False),
    )


def hardware(devices: tuple[v1.DeviceSpec, ...], topology: str = "") -> v1.HardwareSpec:
    return v1.HardwareSpec(
        gpu_model=devices[0].model if devices else "",
        gpu_count=len(devices),
        topology=topology,
        cpu_model=cpu_model(),
        cpu_count=len(os.sched_getaffinity(0)),
        memory_bytes=_round_memory(machine_memory_bytes()),
    )


def cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.lower().startswith(("model name", "cpu model", "hardware")):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine() or "unknown"


def _round_memory(size: int) -> int:
    """To whole gibibytes: what the kernel keeps for itself must not make another class of machine."""
    return max(round(size / 2**30), 1) * 2**30


def _os_name() -> str | None:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        return None
