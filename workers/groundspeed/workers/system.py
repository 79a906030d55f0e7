"""What the machine around the devices is: governor, NUMA, network, container, compiler, variables. Read, never set.

Of the worker's other modules nothing but the stack is needed here, and no package for messages: facets can be read
wherever torch runs.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Literal

from groundspeed.plugins.device.base import Facet
from groundspeed.workers.stack import Stack, is_gpu_name

Layer = Literal["node", "stack", "build"]
_TRACKED_TORCH = {"torch", "triton", "numpy"}
_VARIABLES = re.compile(r"^((NCCL|CUDA|PYTORCH|TORCH|RCCL|HSA|HIP|CUBLAS|CUDNN)_[A-Z0-9_]+|NVIDIA_TF32_OVERRIDE)$")
_PLACES = re.compile(r"^(CUDA_VISIBLE_DEVICES|CUDA_(HOME|PATH|CACHE_PATH)|TORCH_HOME|TORCHINDUCTOR_CACHE_DIR)$|_DIR$")
"""Where something lies, or which device: they differ between equal machines."""
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|KEY", re.IGNORECASE)
_IMAGE = ("GROUNDSPEED_WORKER_IMAGE", "CONTAINER_IMAGE_DIGEST", "IMAGE_DIGEST")


def stack_facets(stack: Stack, name: str) -> tuple[Facet, ...]:
    """Python and the shared packages. Tracked: what can move a number; the rest is told for information."""
    facets = [
        Facet("stack", "stack", name),
        Facet("stack", "python", f"{stack.implementation} {stack.version}"),
    ]
    if stack.torch is None:
        facets.append(Facet("stack", "package.torch", None, "no torch is installed in the stack"))
    for canonical, found in sorted(stack.shared.items()):
        tracked = canonical in _TRACKED_TORCH or is_gpu_name(canonical)
        facets.append(Facet("stack", f"package.{canonical}", found.version, tracked=tracked))
    return tuple(facets)


def basic_facets() -> tuple[Facet, ...]:
    """What any Linux says of itself."""
    return (
        Facet("node", "kernel", platform.release()),
        Facet("node", "cpu", cpu_model()),
        Facet("node", "os", _os_name(), tracked=False),
    )


def merge(*groups: Iterable[Facet]) -> tuple[Facet, ...]:
    """One facet a name: the first group that could read it wins."""
    found: dict[tuple[str, str], Facet] = {}
    for group in groups:
        for facet in group:
            known = found.get((facet.layer, facet.name))
            if known is None or (known.value is None and facet.value is not None):
                found[facet.layer, facet.name] = facet
    return tuple(found.values())


def facets(environ: Mapping[str, str] | None = None, root: Path = Path("/")) -> tuple[Facet, ...]:
    """Facets of node and stack. ``root``: where /proc and /sys are found."""
    given = os.environ if environ is None else environ
    return (*_node(root), *_stack(given, root))


def _node(root: Path) -> Iterator[Facet]:
    cpu = root / "sys/devices/system/cpu/cpu0/cpufreq"
    yield _file("governor", cpu / "scaling_governor", "the kernel offers no frequency scaling")
    numa = sorted(path.name for path in (root / "sys/devices/system/node").glob("node[0-9]*"))
    yield _value("numa_nodes", str(len(numa)) if numa else None, "the kernel lists no NUMA nodes")
    yield _file("numa_balancing", root / "proc/sys/kernel/numa_balancing", "the kernel has no NUMA balancing")
    cards = sorted(_cards(root / "sys/class/infiniband"))
    yield _value("nic", ", ".join(cards) if cards else None, "no RDMA device is listed")
    yield _file("ofed", root / "sys/module/mlx5_core/version", "the mlx5 module gives no version")
    yield _value("fabric_manager", _program("nv-fabricmanager", "--version"), "no nv-fabricmanager is installed")


def _cards(folder: Path) -> Iterator[str]:
    """Each RDMA card with its firmware and board."""
    for card in folder.glob("*"):
        firmware, board = _text(card / "fw_ver"), _text(card / "board_id")
        yield " ".join(filter(None, [card.name, board, f"firmware {firmware}" if firmware else ""]))


def _stack(environ: Mapping[str, str], root: Path) -> Iterator[Facet]:
    image = next((environ[name] for name in _IMAGE if environ.get(name)), None)
    contained = (root / "run/.containerenv").exists() or (root / ".dockerenv").exists()
    why = "a container that does not name its image" if contained else "no container"
    yield _value("image", image, f"{why}: set {_IMAGE[0]}", layer="stack")
    yield _value("compiler", _program("cc", "--version"), "no C compiler is installed", layer="stack", tracked=False)
    yield _value("cuda_compiler", _nvcc(), "no nvcc is installed", layer="stack", tracked=False)
    for name in sorted(environ):
        if _VARIABLES.match(name) and not _SECRET.search(name):
            tracked = not _PLACES.search(name)
            yield Facet("stack", f"env.{name}", environ[name][:500], tracked=tracked)


def _nvcc() -> str | None:
    text = _program("nvcc", "--version", lines=6)
    found = re.search(r"release [\d.]+, V[\d.]+", text or "")
    return found[0] if found else None


def _file(name: str, path: Path, why: str) -> Facet:
    return _value(name, _text(path), why)


def _value(name: str, value: str | None, why: str, *, layer: Layer = "node", tracked: bool = True) -> Facet:
    """What is not there is told for information: it cannot have changed."""
    known = value is not None
    return Facet(layer, name, value, "" if known else why, tracked and known)


def cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.lower().startswith(("model name", "cpu model", "hardware")):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine() or "unknown"


def _os_name() -> str | None:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()[:200] or None
    except OSError:
        return None


@cache
def _program(name: str, argument: str, lines: int = 1) -> str | None:
    """The beginning of what a program says of itself; asked once, because programs do not change every minute."""
    path = shutil.which(name)
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, argument], capture_output=True, text=True, timeout=10, check=True, errors="replace"
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return "\n".join(done.stdout.strip().splitlines()[:lines])[:500] or None
