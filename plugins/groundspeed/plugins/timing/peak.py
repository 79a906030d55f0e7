"""Peak memory of this process, by declared kind."""

from __future__ import annotations

import resource
import sys


def host_rss_bytes() -> int:
    """Largest resident set of this process so far (getrusage; Linux counts in KiB, macOS in bytes)."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def peak_memory(device: str) -> dict[str, int]:
    """Always "host_rss"; on CUDA and XPU "allocated" and "reserved" of torch's allocator. Imports nothing new."""
    kinds = {"host_rss": host_rss_bytes()}
    torch = sys.modules.get("torch")
    kind = device.partition(":")[0]
    module = getattr(torch, kind, None) if torch is not None and kind in {"cuda", "xpu"} else None
    if module is not None and module.is_initialized():
        kinds["allocated"] = int(module.max_memory_allocated(device))
        kinds["reserved"] = int(module.max_memory_reserved(device))
    return kinds


def reset_peak(device: str) -> None:
    """Starts the device allocator's peak anew; the host's cannot be."""
    torch = sys.modules.get("torch")
    kind = device.partition(":")[0]
    module = getattr(torch, kind, None) if torch is not None and kind in {"cuda", "xpu"} else None
    if module is not None and module.is_initialized():
        module.reset_peak_memory_stats(device)
