"""Environments: what differs between two, in words, and which differences count.

An environment is to the machine what a revision is to the code. Its facets come in three layers: the *node* (driver,
firmware, GPU, kernel, clocks), the *stack* a node offers (container image or base venv, CUDA, NCCL, torch, variables)
and the *build* (what a revision resolves). A facet that could not be read is unknown and equal to nothing, not even to
another unknown: "both unreadable" is no evidence of sameness.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Layer = Literal["node", "stack", "build"]
ChangeKind = Literal["changed", "appeared", "vanished", "unknown"]

SETTINGS = frozenset(
    {"clocks_policy", "persistence", "persistence_mode", "power_limit_w", "governor", "ecc", "mig", "compute_mode"}
)
"""Facets a reboot can lose without anybody's intent; told apart from the change somebody wanted. A device's own
settings are named after it: ``gpu0.persistence``."""


def is_setting(name: str) -> bool:
    """Whether a facet is such a setting, of the node or of one device.

    >>> is_setting("gpu3.persistence"), is_setting("gpu.driver")
    (True, False)
    """
    return name.rpartition(".")[2] in SETTINGS


@dataclass(frozen=True, slots=True)
class Facet:
    """One fact. ``value`` None: not readable, ``reason`` says why."""

    layer: Layer
    name: str
    value: str | None
    reason: str = ""
    tracked: bool = True

    @property
    def key(self) -> tuple[Layer, str]:
        return (self.layer, self.name)


@dataclass(frozen=True, slots=True)
class FacetChange:
    """One line of the difference between two environments."""

    layer: Layer
    name: str
    before: str | None
    after: str | None
    kind: ChangeKind
    tracked: bool
    reason: str = ""

    def __str__(self) -> str:
        where = f"{self.layer} {self.name}"
        if self.kind == "unknown":
            return f"{where}: not comparable ({self.reason or 'could not be read'})"
        unread = f"not known, {self.reason}" if self.reason else "not known"
        if self.kind == "appeared":
            return f"{where}: {unread if self.after is None else self.after} (was not there)"
        if self.kind == "vanished":
            return f"{where}: gone (was {unread if self.before is None else self.before})"
        return f"{where}: {self.before} → {self.after}"


def difference(before: Iterable[Facet], after: Iterable[Facet]) -> tuple[FacetChange, ...]:
    """What changed, ordered by layer and name; tracked and untracked facets alike (``tracked`` says which).

    >>> old, new = Facet("node", "driver", "535.161"), Facet("node", "driver", "570.86")
    >>> [str(c) for c in difference([old], [new])]
    ['node driver: 535.161 → 570.86']
    """
    a, b = _by_key(before), _by_key(after)
    order = {"node": 0, "stack": 1, "build": 2}
    keys = sorted(a.keys() | b.keys(), key=lambda k: (order[k[0]], k[1]))
    changes = (_change(a.get(key), b.get(key)) for key in keys)
    return tuple(change for change in changes if change is not None)


def explain_upgrade(
    before: Iterable[Facet], after: Iterable[Facet], wanted: Iterable[str]
) -> tuple[tuple[FacetChange, ...], tuple[FacetChange, ...], tuple[FacetChange, ...]]:
    """Split a node's tracked difference into (what was wanted, settings that were lost, anything else).

    ``wanted`` names the facets that the change is about ("driver"). A node that comes back with settings lost must
    not count as evidence about the driver: both are facets, so the two are told apart here.
    """
    names = frozenset(wanted)
    tracked = [c for c in difference(before, after) if c.tracked and c.layer != "build"]
    intended = tuple(c for c in tracked if c.name in names)
    lost = tuple(c for c in tracked if c.name not in names and is_setting(c.name))
    other = tuple(c for c in tracked if c.name not in names and not is_setting(c.name))
    return intended, lost, other


def matches(value: str | None, wanted: str) -> bool:
    """Whether a version is the one asked for; "570" stands for every 570.x.

    >>> matches("570.86.15", "570"), matches("5701.1", "570"), matches(None, "570")
    (True, False, False)
    """
    return value is not None and (value == wanted or value.startswith(f"{wanted}."))


def collapse(changes: Iterable[FacetChange]) -> tuple[str, ...]:
    """In words, with what changed alike on several devices said once.

    >>> lost = [FacetChange("node", f"gpu{i}.persistence", "True", "False", "changed", True) for i in range(8)]
    >>> collapse(lost)
    ('node gpu0 … gpu7.persistence: True → False',)
    """
    found: dict[tuple[str, str, str], list[str]] = {}
    for change in changes:
        device, _, name = change.name.rpartition(".")
        rest = str(change).removeprefix(f"{change.layer} {change.name}")
        own = device.startswith("gpu") and device[3:].isdigit()
        place = (change.layer, f".{name}", rest) if own else (change.layer, change.name, rest)
        found.setdefault(place, []).extend([device] if own else [])
    return tuple(f"{layer} {_range(devices)}{name}{rest}" for (layer, name, rest), devices in found.items())


def _range(devices: list[str]) -> str:
    return " … ".join((devices[0], devices[-1])) if len(devices) > 2 else " and ".join(devices)


def _by_key(facets: Iterable[Facet]) -> Mapping[tuple[Layer, str], Facet]:
    return {facet.key: facet for facet in facets}


def _change(a: Facet | None, b: Facet | None) -> FacetChange | None:
    some = a or b
    if some is None:
        return None
    kind = _kind(a, b)
    if kind is None:
        return None
    reasons = "; ".join(dict.fromkeys(f.reason for f in (a, b) if f is not None and f.value is None and f.reason))
    tracked = any(f.tracked for f in (a, b) if f is not None)
    return FacetChange(some.layer, some.name, a.value if a else None, b.value if b else None, kind, tracked, reasons)


def _kind(a: Facet | None, b: Facet | None) -> ChangeKind | None:
    if a is None:
        return "appeared"
    if b is None:
        return "vanished"
    if a.value is None or b.value is None:
        return "unknown"
    return None if a.value == b.value else "changed"
