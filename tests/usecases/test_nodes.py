"""A node's name belongs to one worker at a time."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from fleet import fleet, registration
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases import nodes
from groundspeed.service.wire import v1


def test_a_second_worker_of_a_name_waits_until_the_first_is_silent(sqlite_database: Database, tmp_path: Path) -> None:
    """It would take the other's jobs as if it had been restarted; a restart of the same one is taken at once."""
    world = fleet(sqlite_database, tmp_path)
    first, second = registration("n1", instance="1" * 32), registration("n1", instance="2" * 32)

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
    assert (beat(first), beat(second)) == ("active", "unknown")
    world.now += timedelta(seconds=31)
    assert ask(second).accepted
    assert (beat(first), beat(second)) == ("unknown", "active")
    world.now -= timedelta(hours=1)  # a clock that was put back keeps nobody out
    assert ask(first).accepted
