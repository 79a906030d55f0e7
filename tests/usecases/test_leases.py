"""A job is run by one node at a time and ends once, whatever is repeated, lost or killed; on both engines."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fleet import POLICY, Fleet, fleet
from groundspeed.service.db.engine import Database
from groundspeed.service.errors import Conflict, Forbidden, NotFound
from groundspeed.service.usecases import catalogue, claims, jobs, leases, nodes, requests
from groundspeed.service.usecases.ingest import ingest_runs
from groundspeed.service.usecases.topics import FOLLOW_UP
from groundspeed.service.wire import v1
from groundspeed.service.wire.hints import RUN_JOB
from world import run


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Fleet:
    world = fleet(database, tmp_path)
    world.add(watch=False)
    world.node()
    return world


def test_a_claim_gives_the_job_with_all_a_worker_needs(world: Fleet) -> None:
    job = world.measure("HEAD~1..HEAD")[0]
    reply = world.claim(job.id)
    assert reply.job is not None
    assert reply.lease_s == 60.0
    spec = reply.job
    assert (spec.job_id, spec.project, spec.suite, spec.tip_sha) == (job.id, "toy", "train", world.shas[-1])
    assert [(s.role, s.sha) for s in spec.sides] == [("point", world.shas[-1])]
    assert [b.key for b in spec.benchmarks] == ["batch_size=8", "batch_size=16"]
    assert spec.benchmarks[0].params["batch_size"] == 8
    assert world.job(job.id).state == "running"
    assert world.request(job.request_id).state == "running"


def test_the_same_claim_again_gets_the_same_answer(world: Fleet) -> None:
    job = world.measure("HEAD~1..HEAD")[0]
    first = world.claim(job.id, delivery="d1")
    assert world.claim(job.id, delivery="d1") == first
    assert world.next(delivery="d1") == first
    assert world.job(job.id).attempts == 1


def test_a_second_delivery_is_a_no_op(world: Fleet) -> None:
    """Redis delivers a long task again; another node that takes it up is told that the job runs."""
    job = world.measure("HEAD~1..HEAD")[0]
    world.node("n2")
    first = world.claim(job.id, delivery="d1")
    assert world.claim(job.id, "n2", delivery="d2").reason == f"Job {job.id} is running."
    world.finish(first.attempt_id)
    assert world.claim(job.id, "n2", delivery="d1").reason == f"Job {job.id} is done."


def test_many_nodes_that_ask_at_once_get_each_job_once(world: Fleet) -> None:
    measured = world.measure()
    assert len(measured) == 6
    names = [world.node(f"w{i}") for i in range(12)]
    with ThreadPoolExecutor(12) as pool:
        replies = list(pool.map(world.next, names))
    got = [reply.job.job_id for reply in replies if reply.job is not None]
    assert sorted(got) == sorted(job.id for job in measured)
    assert {r.reason for r in replies if r.job is None} == {"Nothing waits that this node can run."}


def test_one_job_claimed_by_many_at_once_goes_to_one(world: Fleet) -> None:
    job = world.measure("HEAD~1..HEAD")[0]
    names = [world.node(f"w{i}") for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda name: world.claim(job.id, name), names))
    assert sum(reply.attempt_id is not None for reply in replies) == 1


def test_a_silent_worker_loses_its_job_to_another(world: Fleet) -> None:
    job = world.measure("HEAD~1..HEAD")[0]
    world.node("n2")
    lost = world.claim(job.id)
    world.later(59)
    assert world.beat(lost.attempt_id).verdict == "continue"
    world.later(59)
    assert leases.expire(world.db, world.now, POLICY) == 0
    world.later(2)
    assert leases.expire(world.db, world.now, POLICY) == 1
    assert leases.expire(world.db, world.now, POLICY) == 0
    assert world.beat(lost.attempt_id).verdict == "lost"
    again = world.next("n2")
    assert again.job is not None
    assert again.job.job_id == job.id
    ack = world.finish(lost.attempt_id)
    assert (ack.ok, ack.reason) == (False, "The attempt is already expired.")
    assert world.job(job.id).state == "running"
    assert world.finish(again.attempt_id).ok
    assert world.job(job.id).state == "done"


def test_finish_may_be_repeated(world: Fleet) -> None:
    job = world.measure("HEAD~1..HEAD")[0]
    claimed = world.claim(job.id)
    assert world.finish(claimed.attempt_id).ok
    assert world.finish(claimed.attempt_id).ok
    assert world.request(job.request_id).state == "done"
    assert not world.finish(claimed.attempt_id, "failed", "permanent").ok
    assert world.job(job.id).state == "done"


def test_a_transient_failure_is_tried_again_later_and_at_last_fails(world: Fleet) -> None:
    job = world.measure("HEAD~1..HEAD")[0]
    for attempt, pause in ((1, 15), (2, 30)):
        claimed = world.claim(job.id)
        assert claimed.attempt_id is not None, claimed.reason
        world.finish(claimed.attempt_id, "failed", "transient", "network away")
        assert world.job(job.id).state == "queued", attempt
        world.later(pause - 1)
        assert "may start from" in world.claim(job.id).reason
        assert world.next().attempt_id is None
        world.later(1)
    world.finish(world.next().attempt_id, "failed", "transient", "network away")
    assert (world.job(job.id).state, world.job(job.id).error) == ("failed", "network away")
    assert world.request(job.request_id).state == "failed"


def test_a_permanent_failure_is_not_tried_again(world: Fleet) -> None:
    job = world.measure("HEAD~1..HEAD")[0]
    world.finish(world.claim(job.id).attempt_id, "failed", "permanent", "no such file")
    assert world.job(job.id).state == "failed"


def test_a_job_that_kills_its_workers_becomes_poison(world: Fleet) -> None:
    job = world.measure("HEAD~1..HEAD")[0]
    for _ in range(3):
        assert world.next().attempt_id is not None
        world.later(61)
        leases.expire(world.db, world.now, POLICY)
        world.later(60)
    found = world.job(job.id)
    assert found.state == "poison"
    assert "3 attempts ended without a word" in found.error
    jobs.retry(world.db, job.id or 0, world.now, actor="me")
    assert world.job(job.id).state == "queued"
    assert world.next().attempt_id is not None


def test_a_job_given_back_does_not_count_as_tried(world: Fleet) -> None:
    job = world.measure("HEAD~1..HEAD")[0]
    for _ in range(5):
        world.finish(world.claim(job.id).attempt_id, "released")
    assert (world.job(job.id).state, world.job(job.id).attempts) == ("queued", 0)
    assert len([m for m in world.messages(RUN_JOB) if m["job_id"] == job.id]) == 6


def test_a_cancelled_job_is_told_to_its_worker(world: Fleet) -> None:
    job = world.measure("HEAD~1..HEAD")[0]
    claimed = world.claim(job.id)
    jobs.cancel(world.db, job.id or 0, world.now, actor="me")
    assert world.beat(claimed.attempt_id).verdict == "cancel"
    assert not world.finish(claimed.attempt_id).ok
    assert world.job(job.id).state == "cancelled"
    assert world.request(job.request_id).state == "cancelled"
    with pytest.raises(Conflict, match="cannot cancel"):
        jobs.cancel(world.db, job.id or 0, world.now, actor="me")


def test_a_restarted_worker_gives_its_old_job_up_after_a_few_seconds(world: Fleet) -> None:
    """Its first signs of life name no attempt: the lease does not have to run out."""
    job = world.measure("HEAD~1..HEAD")[0]
    old = world.claim(job.id)
    world.later(15)
    assert leases.release_silent(world.db, "n1", [], world.now, POLICY) == 0
    world.later(6)
    assert leases.release_silent(world.db, "n1", [old.attempt_id or ""], world.now, POLICY) == 0
    assert leases.release_silent(world.db, "n1", [], world.now, POLICY) == 1
    assert world.job(job.id).state == "queued"


def test_a_node_that_asks_again_has_given_its_silent_job_up(world: Fleet) -> None:
    first, second = world.measure("HEAD~2..HEAD")
    world.claim(first.id)
    assert "as many as it has slots" in world.claim(second.id).reason
    world.later(11)
    assert world.claim(second.id).attempt_id is not None
    assert world.job(first.id).state == "queued"


def test_a_node_with_two_slots_gets_two_jobs(world: Fleet) -> None:
    world.node("big", slots=2)
    world.measure()
    assert world.next("big").attempt_id is not None
    assert world.next("big").attempt_id is not None
    assert "has 2 jobs" in world.next("big").reason


def test_nodes_out_of_use_get_nothing_and_are_told_why(world: Fleet) -> None:
    job = world.measure("HEAD~1..HEAD")[0]
    nodes.set_state(world.db, "n1", "draining", world.now, actor="me", reason="new driver")
    assert world.claim(job.id).reason == "The node is draining: new driver"
    assert "not known: register it" in world.claim(job.id, "stranger").reason
    message = v1.ClaimRequest(protocol=v1.PROTOCOL - 1, node="n1")
    assert "upgrade the worker" in world.answer(claims.Ask(message, job.id or 0)).reason


def test_a_worker_writes_its_own_attempts_only(world: Fleet) -> None:
    job = world.measure("HEAD~1..HEAD")[0]
    attempt = world.claim(job.id).attempt_id or ""
    leases.check_owner(world.db, attempt, "n1")
    leases.check_owner(world.db, attempt, None)
    with pytest.raises(Forbidden):
        leases.check_owner(world.db, attempt, "n2")
    with pytest.raises(NotFound):
        leases.check_owner(world.db, "nothing", "n2")


def test_a_request_ends_once_when_its_last_jobs_end_at_the_same_time(world: Fleet) -> None:
    measured = world.measure()
    names = [world.node(f"w{i}") for i in range(6)]
    attempts = [world.next(name).attempt_id for name in names]
    with ThreadPoolExecutor(6) as pool:
        assert all(ack.ok for ack in pool.map(world.finish, attempts))
    assert world.request(measured[0].request_id).state == "done"
    assert len(world.messages(FOLLOW_UP)) == 1


def test_cancelling_a_request_stops_what_is_open(world: Fleet) -> None:
    measured = world.measure()
    done = world.claim(measured[0].id)
    world.finish(done.attempt_id)
    running = world.next()
    assert requests.cancel(world.db, measured[0].request_id, world.now, actor="me") == 5
    assert world.beat(running.attempt_id).verdict == "cancel"
    assert sorted(job.state for job in world.jobs()) == ["cancelled"] * 5 + ["done"]
    with pytest.raises(Conflict, match="already cancelled"):
        requests.cancel(world.db, measured[0].request_id, world.now, actor="me")


def test_what_was_delivered_before_a_lease_was_given_back_is_not_measured_again(world: Fleet) -> None:
    """A worker that is shut down gives its job back unharmed; the attempt does not count, what it delivered does."""
    job = world.measure("HEAD~1..HEAD")[0]
    first = world.claim(job.id, delivery="d1")
    assert first.job is not None
    assert first.job.done == ()
    bench = first.job.benchmarks[0]
    version = catalogue.shipped()["training"].version
    report = run(bench.key, plugin="training", plugin_version=version, params=bench.params)
    ingest_runs(world.db, first.attempt_id or "", v1.RunBatch(runs=(report,)), world.now)
    restarted = world.claim(job.id, delivery="d1")
    assert restarted.job is not None
    assert restarted.job.done == (report.key,)
    world.finish(first.attempt_id, "released")
    assert world.job(job.id).attempts == 0
    again = world.claim(job.id, delivery="d2")
    assert again.job is not None
    assert again.job.done == (report.key,)


def test_urgent_jobs_go_first(world: Fleet) -> None:
    measured = world.measure()
    jobs.reprioritise(world.db, measured[-1].id or 0, 1, world.now, actor="me")
    reply = world.next()
    assert reply.job is not None
    assert reply.job.job_id == measured[-1].id


def test_the_drawn_states_are_those_of_the_code(root: Path) -> None:
    text = (root / "docs" / "jobs.md").read_text(encoding="utf-8")
    drawn = {(a, b): c for a, b, c in re.findall(r"^\| (\w+) \| (\w+) \| (\w+) \|", text, re.MULTILINE) if a != "from"}
    assert drawn == jobs.TRANSITIONS
