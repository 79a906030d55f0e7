"""What this node is: hardware class, devices, and the facts of its environment, as wire models."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from groundspeed.plugins.device.base import Facet
from groundspeed.service.wire import v1
from groundspeed.workers import system
from groundspeed.workers.settings import machine_memory_bytes


def to_wire(facets: Iterable[Any]) -> tuple[v1.Facet, ...]:
    """The device layer's facets (data classes with the wire's fields), the last of each name."""
    names = set(v1.Facet.model_fields)
    found: dict[tuple[str, str], v1.Facet] = {}
    for facet in facets:
        raw = dataclasses.asdict(facet) if dataclasses.is_dataclass(facet) and not isinstance(facet, type) else facet
        made = v1.Facet.model_validate({k: v for k, v in dict(raw).items() if k in names})
        found[made.layer, made.name] = made
    return tuple(found.values())


def merge(*groups: Iterable[Facet]) -> tuple[v1.Facet, ...]:
    """One facet a name, as the wire has it: the first group that could read it wins."""
    return to_wire(system.merge(*groups))


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


def hardware(devices: tuple[v1.DeviceSpec, ...], topology: str = "") -> v1.HardwareSpec:
    """The class of machine; memory in bytes, rounded to whole gibibytes."""
    return v1.HardwareSpec(
        gpu_model=devices[0].model if devices else "",
        gpu_count=len(devices),
        topology=topology,
        cpu_model=system.cpu_model(),
        cpu_count=len(os.sched_getaffinity(0)),
        memory_bytes=_round_memory(machine_memory_bytes()),
    )


def _round_memory(size: int) -> int:
    """To whole gibibytes: what the kernel keeps for itself must not make another class of machine."""
    return max(round(size / 2**30), 1) * 2**30
