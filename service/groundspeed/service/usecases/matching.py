"""Which node can run which job: pure comparison of what is required with what is offered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from groundspeed.service.usecases import written

_KNOWN = frozenset(
    {"pool", "plugins", "devices", "gpu_model", "gpu_count", "memory_bytes", "topology", "sandbox", "node", "nodes"}
)


@dataclass(frozen=True, slots=True)
class Offer:
    """What a node has. ``device_memory_bytes`` is that of its smallest accelerator, 0 without one."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    gpu_model: str = ""
    gpu_count: int = 0
    memory_bytes: int = 0
    device_memory_bytes: int = 0
    topology: str = ""
    sandbox: str = ""
    plugins: frozenset[str] = frozenset()
    broken: Mapping[str, str] = field(default_factory=dict)
    """Plugins that are there and could not be loaded, with the reason."""

    @property
    def pool(self) -> str:
        return self.labels.get("pool") or "default"


def unmet(requirements: Mapping[str, Any], offer: Offer) -> list[str]:
    """What the node lacks, in words that complete "it …"; empty when it fits."""
    found = [
        *_place(requirements, offer),
        *_plugins(requirements, offer),
        *_hardware(requirements, offer),
        *_labels(requirements, offer),
    ]
    if requirements.get("sandbox") and not offer.sandbox:
        found.append("has no sandbox for untrusted code")
    return found


def _place(requirements: Mapping[str, Any], offer: Offer) -> list[str]:
    found = []
    if (pool := str(requirements.get("pool") or "default")) != offer.pool:
        found.append(f"is in pool {offer.pool!r}, not {pool!r}")
    if (node := requirements.get("node")) and node != offer.name:
        found.append(f"is not node {node!r}")
    return found


def _plugins(requirements: Mapping[str, Any], offer: Offer) -> list[str]:
    found = []
    for plugin in requirements.get("plugins", ()):
        if plugin in offer.broken:
            found.append(f"cannot load plugin {plugin!r}: {offer.broken[plugin]}")
        elif plugin not in offer.plugins:
            found.append(f"does not offer plugin {plugin!r}")
    return found


def _hardware(requirements: Mapping[str, Any], offer: Offer) -> list[str]:
    found = []
    model = str(requirements.get("gpu_model") or "")
    if model.casefold() not in offer.gpu_model.casefold():
        found.append(f"has {offer.gpu_model or 'no GPU'}, not {model}")
    count = max(int(requirements.get("gpu_count") or 0), int(requirements.get("devices") or 0))
    if count > offer.gpu_count:
        found.append(f"has {offer.gpu_count} of {count} GPUs")
    memory = int(requirements.get("memory_bytes") or 0)
    have = offer.device_memory_bytes or offer.memory_bytes
    if memory > have:
        found.append(f"has {have / 2**30:.1f} of {memory / 2**30:.1f} GiB of memory")
    topology = str(requirements.get("topology") or "")
    if topology.casefold() not in offer.topology.casefold():
        found.append(f"has links {offer.topology or 'unknown'}, not {topology}")
    return found


def _labels(requirements: Mapping[str, Any], offer: Offer) -> list[str]:
    found = []
    for name, wanted in requirements.items():
        if name not in _KNOWN and offer.labels.get(name) != written.value(wanted):
            has = f"label {name}={offer.labels[name]}" if name in offer.labels else f"no label {name}"
            found.append(f"has {has}, not {written.value(wanted)}")
    return found
