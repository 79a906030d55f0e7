"""The checks: pure functions from an inventory to findings. ``examine`` runs them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from groundspeed.plugins.device.base import DeviceInfo, State
from groundspeed.plugins.device.hygiene import HOT_C, LEAK_BYTES, foreign, mib
from groundspeed.plugins.doctor import texts
from groundspeed.plugins.doctor.findings import Finding
from groundspeed.plugins.doctor.inventory import Inventory
from groundspeed.plugins.doctor.software import software

LOW_FILES = 4096
LOW_SHM = 1 << 30
LOW_SHM_EACH = 2 << 30
"""Shared memory that loader workers and NCCL want for each device."""
FEW_CPUS = 4
BUSY_LOAD = 0.5
"""Load of the last minute over the CPUs."""
_ORDER = {"error": 0, "warning": 1, "note": 2}


def examine(inventory: Inventory) -> list[Finding]:
    """Everything found, worst first; one symptom at one place only once."""
    found: dict[tuple[str, str], Finding] = {}
    for check in CHECKS:
        for finding in check(inventory):
            found.setdefault((finding.code, finding.where), finding)
    _drop_consequences(found)
    return sorted(found.values(), key=lambda one: _ORDER[one.severity])


def from_texts(inventory: Inventory) -> Iterator[Finding]:
    """What tools and logs said."""
    for source, text in inventory.texts.items():
        for match in texts.read(text):
            yield Finding(match.code, f"{source}: {match.line}")


def presence(inventory: Inventory) -> Iterator[Finding]:
    """Driver and devices."""
    host = inventory.host
    on_bus = {"nvidia", "amd"} & set(host.pci_gpus)
    if not inventory.accelerator and not inventory.devices and not on_bus:
        yield Finding("no-accelerator", "no device file of NVIDIA, AMD or Intel")
        return
    if inventory.visible is not None and inventory.devices:
        names = [name.strip() for name in inventory.visible.split(",")]
        known = {str(info.index) for info, _ in inventory.devices}
        if not any(n in known or any(info.uuid.startswith(n) for info, _ in inventory.devices if n) for n in names):
            yield Finding("device-hidden", f"CUDA_VISIBLE_DEVICES={inventory.visible!r}")
    modules = host.modules
    if "nvidia" in on_bus and modules is not None:
        if "nouveau" in modules:
            yield Finding("nouveau", "the module nouveau is loaded")
        elif "nvidia" not in modules and not inventory.devices:
            yield Finding("no-driver", "an NVIDIA device is on the PCI bus and the module nvidia is not loaded")


def devices(inventory: Inventory) -> Iterator[Finding]:
    for info, state in inventory.devices:
        where = f"GPU {info.index} ({info.model})"
        yield from _health(state, where)
        yield from _settings(state, where)
        yield from _tenants(inventory, info, state, where)


def _health(state: State, where: str) -> Iterator[Finding]:
    if state.ecc_uncorrected:
        yield Finding("ecc-errors", f"{state.ecc_uncorrected} uncorrected", where)
    if state.remapped_rows_failed:
        yield Finding("row-remap-failed", "the driver says so", where)
    elif state.remapped_rows_pending:
        yield Finding("row-remap-pending", "the driver says so", where)
    if state.temperature_c is not None and state.temperature_c > HOT_C:
        yield Finding("hot", f"{state.temperature_c:.0f} °C, over {HOT_C:.0f}", where)


def _settings(state: State, where: str) -> Iterator[Finding]:
    if state.mig:
        yield Finding("mig-on", "the driver says so", where)
    if state.clocks_locked is False:
        yield Finding("clocks-unlocked", "no application clock or lock is in force", where)
    limit, default = state.power_limit_w, state.power_default_w
    if limit is not None and default is not None and limit < default - 0.5:
        yield Finding("power-cap", f"{limit:.0f} W, default {default:.0f} W", where)
    if state.persistence is False:
        yield Finding("persistence-off", "the driver says so", where)


def _tenants(inventory: Inventory, info: DeviceInfo, state: State, where: str) -> Iterator[Finding]:
    others = foreign(state.processes, inventory.own_processes)
    if others:
        listed = ", ".join(f"{one.pid} ({mib(one.memory_bytes)})" for one in others[:8])
        yield Finding("other-processes", f"process {listed}", where)
    used = state.memory_used_bytes
    if state.processes == () and used is not None and used - state.memory_reserved_bytes > LEAK_BYTES:
        yield Finding("leaked-memory", f"{mib(used)} of {mib(info.memory_bytes)} in use", where)


def host(inventory: Inventory) -> Iterator[Finding]:
    """Limits that loader workers and ranks meet, and load."""
    seen, count = inventory.host, max(len(inventory.devices), 1)
    if seen.files_soft is not None and 0 <= seen.files_soft < LOW_FILES:
        yield Finding("low-files", f"{seen.files_soft} open files, hard limit {seen.files_hard}")
    wanted = max(LOW_SHM, LOW_SHM_EACH * len(inventory.devices))
    if seen.shm_bytes is not None and seen.shm_bytes < wanted:
        yield Finding("low-shm", f"/dev/shm holds {mib(seen.shm_bytes)}, {mib(wanted)} are advised here")  # noqa: S108 - words
    if inventory.devices and seen.cpus is not None and seen.cpus < FEW_CPUS * count:
        yield Finding("few-cpus", f"{seen.cpus} CPUs for {count} devices")
    if seen.load_1m is not None and seen.cpus and seen.load_1m > BUSY_LOAD * seen.cpus + 0.5:
        yield Finding("busy-host", f"load {seen.load_1m:.1f} on {seen.cpus} CPUs")
    if seen.governor in {"powersave", "conservative", "ondemand", "schedutil"}:
        yield Finding("governor", f"governor {seen.governor}")


CHECKS: tuple[Callable[[Inventory], Iterator[Finding]], ...] = (from_texts, presence, devices, software, host)
_CAUSES = {
    "no-driver": ("nvml-missing", "no-device", "torch-no-gpu"),
    "nouveau": ("no-driver", "no-device", "nvml-missing", "torch-no-gpu"),
    "driver-library-mismatch": ("torch-no-gpu", "no-driver"),
    "no-device": ("torch-no-gpu",),
    "device-hidden": ("torch-no-gpu", "no-device"),
    "torch-newer-than-driver": ("torch-no-gpu",),
    "torch-cpu-build": ("nccl-missing", "torch-no-gpu"),
    "torch-wrong-vendor": ("torch-no-gpu", "torch-cpu-build", "nccl-missing"),
}
"""What a cause brings with it is not told beside it: the cure is the cause's."""


def _drop_consequences(found: dict[tuple[str, str], Finding]) -> None:
    present = {code for code, _ in found}
    dropped = {what for cause, consequences in _CAUSES.items() if cause in present for what in consequences}
    for key in [key for key in found if key[0] in dropped]:
        del found[key]
