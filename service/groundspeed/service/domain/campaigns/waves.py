"""Which node is a canary and which comes in which wave; which devices are measured together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that may be chosen. ``group``: its hardware class; ``rack``: what fails together (may be empty)."""

    name: str
    group: str = ""
    rack: str = ""


def assign(nodes: Sequence[Candidate], canary: int, waves: Sequence[float]) -> dict[str, int]:
    """Wave of each node: 1 is the canary, 2 … the waves.

    ``waves`` are shares of what the canary leaves (0 to 1], the last one takes the rest whatever it says. Canaries are
    taken in turn from every hardware class and rack, so that a change that breaks one kind of machine is seen on a few.

    >>> assign([Candidate(f"n{i}") for i in range(5)], 1, (0.5, 1.0))
    {'n0': 1, 'n1': 2, 'n2': 2, 'n3': 3, 'n4': 3}
    """
    ordered = _in_turn(nodes)
    first = min(max(canary, 1), len(ordered))
    out = {node.name: 1 for node in ordered[:first]}
    rest = ordered[first:]
    taken = 0
    for index, share in enumerate(waves):
        last = index == len(waves) - 1
        upto = len(rest) if last else min(len(rest), max(taken + 1, math.ceil(share * len(rest))))
        out |= {node.name: 2 + index for node in rest[taken:upto]}
        taken = upto
    return out


def _in_turn(nodes: Sequence[Candidate]) -> list[Candidate]:
    """One of each (group, rack) after another, names in order within one."""
    queues: dict[tuple[str, str], list[Candidate]] = {}
    for node in sorted(nodes, key=lambda n: _natural(n.name)):
        queues.setdefault((node.group, node.rack), []).append(node)
    out: list[Candidate] = []
    while any(queues.values()):
        out += [queue.pop(0) for queue in queues.values() if queue]
    return out


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """n2 before n10."""
    parts: list[tuple[int, str]] = []
    digits, text = "", ""
    for sign in [*name, "\0"]:
        if sign.isdigit() and sign.isascii():
            if text:
                parts.append((-1, text))
                text = ""
            digits += sign
        else:
            if digits:
                parts.append((int(digits), ""))
                digits = ""
            text += sign
    return (*parts, (-1, text))


def pairs(devices: Sequence[str], links: Mapping[tuple[str, str], str] | None = None) -> list[tuple[str, str]]:
    """Pairs to measure: for every kind of link a set of disjoint pairs that covers as many devices as it can.

    ``links`` names the kind of link of a pair ("NV18", "PIX", "SYS"); without it all links count as of one kind. Every
    device is in one pair of each kind it has, so a bad link shows and a bad device shows twice; n devices need at most
    n/2 pairs a kind instead of n(n-1)/2.

    >>> pairs(["a", "b", "c", "d"])
    [('a', 'b'), ('c', 'd')]
    """
    kinds: dict[str, list[tuple[str, str]]] = {}
    for i, one in enumerate(devices):
        for other in devices[i + 1 :]:
            kind = (links or {}).get((one, other)) or (links or {}).get((other, one)) or ""
            kinds.setdefault(kind, []).append((one, other))
    out = []
    for kind in sorted(kinds):
        used: set[str] = set()
        for pair in kinds[kind]:
            if not used & set(pair):
                out.append(pair)
                used |= set(pair)
    return out


def rings(devices: Sequence[str], nodes_of: Mapping[str, str] | None = None) -> list[tuple[str, ...]]:
    """The ring over all devices and, where they are of several NUMA nodes, one over each of them.

    >>> rings(["a", "b", "c", "d"], {"a": "0", "b": "0", "c": "1", "d": "1"})
    [('a', 'b', 'c', 'd'), ('a', 'b'), ('c', 'd')]
    """
    if len(devices) < 2:
        return []
    groups: dict[str, list[str]] = {}
    for device in devices:
        groups.setdefault((nodes_of or {}).get(device, ""), []).append(device)
    parts = [tuple(group) for group in groups.values() if 2 <= len(group) < len(devices)]
    return [tuple(devices), *parts]
