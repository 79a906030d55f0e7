"""Serving and generation under load: arrivals, queues, tails, and engines that share their places."""

from __future__ import annotations

import statistics
from itertools import pairwise
from pathlib import Path

import pytest
from tests.plugins.conftest import metric

from groundspeed.plugins import generation, open_loop
from groundspeed.plugins.spi import Context

torch = pytest.importorskip("torch")
HERE = "tests.plugins.targets_for_suites"
MODELS = "groundspeed.plugins.models"


def test_arrivals_are_poisson_and_the_same_for_a_seed():
    times = open_loop.poisson(100.0, 50.0, seed=3)
    assert times == open_loop.poisson(100.0, 50.0, seed=3)
    assert 4600 < len(times) < 5400
    gaps = [b - a for a, b in pairwise(times)]
    assert statistics.stdev(gaps) / statistics.mean(gaps) == pytest.approx(1.0, abs=0.1)


class Simulated:
    """A clock that moves when somebody sleeps or serves."""

    def __init__(self, service_s):
        self.now, self.service_s = 0.0, service_s

    def clock(self):
        return self.now

    def sleep(self, seconds):
        self.now += max(seconds, 1e-9)

    def answer(self, count):
        self.now += self.service_s


def simulate(arrivals, largest, delay, service, give_up=1e9):
    world = Simulated(service)
    return open_loop.serve(
        arrivals, open_loop.Batching(largest, delay), world.answer, lambda _: None,
        give_up_s=give_up, clock=world.clock, sleep=world.sleep,
    )  # fmt: skip


def test_latency_counts_from_the_schedule_and_batches_form_while_the_server_is_busy():
    served = simulate([0.0, 0.1, 0.2, 0.3, 5.0], largest=4, delay=0.0, service=1.0)
    assert served.batches == [1, 3, 1]
    assert served.latency_s == pytest.approx([1.0, 1.9, 1.8, 1.7, 1.0])
    served = simulate([0.0, 0.1, 0.2], largest=2, delay=0.5, service=1.0)
    assert served.batches == [2, 1]
    assert served.latency_s == pytest.approx([1.1, 1.0, 1.9])


def test_the_simulated_queue_agrees_with_theory():
    """M/D/1 at 70 % load: mean wait = rho / (2 (1 - rho)) service times (Pollaczek-Khinchine)."""
    arrivals = open_loop.poisson(0.7, 60_000.0, seed=1)
    served = simulate(arrivals, largest=1, delay=0.0, service=1.0)
    wait = statistics.mean(served.latency_s) - 1.0
    assert wait == pytest.approx(0.7 / (2 * 0.3), rel=0.1)


def test_an_overloaded_server_is_told_and_the_highest_load_is_found():
    served = simulate([index * 0.1 for index in range(100)], largest=1, delay=0.0, service=1.0, give_up=5.0)
    assert served.overloaded
    assert len(served.latency_s) < 10
    assert open_loop.highest(lambda load: load <= 37.0, 10.0, steps=12) == pytest.approx(37.0, rel=0.04)
    assert open_loop.highest(lambda _: False, 10.0, steps=12) == 0.0


def test_serving_under_load(here):
    params = {"batch_size": 4, "seconds": 0.15, "load": 100.0, "limit_s": 1.0}
    report = here("serving", f"{MODELS}.inference:bert_small", params)
    assert report.outcome == "ok", report.evidence
    assert metric(report, "highest_load").values[0] > 0
    assert "tail_from_few" in report.conditions["labels"]
    assert not metric(report, "latency_p50").gate
    report = here("serving", f"{HERE}:plain_callable", {"seconds": 0.1})
    assert report.outcome == "unsupported"


def test_generation_with_a_cache_agrees_with_the_whole_sequence(here):
    params = {"requests": 6, "batch_size": 3}
    report = here("generation", f"{MODELS}.generation:gpt_small", params)
    assert report.outcome == "ok", report.evidence
    assert len(metric(report, "time_to_first_token").values) == 6
    assert metric(report, "token_rate").values[0] > 0
    assert len(metric(report, "prefill_time").values) == 6
    report = here("generation", f"{HERE}:forgetful_engine", params)
    assert report.outcome == "wrong"
    assert "through the cache" in report.evidence["message"]


def test_requests_share_the_engine_and_give_their_places_back():
    """Eight requests through two slots: never more than two under way, each with as many tokens as it wants."""
    seen = []

    class Counting:
        vocabulary = 10

        def start(self, slots, longest):
            return set()

        def prefill(self, cache, slot, tokens):
            assert slot in {0, 1}
            return torch.zeros(10)

        def decode(self, cache, slots, tokens):
            seen.append(len(slots))
            return torch.zeros(len(slots), 10)

    context = Context("cpu", {"batch_size": 2, "seed": 1}, None, Path(), lambda _: None)
    trace = [generation.Request(0.0, 3, wanted) for wanted in (1, 2, 3, 4, 5, 1, 2, 3)]
    found = generation.drive(Counting(), trace, context, 16)
    assert max(seen) == 2
    assert sorted(one.made for one in found.finished) == [1, 1, 2, 2, 3, 3, 4, 5]
    assert all(one.done_s >= one.first_s > 0 for one in found.finished)
