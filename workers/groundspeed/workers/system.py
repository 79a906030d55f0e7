"""What the machine around the devices is: governor, NUMA, network, container, compiler, variables. Read, never set."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from groundspeed.service.wire import v1

_VARIABLES = re.compile(r"^(NCCL|CUDA|PYTORCH|TORCH|RCCL|HSA|HIP|CUBLAS|CUDNN)_[A-Z0-9_]+$")
_PLACES = re.compile(r"^(CUDA_VISIBLE_DEVICES|CUDA_(HOME|PATH|CACHE_PATH)|TORCH_HOME|TORCHINDUCTOR_CACHE_DIR)$|_DIR$")
"""Where something lies, or which device: they differ between equal machines."""
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|KEY", re.IGNORECASE)
_IMAGE = ("GROUNDSPEED_WORKER_IMAGE", "CONTAINER_IMAGE_DIGEST", "IMAGE_DIGEST")


def facets(environ: Mapping[str, str] | None = None, root: Path = Path("/")) -> tuple[v1.Facet, ...]:
    """Facets of node and stack. ``root``: where /proc and /sys are found."""
    given = os.environ if environ is None else environ
    return (*_node(root), *_stack(given, root))


def _node(root: Path) -> Iterator[v1.Facet]:
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


def _stack(environ: Mapping[str, str], root: Path) -> Iterator[v1.Facet]:
    image = next((environ[name] for name in _IMAGE if environ.get(name)), None)
    contained = (root / "run/.containerenv").exists() or (root / ".dockerenv").exists()
    why = "a container that does not name its image" if contained else "no container"
    yield _value("image", image, f"{why}: set {_IMAGE[0]}", layer="stack")
    yield _value("compiler", _program("cc", "--version"), "no C compiler is installed", layer="stack", tracked=False)
    yield _value("cuda_compiler", _nvcc(), "no nvcc is installed", layer="stack", tracked=False)
    for name in sorted(environ):
        if _VARIABLES.match(name) and not _SECRET.search(name):
            tracked = not _PLACES.search(name)
            yield v1.Facet(layer="stack", name=f"env.{name}", value=environ[name][:500], tracked=tracked)


def _nvcc() -> str | None:
    text = _program("nvcc", "--version", lines=6)
    found = re.search(r"release [\d.]+, V[\d.]+", text or "")
    return found[0] if found else None


def _file(name: str, path: Path, why: str) -> v1.Facet:
    return _value(name, _text(path), why)


def _value(name: str, value: str | None, why: str, *, layer: str = "node", tracked: bool = True) -> v1.Facet:
    """What is not there is told for information: it cannot have changed."""
    known = value is not None
    return v1.Facet.model_validate(
        {"layer": layer, "name": name, "value": value, "reason": "" if known else why, "tracked": tracked and known}
    )


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
