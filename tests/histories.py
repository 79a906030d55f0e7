"""Histories with steps in them, for tests of analysis."""

from __future__ import annotations

from datetime import timedelta

import numpy as np

from groundspeed.service.db import tables as t
from world import NOW, World

LATER = NOW + timedelta(hours=1)


def history(world: World, commits: int = 30, suite: str = "train", **steps: tuple[float, int, float]) -> None:
    """Measure every commit once; ``time=(1.0, 20, 1.2)`` is a level that is multiplied at position 20. Noise 0.3 %."""
    if len(world.revisions) < commits:
        world.commits(commits - len(world.revisions))
    rng = np.random.default_rng(7)
    for x in range(commits):
        values = {}
        for metric, (level, at, ratio) in steps.items():
            values[metric] = level * (ratio if x >= at else 1.0) * float(np.exp(0.003 * rng.standard_normal()))
        world.measure(world.revisions[x], suite=suite, **values)


def replicate(world: World, x: int, count: int, metric: str = "time", level: float = 1.0, suite: str = "train") -> None:
    rng = np.random.default_rng(x)
    for _ in range(count):
        world.measure(world.revisions[x], suite=suite, **{metric: level * float(np.exp(0.003 * rng.standard_normal()))})


def spans(world: World) -> list[tuple[str, str, int, int]]:
    """(kind, state, position before, position after) of every regression."""
    place = {row.id: row.position for row in world.all(t.Revision)}
    return [
        (row.kind, row.state, place[row.before_revision_id], place[row.after_revision_id])
        for row in world.all(t.Regression)
    ]
