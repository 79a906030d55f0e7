"""A gate's lease asks after every pair; its verdicts say what may be compared, what stands among many, and why not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from sqlalchemy import update
from sqlmodel import col

from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases import gate
from groundspeed.service.wire import v1
from world import DRIVER, NOW, World, run, samples

LATER = NOW + timedelta(hours=1)


class Lease:
    """A running job of two sides, fed pair by pair."""

    def __init__(self, world: World, keys: tuple[str, ...] = ("b=1",), max_pairs: int = 12) -> None:
        self.world = world
        self.job = world.job([world.revisions[0], world.revisions[1]], keys)
        with world.db.transaction() as session:
            job = session.get_one(t.Job, self.job)
            job.spec = job.spec | {"min_pairs": 3, "max_pairs": max_pairs}
        self.attempt = world.attempt(self.job)
        self.pairs = 0

    def pair(
        self, *, heads: dict[str, Any] | None = None, bases: dict[str, Any] | None = None, key: str = "b=1"
    ) -> None:
        for side, changes in ((0, bases), (1, heads)):
            if changes is not None:
                ack = self.world.report(self.attempt, run(key, self.pairs, side, **changes))
                assert not ack.refused, ack.refused
        self.pairs += 1

    def times(self, ratio: float, count: int, noise: float = 0.002, seed: int = 1, **changes: Any) -> None:
        r = np.random.default_rng(seed)
        for _ in range(count):
            base, head = (float(level * np.exp(noise * r.normal())) for level in (1.0, ratio))
            self.pair(bases={"samples": [timed(base)]}, heads={"samples": [timed(head)]} | changes)

    def ask(self) -> v1.NextPairReply:
        return gate.next_pair(self.world.db, self.attempt, v1.NextPairRequest(pairs_done=self.pairs), LATER)

    def conclude(self) -> list[t.Verdict]:
        with self.world.db.transaction() as session:
            session.execute(update(t.Job).where(col(t.Job.id) == self.job).values(state="done"))
        gate.conclude(self.world.db, self.attempt, LATER)
        assert gate.conclude(self.world.db, self.attempt, LATER) is not None, "a second time is no error"
        return self.world.all(t.Verdict)


def timed(value: float, **changes: Any) -> v1.Samples:
    return samples("time", value, clock="device", **changes)


@pytest.fixture
def world(sqlite_database: Database) -> World:
    world = World(sqlite_database)
    world.commits(2)
    return world


def test_a_lease_goes_on_until_the_answer_is_in(database: Database) -> None:
    world = World(database)
    world.commits(2)
    lease = Lease(world)
    lease.times(1.05, 1)
    assert (lease.ask().verdict, "3 pairs are the least" in lease.ask().reason) == ("continue", True)
    lease.times(1.05, 3, seed=2)
    assert lease.ask() == v1.NextPairReply(verdict="enough", reason="All 1 gated metrics are decided.")
    [verdict] = lease.conclude()
    assert verdict.answer == "regressed"
    assert verdict.ratio_low < 1.05 < verdict.ratio_high
    assert verdict.detail["gated"] is True
    assert verdict.detail["expected_false_alarms"] == 0.025


def test_an_undecided_lease_asks_for_more_pairs_up_to_the_last(world: World) -> None:
    lease = Lease(world, max_pairs=6)
    lease.times(1.01, 4, noise=0.012, seed=4)
    assert lease.ask().verdict == "continue"
    lease.times(1.01, 2, noise=0.012, seed=5)
    assert lease.ask() == v1.NextPairReply(verdict="enough", reason="All 6 pairs are done.")
    [verdict] = lease.conclude()
    assert verdict.answer == "inconclusive"
    assert verdict.mde > 0.01


def test_the_requests_budget_ends_an_undecided_lease(world: World) -> None:
    lease = Lease(world)
    lease.times(1.01, 4, noise=0.012, seed=4)
    assert lease.ask().verdict == "continue"
    with world.db.transaction() as session:
        session.execute(update(t.Request).values(budget_s=20.0))  # eight processes of three seconds ran
    reply = lease.ask()
    assert (reply.verdict, "are spent" in reply.reason) == ("enough", True)


@pytest.mark.parametrize("state", ["cancelled", "expired"])
def test_a_lease_that_nobody_waits_for_is_superseded(world: World, state: str) -> None:
    lease = Lease(world)
    lease.times(1.0, 4)
    with world.db.transaction() as session:
        session.execute(update(t.Attempt).values(state=state, error="superseded by request 7"))
    reply = lease.ask()
    assert reply.verdict == "superseded"
    assert "superseded by request 7" in reply.reason


def test_a_noisy_series_is_charted_and_decides_nothing(world: World) -> None:
    lease = Lease(world)
    lease.times(1.2, 4)
    with world.db.transaction() as session:
        session.execute(update(t.Series).values(series_class="bimodal"))
    assert "of 0 metrics" in lease.ask().reason
    [verdict] = lease.conclude()
    assert (verdict.answer, verdict.detail["found"], verdict.detail["gated"]) == ("inconclusive", "regressed", False)
    assert verdict.reason.startswith("Charted, not gated: its series is bimodal.")
    assert verdict.ratio == pytest.approx(1.2, rel=0.01)


def test_another_environment_or_device_on_one_side_is_refused_in_words(world: World) -> None:
    lease = Lease(world)
    newer = DRIVER.model_copy(update={"value": "580.9"})
    lease.times(1.2, 4, environment=[newer])
    [verdict] = lease.conclude()
    assert verdict.answer == "never-compared"
    assert (verdict.ratio, verdict.detail["why"]) == (None, "refused")
    assert "environment changed between the sides" in verdict.reason


def test_another_clock_is_adjusted_and_told(world: World) -> None:
    """A head at 95 % of the clock takes 1/0.95 of the time: at equal cycles nothing changed."""
    lease = Lease(world)

    def at(mhz: float) -> dict[str, Any]:
        return {"conditions": {"device": {"sm_mhz": {"median": mhz, "min": mhz, "max": mhz}, "clock_events": {}}}}

    r = np.random.default_rng(3)
    for _ in range(5):
        noise = np.exp(0.0003 * r.normal(size=2))
        lease.pair(
            bases={"samples": [timed(float(noise[0]))]} | at(1500.0),
            heads={"samples": [timed(float(noise[1] / 0.95))]} | at(1425.0),
        )
    [verdict] = lease.conclude()
    assert verdict.answer == "unchanged"
    assert "1425 MHz for the head" in verdict.reason


def test_time_without_cycles_is_the_machine(world: World) -> None:
    lease = Lease(world)
    r = np.random.default_rng(3)
    for _ in range(5):
        noise = np.exp(0.001 * r.normal(size=4))
        cycles: dict[str, Any] = {"kind": "counter", "clock": "cycles", "gate": False}
        lease.pair(
            bases={"samples": [timed(float(noise[0])), samples("ratio", float(1e9 * noise[1]), **cycles)]},
            heads={"samples": [timed(float(1.1 * noise[2])), samples("ratio", float(1e9 * noise[3]), **cycles)]},
        )
    time, cycles = lease.conclude()
    assert (time.answer, time.detail["found"]) == ("inconclusive", "regressed")
    assert "the clock moved" in time.reason
    assert cycles.answer in {"unchanged", "inconclusive"}


@pytest.mark.parametrize(
    ("bases", "heads", "why", "words"),
    [
        (None, {}, "missing-baseline", "new: the base has no such benchmark"),
        ({}, None, "lost", "lost: the head has no result"),
        ({}, {"outcome": "oom", "samples": []}, "failing-head", "failing: 3 of 3 processes of the head ended as 'oom'"),
        ({"outcome": "timeout", "samples": []}, {}, "failing-base", "failing: 3 of 3 processes of the base"),
    ],
)
def test_what_could_not_be_compared_is_its_own_state(
    world: World, bases: dict[str, Any] | None, heads: dict[str, Any] | None, why: str, words: str
) -> None:
    lease = Lease(world)
    for _ in range(3):
        lease.pair(bases=bases, heads=heads)
    [verdict] = lease.conclude()
    assert (verdict.answer, verdict.detail["why"], verdict.ratio) == ("never-compared", why, None)
    assert words in verdict.reason


def test_a_renamed_benchmark_is_recognised_by_its_numbers(world: World) -> None:
    lease = Lease(world)
    for pair in range(3):
        old, new = ({"benchmark": f"sort.time_{name}"} for name in ("small", "few"))
        same = timed(5.0, params={"benchmark": "hash.time_all"})
        lease.pair(
            bases={"samples": [timed(1.0 + pair / 1000, params=old), same]},
            heads={"samples": [timed(1.001 + pair / 1000, params=new), same]},
        )
    found = lease.conclude()
    both = [v.reason for v in found if v.answer == "never-compared"]
    assert len(both) == 2
    assert not any("renamed" in v.reason for v in found if v.answer != "never-compared")
    assert any(r.endswith("it looks renamed to sort.time_few: its numbers go on (+0.1 %)") for r in both)
    assert any(r.endswith("it looks like sort.time_small renamed: its numbers go on (+0.1 %)") for r in both)


def test_a_raised_version_is_never_compared_with_the_old(world: World) -> None:
    lease = Lease(world)
    for _ in range(3):
        lease.pair(bases={"plugin_version": "1"}, heads={"plugin_version": "2"})
    assert {v.detail["why"] for v in lease.conclude()} == {"other-version"}


def test_a_benchmark_that_fails_on_both_sides_is_told_when_its_series_is_known(world: World) -> None:
    world.measure(world.revisions[0], time=1.0)
    lease = Lease(world)
    for _ in range(3):
        lease.pair(bases={"outcome": "crashed", "samples": []}, heads={"outcome": "crashed", "samples": []})
    [verdict] = lease.conclude()
    assert (verdict.answer, verdict.detail["why"]) == ("never-compared", "failing-head")
    assert verdict.reason.endswith("those of the base do too")


def test_among_many_comparisons_a_large_difference_stands_and_a_weak_one_does_not(world: World) -> None:
    """Thirty benchmarks: one 10 % slower, one just past its own level, the rest unchanged."""
    keys = tuple(f"b={i}" for i in range(30))
    lease = Lease(world, keys)
    r = np.random.default_rng(8)
    weak = [0.0080, 0.0230, 0.0150, 0.0190]
    for pair in range(4):
        lease.pairs = pair
        for i, key in enumerate(keys):
            shift = 0.1 if i == 0 else weak[pair] if i == 1 else 0.0
            noise = 0.0 if i == 1 else 0.0003
            values = [float(np.exp(s + noise * r.normal())) for s in (0.0, shift)]
            lease.pair(bases={"samples": [timed(values[0])]}, heads={"samples": [timed(values[1])]}, key=key)
            lease.pairs = pair
    verdicts = lease.conclude()
    answers = [v.answer for v in verdicts]
    assert answers[0] == "regressed"
    assert answers.count("unchanged") >= 26
    assert verdicts[0].detail["false_discovery_share"] < 0.05
    assert verdicts[0].detail["compared"] == 30
    assert verdicts[0].detail["expected_false_alarms"] == 0.75
    assert "regressed" not in answers[1:]
