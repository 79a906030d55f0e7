"""The final table: one row a cause, with commit, effect and interval, and what it rests on."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from sqlalchemy import update
from sqlmodel import col

from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.errors import NotFound
from groundspeed.service.usecases.analyse import analyse_dirty
from groundspeed.service.usecases.findings import findings
from world import NOW, World, run

LATER = NOW + timedelta(hours=1)


@pytest.fixture
def world(database: Database) -> World:
    """A slow commit in training (two metrics), a memory commit, and one that makes inference faster."""
    world = World(database)
    world.commits(30)
    rng = np.random.default_rng(1)
    for x, revision in enumerate(world.revisions):
        noise = np.exp(0.002 * rng.standard_normal(4))
        world.measure(
            revision,
            time=float(noise[0]) * (1.2 if x >= 20 else 1.0),
            rate=float(noise[1]) * (100 if x >= 20 else 120.0),
            memory=float(noise[2]) * (1.3e9 if x >= 9 else 1e9),
        )
        world.measure(revision, suite="infer", time=float(noise[3]) * (0.7 if x >= 14 else 1.0))
    analyse_dirty(database, LATER)
    return world


def test_each_cause_is_one_row_in_a_stable_order(world: World) -> None:
    table = findings(world.db, "tiny")
    assert [(row.kind, row.commit.title, row.suspects) for row in table.rows] == [
        ("regression", "Commit 9", 1),
        ("regression", "Commit 20", 1),
        ("improvement", "Commit 14", 1),
    ]
    memory, slow, fast = table.rows
    assert [(m.suite, m.metric, m.unit) for m in memory.members] == [("train", "memory", "B")]
    assert sorted(m.metric for m in slow.members) == ["rate", "time"]
    assert [(m.suite, m.metric) for m in fast.members] == [("infer", "time")]
    for row, metric, before, after in (
        (memory, "memory", 1e9, 1.3e9),
        (slow, "time", 1.0, 1.2),
        (fast, "time", 1.0, 0.7),
    ):
        member = next(m for m in row.members if m.metric == metric)
        assert member.low < after / before < member.high
        assert (member.before, member.after) == (pytest.approx(before, rel=0.01), pytest.approx(after, rel=0.01))
        assert member.params == {"b": 1}
        assert row.before.position == row.commit.position - 1
    assert findings(world.db, "tiny") == table


def test_what_it_rests_on_is_counted(world: World) -> None:
    for outcome in ("oom", "unsupported"):
        world.report(world.attempt(world.job(world.revisions[0])), run(outcome=outcome, samples=[]))
    counts = findings(world.db, "tiny").counts
    assert (counts.commits, counts.runs, counts.failures, counts.series) == (30, 62, 1, 4)
    assert counts.outcomes == {"ok": 60, "oom": 1, "unsupported": 1}


def test_what_no_longer_stands_is_no_row(world: World) -> None:
    for state, left in (("false-alarm", 2), ("withdrawn", 2), ("merged", 2), ("accepted", 3)):
        with world.db.transaction() as session:
            session.execute(update(t.Regression).where(col(t.Regression.kind) == "improvement").values(state=state))
        assert len(findings(world.db, "tiny").rows) == left, state


def test_a_row_is_confirmed_when_one_member_is(world: World) -> None:
    with world.db.transaction() as session:
        session.execute(update(t.ChangePoint).values(state="provisional"))
    assert not any(row.confirmed for row in findings(world.db, "tiny").rows)
    with world.db.transaction() as session:
        slow = session.get_one(t.ChangePoint, world.all(t.ChangePoint)[0].id)
        slow.state = "confirmed"
    assert sum(row.confirmed for row in findings(world.db, "tiny").rows) == 1


def test_nothing_found_is_an_empty_table_and_an_unknown_project_an_error(database: Database) -> None:
    World(database)
    table = findings(database, "tiny")
    assert (table.rows, table.counts.commits, table.counts.runs) == ((), 0, 0)
    with pytest.raises(NotFound, match="nope"):
        findings(database, "nope")
