"""A node's name belongs to one worker at a time."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

from fleet import fleet, registration
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases import nodes
from groundspeed.service.wire import v1
from groundspeed.workers.node import instance_of


def test_a_second_worker_of_a_name_waits_until_the_first_is_silent(sqlite_database: Database, tmp_path: Path) -> None:
    """It would take the other's jobs as if it had been restarted; a restart of the same one is taken at once."""
    world = fleet(sqlite_database, tmp_path)
    first, second = registration("n1", instance="1" * 32), registration("n1", instance="2" * 32)
    old = registration("n1")  # of a release that does not say

    def ask(who: v1.RegisterRequest) -> v1.RegisterReply:
        return nodes.register(world.db, who, world.now, 10.0)

    def beat(who: v1.RegisterRequest) -> str:
        sign = v1.NodeHeartbeat(protocol=v1.PROTOCOL, instance=who.instance)
        return nodes.heartbeat(world.db, "n1", sign, world.now).state

    assert ask(first).accepted
    assert ask(first).accepted
    refused = ask(second)
    assert not refused.accepted
    assert "GROUNDSPEED_WORKER_NODE" in refused.reason
    assert not ask(old).accepted
    assert (beat(first), beat(second), beat(old)) == ("active", "unknown", "unknown")
    world.now += timedelta(seconds=31)
    assert ask(second).accepted
    assert (beat(first), beat(second)) == ("unknown", "active")
    world.now -= timedelta(hours=1)  # a clock that was put back keeps nobody out
    assert ask(first).accepted
    world.now += timedelta(seconds=31)
    assert ask(old).accepted
    assert (beat(first), beat(old)) == ("unknown", "active")
    assert ask(first).accepted, "its upgrade does not wait"


def test_an_instance_is_one_folder_on_one_machine(tmp_path: Path) -> None:
    """Also where the folder was copied with all that it holds."""
    (tmp_path / "a").mkdir()
    mine = instance_of(tmp_path / "a")
    assert mine == instance_of(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert instance_of(tmp_path / "b") != mine
    assert len(instance_of(tmp_path / "none")) == len(mine)
