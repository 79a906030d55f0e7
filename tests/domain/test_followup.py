"""From one process a commit to a confirmed change point: what the first run of a project goes through."""

import numpy as np
import pytest

from groundspeed.service.domain.detect import Detection, detect
from groundspeed.service.domain.plan import suspects
from groundspeed.service.domain.series import Point, SeriesData


class Bench:
    """A benchmark that can be measured at any commit; 3 % of processes are up to twice too slow."""

    def __init__(self, commits: int, steps: dict[int, float], cv: float, seed: int) -> None:
        self.r = np.random.default_rng(seed)
        self.cv = cv
        self.level = np.ones(commits)
        for at, ratio in steps.items():
            self.level[at:] *= ratio
        self.values: dict[int, list[float]] = {}

    def measure(self, x: int, times: int = 1) -> None:
        for _ in range(times):
            v = self.level[x] * np.exp(self.cv * self.r.normal())
            if self.r.random() < 0.03:
                v *= 1 + self.r.exponential(0.1)
            self.values.setdefault(x, []).append(float(v))

    def series(self) -> SeriesData:
        return SeriesData("s", -1, "time", tuple(Point(x, tuple(v)) for x, v in sorted(self.values.items())))

    def settle(self, budget: int = 60) -> tuple[Detection, int]:
        """Measure what is asked for until nothing is, or the budget is spent; returns processes spent."""
        spent = 0
        while True:
            found = detect(self.series())
            wanted = suspects(found, self.series())
            if not wanted or spent >= budget:
                return found, spent
            for w in wanted:
                self.measure(w.x, w.replicates)
                spent += w.replicates


def run(commits: int, every: int, steps: dict[int, float], cv: float, seed: int) -> tuple[Detection, int]:
    bench = Bench(commits, steps, cv, seed)
    for x in sorted({*range(0, commits, every), commits - 1}):
        bench.measure(x)
    return bench.settle()


def test_twenty_commits_with_a_step_are_confirmed_and_nothing_else():
    """Steps of 15 to 30 % in 3 % noise: at least 54 of 60 confirmed at their commit, none anywhere else."""
    hits = 0
    for seed in range(60):
        at = 2 + seed % 18
        found, _ = run(20, 1, {at: 1.15 + 0.15 * (seed % 7) / 6}, 0.03, seed)
        firm = [c.x_after for c in found.change_points if not c.provisional]
        hits += firm == [at]
        assert set(firm) <= {at}
    assert hits >= 54


def test_twenty_quiet_commits_stay_quiet():
    """Of 100 series of noise none has a change point when all is settled, for little follow-up."""
    spent = 0
    for seed in range(100):
        found, more = run(20, 1, {}, 0.03, 1000 + seed)
        assert found.change_points == ()
        spent += more
    assert spent < 100


def test_of_forty_commits_every_eighth_is_measured_and_the_planted_one_is_found():
    """Replicates confirm the gap with the step in it, and bisection ends at the planted commit."""
    hits = 0
    for seed in range(40):
        at = 9 + seed % 24
        found, spent = run(40, 8, {at: 1.2}, 0.01, 2000 + seed)
        firm = [(c.x_before, c.x_after) for c in found.change_points if not c.provisional]
        assert {x for _, x in firm} <= {at}
        hits += firm == [(at - 1, at)]
        assert spent <= 40
    assert hits >= 36


def test_a_commit_that_will_not_build_is_not_asked_for_again():
    """Bisection passes over a commit that was tried and gave no number, and over those that can't be measured."""
    values = {0: (1.0, 1.01, 1.0), 1: (1.0, 1.0, 1.01), 2: (), 3: (), 6: (1.2, 1.21, 1.2), 7: (1.2, 1.2, 1.21)}
    data = SeriesData("s", -1, "time", tuple(Point(x, v) for x, v in values.items()))
    found = detect(data)
    assert [(c.x_before, c.x_after, c.provisional) for c in found.change_points] == [(1, 6, False)]
    assert [(s.x, s.why) for s in suspects(found, data)] == [(4, "bisect")]
    assert [s.x for s in suspects(found, data, measurable=(2, 3, 5))] == [5]
    assert suspects(found, data, measurable=(2, 3)) == []


def test_replicates_show_a_change_that_the_next_commit_undid():
    """One slow commit between two fast ones, each measured five times, is a regression and its fix."""
    r = np.random.default_rng(3)
    rows = [tuple(map(float, (1.3 if x == 6 else 1.0) * np.exp(0.01 * r.normal(size=5)))) for x in range(12)]
    found = detect(SeriesData("s", -1, "time", tuple(Point(x, v) for x, v in enumerate(rows))))
    assert [(c.x_after, c.replicated) for c in found.change_points] == [(6, True), (7, True)]


@pytest.mark.parametrize("known", [None, 0.02])
def test_two_points_say_something_only_with_known_noise(known):
    """Nothing is known about the noise of two single values unless an A/A run told."""
    data = SeriesData("s", -1, "time", (Point(0, (1.0,)), Point(1, (1.3,))), noise_sd=known)
    assert len(detect(data).change_points) == (0 if known is None else 1)
