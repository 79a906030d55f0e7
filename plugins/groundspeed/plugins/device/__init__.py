"""NVML, amdsmi, XPU, MPS and plain CPU behind one interface; timing, hygiene, doctor and environment use it.

Nothing here initialises a compute context, so a worker may call it between benchmarks.
"""

from __future__ import annotations

import sys

from groundspeed.plugins.device.base import Backend, DeviceInfo, Facet
from groundspeed.plugins.device.hygiene import fault_findings, node_findings
from groundspeed.plugins.device.kernel_log import faults, now_s
from groundspeed.plugins.device.kernel_log import read as read_kernel_log
from groundspeed.plugins.device.nvml import Nvml, NvmlUnavailable
from groundspeed.plugins.device.others import AmdSmi, IntelSysfs, NoMonitor
from groundspeed.plugins.device.present import accelerator_possible

__all__ = ["devices", "environment_facets", "hygiene", "open_backend"]

_opened: list[Backend] = []
_began_s = now_s()


def open_backend() -> Backend:
    """The first vendor whose library answers; opened once a process."""
    if not _opened:
        _opened.append(_open())
    return _opened[0]


def _open() -> Backend:
    if sys.platform == "darwin":
        return NoMonitor("apple", "Apple's powermetrics needs root: clocks, power and heat of MPS are not available")
    if not accelerator_possible():
        return NoMonitor("none", "no accelerator: this machine has no device file of one")
    try:
        return Nvml()
    except NvmlUnavailable as error:
        reason = f"NVML: {error}"
    try:
        return AmdSmi()
    except Exception as error:  # noqa: BLE001 - an absent or broken vendor library is an answer, whatever it raises
        reason += f"; amdsmi: {error}"
    try:
        return IntelSysfs()
    except (LookupError, OSError) as error:
        return NoMonitor("none", f"{reason}; {error}")


def devices() -> tuple[DeviceInfo, ...]:
    """Every device of this node."""
    return open_backend().devices()


def environment_facets() -> tuple[Facet, ...]:
    """Driver, firmware and settings of the devices."""
    return tuple(open_backend().facets())


def hygiene() -> tuple[str, ...]:
    """Findings in words that should take the node out of use; empty: clean."""
    backend = open_backend()
    found = [one for device in backend.devices() for one in node_findings(device, backend.state(device.uuid))]
    if found or backend.devices():
        # What the log held before this process began may have been put right since.
        log, _ = read_kernel_log(since_boot_s=_began_s)
        found += fault_findings(faults(log))
    return tuple(found)
