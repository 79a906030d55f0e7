"""A history that becomes slower, for tests of what people are told and decide."""

from __future__ import annotations

from datetime import datetime, timedelta

from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases.analyse import analyse_dirty
from world import NOW, World

LATER = NOW + timedelta(hours=1)


def slow_since_commit_20(db: Database) -> World:
    """Time grows by a fifth at commit 20, which is not confirmed yet."""
    world = World(db)
    world.commits(22)
    for x in range(22):
        world.measure(world.revisions[x], time=level(x) * (1 + 0.001 * (x % 3)))
    analyse_dirty(world.db, LATER)
    assert [row.state for row in world.all(t.ChangePoint)] == ["provisional"]
    return world


def level(x: int) -> float:
    return 1.2 if x >= 20 else 1.0


def confirm(world: World, now: datetime = LATER) -> None:
    for x in (19, 20):
        for n in range(3):
            world.measure(world.revisions[x], time=level(x) * (1 + 0.001 * n))
    analyse_dirty(world.db, now)
    assert [row.state for row in world.all(t.ChangePoint)] == ["confirmed"]


def recover(world: World, now: datetime = LATER) -> None:
    """Some more commits that are slow, then those of a repair."""
    for n, revision in enumerate(world.commits(20)):
        world.measure(revision, time=(1.2 if n < 8 else 1.0) * (1 + 0.001 * (n % 3)))
    analyse_dirty(world.db, now)
