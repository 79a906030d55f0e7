"""Jobs of several nodes: one lease for all or none, a meeting place handed out, and one lost releases all."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet import POLICY, Fleet, fleet
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases import leases, nodes
from groundspeed.service.wire import v1
from repositories import CONFIG

PAIR = CONFIG + "requires = { nodes = 2 }\n"


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Fleet:
    world = fleet(database, tmp_path, 2, PAIR)
    world.add(watch=False)
    return world


def pair(world: Fleet) -> tuple[t.Job, v1.ClaimReply, v1.ClaimReply]:
    """A job that nodes a and b have, in this order."""
    for name in ("a", "b"):
        world.node(name, address=f"10.0.0.{ord(name)}")
    [job] = world.measure("HEAD~1..HEAD")
    return job, world.next("a"), world.next("b")


def ready(world: Fleet, reply: v1.ClaimReply, phase: str = "ready") -> v1.AttemptHeartbeatReply:
    return world.beat(reply.attempt_id, phase)


def test_all_members_get_the_job_with_their_ranks_and_one_meeting_place(world: Fleet) -> None:
    job, a, b = pair(world)
    assert a.job is not None
    assert b.job is not None
    assert a.job.gang is not None
    assert b.job.gang is not None
    assert (a.job.gang.rank, b.job.gang.rank) == (0, 1)
    assert a.job.gang.nodes == ("a", "b")
    assert (a.job.gang.host, a.job.gang.port) == (b.job.gang.host, b.job.gang.port)
    assert a.job.gang.host == "10.0.0.97"
    assert a.job.job_id == b.job.job_id == job.id
    assert world.job(job.id).attempts == 1


def test_nobody_gets_it_while_a_partner_is_missing_and_smaller_jobs_are_not_held_up(world: Fleet) -> None:
    for name in ("a", "b"):
        world.node(name)
    [job] = world.measure("HEAD~1..HEAD")
    world.later(POLICY.present_s + 1)
    nodes.heartbeat(world.db, "a", v1.NodeHeartbeat(protocol=v1.PROTOCOL), world.now)
    assert world.next("a").attempt_id is None
    assert world.claim(job.id, "a").reason == f"Job {job.id} needs 2 nodes at once: too few that fit are present."
    assert world.job(job.id).state == "queued"


def test_a_node_keeps_itself_free_while_its_partner_is_busy(world: Fleet, tmp_path: Path) -> None:
    """Else a stream of small jobs would keep the two from ever being free together."""
    for name in ("a", "b"):
        world.node(name)
    small = fleet(world.db, tmp_path, 4, CONFIG.replace('"toy"', '"small"'), "small")
    small.add(watch=False)
    small.measure("HEAD~3..HEAD")
    first = world.next("a")
    [job] = world.measure("HEAD~1..HEAD", priority=5)
    held = world.next("b")
    assert held.reason == f"The node keeps itself free for job {job.id}, which needs 2 at once."
    world.finish(first.attempt_id)
    assert world.next("a").job.job_id == job.id  # type: ignore[union-attr]
    assert world.next("b").job.job_id == job.id  # type: ignore[union-attr]


def test_a_reserved_node_is_told_and_gets_nothing_else(world: Fleet) -> None:
    for name in ("a", "b"):
        world.node(name)
    [job] = world.measure("HEAD~1..HEAD")
    world.next("a")
    beat = nodes.heartbeat(world.db, "b", v1.NodeHeartbeat(protocol=v1.PROTOCOL), world.now)
    assert beat.waiting
    reply = world.next("b", "one")
    assert reply.job.job_id == job.id  # type: ignore[union-attr]
    assert world.next("b", "one").attempt_id == reply.attempt_id, "the same question gets the same answer"
    assert not nodes.heartbeat(world.db, "b", v1.NodeHeartbeat(protocol=v1.PROTOCOL), world.now).waiting
    assert len(world.messages("groundspeed.run_job")) == 2, "the other is woken too"


def test_they_begin_together(world: Fleet) -> None:
    _, a, b = pair(world)
    assert not ready(world, a).together
    assert ready(world, b, "build").together, "whoever does not wait is not asked about"
    assert not ready(world, a).together
    assert ready(world, b).together
    assert ready(world, a).together


@pytest.mark.parametrize("who", [0, 1])
def test_one_that_is_lost_releases_all_and_the_job_goes_on_elsewhere(world: Fleet, who: int) -> None:
    job, *replies = pair(world)
    other = replies[1 - who]
    for _ in range(10):
        world.later(10)
        ready(world, other)
    assert leases.expire(world.db, world.now, POLICY) == 1
    assert (world.attempt(replies[who].attempt_id).state, world.attempt(other.attempt_id).state) == (
        "expired",
        "released",
    )
    assert ready(world, other).verdict == "lost"
    assert world.job(job.id).state == "queued"
    lost = "ab"[who]
    world.node("c")
    left = "ba"[who]
    assert world.next(left).attempt_id
    assert world.next("c").attempt_id
    assert world.next(lost).attempt_id is None


def test_a_part_that_nobody_fetches_is_lost_like_any_other(world: Fleet) -> None:
    for name in ("a", "b"):
        world.node(name)
    [job] = world.measure("HEAD~1..HEAD")
    a = world.next("a")
    for _ in range(7):
        world.later(10)
        ready(world, a)
    assert leases.expire(world.db, world.now, POLICY) == 1
    assert world.job(job.id).state == "queued"
    assert ready(world, a).verdict == "lost"


def test_a_node_that_is_told_to_go_gives_the_whole_gang_back_unharmed(world: Fleet) -> None:
    job, a, b = pair(world)
    assert world.finish(b.attempt_id, "released").ok
    assert ready(world, a).verdict == "lost"
    assert (world.job(job.id).state, world.job(job.id).attempts) == ("queued", 0)


def test_rank_0_ends_the_job(world: Fleet) -> None:
    job, a, b = pair(world)
    assert world.finish(b.attempt_id).ok
    assert world.job(job.id).state == "running"
    assert world.finish(a.attempt_id).ok
    assert world.job(job.id).state == "done"


def test_rank_0_ends_the_others_with_it(world: Fleet) -> None:
    job, a, b = pair(world)
    assert world.finish(a.attempt_id).ok
    assert (world.job(job.id).state, world.attempt(b.attempt_id).state) == ("done", "succeeded")
    assert world.finish(b.attempt_id).ok, "a second word of the same is no news"


def test_planning_says_at_once_when_there_can_never_be_enough(world: Fleet) -> None:
    world.node("alone")
    ref = world.ask("HEAD~1..HEAD")
    world.plan(ref)
    request = world.request(ref.id)
    assert request.state == "failed"
    assert "needs 2 nodes at once, and only 1 can run it" in request.error
