"""Which nodes a campaign is about, and in what they are measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.tables import Device, Hardware, Node
from groundspeed.service.domain.campaigns import waves
from groundspeed.service.errors import Invalid

_FABRIC = frozenset({"collectives", "distributed_training", "distributed-training"})
SCOPES = ("device", "node", "fabric")
"""A suite runs on each device by itself, on the node as a whole, or on pairs and rings of devices."""


def chosen(session: Session, where: Mapping[str, str], names: Sequence[str]) -> list[Node]:
    """Nodes with all these labels, or of these names; ``gpu_model`` and ``pool`` are labels too.

    Raises :class:`Invalid` for a name that is not known and when nothing fits.
    """
    nodes = list(session.scalars(select(Node).order_by(col(Node.name))))
    known = {node.name for node in nodes}
    if missing := [name for name in names if name not in known]:
        raise Invalid(f"There is no node {missing[0]!r}.", f"There are: {', '.join(sorted(known)[:10]) or 'none'}.")
    facts = {row.id: row.facts for row in session.scalars(select(Hardware))}
    fitting = [
        node
        for node in nodes
        if (not names or node.name in names) and _fits(node, facts.get(node.hardware_id, {}), where)
    ]
    if not fitting:
        asked = ", ".join(f"{name}={value}" for name, value in where.items())
        raise Invalid(
            f"No node fits {asked or 'what was asked for'}.",
            "Labels are set with GROUNDSPEED_WORKER_LABELS; `groundspeed node list` lists the nodes.",
        )
    return fitting


def _fits(node: Node, hardware: Mapping[str, Any], where: Mapping[str, str]) -> bool:
    for name, wanted in where.items():
        if name == "gpu_model":
            if wanted.casefold() not in str(hardware.get("gpu_model", "")).casefold():
                return False
        elif name == "pool":
            if (node.labels.get("pool") or "default") != wanted:
                return False
        elif node.labels.get(name) != wanted:
            return False
    return True


def candidates(nodes: Sequence[Node]) -> list[waves.Candidate]:
    """The nodes as the assignment of waves sees them."""
    return [waves.Candidate(node.name, str(node.hardware_id or ""), node.labels.get("rack", "")) for node in nodes]


def scope_of(plugin: str, needs_devices: int, asked: str = "") -> str:
    """How a suite is spread over a node's devices when nobody says so."""
    return asked or ("fabric" if needs_devices > 1 or plugin in _FABRIC else "device")


def devices_of(session: Session, node_id: int) -> list[Device]:
    query = select(Device).where(col(Device.node_id) == node_id).order_by(col(Device.index))
    return list(session.scalars(query))


def spread(benchmarks: Sequence[Mapping[str, Any]], scope: str, devices: Sequence[Device]) -> list[dict[str, Any]]:
    """The benchmarks of a job for one node: each once for every device, or for every pair and ring."""
    uuids = [device.uuid for device in devices]
    if scope == "node" or not uuids:
        return [dict(benchmark) for benchmark in benchmarks]
    groups: list[tuple[str, ...]] = [(uuid,) for uuid in uuids]
    if scope == "fabric":
        links = {(d.uuid, str(peer)): str(kind) for d in devices for peer, kind in d.facts.get("links", {}).items()}
        numa = {d.uuid: str(d.facts["numa"]) for d in devices if "numa" in d.facts}
        rings = waves.rings(uuids, numa if len(numa) == len(uuids) else None)
        pairs = waves.pairs(uuids, links) if len(uuids) > 2 else []
        groups = list(dict.fromkeys([*rings, *pairs])) or [tuple(uuids)]
    return [
        {**benchmark, "key": f"{benchmark['key']} @{place(group, devices)}"[:200], "devices": list(group)}
        for benchmark in benchmarks
        for group in groups
    ]


def place(group: Sequence[str], devices: Sequence[Device]) -> str:
    """A readable name: gpu3, gpu0+gpu1, all."""
    index = {device.uuid: device.index for device in devices}
    if len(group) == len(index) > 1:
        return "all"
    return "+".join(f"gpu{index[uuid]}" for uuid in group)
