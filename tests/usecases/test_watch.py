"""What is pushed is measured without anybody asking; nothing is missed and nothing asked for twice; on both engines."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import select

from fleet import Fleet, fleet
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases import standing, watch
from groundspeed.service.usecases.views import overview
from repositories import CONFIG


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Fleet:
    world = fleet(database, tmp_path, 10)
    world.add()
    return world


def poll(world: Fleet) -> list[str]:
    """Poll and plan; the commits that got jobs, in history's order."""
    before = {job.id for job in world.jobs()}
    for request_id in watch.poll(world.db, world.mirrors, 1, world.later(20)):
        world.plan(world_ref(request_id))
    new = [job.key.removeprefix("train@") for job in world.jobs() if job.id not in before]
    if not new:
        return []
    order = world.repo.git("log", "--format=%H", "--reverse", "--all", "--reflog").split()
    return sorted((next(sha for sha in order if sha.startswith(short)) for short in new), key=order.index)


def world_ref(request_id: int) -> watch.requests.Ref:
    return watch.requests.Ref(request_id, "pending", created=True)


def positions(world: Fleet) -> dict[str, int | None]:
    with world.db.read() as session:
        return dict(session.execute(select(t.Revision.sha, t.Revision.position)).tuples().all())


def project(world: Fleet) -> t.Project:
    with world.db.read() as session:
        return session.get_one(t.Project, 1)


def test_at_first_sight_the_newest_history_is_measured_and_then_what_comes(world: Fleet) -> None:
    assert poll(world) == world.shas[-8:], "as many as project.history says"
    assert poll(world) == []
    pushed = [world.repo.commit(f"Push {i}") for i in range(3)]
    assert poll(world) == pushed
    assert poll(world) == []
    assert positions(world)[pushed[-1]] == 12


def test_what_was_asked_for_before_the_first_look_is_all_that_is_measured(world: Fleet) -> None:
    assert len(world.measure("HEAD~3..HEAD~1")) == 2
    assert poll(world) == []
    new = world.repo.commit("New")
    assert poll(world) == [world.shas[-1], new], "the gap behind what was asked for is filled"


def test_commits_pushed_while_nobody_watched_are_found(world: Fleet) -> None:
    poll(world)
    pushed = [world.repo.commit(f"Night {i}") for i in range(12)]
    assert poll(world) == pushed


def test_a_forced_push_counts_again_and_measures_what_is_new(world: Fleet) -> None:
    poll(world)
    world.repo.git("reset", "-q", "--hard", world.shas[6])
    forced = [world.repo.commit(f"Instead {i}", {"n.txt": f"i{i}"}) for i in range(2)]
    assert poll(world) == forced
    found = positions(world)
    assert [found[sha] for sha in world.shas[:7]] == list(range(7))
    assert [found[sha] for sha in world.shas[7:]] == [None] * 3, "no longer on the branch"
    assert [found[sha] for sha in forced] == [7, 8]


def test_a_broken_configuration_is_said_and_its_commits_are_measured_after_the_repair(world: Fleet) -> None:
    poll(world)
    broken = world.repo.commit("Break", {"groundspeed.toml": CONFIG.replace("plugin", "plugn")})
    assert poll(world) == []
    assert "plugn" in project(world).config_error
    repaired = world.repo.commit("Repair", {"groundspeed.toml": CONFIG})
    assert poll(world) == [broken, repaired]
    assert project(world).config_error == ""


def test_what_cannot_be_planned_is_said_on_the_pages_until_a_later_push_can_be(world: Fleet) -> None:
    poll(world)
    world.repo.commit("Slip", {"groundspeed.toml": CONFIG.replace('"training"', '"trainign"')})
    assert poll(world) == []
    [card] = overview.project_list(world.db, world.now).projects
    assert "Did you mean 'training'?" in card.config_error
    assert standing.standing(world.db, card.project.slug).trouble == (card.config_error,)
    world.repo.commit("Repair", {"groundspeed.toml": CONFIG})
    assert len(poll(world)) == 2
    assert overview.overview(world.db, card.project.slug, world.now).card.config_error == ""
    assert standing.standing(world.db, card.project.slug).trouble == ()


def test_a_repository_that_is_away_is_said_and_looked_at_again(world: Fleet) -> None:
    poll(world)
    away = world.repo.path.rename(world.repo.path.with_name("away"))
    assert poll(world) == []
    assert "is not a folder" in project(world).config_error
    away.rename(world.repo.path)
    new = world.repo.commit("Back")
    assert poll(world) == [new]


def test_a_failed_commit_is_not_measured_again_with_every_push(world: Fleet) -> None:
    world.node()
    poll(world)
    failed = world.next()
    world.finish(failed.attempt_id, "failed", "permanent", "broken")
    new = world.repo.commit("New")
    assert poll(world) == [new]


def test_projects_are_due_by_their_own_interval(world: Fleet) -> None:
    assert watch.due(world.db, world.now) == [1]
    poll(world)
    assert watch.due(world.db, world.now) == []
    assert watch.due(world.db, world.later(15)) == [1]


def test_a_request_that_nobody_planned_is_found(world: Fleet) -> None:
    ref = world.ask("HEAD~1..HEAD")
    assert watch.pending(world.db, world.now) == []
    assert watch.pending(world.db, world.later(31)) == [ref.id]


def test_a_schedule_fires_once_for_all_the_times_that_were_missed(sqlite_database: Database, tmp_path: Path) -> None:
    nightly = '\n[[schedule]]\nname = "nightly"\ncron = "0 3 * * *"\nsuites = ["train"]\n'
    world = fleet(sqlite_database, tmp_path, 3, CONFIG + nightly)
    world.add()
    world.now = datetime(2026, 1, 1, 12, tzinfo=UTC)
    poll(world)
    first = len(world.jobs())
    world.now = datetime(2026, 1, 2, 2, 59, tzinfo=UTC)
    poll(world)
    assert len(world.jobs()) == first
    world.now = datetime(2026, 1, 5, 9, tzinfo=UTC)
    poll(world)
    poll(world)
    again = world.jobs()[first:]
    assert [job.key for job in again] == [f"train@{world.shas[-1][:16]}"], "measured again though it is measured"
    assert world.request(again[0].request_id).idempotency_key == "schedule:nightly:2026-01-05T03:00"
