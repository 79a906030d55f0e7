"""A slot: the share of the node that one job gets to itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Slot:
    """``cpus`` empty: no pinning. ``devices`` empty: all that are visible."""

    index: int
    cpus: tuple[int, ...] = ()
    devices: tuple[str, ...] = ()


def divide(count: int, cpus: Sequence[int], devices: Sequence[str], *, restricted: bool = False) -> tuple[Slot, ...]:
    """Processors in neighbouring runs of equal length, devices in turn. One slot has the whole node, unpinned.

    ``restricted``: the devices are a part of the node's, and one slot too has these only.
    """
    if count == 1:
        return (Slot(0, devices=tuple(devices) if restricted else ()),)
    share = max(len(cpus) // count, 1)
    return tuple(
        Slot(
            index=i,
            cpus=tuple(cpus[(i * share) % len(cpus) : (i * share) % len(cpus) + share]) if cpus else (),
            devices=tuple(devices[i::count]),
        )
        for i in range(count)
    )


def usable_cpus() -> list[int]:
    """None where the system does not say: processes are then not bound."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
