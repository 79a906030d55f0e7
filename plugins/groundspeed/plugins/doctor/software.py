"""Checks of PyTorch and NCCL against the driver and the devices. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from groundspeed.plugins.doctor.findings import Finding
from groundspeed.plugins.doctor.inventory import Inventory, Torch

OLDEST_DRIVER = {11: (450, 80, 2), 12: (525, 60, 13), 13: (580, 65, 6)}
"""By major version of CUDA, from its release notes (minor-version compatibility, Linux)."""


def software(inventory: Inventory) -> Iterator[Finding]:
    """Build of torch, and which NCCL it uses."""
    torch = inventory.torch
    if torch is None:
        return
    if torch.version is None:
        yield Finding("torch-missing", "no distribution torch is found")
        return
    if inventory.devices:
        yield from _build(inventory, torch)
    if len(inventory.devices) > 1 and torch.nccl == "":
        yield Finding("nccl-missing", f"torch {torch.version} has none, and there are {len(inventory.devices)} devices")
    yield from _nccl(inventory, torch)


def _build(inventory: Inventory, torch: Torch) -> Iterator[Finding]:
    vendor, built = inventory.vendor, _built_for(torch)
    if built == "cpu" and vendor in {"nvidia", "amd"}:
        yield Finding("torch-cpu-build", f"torch {torch.version}")
        return
    if {vendor, built} == {"nvidia", "amd"}:
        yield Finding("torch-wrong-vendor", f"torch {torch.version} is for {built}, the devices are {vendor}'s")
        return
    too_old = _too_old(inventory, torch)
    if too_old:
        yield Finding("torch-newer-than-driver", too_old)
    if torch.devices == 0:
        yield Finding("torch-no-gpu", f"torch {torch.version} counts 0 devices, the driver {len(inventory.devices)}")


def _built_for(torch: Torch) -> str:
    return "amd" if torch.hip else "nvidia" if torch.cuda else "cpu"


def _too_old(inventory: Inventory, torch: Torch) -> str:
    """In words, why the driver is too old for this torch; "" when it is not, or not known."""
    if not torch.cuda:
        return ""
    wanted = numbers(torch.cuda)
    has = numbers(inventory.driver_cuda)
    if has and wanted and wanted[0] > has[0]:
        driver = f"driver {inventory.driver or 'here'} has CUDA {inventory.driver_cuda}"
        return f"torch {torch.version} is built for CUDA {torch.cuda}, the {driver}"
    present, oldest = numbers(inventory.driver), OLDEST_DRIVER.get(wanted[0]) if wanted else None
    if not has and present and oldest and present < oldest:
        needed = ".".join(map(str, oldest))
        return f"CUDA {torch.cuda} needs driver {needed} or later, and {inventory.driver} is here"
    return ""


def _nccl(inventory: Inventory, torch: Torch) -> Iterator[Finding]:
    nccl = inventory.nccl
    in_use, packaged = numbers(torch.nccl), numbers(nccl.packaged)
    if in_use and packaged and in_use[:3] != packaged[:3]:
        yield Finding(
            "nccl-shadowed",
            f"{torch.nccl} is in use ({nccl.loaded or 'file not known'}), torch brought {nccl.packaged}",
        )
    elif nccl.in_front and nccl.loaded and any(nccl.loaded == path for path in nccl.in_front):
        yield Finding("nccl-shadowed", f"{nccl.loaded} is in use")
    elif nccl.in_front and not nccl.loaded:
        yield Finding("nccl-shadowed", f"{', '.join(nccl.in_front[:3])} stands in front")


def numbers(version: str | None) -> tuple[int, ...]:
    """(580, 159, 4) of "580.159.04"; () when there is none."""
    found = []
    for part in (version or "").split("."):
        digits = ""
        for character in part:
            if not character.isdigit():
                break
            digits += character
        if not digits:
            break
        found.append(int(digits))
    return tuple(found)
