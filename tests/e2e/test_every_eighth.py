"""Of forty commits every eighth is measured, and the one that was planted is found: planner, API, detection and follow-up
are the real ones; only the benchmark's numbers are made up, by a worker that speaks to the API through the real client.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from fleet import Fleet, fleet, registration
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases import bisect, catalogue, followup, planning, requests, watch
from groundspeed.service.usecases.analyse import analyse_dirty
from groundspeed.service.wire import v1
from groundspeed.workers.client import Client
from repositories import CONFIG
from web_server import app, serve
from world import run, samples

COMMITS = 40
ONE_BENCHMARK = CONFIG.replace("[8, 16]", "8")
HISTORY = ONE_BENCHMARK.replace("history = 8", f"history = {COMMITS}")


@dataclass
class Bench:
    """A benchmark that is 20 % slower from position ``at`` on, in 1 % noise; ``measured`` counts processes by position."""

    client: Client
    shas: list[str]
    at: int
    noise: np.random.Generator
    broken: frozenset[int] = frozenset()
    measured: Counter[int] = field(default_factory=Counter)

    def work(self) -> int:
        """Do every job that waits; returns how many there were."""
        done = 0
        while (claimed := self.client.next(v1.ClaimRequest(protocol=v1.PROTOCOL, node="n1"))).job is not None:
            assert claimed.attempt_id is not None
            self._job(claimed.attempt_id, claimed.job)
            done += 1
        return done

    def _job(self, attempt: str, job: v1.JobSpec) -> None:
        position = self.shas.index(job.sides[0].sha)
        version = catalogue.shipped()["training"].version
        if position in self.broken:
            self.client.finish(
                attempt, v1.FinishRequest(state="failed", error_kind="permanent", error="will not build")
            )
            return
        for bench in job.benchmarks:
            for turn in range(bench.replicates):
                value = (1.2 if position >= self.at else 1.0) * float(np.exp(0.01 * self.noise.normal()))
                report = run(
                    bench.key, bench.first_replicate + turn, plugin="training", plugin_version=version,
                    params=bench.params, samples=[samples("time", value)],
                )  # fmt: skip
                ack = self.client.runs(attempt, v1.RunBatch(runs=(report,)))
                assert not ack.refused, ack.refused
                self.measured[position] += 1
        assert self.client.finish(attempt, v1.FinishRequest(state="succeeded")).ok


@pytest.fixture
def world(sqlite_database: Database, tmp_path: Path) -> Fleet:
    world = fleet(sqlite_database, tmp_path, COMMITS, HISTORY)
    world.add(watch=False)
    return world


@pytest.fixture
def client(world: Fleet, tmp_path: Path) -> Iterator[Client]:
    with serve(app(Database(world.db.url), tmp_path / "data")) as url:
        client = Client(url, lambda: None, "n1", threading.Event())
        assert client.register(registration("n1")).accepted
        yield client
        client.close()


def settle(world: Fleet, bench: Bench, rounds: int = 40) -> None:
    """What the control worker and a worker do, until nothing is left to do."""
    for _ in range(rounds):
        now = datetime.now(UTC)
        for request_id in watch.pending(world.db, now, older_than=-(now - now)):
            planning.plan_request(world.db, world.mirrors, request_id, now)
        worked = bench.work()
        analyse_dirty(world.db, now)
        planned = followup.plan_for_slug(world.db, "toy", now)
        if not worked and not planned:
            return
    raise AssertionError("it never came to rest")


def spans(world: Fleet) -> list[tuple[str, int, int]]:
    """(state, position before, position after) of every change point that stands."""
    with world.db.read() as session:
        place = {row.id: row.position for row in session.query(t.Revision)}
        rows = [row for row in session.query(t.ChangePoint) if row.state != "withdrawn"]
        return [(row.state, place[row.before_revision_id], place[row.after_revision_id]) for row in rows]


@pytest.mark.parametrize("at", [13, 26])
def test_of_forty_commits_every_eighth_is_measured_and_the_planted_one_is_found(
    world: Fleet, client: Client, at: int
) -> None:
    bench = Bench(client, world.shas, at, np.random.default_rng(at))
    ref = requests.create(world.db, world.mirrors, "toy", requests.Asked(every=8), datetime.now(UTC))
    planning.plan_request(world.db, world.mirrors, ref.id, datetime.now(UTC))
    assert bench.work() == 5
    assert sorted(bench.measured) == [7, 15, 23, 31, 39]
    settle(world, bench)
    assert spans(world) == [("confirmed", at - 1, at)]
    assert len(bench.measured) <= 5 + 4, "commits between are bisected, not measured one after another"
    assert sum(bench.measured.values()) <= 30
    with world.db.read() as session:
        [regression] = session.query(t.Regression).all()
        assert session.get_one(t.Revision, regression.after_revision_id).sha == world.shas[at]
        spent = sum(row.duration_s for row in session.query(t.Run))
        assert spent <= session.get_one(t.Request, ref.id).budget_s


def test_a_series_is_bisected_by_hand_between_two_commits(world: Fleet, client: Client) -> None:
    """Two commits were measured; a person asks what happened between them, and one that will not build is passed over."""
    bench = Bench(client, world.shas, 17, np.random.default_rng(3), broken=frozenset({19}))
    for sha in (world.shas[0], world.shas[-1]):
        asked = requests.Asked(range=sha)
        ref = requests.create(world.db, world.mirrors, "toy", asked, datetime.now(UTC))
        planning.plan_request(world.db, world.mirrors, ref.id, datetime.now(UTC))
    assert bench.work() == 2
    question = bisect.Asked("train/time", world.shas[0], world.shas[-1])
    state = bisect.start(world.db, question, datetime.now(UTC), project="toy")
    assert (state.outcome, state.created, state.left) == ("open", True, 38)
    assert followup.waiting(world.db, datetime.now(UTC)) == [], "its jobs are on their way"
    bench.work()
    assert followup.waiting(world.db, datetime.now(UTC)) == [1], "its next step is due, whoever forgot to say so"
    settle(world, bench)
    again = bisect.start(world.db, question, datetime.now(UTC), project="toy")
    assert (again.request_id, again.created, again.outcome) == (state.request_id, False, "found")
    assert (again.good, again.bad) == (world.shas[16], world.shas[17])
    assert again.effect == pytest.approx(0.2, abs=0.02)
    assert len(bench.measured) <= 9
    assert followup.waiting(world.db, datetime.now(UTC)) == []
