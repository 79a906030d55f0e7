"""Who is served first: the urgent, then fairly between projects; what is superseded goes; on both engines."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import update

from fleet import Fleet, fleet
from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import Job
from groundspeed.service.usecases import outlook, planning, requests
from repositories import CONFIG


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Fleet:
    world = fleet(database, tmp_path, 6)
    world.add(watch=False)
    return world


def other(world: Fleet, tmp_path: Path) -> Fleet:
    second = fleet(world.db, tmp_path, 6, CONFIG.replace('"toy"', '"other"'), "other")
    second.add(watch=False)
    return second


def got(world: Fleet, node: str) -> str:
    reply = world.next(node)
    return reply.job.project if reply.job is not None else reply.reason


def test_a_project_with_many_jobs_does_not_keep_another_waiting(world: Fleet, tmp_path: Path) -> None:
    world.measure()
    other(world, tmp_path).measure("HEAD~2..HEAD")
    nodes = [world.node(f"w{i}") for i in range(8)]
    assert [got(world, node) for node in nodes] == ["toy", "other", "toy", "other", "toy", "toy", "toy", "toy"]


def test_urgency_goes_before_fairness(world: Fleet, tmp_path: Path) -> None:
    world.measure()
    other(world, tmp_path).measure(priority=10)
    nodes = [world.node(f"w{i}") for i in range(7)]
    assert [got(world, node) for node in nodes] == ["other"] * 6 + ["toy"]


def test_a_node_looks_past_what_it_cannot_run(world: Fleet, tmp_path: Path) -> None:
    """Forty jobs for another kind of node stand before the one that fits; also where nobody has named their kinds."""
    needy = fleet(world.db, tmp_path, 40, CONFIG.replace('"toy"', '"needy"') + 'requires = { rack = "b" }\n', "needy")
    needy.add(watch=False)
    needy.measure("HEAD~39..HEAD", priority=5)
    world.measure("HEAD~1..HEAD")
    world.node()
    assert got(world, "n1") == "toy"
    with world.db.transaction() as session:
        session.execute(update(Job).values(needs=""))
    world.node("n2")
    world.node("b", labels={"rack": "b"})
    assert got(world, "n2") == "Nothing waits that this node can run."
    assert got(world, "b") == "needy"


def test_a_newer_request_about_the_same_supersedes_the_older(world: Fleet) -> None:
    def ask(sha: str, subject: str) -> requests.Ref:
        with world.db.transaction() as session:
            payload = {"base": world.shas[0], "head": sha}
            new = requests.New("pull_request", f"{subject}@{sha}", sha, payload, subject=subject)
            return requests.add(session, 1, new, world.now)

    world.node()
    first, elsewhere = ask(world.shas[3], "pr/1"), ask(world.shas[3], "pr/2")
    world.plan(first)
    world.plan(elsewhere)
    running = world.next()
    second = ask(world.shas[4], "pr/1")
    assert world.request(first.id).state == "cancelled"
    assert world.request(first.id).error == f"superseded by request {second.id}"
    beat = world.beat(running.attempt_id)
    assert (beat.verdict, "superseded" in beat.reason) == ("cancel", True)
    assert world.request(elsewhere.id).state == "planned"
    assert world.plan(second).jobs == 1
    assert not ask(world.shas[4], "pr/1").created
    assert world.request(second.id).state == "planned"


def test_with_a_long_queue_only_the_newest_commit_of_a_push_is_urgent(world: Fleet) -> None:
    def push(key: str, shas: list[str], limit: int) -> list[tuple[str, int]]:
        with world.db.transaction() as session:
            ref = requests.add(session, 1, requests.New("push", key, shas[-1], {"shas": shas}), world.now)
        planning.plan_request(world.db, world.mirrors, ref.id, world.now, planning.Limits(batch_over=limit))
        return [(job.key.removeprefix("train@"), job.priority) for job in world.jobs(ref.id)]

    assert {priority for _, priority in push("a", world.shas[:3], 2)} == {30}, "the queue is short"
    late = dict(push("b", world.shas[3:], 2))
    assert late == {sha[:16]: 30 if sha == world.shas[-1] else 70 for sha in world.shas[3:]}


def test_the_outlook_is_a_range_from_what_such_jobs_took(world: Fleet) -> None:
    world.node()
    jobs = world.measure()
    last = jobs[-1].id or 0

    def look() -> outlook.Outlook:
        return outlook.of_job(world.db, last, world.now, 300.0)

    assert (look().ahead, look().slots, look().earliest) == (5, 1, None)
    assert look().why == "Only 0 such jobs have ended: too few to tell."
    for seconds in (10, 20, 20, 20, 40):
        attempt = world.next().attempt_id
        world.later(seconds)
        world.finish(attempt)
    found = look()
    assert found.ahead == 0
    assert found.earliest is not None
    assert found.latest is not None
    assert (found.earliest - world.now).total_seconds() == 10
    assert (found.latest - world.now).total_seconds() == 80
    assert "5 like it took 10 to 40 s" in found.why
    world.later(301)
    assert look().why == "It waits for a node: none is active."
    world.node("n2", catalogue=[])
    assert "n2 does not offer plugin 'training'" in look().why
