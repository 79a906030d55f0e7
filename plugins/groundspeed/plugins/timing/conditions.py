"""The conditions under which samples were taken. What cannot be read is recorded as not available, with why."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from groundspeed.plugins.device import kernel_log, open_backend
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
from groundspeed.plugins.timing.sampler import RATE_HZ, Sampler, Trace

NO_ENERGY = "the device gives no counter of its energy"


@dataclass(slots=True)
class Watched:
    """One device from before it is touched to after it has been left."""

    device: str
    uuid: str
    backend: Backend
    before: State = field(default_factory=State)
    after: State = field(default_factory=State)
    sampler: Sampler | None = None
    mine: Callable[[int], bool] = lambda _: False
    """Whether a listed process that is not of this group belongs to the benchmark even so."""
    energy_before_j: float | None = None
    energy_after_j: float | None = None

    def start(self, mine: Callable[[int], bool], rate_hz: float) -> None:
        self.mine = mine
        self.energy_before_j = self.backend.energy_j(self.uuid)
        self.sampler = Sampler(self.backend, self.uuid, rate_hz, mine=mine)
        self.sampler.start()

    def stop(self) -> None:
        if self.sampler is not None:
            self.sampler.stop()
            self.energy_after_j = self.backend.energy_j(self.uuid)
            self.after = self.backend.state(self.uuid)

    @property
    def trace(self) -> Trace:
        return self.sampler.trace if self.sampler is not None else Trace()

    def readings(self) -> dict[str, Any]:
        """Medians and ranges, and the energy used between the ends."""
        found = classify.summary(self.trace)
        before, after = self.energy_before_j, self.energy_after_j
        known = before is not None and after is not None
        found["energy_j"] = round(after - before, 3) if known else {"unavailable": NO_ENERGY}  # type: ignore[operator]
        if self.sampler is not None and self.sampler.trouble:
            found["sampler"] = {"unavailable": f"it stopped reading: {self.sampler.trouble}"}
        return found

    def strangers(self) -> list[dict[str, int | None]] | dict[str, str]:
        seen = self.sampler.strangers if self.sampler is not None else {}
        if not seen and all(count is None for count in self.trace.foreign):
            return {"unavailable": self.before.missing.get("processes", "the device's processes cannot be listed")}
        return [{"pid": pid, "memory_bytes": memory} for pid, memory in seen.items()]

    def hygiene(self) -> dict[str, Any]:
        own = own_processes()
        mine = {one.pid for one in self.after.processes or () if self.mine(one.pid)}
        return {
            "before": clean_findings(self.before, own),
            "during": changes(self.before, self.after),
            "after": clean_findings(self.after, own | mine),
            "not_available": dict(self.before.missing),
            "policy": {
                name: getattr(self.before, name)
                for name in ("persistence", "clocks_locked", "mig", "power_limit_w", "power_default_w")
            },
        }


@dataclass(slots=True)
class Conditions:
    """Started before the workload is made, stopped after it; ``summary`` goes into the report."""

    device: str
    backend: Backend
    begin_s: float = 0.0
    host_before: dict[str, Any] = field(default_factory=dict)
    host_after: dict[str, Any] = field(default_factory=dict)
    watched: list[Watched] = field(default_factory=list)
    """The process's own device first, then those of the processes that it starts."""
    why_none: str = ""
    log: kernel_log.FromNowOn | None = None
    faults: list[str] = field(default_factory=list)
    """That the kernel's log told of while this ran."""
    cooled_to_c: float | None = None
    """Temperature at which the (hottest) device was let start; None: not known."""
    left_after_s: float = 0.0
    """How long a process that had just ended still showed on the device."""

    @classmethod
    def start(
        cls,
        device: str,
        touch: Callable[[], None] = lambda: None,
        *,
        others: Sequence[str] = (),
        for_programs: bool = False,
        rate_hz: float = RATE_HZ,
    ) -> Conditions:
        """Reads host and devices and starts sampling the devices' conditions where something can.

        ``touch`` makes this process's context on the device, between the state before it and the first sample.
        ``others``: further devices that the benchmark uses. ``for_programs``: not this process but programs that it
        starts may use them.
        """
        backend = open_backend()
        conditions = cls(device=device, backend=backend, begin_s=time.perf_counter(), host_before=host_state())
        if device == "cpu":
            conditions.why_none = "the benchmark runs on the CPU"
            return conditions
        uuids = {name: device_uuid(name, backend) for name in (device, *others)}
        if uuids[device] is None:
            conditions.why_none = getattr(backend, "reason", f"{backend.vendor}'s library does not list {device}")
            touch()
            return conditions
        watched = [Watched(name, uuid, backend) for name, uuid in uuids.items() if uuid is not None]
        conditions.watched, conditions.log = watched, kernel_log.FromNowOn()
        conditions.cooled_to_c = cool_down(lambda: _hottest(watched))
        conditions.left_after_s = settle(
            lambda: [found for one in watched for found in foreign(backend.processes(one.uuid), own_processes())]
        )
        for one in watched:
            one.before = backend.state(one.uuid)
        touch()
        for one in watched:
            before = one.before.processes
            mine = belongs_to_programs(before)
            if not for_programs:
                mine = appeared(before, backend.processes(one.uuid), own_processes()).__contains__
            one.start(mine, rate_hz)
        return conditions

    @property
    def device_uuid(self) -> str | None:
        return self.watched[0].uuid if self.watched else None

    @property
    def trace(self) -> Trace:
        return self.watched[0].trace if self.watched else Trace()

    def state_between(self, start_s: float, duration_s: float) -> SampleState:
        """What a sample of that time is worth, by the conditions of every device."""
        return classify.worst(classify.state_between(one.trace, start_s, duration_s) for one in self.watched)

    def labels(self) -> dict[str, str]:
        """What is to be said of the conditions as a whole; of another device than the first with its name."""
        found: dict[str, str] = {}
        for one in self.watched:
            prefix = f"{one.device}: " if len(self.watched) > 1 else ""
            for label, words in classify.labels(one.trace).items():
                found.setdefault(label, f"{prefix}{words}")
        return found

    def energy_j(self) -> float | None:
        return self.backend.energy_j(self.device_uuid) if self.device_uuid is not None else None

    def stop(self) -> None:
        """Idempotent."""
        if self.host_after:
            return
        self.host_after = host_state()
        for one in self.watched:
            one.stop()
        if self.log is not None:
            self.faults = [str(fault) for fault in self.log.faults()]
            self.log.close()

    def summary(self) -> dict[str, Any]:
        """The report's conditions, "trace" (of the first device) included."""
        self.stop()
        found: dict[str, Any] = {"host": {"before": self.host_before, "after": self.host_after}}
        if not self.watched:
            return {**found, "device": {"unavailable": self.why_none}}
        first, *others = self.watched
        found["device"] = first.readings()
        found["trace"] = first.trace.columns(self.begin_s)
        found["foreign_processes"] = first.strangers()
        found["start_temperature_c"] = self.cooled_to_c
        found["hygiene"] = first.hygiene()
        why = self.log.why if self.log is not None else ""
        found["kernel_log"] = {"unavailable": why} if why else {"faults": self.faults}
        if others:
            found["other_devices"] = {
                one.device: {
                    "uuid": one.uuid,
                    "device": one.readings(),
                    "foreign_processes": one.strangers(),
                    "hygiene": one.hygiene(),
                }
                for one in others
            }
        return found


def _hottest(watched: Sequence[Watched]) -> float | None:
    seen = [one.backend.reading(one.uuid).temperature_c for one in watched]
    return max((heat for heat in seen if heat is not None), default=None)


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
