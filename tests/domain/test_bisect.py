"""Bisection by hand ends at the commit that made the difference, or says why it cannot."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundspeed.service.domain.bisect import Search, search


class Bench:
    """A benchmark that can be measured at any commit but ``broken``; higher by ``ratio`` from ``at`` on."""

    def __init__(self, at: int, ratio: float, cv: float, seed: int, broken: frozenset[int] = frozenset()) -> None:
        self.at, self.ratio, self.cv, self.broken = at, ratio, cv, broken
        self.r = np.random.default_rng(seed)
        self.values: dict[int, tuple[float, ...]] = {}

    def run(self, good: int, bad: int, offset: float = 0.0) -> tuple[Search, int]:
        """Measure what is asked for until nothing is; returns the answer and the processes spent."""
        spent, useless = 0, set()
        while True:
            found = search(self.values, good, bad, floor=0.01, commits=range(good, bad + 1), useless=useless)
            if found.outcome != "open":
                return found, spent
            assert found.measure, "an open search asks for something"
            for x, count in found.measure:
                spent += count
                if x in self.broken:
                    useless.add(x)
                    continue
                level = self.ratio if x >= self.at else 1.0
                new = tuple(float(level * math.exp(self.cv * self.r.normal()) - offset) for _ in range(count))
                self.values[x] = self.values.get(x, ()) + new


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 63),
    st.sampled_from([0.7, 1.05, 1.4, 3.0]),
    st.integers(0, 9999),
    st.sets(st.integers(1, 62), max_size=25),
)
def test_it_ends_at_the_commit_or_at_the_smallest_range_that_can_be_measured(at, ratio, seed, broken):
    """Noise of a thirtieth of the step, some commits that will not build: never wrong, and about as dear as log2."""
    bench = Bench(at, ratio, abs(math.log(ratio)) / 30, seed, frozenset(broken))
    found, spent = bench.run(0, 63)
    low = max(x for x in range(64) if x < at and x not in broken)
    high = min(x for x in range(64) if x >= at and x not in broken)
    assert (found.good, found.bad) == (low, high)
    assert found.outcome == ("found" if high - low == 1 else "stuck")
    assert spent <= 6 + 3 * 6 + len(broken)
    assert math.log1p(found.effect) == pytest.approx(math.log(ratio), rel=0.1)


@pytest.mark.parametrize("offset", [0.0, 1.05])
def test_values_below_zero_are_bisected_too(offset):
    """A metric that crosses zero has no ratio; its levels still tell commits apart."""
    assert Bench(20, 1.4, 0.005, 1).run(0, 40, offset)[0].bad == 20


def test_ends_that_do_not_differ_are_told_after_few_processes():
    """Nothing is searched for between two equal commits, and noise is not taken for a difference."""
    answers = [Bench(99, 1.0, 0.02, seed).run(0, 40) for seed in range(40)]
    assert sum(found.outcome == "no-difference" for found, _ in answers) >= 38
    assert all(spent <= 10 for found, spent in answers if found.outcome == "no-difference")
    assert "do not differ beyond noise" in answers[0][0].words


def test_an_end_that_can_not_be_measured_is_told():
    """Without both levels nothing can be compared."""
    assert Bench(5, 1.5, 0.01, 1, frozenset({9})).run(0, 9)[0].outcome == "stuck"


def test_noise_asks_for_more_processes_a_commit():
    """A step of two spreads needs several processes to place a commit on its side."""
    clear, noisy = Bench(20, 1.5, 0.01, 3).run(0, 40)[1], Bench(20, 1.12, 0.03, 3).run(0, 40)[1]
    assert clear < noisy
