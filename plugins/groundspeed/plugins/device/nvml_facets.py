"""What NVML says of firmware, settings and links, as facets. Pure but for the calls of the library it is given.

Tracked is what can move a number or be lost by a reboot; what a driver cannot tell is unknown with its own words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ctypes import byref, c_int, c_uint
from typing import Any, Protocol

from groundspeed.plugins.device.base import DeviceInfo, Facet, State

LINKS = 18
"""NVLinks of the largest device so far; a device with fewer refuses the rest."""
_P2P_NVLINK = 2
_ANCESTORS = {0: "SELF", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
_COMPUTE_MODES = {0: "default", 2: "prohibited", 3: "exclusive process"}
_CLOCK_SM = 1
_NO_LOCK = "NVML has no call for a lock of nvidia-smi -lgc; under load it shows in the clocks of a run's conditions"


class Library(Protocol):
    """The part of :class:`Nvml` that is used here."""

    def ask(self, name: str, uuid: str, *arguments: Any) -> str:
        """Call a function on a device; why it failed, empty: it went well."""
        ...

    def ask_text(self, name: str, uuid: str) -> tuple[str | None, str]: ...

    def ask_pair(self, name: str, one: str, other: str, *arguments: Any) -> str: ...


def of_device(nvml: Library, device: DeviceInfo, state: State) -> Iterator[Facet]:
    """Firmware, settings and links of one device."""
    prefix = f"gpu{device.index}"
    for name, call in (
        ("vbios", "nvmlDeviceGetVbiosVersion"),
        ("inforom", "nvmlDeviceGetInforomImageVersion"),
        ("gsp_firmware", "nvmlDeviceGetGspFirmwareVersion"),
    ):
        text, why = nvml.ask_text(call, device.uuid)
        yield Facet("node", f"{prefix}.{name}", text, why)
    yield _given(f"{prefix}.power_limit_w", state.power_limit_w, "the driver gives no limit")
    yield _given(f"{prefix}.mig", state.mig, state.missing.get("nvmlDeviceGetMigMode", "not given"))
    why_not = state.missing.get("nvmlDeviceGetPersistenceMode", "not given")
    yield _given(f"{prefix}.persistence", state.persistence, why_not)
    yield from (
        _ecc(nvml, device, prefix),
        _clocks(nvml, device, prefix),
        Facet("node", f"{prefix}.locked_clocks", None, _NO_LOCK, tracked=False),
        _compute_mode(nvml, device, prefix),
        _pcie(nvml, device, prefix),
        _nvlinks(nvml, device, prefix),
    )


def _ecc(nvml: Library, device: DeviceInfo, prefix: str) -> Facet:
    now, pending = c_uint(), c_uint()
    why = nvml.ask("nvmlDeviceGetEccMode", device.uuid, byref(now), byref(pending))
    return Facet("node", f"{prefix}.ecc", None if why else str(bool(now.value)), why)


def _clocks(nvml: Library, device: DeviceInfo, prefix: str) -> Facet:
    """The clocks asked for: NVML reads application clocks back, and no lock set by ``nvidia-smi -lgc``."""
    now, default = c_uint(), c_uint()
    why = nvml.ask("nvmlDeviceGetApplicationsClock", device.uuid, c_int(_CLOCK_SM), byref(now))
    why = why or nvml.ask("nvmlDeviceGetDefaultApplicationsClock", device.uuid, c_int(_CLOCK_SM), byref(default))
    value = "default" if now.value == default.value else f"application clocks {now.value} MHz"
    return Facet("node", f"{prefix}.clocks_policy", None if why else value, why)


def _compute_mode(nvml: Library, device: DeviceInfo, prefix: str) -> Facet:
    mode = c_uint()
    why = nvml.ask("nvmlDeviceGetComputeMode", device.uuid, byref(mode))
    value = _COMPUTE_MODES.get(mode.value, str(mode.value))
    return Facet("node", f"{prefix}.compute_mode", None if why else value, why)


def _pcie(nvml: Library, device: DeviceInfo, prefix: str) -> Facet:
    """What the slot can do; the present speed falls when the device is idle and says nothing."""
    generation, width = c_uint(), c_uint()
    why = nvml.ask("nvmlDeviceGetMaxPcieLinkGeneration", device.uuid, byref(generation))
    why = why or nvml.ask("nvmlDeviceGetMaxPcieLinkWidth", device.uuid, byref(width))
    return Facet("node", f"{prefix}.pcie", None if why else f"gen {generation.value} x{width.value}", why)


def _nvlinks(nvml: Library, device: DeviceInfo, prefix: str) -> Facet:
    active, first = 0, ""
    for link in range(LINKS):
        state = c_uint()
        why = nvml.ask("nvmlDeviceGetNvLinkState", device.uuid, c_uint(link), byref(state))
        first = first or (why if link == 0 else "")
        if why:
            break
        active += bool(state.value)
    return Facet("node", f"{prefix}.nvlinks", None if first else str(active), first)


def links(nvml: Library, devices: Iterable[str]) -> dict[tuple[str, str], str]:
    """The best way between every two devices: NVL, else the nearest thing on the PCIe tree that both hang on."""
    uuids = list(devices)
    found: dict[tuple[str, str], str] = {}
    for i, one in enumerate(uuids):
        for other in uuids[i + 1 :]:
            if kind := _link(nvml, one, other):
                found[one, other] = kind
    return found


def _link(nvml: Library, one: str, other: str) -> str:
    value = c_uint(99)
    refused = nvml.ask_pair("nvmlDeviceGetP2PStatus", one, other, c_int(_P2P_NVLINK), byref(value))
    if not refused and value.value == 0:
        return "NVL"
    if nvml.ask_pair("nvmlDeviceGetTopologyCommonAncestor", one, other, byref(value)):
        return ""
    return _ANCESTORS.get(value.value, str(value.value))


def topology(found: Mapping[tuple[str, str], str], index: Mapping[str, int]) -> Facet:
    """All pairs in one line.

    >>> topology({("a", "b"): "NVL", ("a", "c"): "NVL"}, {"a": 0, "b": 1, "c": 2}).value
    'NVL between all'
    >>> topology({("a", "b"): "NVL", ("a", "c"): "SYS"}, {"a": 0, "b": 1, "c": 2}).value
    'NVL 0-1; SYS 0-2'
    """
    kinds: dict[str, list[str]] = {}
    for (one, other), kind in found.items():
        kinds.setdefault(kind, []).append(f"{index[one]}-{index[other]}")
    if not kinds:
        return Facet("node", "gpu.topology", None, "the driver tells nothing of links between devices")
    if len(kinds) == 1:
        return Facet("node", "gpu.topology", f"{next(iter(kinds))} between all")
    return Facet("node", "gpu.topology", "; ".join(f"{kind} {' '.join(kinds[kind])}" for kind in sorted(kinds)))


def _given(name: str, value: Any, why: str) -> Facet:
    return Facet("node", name, None if value is None else str(value), "" if value is not None else why)
