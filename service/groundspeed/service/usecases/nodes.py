"""Nodes: they register, give signs of life, are drained, put in quarantine, and come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Engine, delete, func, select
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import (
    RUNS,
    Attempt,
    AuditEntry,
    CatalogueEntry,
    Device,
    Environment,
    Event,
    Hardware,
    Node,
)
from groundspeed.service.db.unique import ensure
from groundspeed.service.errors import Invalid, NotFound
from groundspeed.service.usecases import differences, fingerprints
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.matching import Offer
from groundspeed.service.wire import v1

_HYGIENE = "Hygiene: "
_LISTED = 8
ALIVE_BEATS = 3
"""A worker that was silent for so many signs of life is gone, and its name free."""
_REMEMBERED = 10_000
# By engine, not by address: a database that was emptied or restored is opened anew, and its ids start again.
_offers: WeakKeyDictionary[Engine, dict[int | None, tuple[datetime, Offer]]] = WeakKeyDictionary()


def protocol_mismatch(protocol: int) -> str:
    """Why a worker of this protocol cannot work with this service; empty when it can."""
    if protocol == v1.PROTOCOL:
        return ""
    which = "worker" if protocol < v1.PROTOCOL else "service"
    return (
        f"The worker speaks protocol {protocol}, the service {v1.PROTOCOL}: upgrade the {which}, "
        "so that both come from the same release."
    )


def register(database: Database, message: v1.RegisterRequest, now: datetime, heartbeat_s: float) -> v1.RegisterReply:
    """Note what a node is and can run; the same message again changes nothing but the time."""
    if why := protocol_mismatch(message.protocol):
        return v1.RegisterReply(accepted=False, reason=why, heartbeat_s=heartbeat_s)
    with database.transaction() as session:
        node = _ensure_node(session, message.node, now)
        if other := _taken(node, message.instance, now, heartbeat_s):
            return v1.RegisterReply(accepted=False, reason=other, heartbeat_s=heartbeat_s)
        node.instance = message.instance
        hardware = hardware_id(session, message.hardware)
        environment = environment_id(session, message.environment, now) if message.environment else None
        _note_environment(session, node, environment, now)
        node.hardware_id, node.environment_id = hardware, environment
        node.protocol, node.worker_version = message.protocol, message.worker_version
        node.labels, node.slots, node.sandbox = dict(message.labels), message.slots, message.sandbox
        node.address = message.address
        node.info = [f.model_dump() for f in message.environment if not f.tracked]
        node.registered_at = node.seen_at = now
        _hygiene(session, node, message.hygiene, now)
        session.add(node)
        _replace_devices(session, node, message.devices)
        _replace_catalogue(session, node, message.catalogue)
        return v1.RegisterReply(accepted=True, node_id=node.id or 0, heartbeat_s=heartbeat_s)


def heartbeat(database: Database, name: str, message: v1.NodeHeartbeat, now: datetime) -> v1.NodeHeartbeatReply:
    """A sign of life; the reply says whether the node may take jobs, or must register (again)."""
    if why := protocol_mismatch(message.protocol):
        return v1.NodeHeartbeatReply(state="unknown", reason=why)
    with database.transaction() as session:
        node = session.scalars(held(select(Node).where(col(Node.name) == name))).one_or_none()
        if node is None:
            return v1.NodeHeartbeatReply(state="unknown", reason="The node is not known: register it.")
        if message.instance != node.instance:
            return v1.NodeHeartbeatReply(state="unknown", reason="Another worker has this name: register again.")
        node.seen_at = now
        _hygiene(session, node, message.hygiene, now)
        session.add(node)
        known = session.get(Environment, node.environment_id) if node.environment_id else None
        told = message.environment_fingerprint
        if told and (known is None or known.fingerprint != told):
            return v1.NodeHeartbeatReply(state="unknown", reason="The environment has changed: register again.")
        reply = {"state": node.state, "reason": node.state_reason, "waiting": _reserved(session, node)}
        return v1.NodeHeartbeatReply.model_validate(reply)


def _taken(node: Node, instance: str, now: datetime, heartbeat_s: float) -> str:
    """Why a worker may not have this name: another has it and is alive. Two of a name would take each other's jobs."""
    if node.seen_at is None or node.instance in {"", instance}:
        return ""
    silent_s = (now - node.seen_at).total_seconds()
    if not 0 <= silent_s < ALIVE_BEATS * heartbeat_s:
        return ""
    return (
        f"Another worker is called {node.name!r} and gave a sign of life {silent_s:.0f} s ago. Give this one another "
        "name with GROUNDSPEED_WORKER_NODE; if the other has just ended, this one is taken soon."
    )


def _reserved(session: Session, node: Node) -> bool:
    """Whether a part in a gang waits to be fetched."""
    mine = select(col(Attempt.id)).where(col(Attempt.node_id) == node.id, RUNS)
    return session.execute(mine.where(col(Attempt.phase) == "reserved").limit(1)).first() is not None


def set_state(database: Database, name: str, state: str, now: datetime, *, actor: str, reason: str = "") -> None:
    """Take a node out of use (``draining``: after its jobs; ``quarantined``: its results are in doubt) or back."""
    if state not in {"active", "draining", "quarantined"}:
        raise Invalid(f"{state!r} is no state of a node.", "Use active, draining or quarantined.")
    with database.transaction() as session:
        node = session.scalars(held(select(Node).where(col(Node.name) == name))).one_or_none()
        if node is None:
            raise NotFound(f"There is no node {name!r}.", "A node is known once its worker has registered.")
        _change_state(session, node, state, reason or f"by {actor}", now)
        entry = AuditEntry(actor=actor, action=f"node.{state}", subject_type="node", subject_id=name, at=now)
        entry.data = {"reason": reason} if reason else {}
        session.add(entry)


def find(session: Session, name: str) -> Node | None:
    return session.scalars(select(Node).where(col(Node.name) == name)).one_or_none()


def offer(session: Session, node: Node) -> Offer:
    """What a node has, ready to be compared with requirements; remembered until it registers again."""
    ours = _offers.setdefault(session.get_bind().engine, {})
    known = ours.get(node.id)
    if known is None or known[0] != node.registered_at:
        if len(ours) >= _REMEMBERED:
            ours.clear()
        known = ours[node.id] = (node.registered_at, offers(session, [node])[0])
    return known[1]


def offers_of(session: Session, known: Mapping[int, datetime]) -> dict[int, Offer]:
    """What the nodes have, by id, given when each registered; what is not remembered is read for all at once."""
    ours = _offers.setdefault(session.get_bind().engine, {})
    missing = [id_ for id_, at in known.items() if id_ not in ours or ours[id_][0] != at]
    if missing:
        if len(ours) + len(missing) >= _REMEMBERED:
            ours.clear()
            missing = list(known)
        found = session.scalars(select(Node).where(col(Node.id).in_(missing)).order_by(col(Node.id))).all()
        for node, one in zip(found, offers(session, found), strict=True):
            ours[node.id] = (node.registered_at, one)
    return {id_: ours[id_][1] for id_ in known}


def offers(session: Session, found: Sequence[Node]) -> list[Offer]:
    """What each node offers to jobs, in the order of ``found``; of several devices the smallest memory, in bytes."""
    ids = [node.id for node in found]
    hardware = {
        row.id: row.facts
        for row in session.scalars(select(Hardware).where(col(Hardware.id).in_({n.hardware_id for n in found})))
    }
    plugins: dict[int | None, dict[str, str]] = {i: {} for i in ids}
    columns = select(col(CatalogueEntry.node_id), col(CatalogueEntry.plugin), col(CatalogueEntry.spec))
    for node_id, plugin, spec in session.execute(columns.where(col(CatalogueEntry.node_id).in_(ids))).tuples():
        plugins[node_id][plugin] = str(spec.get("error") or "")
    memory: dict[int, int] = {}
    for node_id, size in session.execute(
        select(col(Device.node_id), col(Device.memory_bytes)).where(col(Device.node_id).in_(ids))
    ).tuples():
        memory[node_id] = min(size, memory.get(node_id, size))
    return [_offer(n, hardware.get(n.hardware_id, {}), plugins[n.id], memory.get(n.id or 0, 0)) for n in found]


def _offer(node: Node, facts: dict[str, Any], plugins: dict[str, str], device_memory: int) -> Offer:
    return Offer(
        name=node.name,
        labels=node.labels,
        gpu_model=str(facts.get("gpu_model", "")),
        gpu_count=int(facts.get("gpu_count", 0)),
        memory_bytes=int(facts.get("memory_bytes", 0)),
        device_memory_bytes=device_memory,
        topology=str(facts.get("topology", "")),
        sandbox=node.sandbox,
        plugins=frozenset(name for name, error in plugins.items() if not error),
        broken={name: error for name, error in plugins.items() if error},
    )


def present(session: Session, now: datetime, silent_s: float) -> list[Node]:
    """Nodes that have given a sign of life within ``silent_s``, whatever their state."""
    since = now - timedelta(seconds=silent_s)
    return list(session.scalars(select(Node).where(col(Node.seen_at) >= since).order_by(col(Node.id))))


@dataclass(frozen=True, slots=True)
class Seat:
    """A node in a line. ``busy`` jobs of ``slots`` at a time."""

    name: str
    pool: str
    state: str
    state_reason: str
    slots: int
    busy: int
    worker_version: str
    seen_at: datetime | None


def listed(database: Database) -> list[Seat]:
    """Every node, by pool and name."""
    running = select(col(Attempt.node_id), func.count()).where(RUNS).group_by(col(Attempt.node_id))
    with database.read() as session:
        found = session.scalars(select(Node)).all()
        busy: dict[int, int] = dict(session.execute(running).tuples().all())
    made = [
        Seat(n.name, n.labels.get("pool") or "default", n.state, n.state_reason, n.slots, busy.get(n.id or 0, 0),
             n.worker_version, n.seen_at)
        for n in found
    ]  # fmt: skip
    return sorted(made, key=lambda seat: (seat.pool, seat.name))


def hardware_id(session: Session, spec: v1.HardwareSpec) -> int:
    """The class of machine, made when it is new."""
    fingerprint = fingerprints.hardware(spec)
    gpu = f"{spec.gpu_count} × {spec.gpu_model}" if spec.gpu_count else ""
    label = ", ".join(part for part in (gpu, f"{spec.cpu_count} × {spec.cpu_model}") if part)
    row = {"fingerprint": fingerprint, "label": label, "facts": spec.model_dump()}
    return ensure(session, Hardware, [row])[(fingerprint,)]


def environment_id(session: Session, facets: Sequence[v1.Facet], now: datetime) -> int:
    fingerprint = fingerprints.environment(facets)
    kept = fingerprints.environment_facets(facets)
    row = {"fingerprint": fingerprint, "label": "", "facets": kept, "created_at": now}
    return ensure(session, Environment, [row])[(fingerprint,)]


def _ensure_node(session: Session, name: str, now: datetime) -> Node:
    row = Node(name=name, registered_at=now).model_dump(exclude={"id"})
    ensure(session, Node, [row], key=("name",))
    return session.scalars(held(select(Node).where(col(Node.name) == name))).one()


def _note_environment(session: Session, node: Node, environment: int | None, now: datetime) -> None:
    """A node whose environment differs from its last is an event of history."""
    if node.environment_id is None or environment is None or node.environment_id == environment:
        return
    old, new = session.get_one(Environment, node.environment_id), session.get_one(Environment, environment)
    session.add(
        Event(
            kind="environment",
            node_id=node.id,
            environment_from_id=node.environment_id,
            environment_to_id=environment,
            title=f"The environment of {node.name} changed",
            body="\n".join(differences.in_words(old.facets, new.facets)),
            at=now,
        )
    )


def _hygiene(session: Session, node: Node, findings: Sequence[str], now: datetime) -> None:
    """Findings take an active node out; their end brings back one that they took out, never one a person took out."""
    if findings:
        if node.state != "quarantined":
            _change_state(session, node, "quarantined", _HYGIENE + "; ".join(findings[:_LISTED]), now)
    elif out_for_hygiene(node.state, node.state_reason):
        _change_state(session, node, "active", "", now)


def out_for_hygiene(state: str, reason: str) -> bool:
    """Whether findings, and not a person, took the node out of use."""
    return state == "quarantined" and reason.startswith(_HYGIENE)


def _change_state(session: Session, node: Node, state: str, reason: str, now: datetime) -> None:
    if node.state != state:
        title = f"{node.name}: {node.state} → {state}"
        session.add(Event(kind="node", node_id=node.id, title=title, body=reason, at=now))
    node.state, node.state_reason = state, "" if state == "active" else reason
    session.add(node)


def _replace_devices(session: Session, node: Node, devices: Sequence[v1.DeviceSpec]) -> None:
    session.execute(delete(Device).where(col(Device.node_id) == node.id))
    session.add_all(Device(node_id=node.id or 0, **device.model_dump()) for device in devices)


def _replace_catalogue(session: Session, node: Node, catalogue: Sequence[v1.PluginSpec]) -> None:
    session.execute(delete(CatalogueEntry).where(col(CatalogueEntry.node_id) == node.id))
    session.add_all(
        CatalogueEntry(node_id=node.id, plugin=spec.name, version=spec.version, spec=spec.model_dump(mode="json"))
        for spec in catalogue
    )
