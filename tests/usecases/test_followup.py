"""A doubtful finding gets the measurements that settle it: no more than it needs, and not before its neighbours are in."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import delete, update
from sqlmodel import col

from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases.analyse import analyse_dirty
from groundspeed.service.usecases.followup import plan_followups, plan_for_slug, waiting
from groundspeed.service.usecases.topics import FOLLOW_UP
from world import NOW, World

LATER = NOW + timedelta(hours=1)


@pytest.fixture
def world(database: Database) -> World:
    """Twelve commits, slower from the tenth on: too few points after the step to be sure."""
    world = World(database)
    world.commits(14)
    for x in range(12):
        world.measure(world.revisions[x], time=(1.2 if x >= 10 else 1.0) * (1 + 0.002 * (x % 3)))
    ended(world)
    analyse_dirty(world.db, LATER)
    assert [change.state for change in world.all(t.ChangePoint)] == ["provisional"]
    return world


def ended(world: World) -> None:
    with world.db.transaction() as session:
        query = update(t.Job).where(col(t.Job.state) == "running")
        session.execute(query.values(state="done", finished_at=LATER))


def asked(world: World) -> list[tuple[int, int, int]]:
    """(position, processes, number of the first) of the follow-up jobs, in the order of the branch."""
    place = {row.id: row.position for row in world.all(t.Revision)}
    side = {row.job_id: place[row.revision_id] for row in world.all(t.JobSide)}
    jobs = world.all(t.Job, col(t.Job.reason) == "replicate")
    return sorted(
        (side[job.id], bench["replicates"], bench["first_replicate"])
        for job in jobs
        for bench in job.spec["benchmarks"]
    )


def test_both_sides_of_a_doubtful_step_are_measured_again_once(world: World) -> None:
    assert plan_for_slug(world.db, "tiny", LATER) == 2
    assert [(x, first) for x, _, first in asked(world)] == [(9, 1), (10, 1)]
    assert plan_followups(world.db, world.project, LATER) == 0, "they are on their way"
    ended(world)
    assert plan_followups(world.db, world.project, LATER) == 0, "the same question at the same state of knowledge"


def test_while_its_neighbours_are_being_measured_a_step_waits(world: World) -> None:
    coming = world.job(world.revisions[13])
    assert plan_followups(world.db, world.project, LATER) == 0
    assert waiting(world.db, LATER) == []
    ended(world)
    assert waiting(world.db, LATER) == [world.project], "a job that brought nothing does not hold it up for ever"
    assert plan_followups(world.db, world.project, LATER) == 2
    assert coming


def test_history_that_comes_elsewhere_or_for_another_suite_holds_nothing_up(world: World) -> None:
    world.job(world.revisions[2])
    world.job(world.revisions[13], suite="infer")
    assert plan_followups(world.db, world.project, LATER) == 2


def test_nothing_is_asked_for_beyond_the_budget(world: World) -> None:
    with world.db.transaction() as session:
        session.execute(update(t.Request).values(budget_s=1.0))
    assert plan_followups(world.db, world.project, LATER) == 0


def test_only_as_much_is_asked_for_as_the_budget_still_pays(world: World) -> None:
    """Twelve processes of three seconds ran; one side's four more fit into 50 s, those of both sides do not."""
    with world.db.transaction() as session:
        session.execute(update(t.Request).values(budget_s=50.0))
    assert plan_followups(world.db, world.project, LATER) == 1
    assert plan_followups(world.db, world.project, LATER) == 0, "what is on its way is paid for already"


def test_imported_series_are_left_alone(world: World) -> None:
    """No worker can measure again what another tool has measured."""
    with world.db.transaction() as session:
        session.execute(update(t.Benchmark).values(plugin="import.asv"))
        session.execute(delete(t.Outbox))
        session.add(t.SeriesMark(series_id=world.all(t.Series)[0].id))
    analyse_dirty(world.db, LATER)
    assert [change.state for change in world.all(t.ChangePoint)] == ["provisional"]
    assert world.all(t.Outbox, col(t.Outbox.topic) == FOLLOW_UP) == []
    assert waiting(world.db, LATER) == []
    assert plan_followups(world.db, world.project, LATER) == 0


def test_an_import_beside_it_pays_for_nothing(world: World) -> None:
    """What was asked for pays for what follows from it, also where results were imported since."""
    world.add(t.Request(project_id=world.project, kind="import", idempotency_key="2", state="done"))
    assert plan_followups(world.db, world.project, LATER) == 2
    assert {row.parent_id for row in world.all(t.Request, col(t.Request.kind) == "followup")} == {world.request}


def test_a_gap_with_a_step_in_it_is_bisected(database: Database) -> None:
    """A confirmed step over seven unmeasured commits: the middle one is measured, once, and no other."""
    world = World(database)
    world.commits(48)
    measured = [x for x in range(48) if not 20 < x < 28]
    for x in measured:
        world.measure(world.revisions[x], time=(1.2 if x >= 24 else 1.0) * (1 + 0.002 * (x % 3)))
    ended(world)
    analyse_dirty(world.db, LATER)
    [change] = world.all(t.ChangePoint)
    assert (change.state, change.detail["unmeasured"]) == ("confirmed", 7)
    assert plan_followups(world.db, world.project, LATER) == 1
    [job] = world.all(t.Job, col(t.Job.reason) == "bisect")
    [side] = world.all(t.JobSide, col(t.JobSide.job_id) == job.id)
    assert side.revision_id == world.revisions[24]
    assert job.spec["benchmarks"][0]["replicates"] == 1
    assert plan_followups(world.db, world.project, LATER) == 0


def test_a_project_without_a_doubt_is_not_looked_at(world: World) -> None:
    with world.db.transaction() as session:
        session.execute(update(t.ChangePoint).values(state="confirmed"))
    assert waiting(world.db, LATER) == []
    assert plan_followups(world.db, world.project, LATER + timedelta(hours=1)) == 0


def test_a_step_that_noise_hides_in_a_short_history_gets_a_closer_look(database: Database) -> None:
    """Ten commits at eleven per cent of noise, a step of thirty: too weak to be told, worth fresh processes."""
    world = World(database)
    world.commits(10)
    for x, seconds in enumerate([36.1, 32.1, 36.2, 33.1, 31.9, 35.4, 50.5, 41.8, 40.1, 44.6]):
        world.measure(world.revisions[x], time=seconds / 1000)
    ended(world)
    analyse_dirty(world.db, LATER)
    assert world.all(t.ChangePoint) == []
    assert plan_followups(world.db, world.project, LATER) == 2
    assert [x for x, _, _ in asked(world)] == [5, 6]
    ended(world)
    assert plan_followups(world.db, world.project, LATER) == 0, "a closer look is taken once"
