"""Hold a device's compute clock at one value while something is measured. Needs the right to, which root has."""

from __future__ import annotations

from ctypes import byref, c_int, c_uint
from typing import Any

from groundspeed.plugins.device.nvml import Nvml

_CLOCK_SM = 1
_SHARE = 0.75
"""Of the highest clock, which a device under full load cannot hold; what it can hold does not wander."""


def hold(backend: Any, uuid: str, mhz: int = 0) -> tuple[int, str]:
    """Lock the clock at ``mhz`` (0: three quarters of the highest); the value, and why not, which is empty if it is."""
    if not isinstance(backend, Nvml):
        return 0, f"only NVIDIA's library can lock clocks, and this is {backend.vendor}"
    if not mhz:
        highest = c_uint()
        if why := backend.ask("nvmlDeviceGetMaxClockInfo", uuid, c_int(_CLOCK_SM), byref(highest)):
            return 0, f"the highest clock cannot be read: {why}"
        mhz = int(highest.value * _SHARE)
    return mhz, backend.ask("nvmlDeviceSetGpuLockedClocks", uuid, c_uint(mhz), c_uint(mhz))


def release(backend: Any, uuid: str) -> str:
    """Let the clock go; why it could not be, empty: it is."""
    return backend.ask("nvmlDeviceResetGpuLockedClocks", uuid) if isinstance(backend, Nvml) else ""
