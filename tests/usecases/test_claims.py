"""Many nodes answered in one round; on both engines."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet import POLICY, Fleet, fleet
from groundspeed.service.db.engine import Database
from groundspeed.service.errors import NotFound
from groundspeed.service.usecases import claims, ends, jobs, nodes, signs
from groundspeed.service.usecases.topics import FOLLOW_UP
from groundspeed.service.wire import v1


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Fleet:
    world = fleet(database, tmp_path)
    world.add(watch=False)
    return world


def ask(world: Fleet, node: str, job_id: int | None = None, delivery: str = "") -> claims.Ask:
    return claims.Ask(world.asking(node, delivery or node), job_id)


def test_a_round_answers_each_as_if_it_had_asked_alone(world: Fleet) -> None:
    first, second, *rest = [job.id or 0 for job in world.measure()]
    for name in ("a", "b", "c", "full", "out", "odd"):
        world.node(name, **({"labels": {"pool": "odd"}} if name == "odd" else {}))
    nodes.set_state(world.db, "out", "quarantined", world.now, actor="me", reason="hot")
    had = claims.answer(world.db, [ask(world, "full")], world.now, POLICY)[0]
    assert had.job is not None
    assert had.job.job_id == first
    asks = [
        ask(world, "a", second), ask(world, "b", second), ask(world, "c"), ask(world, "c", delivery="again"),
        ask(world, "full"), ask(world, "full", delivery="more"), ask(world, "out"), ask(world, "odd"),
        ask(world, "nobody"),
    ]  # fmt: skip
    replies = claims.answer(world.db, asks, world.now, POLICY)
    assert [reply.job.job_id if reply.job else reply.reason for reply in replies] == [
        second,
        f"Job {second} is running.",
        rest[0],
        "The node has 1 jobs, as many as it has slots.",
        first,
        "The node has 1 jobs, as many as it has slots.",
        "The node is quarantined: hot",
        "Nothing waits that this node can run.",
        "The node 'nobody' is not known: register it.",
    ]
    assert replies[4] == had


def test_a_batch_of_ends_and_signs_tells_each_its_own(world: Fleet) -> None:
    measured = world.measure()
    names = [world.node(f"w{i}") for i in range(6)]
    got = claims.answer(world.db, [ask(world, name) for name in names], world.now, POLICY)
    ids = [reply.attempt_id or "" for reply in got]
    jobs.cancel(world.db, got[5].job.job_id if got[5].job else 0, world.now, actor="me")
    world.later(21)
    beat = v1.AttemptHeartbeat(phase="run")
    verdicts = signs.of_attempts(world.db, [signs.Beat(one, beat) for one in [*ids, "none"]], world.now, POLICY)
    assert [one.verdict for one in verdicts] == ["continue"] * 5 + ["cancel", "lost"]
    ok, failed = v1.FinishRequest(state="succeeded"), v1.FinishRequest(state="failed", error_kind="permanent")
    given = [ends.End(one, ok) for one in [*ids[:3], ids[0]]] + [ends.End(ids[3], failed), ends.End(ids[5], ok)]
    contradicts = ends.End(ids[1], failed)
    answers = ends.answer(world.db, [*given, contradicts, ends.End("none", ok)], world.now, POLICY)
    assert isinstance(answers[-1], NotFound)
    assert [one.ack.ok for one in answers if isinstance(one, ends.Ended)] == [True] * 5 + [False] * 2
    assert sorted(job.state for job in world.jobs()) == ["cancelled", "done", "done", "done", "failed", "running"]
    assert world.request(measured[0].request_id).state == "running"
    live = v1.NodeHeartbeat(protocol=v1.PROTOCOL)
    hot = v1.NodeHeartbeat(protocol=v1.PROTOCOL, hygiene=("hot",))
    world.later(21)
    states = signs.of_nodes(
        world.db, [signs.NodeBeat("w0", live), signs.NodeBeat("w1", hot), signs.NodeBeat("w4", live)], world.now, POLICY
    )
    assert [one.state for one in states] == ["active", "quarantined", "active"]
    assert world.attempt(ids[4]).state == "expired", "its node lives and does not work on it"
    answers = ends.answer(world.db, [ends.End(ids[4], ok)], world.now, POLICY)
    assert [one.ack.ok for one in answers if isinstance(one, ends.Ended)] == [False]
    last = claims.answer(world.db, [ask(world, "w0", delivery="new")], world.now, POLICY)[0]
    ends.answer(world.db, [ends.End(last.attempt_id or "", ok)], world.now, POLICY)
    assert world.request(measured[0].request_id).state == "done"
    assert len(world.messages(FOLLOW_UP)) == 1
