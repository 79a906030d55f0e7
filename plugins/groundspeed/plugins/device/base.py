"""What every vendor's library is asked, in one shape. What cannot be read is None."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Protocol


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One device, apart from the class of hardware it belongs to."""

    index: int
    uuid: str
    model: str
    memory_bytes: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Facet:
    """One fact of the environment; field by field the wire's Facet."""

    layer: Literal["node", "stack", "build"]
    name: str
    value: str | None
    reason: str = ""
    tracked: bool = True


@dataclass(frozen=True, slots=True)
class Reading:
    """What is sampled many times a second. None: not available on this device."""

    sm_mhz: float | None = None
    memory_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    reasons: int | None = None
    """Clock event reasons as NVML's bits; see reasons.py."""
    utilisation: float | None = None
    """Share of the last sampling period in which a kernel ran, 0 to 1."""
    memory_used_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Process:
    """A process that holds the device."""

    pid: int
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class State:
    """What hygiene looks at, before and after. None: not available."""

    processes: tuple[Process, ...] | None = None
    memory_used_bytes: int | None = None
    memory_reserved_bytes: int = 0
    ecc_uncorrected: int | None = None
    ecc_corrected: int | None = None
    remapped_rows_pending: bool | None = None
    remapped_rows_failed: bool | None = None
    persistence: bool | None = None
    temperature_c: float | None = None
    power_limit_w: float | None = None
    power_default_w: float | None = None
    mig: bool | None = None
    clocks_locked: bool | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    """Why a field is None, by its name."""


def explained(state: State, why: Mapping[str, str], otherwise: str) -> State:
    """With a reason for every field that is None: the one that is given for it, else ``otherwise``."""
    absent = [one.name for one in fields(state) if getattr(state, one.name) is None]
    return replace(state, missing={**dict.fromkeys(absent, otherwise), **state.missing, **why})


class Backend(Protocol):
    """One vendor. Opened without initialising a compute context; methods never raise for what is merely absent."""

    vendor: str

    def devices(self) -> tuple[DeviceInfo, ...]: ...

    def reading(self, uuid: str) -> Reading: ...

    def processes(self, uuid: str) -> tuple[Process, ...] | None: ...

    def energy_j(self, uuid: str) -> float | None:
        """Total since the driver was loaded; slow (4 ms on an H200): read at the ends only."""
        ...

    def state(self, uuid: str) -> State: ...

    def facets(self) -> Iterable[Facet]: ...
