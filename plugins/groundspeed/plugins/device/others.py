"""Devices without NVML behind the same interface: AMD through amdsmi, Intel through the kernel's files, and none."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from groundspeed.plugins.device.base import DeviceInfo, Facet, Process, Reading, State, explained


class NoMonitor:
    """A device that nothing here can watch: every reading is not available, and says why."""

    def __init__(self, vendor: str, reason: str) -> None:
        self.vendor = vendor
        self.reason = reason

    def devices(self) -> tuple[DeviceInfo, ...]:
        return ()

    def reading(self, uuid: str) -> Reading:  # noqa: ARG002 - the interface's
        return Reading()

    def processes(self, uuid: str) -> tuple[Process, ...] | None:  # noqa: ARG002 - the interface's
        return None

    def energy_j(self, uuid: str) -> float | None:  # noqa: ARG002 - the interface's
        return None

    def state(self, uuid: str) -> State:  # noqa: ARG002 - the interface's
        return explained(State(missing={"all": self.reason}), {}, self.reason)

    def facets(self) -> Iterable[Facet]:
        return ()


class AmdSmi:
    """AMD's library. Written against amdsmi 6.x's documented Python interface; not run on AMD hardware here."""

    vendor = "amd"

    def __init__(self, library: Any = None) -> None:
        """Raises ImportError or the library's own error when it is absent or does not start."""
        self._smi = library if library is not None else importlib.import_module("amdsmi")
        self._smi.amdsmi_init()
        self._handles = {
            str(self._smi.amdsmi_get_gpu_device_uuid(handle)): handle
            for handle in self._smi.amdsmi_get_processor_handles()
        }

    def _ask(self, name: str, *arguments: Any) -> Any:
        function: Callable[..., Any] | None = getattr(self._smi, name, None)
        if function is None:
            return None
        try:
            return function(*arguments)
        except Exception:  # noqa: BLE001 - a vendor library's errors share no base with anything; absent is an answer
            return None

    def devices(self) -> tuple[DeviceInfo, ...]:
        found = []
        for index, (uuid, handle) in enumerate(self._handles.items()):
            asic = self._ask("amdsmi_get_gpu_asic_info", handle) or {}
            memory = self._ask("amdsmi_get_gpu_memory_total", handle, self._smi.AmdSmiMemoryType.VRAM)
            found.append(DeviceInfo(index, uuid, str(asic.get("market_name", "unknown AMD device")), int(memory or 0)))
        return tuple(found)

    def reading(self, uuid: str) -> Reading:
        handle = self._handles.get(uuid)
        if handle is None:
            return Reading()
        clock = self._ask("amdsmi_get_clock_info", handle, self._smi.AmdSmiClkType.GFX) or {}
        memory = self._ask("amdsmi_get_clock_info", handle, self._smi.AmdSmiClkType.MEM) or {}
        power = self._ask("amdsmi_get_power_info", handle) or {}
        activity = self._ask("amdsmi_get_gpu_activity", handle) or {}
        used = self._ask("amdsmi_get_gpu_memory_usage", handle, self._smi.AmdSmiMemoryType.VRAM)
        kind, metric = self._smi.AmdSmiTemperatureType.HOTSPOT, self._smi.AmdSmiTemperatureMetric.CURRENT
        busy = _number(activity.get("gfx_activity"))
        return Reading(
            sm_mhz=_number(clock.get("clk")),
            memory_mhz=_number(memory.get("clk")),
            power_w=_number(power.get("current_socket_power")) or _number(power.get("average_socket_power")),
            temperature_c=_number(self._ask("amdsmi_get_temp_metric", handle, kind, metric)),
            utilisation=None if busy is None else busy / 100,
            memory_used_bytes=None if used is None else int(used),
        )

    def processes(self, uuid: str) -> tuple[Process, ...] | None:
        listed = self._ask("amdsmi_get_gpu_process_list", self._handles.get(uuid))
        if listed is None:
            return None
        return tuple(Process(int(one["pid"]), int(one.get("mem", 0))) for one in listed if "pid" in one)

    def energy_j(self, uuid: str) -> float | None:
        count = self._ask("amdsmi_get_energy_count", self._handles.get(uuid))
        if not count:
            return None
        accumulated = count.get("energy_accumulator", count.get("power"))
        resolution = count.get("counter_resolution")
        return None if accumulated is None or resolution is None else accumulated * resolution * 1e-6

    def state(self, uuid: str) -> State:
        handle = self._handles.get(uuid)
        errors = self._ask("amdsmi_get_gpu_total_ecc_count", handle) or {}
        cap = self._ask("amdsmi_get_power_cap_info", handle) or {}
        reading = self.reading(uuid)
        state = State(
            processes=self.processes(uuid),
            memory_used_bytes=reading.memory_used_bytes,
            ecc_uncorrected=errors.get("uncorrectable_count"),
            ecc_corrected=errors.get("correctable_count"),
            temperature_c=reading.temperature_c,
            power_limit_w=_micro(cap.get("power_cap")),
            power_default_w=_micro(cap.get("default_power_cap")),
        )
        pages = "amdsmi has retired pages in another form"
        why = {
            "remapped_rows_pending": pages,
            "remapped_rows_failed": pages,
            "mig": "not a concept of this vendor",
            "persistence": "not a concept of this vendor",
        }
        return explained(state, why, "amdsmi gives no such value for this device")

    def facets(self) -> Iterable[Facet]:
        for handle in list(self._handles.values())[:1]:
            driver = self._ask("amdsmi_get_gpu_driver_info", handle) or {}
            version = driver.get("driver_version")
            yield Facet("node", "gpu.driver", version, "" if version else "amdsmi gives no driver version")


class IntelSysfs:
    """Intel's discrete GPUs through what i915 and xe show under /sys/class/drm; nothing needs rights or a library.

    Written against the kernel's documentation (sysfs-driver-intel-i915-hwmon, -xe-hwmon), not run on Intel hardware.
    """

    vendor = "intel"

    def __init__(self, root: Path = Path("/sys/class/drm")) -> None:
        """Raises LookupError when there is none."""
        found = sorted(root.glob("card[0-9]*/device/vendor")) if root.is_dir() else []
        cards = [path.parent for path in found if _read(path) == "0x8086" and "-" not in path.parent.parent.name]
        self._cards = {self._slot(card): card for card in cards if any(card.glob("hwmon/hwmon*"))}
        if not self._cards:
            raise LookupError(f"no Intel GPU with a monitor under {root}")

    @staticmethod
    def _slot(card: Path) -> str:
        lines = (_read(card / "uevent") or "").splitlines()
        return next((line.partition("=")[2] for line in lines if line.startswith("PCI_SLOT_NAME=")), str(card))

    def _value(self, uuid: str, *patterns: str) -> float | None:
        card = self._cards.get(uuid)
        for pattern in patterns if card is not None else ():
            for path in sorted(card.glob(pattern)):  # type: ignore[union-attr]
                text = _read(path)
                if text and text.lstrip("-").isdigit():
                    return float(text)
        return None

    def devices(self) -> tuple[DeviceInfo, ...]:
        return tuple(
            DeviceInfo(index, slot, f"Intel GPU {_read(card / 'device') or 'unknown'}")
            for index, (slot, card) in enumerate(self._cards.items())
        )

    def reading(self, uuid: str) -> Reading:
        heat = self._value(uuid, "hwmon/hwmon*/temp2_input", "hwmon/hwmon*/temp1_input")
        return Reading(
            sm_mhz=self._value(uuid, "tile0/gt0/freq0/act_freq", "../gt/gt0/rps_act_freq_mhz", "../gt_act_freq_mhz"),
            temperature_c=None if heat is None else heat / 1000,
        )

    def processes(self, uuid: str) -> tuple[Process, ...] | None:  # noqa: ARG002 - the interface's
        return None

    def energy_j(self, uuid: str) -> float | None:
        value = self._value(uuid, "hwmon/hwmon*/energy1_input")
        return None if value is None else value * 1e-6

    def state(self, uuid: str) -> State:
        state = State(
            temperature_c=self.reading(uuid).temperature_c,
            power_limit_w=_micro(self._value(uuid, "hwmon/hwmon*/power1_max")),
            power_default_w=_micro(self._value(uuid, "hwmon/hwmon*/power1_rated_max")),
        )
        return explained(state, {}, "the kernel's files do not tell it without rights")

    def facets(self) -> Iterable[Facet]:
        for card in list(self._cards.values())[:1]:
            module = card / "driver" / "module"
            version = _read(module / "version") or _read(module / "srcversion")
            yield Facet("node", "gpu.driver", version, "" if version else "the module is part of the kernel")


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _number(value: Any) -> float | None:
    """Amdsmi gives "N/A" for what a device does not have."""
    return float(value) if isinstance(value, int | float) else None


def _micro(value: Any) -> float | None:
    number = _number(value)
    return None if number is None else number * 1e-6
