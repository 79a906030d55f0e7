"""NVIDIA's management library through ctypes: the few calls that are needed, with their failures as values.

Not through a package: this runs in the environment of the code under test, which has torch and what that project asks
for and nothing of ours besides. Signatures from nvml.h of driver 580 (CUDA 13.0); versioned symbols where it has them.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from ctypes import byref, c_int, c_uint, c_ulonglong, c_void_p, create_string_buffer
from typing import Any

from groundspeed.plugins.device import nvml_facets
from groundspeed.plugins.device.base import DeviceInfo, Facet, Process, Reading, State, explained
from groundspeed.plugins.device.reasons import APPLICATION_CLOCKS

SUCCESS, INSUFFICIENT_SIZE = 0, 7
_CLOCK_SM, _CLOCK_MEMORY = 1, 2
_NOT_KNOWN = 0xFFFFFFFFFFFFFFFF
PCIE_LANE = {1: 250e6, 2: 500e6, 3: 984.6e6, 4: 1969e6, 5: 3938e6, 6: 7563e6}
"""Bytes a second of one lane by generation (PCI-SIG: 2.5 to 64 GT/s, less 8b/10b, 128b/130b or flit encoding)."""
_MEMORY_V2 = 40 | (2 << 24)


class NvmlUnavailable(Exception):
    """The library is not there or does not start; the text is the driver's own."""


class _Memory(ctypes.Structure):
    _fields_ = (
        ("version", c_uint),
        ("total", c_ulonglong),
        ("reserved", c_ulonglong),
        ("free", c_ulonglong),
        ("used", c_ulonglong),
    )


class _PlainMemory(ctypes.Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class _Utilisation(ctypes.Structure):
    _fields_ = (("gpu", c_uint), ("memory", c_uint))


class _Process(ctypes.Structure):
    _fields_ = (("pid", c_uint), ("memory", c_ulonglong), ("gpu_instance", c_uint), ("compute_instance", c_uint))


class _PlainProcess(ctypes.Structure):
    _fields_ = (("pid", c_uint), ("memory", c_ulonglong))


_PROCESS_CALLS: tuple[tuple[str, Any], ...] = (
    ("nvmlDeviceGetComputeRunningProcesses_v3", _Process),
    ("nvmlDeviceGetComputeRunningProcesses_v2", _Process),
    ("nvmlDeviceGetComputeRunningProcesses", _PlainProcess),
)
"""Newest first: older drivers have the older ones."""
_CALL_OF = {
    "processes": "nvmlDeviceGetComputeRunningProcesses_v3",
    "memory_used_bytes": "nvmlDeviceGetMemoryInfo_v2",
    "ecc_uncorrected": "nvmlDeviceGetTotalEccErrors",
    "ecc_corrected": "nvmlDeviceGetTotalEccErrors",
    "remapped_rows_pending": "nvmlDeviceGetRemappedRows",
    "remapped_rows_failed": "nvmlDeviceGetRemappedRows",
    "persistence": "nvmlDeviceGetPersistenceMode",
    "temperature_c": "nvmlDeviceGetTemperature",
    "power_limit_w": "nvmlDeviceGetEnforcedPowerLimit",
    "power_default_w": "nvmlDeviceGetPowerManagementDefaultLimit",
    "mig": "nvmlDeviceGetMigMode",
    "clocks_locked": "nvmlDeviceGetCurrentClocksThrottleReasons",
}
"""Which call's failure says why a field of the state is not available."""


class Nvml:
    """Opened once; ``close`` or leave it to the end of the process. Every value is None where the driver gives none."""

    vendor = "nvidia"

    def __init__(self, library: Any = None) -> None:
        """Raises NvmlUnavailable. ``library``: another implementation of the same symbols, for tests."""
        self._lib = library if library is not None else _load()
        self._errors: dict[str, str] = {}
        code = self._lib.nvmlInit_v2()
        if code != SUCCESS:
            raise NvmlUnavailable(self._error(code))
        self._handles = {self._uuid(handle): handle for handle in self._all_handles()}

    # --- calls --------------------------------------------------------------------------------------------------------

    def _error(self, code: int) -> str:
        self._lib.nvmlErrorString.restype = ctypes.c_char_p
        text = self._lib.nvmlErrorString(code)
        return text.decode() if isinstance(text, bytes) else f"NVML error {code}"

    def _call(self, name: str, *arguments: Any) -> bool:
        """Whether the call went well; why not is kept by name."""
        function = getattr(self._lib, name, None)
        if function is None:
            self._errors[name] = "this driver's NVML has no such call"
            return False
        code = function(*arguments)
        if code != SUCCESS:
            self._errors[name] = self._error(code)
        return bool(code == SUCCESS)

    def _number(self, name: str, handle: Any, *before: Any, kind: Any = c_uint) -> int | None:
        value = kind()
        return int(value.value) if self._call(name, handle, *before, byref(value)) else None

    def _text(self, name: str, *arguments: Any) -> str | None:
        buffer = create_string_buffer(96)
        return buffer.value.decode(errors="replace") if self._call(name, *arguments, buffer, 96) else None

    def _all_handles(self) -> list[c_void_p]:
        count = c_uint()
        if not self._call("nvmlDeviceGetCount_v2", byref(count)):
            return []
        handles = []
        for index in range(count.value):
            handle = c_void_p()
            if self._call("nvmlDeviceGetHandleByIndex_v2", c_uint(index), byref(handle)):
                handles.append(handle)
        return handles

    def _uuid(self, handle: c_void_p) -> str:
        return self._text("nvmlDeviceGetUUID", handle) or f"unknown-{handle.value}"

    # --- the interface ------------------------------------------------------------------------------------------------

    def devices(self) -> tuple[DeviceInfo, ...]:
        found = []
        links = nvml_facets.links(self, self._handles)
        for index, (uuid, handle) in enumerate(self._handles.items()):
            memory = self._memory(handle)
            facts: dict[str, Any] = {
                "sm_mhz_max": self._number("nvmlDeviceGetMaxClockInfo", handle, c_int(_CLOCK_SM)),
                "power_limit_w": _watts(self._number("nvmlDeviceGetEnforcedPowerLimit", handle)),
                "vbios": self._text("nvmlDeviceGetVbiosVersion", handle),
                "memory_bytes_per_s": self._memory_rate(handle),
                "link_bytes_per_s": self._link_rate(handle),
            }
            if own := {a if b == uuid else b: kind for (a, b), kind in links.items() if uuid in {a, b}}:
                facts["links"] = own
            if (numa := self._number("nvmlDeviceGetNumaNodeId", handle)) is not None:
                facts["numa"] = numa
            model = self._text("nvmlDeviceGetName", handle) or "unknown NVIDIA device"
            found.append(DeviceInfo(index, uuid, model, memory.total if memory else 0, facts))
        return tuple(found)

    def _memory_rate(self, handle: c_void_p) -> float | None:
        """Physical limit of the device's memory: two transfers a clock over the bus."""
        clock = self._number("nvmlDeviceGetMaxClockInfo", handle, c_int(_CLOCK_MEMORY))
        bits = self._number("nvmlDeviceGetMemoryBusWidth", handle)
        return None if not clock or not bits else 2 * clock * 1e6 * bits / 8

    def _link_rate(self, handle: c_void_p) -> float | None:
        """Physical limit of the PCIe link in one direction, encoding taken off; packets still cost some of it."""
        generation = self._number("nvmlDeviceGetMaxPcieLinkGeneration", handle)
        width = self._number("nvmlDeviceGetMaxPcieLinkWidth", handle)
        lane = PCIE_LANE.get(generation or 0)
        return None if not lane or not width else lane * width

    def reading(self, uuid: str) -> Reading:
        handle = self._handles.get(uuid)
        if handle is None:
            return Reading()
        memory = self._memory(handle)
        utilisation = _Utilisation()
        busy = self._call("nvmlDeviceGetUtilizationRates", handle, byref(utilisation))
        return Reading(
            sm_mhz=self._number("nvmlDeviceGetClockInfo", handle, c_int(_CLOCK_SM)),
            memory_mhz=self._number("nvmlDeviceGetClockInfo", handle, c_int(_CLOCK_MEMORY)),
            power_w=_watts(self._number("nvmlDeviceGetPowerUsage", handle)),
            temperature_c=self._number("nvmlDeviceGetTemperature", handle, c_int(0)),
            reasons=self._reasons(handle),
            utilisation=utilisation.gpu / 100 if busy else None,
            memory_used_bytes=memory.used if memory else None,
        )

    def _reasons(self, handle: c_void_p) -> int | None:
        for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
            value = self._number(name, handle, kind=c_ulonglong)
            if value is not None:
                return value
        return None

    def _memory(self, handle: c_void_p) -> _Memory | None:
        memory = _Memory(version=_MEMORY_V2)
        if self._call("nvmlDeviceGetMemoryInfo_v2", handle, byref(memory)):
            return memory
        plain = _PlainMemory()  # drivers before 510; what the driver keeps for itself counts as used there
        if not self._call("nvmlDeviceGetMemoryInfo", handle, byref(plain)):
            return None
        return _Memory(total=plain.total, free=plain.free, used=plain.used)

    def processes(self, uuid: str) -> tuple[Process, ...] | None:
        handle = self._handles.get(uuid)
        if handle is None:
            return None
        named = ((name, kind, getattr(self._lib, name, None)) for name, kind in _PROCESS_CALLS)
        name, kind, call = next((one for one in named if one[2] is not None), (_PROCESS_CALLS[0][0], _Process, None))
        if call is None:
            self._errors[name] = "this driver's NVML has no such call"
            return None
        size = 64
        while size <= 4096:
            count, array = c_uint(size), (kind * size)()
            code = call(handle, byref(count), array)
            if code == SUCCESS:
                return tuple(
                    Process(int(one.pid), None if one.memory == _NOT_KNOWN else int(one.memory))
                    for one in array[: count.value]
                )
            if code != INSUFFICIENT_SIZE:
                self._errors[name] = self._error(code)
                return None
            size *= 4
        return None

    def energy_j(self, uuid: str) -> float | None:
        handle = self._handles.get(uuid)
        if handle is None:
            return None
        value = self._number("nvmlDeviceGetTotalEnergyConsumption", handle, kind=c_ulonglong)
        return None if value is None else value / 1000

    def state(self, uuid: str) -> State:
        handle = self._handles.get(uuid)
        if handle is None:
            return State(missing={"all": f"NVML lists no device {uuid}"})
        self._errors.clear()
        memory = self._memory(handle)
        rows = [c_uint() for _ in range(4)]
        remapped = self._call("nvmlDeviceGetRemappedRows", handle, *(byref(row) for row in rows))
        persistence = self._number("nvmlDeviceGetPersistenceMode", handle)
        mig, pending = c_uint(), c_uint()
        has_mig = self._call("nvmlDeviceGetMigMode", handle, byref(mig), byref(pending))
        state = State(
            processes=self.processes(uuid),
            memory_used_bytes=memory.used if memory else None,
            memory_reserved_bytes=memory.reserved if memory else 0,
            ecc_uncorrected=self._ecc(handle, 1),
            ecc_corrected=self._ecc(handle, 0),
            remapped_rows_pending=bool(rows[2].value) if remapped else None,
            remapped_rows_failed=bool(rows[3].value) if remapped else None,
            persistence=None if persistence is None else bool(persistence),
            temperature_c=self._number("nvmlDeviceGetTemperature", handle, c_int(0)),
            power_limit_w=_watts(self._number("nvmlDeviceGetEnforcedPowerLimit", handle)),
            power_default_w=_watts(self._number("nvmlDeviceGetPowerManagementDefaultLimit", handle)),
            mig=bool(mig.value) if has_mig else None,
            clocks_locked=self._locked(handle),
            missing=dict(self._errors),
        )
        why = {
            name: self._errors[call]
            for name, call in _CALL_OF.items()
            if getattr(state, name) is None and call in self._errors
        }
        return explained(state, why, "the driver does not tell")

    def _locked(self, handle: c_void_p) -> bool | None:
        """Whether a set clock holds: NVML lists no lock, but says when one decides, or differs from the default."""
        reasons = self._reasons(handle)
        now, default = c_uint(), c_uint()
        asked = self._call("nvmlDeviceGetApplicationsClock", handle, c_int(_CLOCK_SM), byref(now)) and self._call(
            "nvmlDeviceGetDefaultApplicationsClock", handle, c_int(_CLOCK_SM), byref(default)
        )
        if asked and now.value != default.value:
            return True
        return None if reasons is None else bool(reasons & APPLICATION_CLOCKS)

    def _ecc(self, handle: c_void_p, kind: int) -> int | None:
        """Since the last reboot (volatile). ``kind`` 0: corrected, 1: uncorrected."""
        value = c_ulonglong()
        done = self._call("nvmlDeviceGetTotalEccErrors", handle, c_int(kind), c_int(0), byref(value))
        return int(value.value) if done else None

    def facets(self) -> Iterable[Facet]:
        driver = self._text("nvmlSystemGetDriverVersion")
        yield Facet("node", "gpu.driver", driver, "" if driver else "NVML gives no driver version")
        cuda = c_int()
        if self._call("nvmlSystemGetCudaDriverVersion_v2", byref(cuda)):
            version = f"{cuda.value // 1000}.{cuda.value % 1000 // 10}"
            yield Facet("node", "gpu.driver_cuda", version, tracked=False)
        listed = self.devices()
        for device in listed:
            yield from nvml_facets.of_device(self, device, self.state(device.uuid))
        if len(listed) > 1:
            index = {device.uuid: device.index for device in listed}
            yield nvml_facets.topology(nvml_facets.links(self, index), index)

    # --- for nvml_facets ----------------------------------------------------------------------------------------------

    def ask(self, name: str, uuid: str, *arguments: Any) -> str:
        """Call a function on a device; why it failed, empty: it went well."""
        return "" if self._call(name, self._handles[uuid], *arguments) else self._errors[name]

    def ask_text(self, name: str, uuid: str) -> tuple[str | None, str]:
        """Text that a function gives of a device, or None and why."""
        text = self._text(name, self._handles[uuid])
        return text, "" if text is not None else self._errors.get(name, "not given")

    def ask_pair(self, name: str, one: str, other: str, *arguments: Any) -> str:
        """As :meth:`ask`, on two devices."""
        return "" if self._call(name, self._handles[one], self._handles[other], *arguments) else self._errors[name]

    def close(self) -> None:
        self._lib.nvmlShutdown()


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def _load() -> Any:
    for name in ("libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1"):
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            last = str(error)
    raise NvmlUnavailable(last)


def own_processes() -> set[int]:
    """This process, and those of its group: the ranks that a benchmark starts."""
    group, own = os.getpgid(0), {os.getpid()}
    try:
        entries = os.listdir("/proc")  # noqa: PTH208 - called twice a second while measuring
    except OSError:
        return own
    for entry in entries:
        if entry.isdigit():
            try:
                if os.getpgid(int(entry)) == group:
                    own.add(int(entry))
            except (ProcessLookupError, PermissionError):
                continue
    return own
