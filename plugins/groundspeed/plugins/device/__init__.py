"""NVML, amdsmi, XPU, MPS and plain CPU behind one interface; timing, hygiene, doctor and environment use it.

Nothing here initialises a compute context, so a worker may call it between benchmarks.
"""

from __future__ import annotations

from groundspeed.plugins.device.base import Backend, DeviceInfo, Facet
from groundspeed.plugins.device.hygiene import node_findings
from groundspeed.plugins.device.nvml import Nvml, NvmlUnavailable
from groundspeed.plugins.device.others import AmdSmi, NoMonitor
from groundspeed.plugins.device.present import accelerator_possible

__all__ = ["devices", "environment_facets", "hygiene", "open_backend"]

_opened: list[Backend] = []


def open_backend() -> Backend:
    """The first vendor whose library answers; opened once a process."""
    if not _opened:
        _opened.append(_open())
    return _opened[0]


def _open() -> Backend:
    if not accelerator_possible():
        return NoMonitor("none", "no accelerator: this machine has no device file of one")
    try:
        return Nvml()
    except NvmlUnavailable as error:
        reason = f"NVML: {error}"
    try:
        return AmdSmi()
    except Exception as error:  # noqa: BLE001 - an absent or broken vendor library is an answer, whatever it raises
        return NoMonitor("none", f"{reason}; amdsmi: {error}")


def devices() -> tuple[DeviceInfo, ...]:
    """Every device of this node."""
    return open_backend().devices()


def environment_facets() -> tuple[Facet, ...]:
    """Driver, firmware and settings of the devices."""
    return tuple(open_backend().facets())


def hygiene() -> tuple[str, ...]:
    """Findings in words that should take the node out of use; empty: clean."""
    backend = open_backend()
    return tuple(
        finding for device in backend.devices() for finding in node_findings(device, backend.state(device.uuid))
    )
