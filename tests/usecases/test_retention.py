"""Raw samples go when they are old, summaries never, and what a regression refers to stays whole."""

from __future__ import annotations

from datetime import timedelta

import pytest

from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases.analyse import analyse_dirty
from groundspeed.service.usecases.retention import Policy, Thinned, policy_of, thin
from world import NOW, World, run, samples

YEAR = NOW + timedelta(days=365)


@pytest.fixture
def world(database: Database) -> World:
    """Thirty commits; time steps at commit 20."""
    world = World(database)
    world.commits(30)
    for x, revision in enumerate(world.revisions):
        attempt = world.attempt(world.job(revision))
        value = (1.2 if x >= 20 else 1.0) * (1 + 0.001 * (x % 3))
        trace = {"t_s": [0, 1], "clock_mhz": [1, 2]}
        world.report(attempt, run(samples=[samples("time", value)], conditions={"steady": True, "trace": trace}))
    analyse_dirty(database, NOW)
    assert len(world.all(t.Regression)) == 1
    return world


def with_samples(world: World) -> list[int]:
    return [world.revisions.index(r.revision_id) for r in world.all(t.Result) if r.samples is not None]


def test_old_samples_and_traces_go_but_for_what_a_regression_refers_to(world: World) -> None:
    before = [(r.value, r.spread, r.count, r.state) for r in world.all(t.Result)]
    done = thin(world.db, Policy(), YEAR, runs_at_once=7)
    assert done == Thinned(samples=28, traces=28)
    assert with_samples(world) == [19, 20]
    assert [world.revisions.index(r.revision_id) for r in world.all(t.Run) if r.trace is not None] == [19, 20]
    assert [(r.value, r.spread, r.count, r.state) for r in world.all(t.Result)] == before
    assert all(r.conditions == {"steady": True} for r in world.all(t.Run))


def test_a_second_walk_finds_only_what_has_grown_old_since(world: World) -> None:
    thin(world.db, Policy(), YEAR)
    assert thin(world.db, Policy(), YEAR) == Thinned()
    attempt = world.attempt(world.job(world.revisions[0]))
    world.report(attempt, run(), now=YEAR)
    assert thin(world.db, Policy(), YEAR + timedelta(days=179)) == Thinned()
    assert thin(world.db, Policy(), YEAR + timedelta(days=181)) == Thinned(samples=1)


def test_young_samples_stay_and_never_means_never(world: World) -> None:
    assert thin(world.db, Policy(), NOW + timedelta(days=179)) == Thinned()
    assert thin(world.db, Policy(samples=None, logs=None), YEAR) == Thinned()
    assert len(with_samples(world)) == 30


def test_a_withdrawn_change_point_protects_nothing(world: World) -> None:
    with world.db.transaction() as session:
        session.get_one(t.ChangePoint, 1).state = "withdrawn"
    assert thin(world.db, Policy(), YEAR).samples == 30


def test_one_call_is_bounded_and_the_next_goes_on(world: World) -> None:
    assert thin(world.db, Policy(), YEAR, runs_at_once=5, steps=1).samples == 5
    assert thin(world.db, Policy(), YEAR).samples == 23


def test_old_log_lines_go(world: World) -> None:
    attempt = world.attempt(world.job(world.revisions[0]))
    for seq, at in enumerate((NOW, NOW + timedelta(days=1), YEAR)):
        world.add(t.LogEntry(attempt_id=attempt, seq=seq, at=at, stream="stdout", text="x"))
    assert thin(world.db, Policy(samples=None), YEAR).lines == 2
    assert [line.seq for line in world.all(t.LogEntry)] == [2]


def test_nought_days_stand_for_ever() -> None:
    assert policy_of(0, 0) == Policy(None, None)
    assert policy_of(180, 30) == Policy()
