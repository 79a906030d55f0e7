"""The software that a node offers below every build: one Python, its torch, and exactly what that torch requires.

The *torch layer* is a folder of links to those distributions and to nothing else that the node has installed, so
that a build sees the node's torch without seeing the worker's packages.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from groundspeed.workers.asking import ask
from groundspeed.workers.errors import SettingsInvalid

PROBE = Path(__file__).with_name("probe.py")
GPU_NAMES = ("torch", "torchvision", "torchaudio", "triton", "pytorch-triton", "pytorch-triton-rocm")
"""With nvidia-* and cuda-*: what a build never brings along unless the project asks for it."""


@dataclass(frozen=True, slots=True)
class Distribution:
    name: str
    version: str
    requires: tuple[str, ...]
    root: Path
    info: str
    tops: tuple[str, ...]
    pairs: tuple[str, ...]
    elsewhere: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Stack:
    """One interpreter with the closure of what every build shares."""

    executable: Path
    base_prefix: Path
    version: str
    implementation: str
    platform: str
    shared: Mapping[str, Distribution]
    """By canonical name."""
    layer: Path
    key: str

    @property
    def torch(self) -> str | None:
        found = self.shared.get("torch")
        return found.version if found else None

    def constraints(self) -> str:
        """What pip must keep to: the node's own versions of torch and its family; what it lacks stays out."""
        pins = [f"{d.name}=={d.version}" for name, d in sorted(self.shared.items()) if is_gpu_name(name)]
        absent = [f"{name}<0.dev0" for name in ("torch", "torchvision", "torchaudio") if name not in self.shared]
        return "".join(f"{line}\n" for line in pins + absent)


def is_gpu_name(name: str) -> bool:
    canonical = canonicalize_name(name)
    return canonical in GPU_NAMES or canonical.startswith(("nvidia-", "cuda-"))


def discover(python: Path | None, roots: Iterable[str], cache: Path) -> Stack:
    """Look at an interpreter (None: our own) and prepare its layer. Raises SettingsInvalid when it cannot be run."""
    import sys

    document = _probe(str(python or sys.executable))
    installed: dict[str, Distribution] = {
        canonicalize_name(d["name"]): _distribution(d) for d in document["distributions"]
    }
    shared = closure(installed, roots)
    key = _key(document, shared)
    layer = cache / "layers" / key
    if not layer.is_dir():
        _link(layer, shared, installed)
    return Stack(
        executable=Path(document["executable"]),
        base_prefix=Path(document["base_prefix"]),
        version=document["version"],
        implementation=document["implementation"],
        platform=document["platform"],
        shared=shared,
        layer=layer,
        key=key,
    )


def closure(installed: Mapping[str, Distribution], roots: Iterable[str]) -> dict[str, Distribution]:
    """The roots that are installed, with everything they require on this machine (markers decide; no extras)."""
    found: dict[str, Distribution] = {}
    waiting = [canonicalize_name(root) for root in roots]
    while waiting:
        name = waiting.pop()
        if name in found or name not in installed:
            continue
        found[name] = installed[name]
        waiting.extend(canonicalize_name(r.name) for r in requirements(installed[name].requires))
    return found


def requirements(lines: Iterable[str]) -> list[Requirement]:
    """Those that hold here without any extra; what cannot be read is left to pip."""
    found = []
    for line in lines:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            found.append(requirement)
    return found


def _probe(python: str) -> dict[str, Any]:
    try:
        return dict(ask([python, "-P", str(PROBE)]))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        words = getattr(error, "stderr", "") or str(error)
        raise SettingsInvalid(
            f"The Python at {python} cannot be used as this node's stack: {words.strip()[-500:]}. Give another with "
            "GROUNDSPEED_WORKER_PYTHON; it must be 3.11 or later."
        ) from error


def _distribution(raw: Mapping[str, Any]) -> Distribution:
    return Distribution(
        name=raw["name"],
        version=raw["version"],
        requires=tuple(raw["requires"]),
        root=Path(raw["root"]),
        info=raw["info"],
        tops=tuple(raw["tops"]),
        pairs=tuple(raw["pairs"]),
        elsewhere=raw["elsewhere"],
    )


def _key(document: Mapping[str, Any], shared: Mapping[str, Distribution]) -> str:
    parts = [document["executable"], document["version"], document["platform"]]
    parts += [f"{name}=={d.version}@{d.root}{sorted(d.elsewhere.items())}" for name, d in sorted(shared.items())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _link(layer: Path, shared: Mapping[str, Distribution], installed: Mapping[str, Distribution]) -> None:
    """Make the folder of links; beside and renamed, so that it is whole or absent."""
    fresh = layer.with_name(f".{layer.name}.{uuid.uuid4().hex}")
    fresh.mkdir(parents=True)
    owners: dict[tuple[Path, str], int] = {}
    for distribution in installed.values():
        for top in distribution.tops:
            owners[distribution.root, top] = owners.get((distribution.root, top), 0) + 1
    for distribution in shared.values():
        for name, target in link_targets(distribution, owners).items():
            place = fresh / name
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.is_symlink():
                place.symlink_to(target)
    try:
        fresh.rename(layer)
    except OSError:  # another worker was faster
        shutil.rmtree(fresh, ignore_errors=True)
        if not layer.is_dir():
            raise


def link_targets(distribution: Distribution, owners: Mapping[tuple[Path, str], int]) -> dict[str, Path]:
    """Name in the layer → what it points to; a folder that several distributions share is linked one level down."""
    links: dict[str, Path] = {}
    for top in distribution.tops:
        place = distribution.root / top
        if owners[distribution.root, top] > 1 and place.is_dir():
            links |= {pair: distribution.root / pair for pair in distribution.pairs if pair.split("/")[0] == top}
        else:
            links[top] = place
    links |= {name: Path(target).absolute() for name, target in distribution.elsewhere.items()}
    links.setdefault(distribution.info, distribution.root / distribution.info)
    return links
