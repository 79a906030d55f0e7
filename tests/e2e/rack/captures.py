"""Captures of machines as ``nvidia-smi -q -x`` writes them, and a libnvidia-ml that answers from one."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HEAD = """<?xml version="1.0" ?>
<nvidia_smi_log>
\t<driver_version>{driver}</driver_version>
\t<cuda_version>{cuda}</cuda_version>
\t<attached_gpus>{count}</attached_gpus>
{gpus}</nvidia_smi_log>
"""
GPU = """\t<gpu id="00000000:{index:02}:00.0">
\t\t<product_name>NVIDIA H200</product_name>
\t\t<persistence_mode>{persistence}</persistence_mode>
\t\t<mig_mode><current_mig>Disabled</current_mig><pending_mig>Disabled</pending_mig></mig_mode>
\t\t<uuid>{uuid}</uuid>
\t\t<vbios_version>96.00.A5.00.1A</vbios_version>
\t\t<inforom_version><img_version>G520.0282.02.02</img_version></inforom_version>
\t\t<gsp_firmware_version>{driver}</gsp_firmware_version>
\t\t<pci><pci_gpu_link_info>
\t\t\t<pcie_gen><max_link_gen>5</max_link_gen></pcie_gen><link_widths><max_link_width>16x</max_link_width></link_widths>
\t\t</pci_gpu_link_info></pci>
\t\t<fb_memory_usage><total>143771 MiB</total><reserved>620 MiB</reserved><used>0 MiB</used></fb_memory_usage>
\t\t<compute_mode>Default</compute_mode>
\t\t<ecc_mode><current_ecc>Enabled</current_ecc><pending_ecc>Enabled</pending_ecc></ecc_mode>
\t\t<ecc_errors><volatile><sram_uncorrectable>0</sram_uncorrectable></volatile></ecc_errors>
\t\t<remapped_rows><remapped_row_pending>No</remapped_row_pending><remapped_row_failure>No</remapped_row_failure></remapped_rows>
\t\t<temperature><gpu_temp>38 C</gpu_temp></temperature>
\t\t<gpu_power_readings>
\t\t\t<current_power_limit>700.00 W</current_power_limit><default_power_limit>700.00 W</default_power_limit>
\t\t</gpu_power_readings>
\t\t<applications_clocks><graphics_clock>{clock} MHz</graphics_clock></applications_clocks>
\t\t<default_applications_clocks><graphics_clock>1755 MHz</graphics_clock></default_applications_clocks>
\t\t<max_clocks><sm_clock>1980 MHz</sm_clock></max_clocks>
\t</gpu>
"""


@dataclass(frozen=True)
class Machine:
    """What is captured of one machine. ``clock``: application clocks; 1755 is the default."""

    name: str
    driver: str
    persistence: bool = True
    clock: int = 1980
    devices: int = 2

    def uuid(self, index: int) -> str:
        return f"GPU-{int(self.name[1:]):08}-0000-4000-8000-{index:012}"

    def capture(self) -> str:
        mode = "Enabled" if self.persistence else "Disabled"
        gpus = "".join(
            GPU.format(index=i, persistence=mode, uuid=self.uuid(i), driver=self.driver, clock=self.clock)
            for i in range(self.devices)
        )
        cuda = "13.0" if self.driver.startswith("580") else "12.8"
        return HEAD.format(driver=self.driver, cuda=cuda, count=self.devices, gpus=gpus)


class Library:
    """The symbols of libnvidia-ml that Groundspeed calls, answered from a capture; the rest is not supported."""

    def __init__(self, path: Path) -> None:
        self.root = ET.fromstring(path.read_text(encoding="utf-8"))
        self.gpus = self.root.findall("gpu")

    def __getattr__(self, name: str) -> Callable[..., int]:
        if not name.startswith("nvml"):
            raise AttributeError(name)
        return lambda *arguments: self.call(name, arguments)

    @property
    def nvmlErrorString(self) -> Any:  # noqa: N802 - NVML's name
        class Words:
            restype = None

            def __call__(self, _code: int) -> bytes:
                return b"Not Supported"

        return Words()

    def call(self, name: str, arguments: tuple[Any, ...]) -> int:
        if name in {"nvmlInit_v2", "nvmlShutdown"}:
            return 0
        if name == "nvmlDeviceGetCount_v2":
            arguments[0]._obj.value = len(self.gpus)
            return 0
        if name == "nvmlDeviceGetHandleByIndex_v2":
            arguments[1]._obj.value = arguments[0].value + 1
            return 0
        if name == "nvmlSystemGetDriverVersion":
            return _text(arguments, self.root.findtext("driver_version"))
        if name == "nvmlSystemGetCudaDriverVersion_v2":
            major, minor = (self.root.findtext("cuda_version") or "0.0").split(".")
            arguments[0]._obj.value = 1000 * int(major) + 10 * int(minor)
            return 0
        handle = getattr(arguments[0], "value", None) if arguments else None
        return self.device(name, self.gpus[handle - 1], arguments[1:]) if handle else 3

    def device(self, name: str, gpu: ET.Element, rest: tuple[Any, ...]) -> int:
        if name in _TEXTS:
            return _text(rest, gpu.findtext(_TEXTS[name]))
        if name in _SWITCHES:
            for target, path in zip(rest, _SWITCHES[name], strict=False):
                target._obj.value = int((gpu.findtext(path) or "") in {"Enabled", "Yes"})
        elif name in _NUMBERS:
            path, scale = _NUMBERS[name]
            rest[-1]._obj.value = int(float((gpu.findtext(path) or "0").rstrip("x").split()[0]) * scale)
        elif name == "nvmlDeviceGetMemoryInfo_v2":
            for key in ("total", "reserved", "used"):
                setattr(rest[0]._obj, key, int((gpu.findtext(f"fb_memory_usage/{key}") or "0").split()[0]) << 20)
        elif name == "nvmlDeviceGetComputeRunningProcesses_v3":
            rest[0]._obj.value = 0
        else:
            return 3
        return 0


_TEXTS = {
    "nvmlDeviceGetUUID": "uuid",
    "nvmlDeviceGetName": "product_name",
    "nvmlDeviceGetVbiosVersion": "vbios_version",
    "nvmlDeviceGetInforomImageVersion": "inforom_version/img_version",
    "nvmlDeviceGetGspFirmwareVersion": "gsp_firmware_version",
}
_SWITCHES = {
    "nvmlDeviceGetPersistenceMode": ("persistence_mode",),
    "nvmlDeviceGetMigMode": ("mig_mode/current_mig", "mig_mode/pending_mig"),
    "nvmlDeviceGetEccMode": ("ecc_mode/current_ecc", "ecc_mode/pending_ecc"),
}
_NUMBERS = {
    "nvmlDeviceGetEnforcedPowerLimit": ("gpu_power_readings/current_power_limit", 1000),
    "nvmlDeviceGetPowerManagementDefaultLimit": ("gpu_power_readings/default_power_limit", 1000),
    "nvmlDeviceGetApplicationsClock": ("applications_clocks/graphics_clock", 1),
    "nvmlDeviceGetDefaultApplicationsClock": ("default_applications_clocks/graphics_clock", 1),
    "nvmlDeviceGetMaxPcieLinkGeneration": ("pci/pci_gpu_link_info/pcie_gen/max_link_gen", 1),
    "nvmlDeviceGetMaxPcieLinkWidth": ("pci/pci_gpu_link_info/link_widths/max_link_width", 1),
    "nvmlDeviceGetTemperature": ("temperature/gpu_temp", 1),
    "nvmlDeviceGetTotalEccErrors": ("ecc_errors/volatile/sram_uncorrectable", 1),
}


def _text(arguments: tuple[Any, ...], value: str | None) -> int:
    if value is None:
        return 3
    arguments[-2].value = value.encode()
    return 0
