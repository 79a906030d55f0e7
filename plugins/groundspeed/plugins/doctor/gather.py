"""Reading this machine. Never raises for what is merely absent: that is kept as not available, with why."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from groundspeed.plugins.device import open_backend
from groundspeed.plugins.device.kernel_log import read as read_kernel_log
from groundspeed.plugins.device.nvml import own_processes
from groundspeed.plugins.device.present import accelerator_possible
from groundspeed.plugins.doctor.inventory import Host, Inventory, Nccl, Torch

PROBE_TIMEOUT_S = 60.0
_VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel"}
_PROBE = """
import json, sys
import torch
found = {"version": torch.__version__, "cuda": torch.version.cuda, "hip": torch.version.hip, "architectures": [],
         "nccl": "", "devices": 0, "loaded": ""}
try:
    found["devices"] = torch.cuda.device_count() or (torch.xpu.device_count() if hasattr(torch, "xpu") else 0)
    if torch.version.cuda or torch.version.hip:
        found["architectures"] = list(torch.cuda.get_arch_list())
        if torch.cuda.is_available():
            torch.zeros(1, device="cuda")
        import torch.distributed
        if torch.distributed.is_nccl_available():
            found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
            with open("/proc/self/maps") as maps:
                found["loaded"] = next((line.split()[-1] for line in maps if "libnccl" in line), "")
except Exception as error:
    sys.stderr.write(f"{type(error).__name__}: {error}\\n")
print(json.dumps(found))
"""


def gather(*, probe_torch: bool = True) -> Inventory:
    """Everything doctor can see without changing anything; torch is asked in a process of its own."""
    unavailable: dict[str, str] = {}
    texts: dict[str, str] = {}
    backend = open_backend()
    possible = accelerator_possible()
    reason = getattr(backend, "reason", "")
    if reason and possible:
        texts["management library"] = reason
    devices = tuple((info, backend.state(info.uuid)) for info in backend.devices())
    facets = {facet.name: facet.value for facet in backend.facets()}
    if possible and backend.vendor != "amd":
        texts |= dict(_nvidia_smi(unavailable))
    log, why = read_kernel_log() if possible else ("", "no accelerator")
    if log:
        texts["kernel log"] = log
    else:
        unavailable["kernel log"] = why or "empty"
    torch, nccl = _torch(texts, unavailable, probe=probe_torch)
    return Inventory(
        accelerator=possible,
        devices=devices,
        vendor=backend.vendor if devices else "nvidia",
        driver=facets.get("gpu.driver"),
        driver_cuda=facets.get("gpu.driver_cuda"),
        visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
        own_processes=frozenset(own_processes()),
        torch=torch,
        nccl=nccl,
        host=host(),
        texts=texts,
        unavailable=unavailable,
    )


def _nvidia_smi(unavailable: dict[str, str]) -> Iterator[tuple[str, str]]:
    """What it says when it fails; a report of it is not needed where NVML answers."""
    program = shutil.which("nvidia-smi")
    if program is None:
        unavailable["nvidia-smi"] = "not installed"
        return
    try:
        done = subprocess.run(
            [program, "-L"], capture_output=True, text=True, errors="replace", timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        unavailable["nvidia-smi"] = str(error)
        return
    if done.returncode != 0 or "No devices" in done.stdout:
        yield "nvidia-smi", done.stdout + done.stderr


def _torch(texts: dict[str, str], unavailable: dict[str, str], *, probe: bool) -> tuple[Torch, Nccl]:
    in_front = tuple(libraries_in_front())
    packaged = next((found for name in ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11")
                     if (found := _version(name))), None)  # fmt: skip
    version = _version("torch")
    if version is None or not probe:
        if version is not None:
            unavailable["torch's devices"] = "not asked for"
        return Torch(version, cuda=_built_cuda(version or "")), Nccl(packaged, "", in_front)
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROBE], capture_output=True, text=True, errors="replace",
            timeout=PROBE_TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        unavailable["torch's devices"] = f"importing torch and asking took over {PROBE_TIMEOUT_S:.0f} s"
        return Torch(version), Nccl(packaged, "", in_front)
    if done.stderr.strip():
        texts["torch"] = done.stderr
    try:
        said = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        unavailable["torch's devices"] = f"torch does not load: {done.stderr.strip()[-300:]}"
        return Torch(version), Nccl(packaged, "", in_front)
    loaded = said.pop("loaded")
    said["architectures"] = tuple(said["architectures"])
    return Torch(**said), Nccl(packaged, loaded, in_front)


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _built_cuda(version: str) -> str | None:
    """From a local version: 13.0 of 2.11.0+cu130."""
    _, _, local = version.partition("+cu")
    return f"{local[:-1]}.{local[-1]}" if local.isdigit() and len(local) > 1 else None


def libraries_in_front() -> Iterator[str]:
    """Every libnccl that LD_PRELOAD or LD_LIBRARY_PATH puts before the one that torch brought."""
    for name in os.environ.get("LD_PRELOAD", "").replace(":", " ").split():
        if "libnccl" in name:
            yield name
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        if folder and f"{os.sep}nvidia{os.sep}nccl{os.sep}" not in f"{folder}{os.sep}":
            with contextlib.suppress(OSError):
                yield from sorted(str(path) for path in Path(folder).glob("libnccl.so*"))[:1]


def host() -> Host:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Host(
        files_soft=soft,
        files_hard=hard,
        shm_bytes=_shm(),
        cpus=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        load_1m=os.getloadavg()[0],
        governor=_text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        modules=_modules(),
        pci_gpus=tuple(sorted(_pci())),
    )


def _shm() -> int | None:
    try:
        seen = os.statvfs("/dev/shm")  # noqa: S108 - asked for its size only
    except OSError:
        return None
    return seen.f_blocks * seen.f_frsize


def _modules() -> frozenset[str] | None:
    text = _text("/proc/modules")
    return None if text is None else frozenset(line.split()[0] for line in text.splitlines() if line)


def _pci(root: Path = Path("/sys/bus/pci/devices")) -> set[str]:
    """Vendors of display and 3D controllers (class 03), Intel's only where it is a discrete one (class 0x0380)."""
    found = set()
    with contextlib.suppress(OSError):
        for device in root.iterdir():
            kind, vendor = _text(device / "class") or "", _VENDORS.get(_text(device / "vendor") or "")
            if vendor and kind.startswith("0x03"):
                found.add(vendor)
    return found


def _text(path: str | Path) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
