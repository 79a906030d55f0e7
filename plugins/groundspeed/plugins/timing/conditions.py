"""The conditions under which samples were taken. What cannot be read is recorded as not available, with why."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from groundspeed.plugins.device import open_backend
from groundspeed.plugins.device.base import Backend, State
from groundspeed.plugins.device.hygiene import (
    appeared,
    belongs_to_programs,
    changes,
    clean_findings,
    cool_down,
    foreign,
    settle,
)
from groundspeed.plugins.device.nvml import own_processes
from groundspeed.plugins.spi import SampleState
from groundspeed.plugins.timing import classify
from groundspeed.plugins.timing.sampler import Sampler, Trace


@dataclass(slots=True)
class Conditions:
    """Started before the workload is made, stopped after it; ``summary`` goes into the report."""

    device: str
    backend: Backend
    device_uuid: str | None = None
    begin_s: float = 0.0
    host_before: dict[str, Any] = field(default_factory=dict)
    host_after: dict[str, Any] = field(default_factory=dict)
    state_before: State = field(default_factory=State)
    state_after: State = field(default_factory=State)
    sampler: Sampler | None = None
    why_none: str = ""
    cooled_to_c: float | None = None
    """Temperature at which the device was let start; None: not known."""
    left_after_s: float = 0.0
    """How long a process that had just ended still showed on the device."""

    @classmethod
    def start(cls, device: str, touch: Callable[[], None] = lambda: None, *, for_programs: bool = False) -> Conditions:
        """Reads host and device and starts sampling the device's conditions where something can.

        ``touch`` makes this process's context on the device, between the state before it and the first sample.
        ``for_programs``: not this process but programs that it starts may use the device.
        """
        backend = open_backend()
        conditions = cls(device=device, backend=backend, begin_s=time.perf_counter(), host_before=host_state())
        if device == "cpu":
            conditions.why_none = "the benchmark runs on the CPU"
            return conditions
        conditions.device_uuid = device_uuid(device, backend)
        if conditions.device_uuid is None:
            conditions.why_none = getattr(backend, "reason", f"{backend.vendor}'s library does not list {device}")
            touch()
            return conditions
        uuid = conditions.device_uuid
        conditions.cooled_to_c = cool_down(lambda: backend.reading(uuid).temperature_c)
        conditions.left_after_s = settle(lambda: foreign(backend.processes(uuid), own_processes()))
        conditions.state_before = backend.state(uuid)
        touch()
        before = conditions.state_before.processes
        mine = belongs_to_programs(before)
        if not for_programs:
            mine = appeared(before, backend.processes(uuid), own_processes()).__contains__
        conditions.sampler = Sampler(backend, uuid, mine=mine)
        conditions.sampler.start()
        return conditions

    @property
    def trace(self) -> Trace:
        return self.sampler.trace if self.sampler is not None else Trace()

    def state_between(self, start_s: float, duration_s: float) -> SampleState:
        """What a sample of that time is worth."""
        return classify.state_between(self.trace, start_s, duration_s)

    def labels(self) -> dict[str, str]:
        """What is to be said of the conditions as a whole."""
        return classify.labels(self.trace)

    def energy_j(self) -> float | None:
        return self.backend.energy_j(self.device_uuid) if self.device_uuid is not None else None

    def stop(self) -> None:
        """Idempotent."""
        if self.host_after:
            return
        self.host_after = host_state()
        if self.sampler is not None and self.device_uuid is not None:
            self.sampler.stop()
            self.state_after = self.backend.state(self.device_uuid)

    def summary(self) -> dict[str, Any]:
        """The report's conditions, "trace" included."""
        self.stop()
        found: dict[str, Any] = {"host": {"before": self.host_before, "after": self.host_after}}
        if self.sampler is None:
            return {**found, "device": {"unavailable": self.why_none}}
        found["device"] = classify.summary(self.trace)
        found["trace"] = self.trace.columns(self.begin_s)
        found["foreign_processes"] = [
            {"pid": pid, "memory_bytes": memory} for pid, memory in self.sampler.strangers.items()
        ]
        found["start_temperature_c"] = self.cooled_to_c
        found["hygiene"] = {
            "before": clean_findings(self.state_before, own_processes()),
            "during": changes(self.state_before, self.state_after),
            "not_available": dict(self.state_before.missing),
            "policy": {
                name: getattr(self.state_before, name)
                for name in ("persistence", "clocks_locked", "mig", "power_limit_w", "power_default_w")
            },
        }
        return found


def first_visible() -> str:
    """The first device that programs started here would use, by the vendor's library; "cpu" when there is none."""
    backend = open_backend()
    if not backend.devices():
        return "cpu"
    device = "xpu:0" if backend.vendor == "intel" else "cuda:0"
    return device if device_uuid(device, backend) is not None else "cpu"


def device_uuid(device: str, backend: Backend) -> str | None:
    """The vendor library's UUID of a torch device, without initialising its context."""
    listed = backend.devices()
    kind, _, number = device.partition(":")
    if kind not in {"cuda", "xpu"} or not listed:
        return None
    index = int(number or 0)
    variable = {"nvidia": "CUDA_VISIBLE_DEVICES", "amd": "HIP_VISIBLE_DEVICES"}.get(backend.vendor, "ZE_AFFINITY_MASK")
    visible = [name for name in os.environ.get(variable, "").split(",") if name]
    if visible:
        if index >= len(visible):
            return None
        chosen = visible[index]
        if not chosen.isdigit():
            return next((one.uuid for one in listed if one.uuid.startswith(chosen)), None)
        index = int(chosen)
    return listed[index].uuid if index < len(listed) else None


def host_state() -> dict[str, Any]:
    """Load, CPU frequency and stolen time of the host."""
    return {"load_1m": _load(), "cpu_mhz": _cpu_mhz(), "steal_s": _steal_s()}


def _load() -> float | dict[str, str]:
    try:
        return round(os.getloadavg()[0], 2)
    except OSError as error:
        return {"unavailable": str(error)}


def _cpu_mhz() -> float | dict[str, str]:
    path = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")
    try:
        return int(path.read_text()) / 1000
    except (OSError, ValueError):
        return {"unavailable": f"{path} cannot be read"}


def _steal_s() -> float | dict[str, str]:
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
        return int(fields[8]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return {"unavailable": "/proc/stat gives no stolen time"}
