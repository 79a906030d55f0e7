"""What doctor looks at: everything that was read of a machine, or of captures of one. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from groundspeed.plugins.device.base import DeviceInfo, State


@dataclass(frozen=True, slots=True)
class Torch:
    """What torch says of itself. ``version`` None: not installed."""

    version: str | None = None
    cuda: str | None = None
    """CUDA version that it is built for."""
    hip: str | None = None
    devices: int | None = None
    """How many it sees; None: not asked."""
    nccl: str | None = None
    """Version of the NCCL in use; "" when this build has none; None: not asked."""
    architectures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Nccl:
    """Which libraries there are."""

    packaged: str | None = None
    """Version of the NCCL that was installed with torch."""
    loaded: str = ""
    """File that a process with torch has in use."""
    in_front: tuple[str, ...] = ()
    """Files that LD_LIBRARY_PATH or LD_PRELOAD put in front."""


@dataclass(frozen=True, slots=True)
class Host:
    """Limits and load. None: not available."""

    files_soft: int | None = None
    files_hard: int | None = None
    shm_bytes: int | None = None
    cpus: int | None = None
    load_1m: float | None = None
    governor: str | None = None
    modules: frozenset[str] | None = None
    """Kernel modules that are loaded."""
    pci_gpus: tuple[str, ...] = ()
    """Vendors ("nvidia", "amd", "intel") of display and 3D controllers on the PCI bus."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """``texts``: by source, what tools and logs said; each is read for known errors."""

    accelerator: bool = True
    """Whether there is a device file of one, or a capture that speaks of one."""
    devices: tuple[tuple[DeviceInfo, State], ...] = ()
    vendor: str = "nvidia"
    driver: str | None = None
    driver_cuda: str | None = None
    visible: str | None = None
    """CUDA_VISIBLE_DEVICES; None: not set."""
    own_processes: frozenset[int] = frozenset()
    torch: Torch | None = None
    """None: not looked at."""
    nccl: Nccl = field(default_factory=Nccl)
    host: Host = field(default_factory=Host)
    texts: Mapping[str, str] = field(default_factory=dict)
    unavailable: Mapping[str, str] = field(default_factory=dict)
    """What could not be read, and why."""
