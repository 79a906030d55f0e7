"""The dead-man alarm: said once when a pool or a series falls silent, and once when it is heard again."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import select

from fleet import START, registration
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases import nodes, silence
from groundspeed.service.usecases.pulse import pulse
from world import World

LIMITS = silence.Limits(node_s=300.0, series=timedelta(days=7))
DAY = timedelta(days=1)


def alarms(db: Database) -> list[str]:
    with db.read() as session:
        return list(session.scalars(select(t.Event.title).where(t.Event.kind == "alarm").order_by(t.Event.id)))


def test_a_pool_that_falls_silent_is_told_once_and_so_is_its_return(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    for name, pool in (("a", "gpu"), ("b", "gpu"), ("c", "cpu")):
        nodes.register(database, registration(name, labels={"pool": pool}), START, 10.0)
    later = START + timedelta(seconds=400)
    nodes.heartbeat(database, "c", nodes.v1.NodeHeartbeat(protocol=nodes.v1.PROTOCOL), later)
    found = silence.look(database, LIMITS, later)
    assert found is not None
    assert found.pools == {"gpu": 400.0}
    assert "Pool gpu is silent. None of its nodes has given a sign of life for 400 s" in caplog.text
    assert silence.look(database, LIMITS, later + timedelta(seconds=30)) is None
    silence.look(database, LIMITS, later + timedelta(seconds=100))
    assert alarms(database) == ["Pool gpu is silent"]
    back = later + timedelta(seconds=200)
    for name in ("b", "c"):
        nodes.heartbeat(database, name, nodes.v1.NodeHeartbeat(protocol=nodes.v1.PROTOCOL), back)
    assert not silence.look(database, LIMITS, back)
    assert alarms(database) == ["Pool gpu is silent", "Pool gpu is heard again"]


def test_a_series_is_silent_only_when_there_was_something_to_measure(database: Database) -> None:
    world = World(database)
    [first, second] = world.commits(2)
    benchmark = world.add(t.Benchmark(project_id=world.project, suite="s", plugin="p", version="1"))

    def series(name: str, days: float) -> int:
        return world.add(
            t.Series(
                fingerprint=name, project_id=world.project, benchmark_id=benchmark, hardware_id=1, metric=name,
                unit="s", last_result_at=START - days * DAY,
            )
        )  # fmt: skip

    series("fresh", 1)
    series("silent", 8)
    series("retired", 40)
    with database.transaction() as session:
        for id_, days in ((first, 20), (second, 9)):
            session.get_one(t.Revision, id_).committed_at = START - days * DAY
    assert not silence.look(database, LIMITS, START), "nothing was committed since"
    with database.transaction() as session:
        session.get_one(t.Revision, second).committed_at = START - DAY
    found = silence.look(database, LIMITS, START + timedelta(seconds=61))
    assert found is not None
    assert found.series == {"tiny": 1}
    assert alarms(database) == ["Series of tiny are silent"]
    seen = pulse(database, START, 300.0, 7.0)
    assert seen.silence.series == {"tiny": 1}
    assert pulse(database, START, 300.0, 0.0).silence.series == {}


def test_the_pulse_tells_waiting_jobs_and_slots_by_pool(database: Database) -> None:
    world = World(database)
    world.commits(1)
    nodes.register(database, registration("g", labels={"pool": "gpu"}, slots=4), START, 10.0)
    for pool in ("gpu", "gpu", ""):
        job = world.job(world.revisions[0])
        with database.transaction() as session:
            row = session.get_one(t.Job, job)
            row.state, row.requirements = "queued", {"pool": pool} if pool else {}
    seen = pulse(database, START, 300.0)
    assert (seen.waiting, seen.slots) == ({"gpu": 2, "default": 1}, {"gpu": 4})
