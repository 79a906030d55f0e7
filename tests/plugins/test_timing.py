"""The pure parts of the measurement core: steady state, stop rule, loop, calibration."""

from __future__ import annotations

import gc
import random
import statistics
import time
import types

import pytest

from groundspeed.plugins.protocol import Limits
from groundspeed.plugins.timing import profile
from groundspeed.plugins.timing.clocks import AcceleratorClock, Chunk, HostClock, clock_for
from groundspeed.plugins.timing.kernels import Interval
from groundspeed.plugins.timing.loop import Loop, quiet_collector
from groundspeed.plugins.timing.memory_trace import Held, running_sums
from groundspeed.plugins.timing.reference import NOMINAL_S, Reference, calibrated, python_work
from groundspeed.plugins.timing.steady import SteadyTest
from groundspeed.plugins.timing.stopping import StopRule, median_interval, relative_half_width
from groundspeed.plugins.timing.unbroken import loop_clock

TEST = SteadyTest(window=10, window_s=0.0)


def noisy(level, count, spread, seed=1):
    rng = random.Random(seed)
    return [level * (1 + spread * rng.gauss(0, 1)) for _ in range(count)]


@pytest.mark.parametrize("spread", [0.0, 0.001, 0.02])
def test_a_level_series_is_steady(spread):
    values = noisy(0.01, 20, spread)
    assert TEST.holds(values, values)


def test_a_drifting_series_is_not_steady():
    """A power cap that comes on slowly: 16 % over the window, little noise."""
    values = [0.010 * (1 + 0.016 * i) * (1 + 0.001 * (i % 3)) for i in range(10)]
    assert not TEST.holds(values, values)


def test_a_step_within_the_window_is_not_steady():
    assert not TEST.holds([0.010] * 5 + [0.012] * 5, [0.01] * 10)


def wandering(count, seed, drift=0.0):
    """A host that wanders by some 5 %: each sample is close to the one before it."""
    rng, away = random.Random(seed), 0.0
    values = []
    for index in range(count):
        away = 0.8 * away + 0.03 * rng.gauss(0, 1)
        values.append(0.002 * (1 + away + drift * index / count))
    return values


def test_a_host_that_wanders_about_a_level_is_steady_and_one_that_drifts_is_not():
    test = SteadyTest(window=100, window_s=0.0)
    steady = [test.holds(values, values) for values in (wandering(100, seed) for seed in range(200))]
    assert sum(steady) >= 150
    drifting = [test.holds(values, values) for values in (wandering(100, seed, 0.5) for seed in range(200))]
    assert sum(drifting) <= 20


def test_growing_spread_is_not_steady():
    values = [0.010] * 5 + [0.008, 0.012, 0.010, 0.013, 0.007]
    assert not TEST.holds(values, values)


def test_a_window_must_be_full_in_count_and_in_time():
    assert not TEST.holds([0.01] * 9, [0.01] * 9)
    assert not SteadyTest(window=10, window_s=0.2).holds([0.01] * 15, [0.01] * 15)
    assert SteadyTest(window=10, window_s=0.2).holds([0.01] * 25, [0.01] * 25)


def test_the_medians_interval_covers_the_true_median_in_about_95_of_100_trials():
    rng = random.Random(3)
    hits = 0
    for _ in range(400):
        low, high = median_interval([rng.expovariate(1.0) for _ in range(40)])
        hits += low <= 0.6931 <= high
    assert 0.92 <= hits / 400 <= 0.99


def test_few_values_give_their_range():
    assert median_interval([3.0, 1.0, 2.0]) == (1.0, 3.0)
    assert relative_half_width([]) == float("inf")


RULE = StopRule(min_samples=5, max_samples=50, min_time_s=0.1, max_time_s=1.0, relative_half_width=0.01)


@pytest.mark.parametrize(
    ("values", "elapsed_s", "verdict"),
    [
        ([1.0] * 4, 0.5, ""),
        ([1.0] * 4, 3.0, "time"),
        ([1.0] * 10, 0.05, ""),
        ([1.0] * 10, 0.5, "narrow"),
        (noisy(1.0, 10, 0.1), 0.5, ""),
        (noisy(1.0, 10, 0.1), 1.0, "time"),
        (noisy(1.0, 50, 0.1), 0.5, "samples"),
    ],
)
def test_the_stop_rule(values, elapsed_s, verdict):
    assert RULE.verdict(values, elapsed_s) == verdict


def test_wanted_samples_keep_a_narrow_interval_going_until_the_time_is_up():
    rule = StopRule(5, 5000, 0.1, 1.0, 0.01, wanted_samples=1000)
    assert rule.verdict([1.0] * 500, 0.5) == ""
    assert rule.verdict([1.0] * 500, 1.0) == "time"
    assert rule.verdict([1.0] * 1000, 0.5) == "narrow"


class FakeClock:
    """Steps take what a function of their number says; no time passes."""

    def __init__(self, seconds):
        self.seconds, self.steps = seconds, 0

    def synchronize(self):
        pass

    def chunk(self, step, samples, steps_per_sample):
        chunk = Chunk()
        for _ in range(samples):
            total = 0.0
            for _ in range(steps_per_sample):
                step()
                total += self.seconds(self.steps)
                self.steps += 1
            each = total / steps_per_sample
            chunk.extend(Chunk([each], [each], [0.0], [False]))
        return chunk

    def latency_chunk(self, step, samples):
        return self.chunk(step, samples, 1)


def test_the_loop_warms_up_until_the_time_of_a_step_settles():
    """The first 40 steps fall from 30 to 10 ms: none of them is among the samples."""
    clock = FakeClock(lambda n: 0.010 + max(0, 40 - n) * 0.0005)
    result = Loop(lambda: None, clock, Limits(min_time_s=0.0), lambda _: None).run()
    assert result.steady
    assert result.warmup_steps >= 40
    assert set(result.chunk.wall_s) == {0.010}


def test_on_an_accelerator_the_steady_window_is_measured_and_its_energy_is_not_guessed():
    clock = FakeClock(lambda n: 0.010 + max(0, 40 - n) * 0.0005)
    joules = iter([100.0, 160.0])
    limits = Limits(min_time_s=0.0, max_samples=400)
    loop = Loop(lambda: None, clock, limits, lambda _: None, energy_j=lambda: next(joules), accelerator=True)
    result = loop.run()
    window = loop.steady_test.count([0.010] * 100)
    assert window == 20
    assert set(result.chunk.wall_s) == {0.010}
    assert result.energy_j_per_step == pytest.approx(60 / (len(result.chunk.wall_s) - window))
    assert result.measure_s > 0
    assert result.warmup_s >= 0


def test_limits_suit_the_device_unless_they_are_set():
    assert Limits().on(accelerator=False).max_samples == 200
    found = Limits(max_time_s=9.0).on(accelerator=True)
    assert (found.max_samples, found.min_time_s, found.max_time_s) == (2000, 2.0, 9.0)
    assert Limits(min_time_s=0.0).on(accelerator=True).min_time_s == 0.0


def test_a_workload_that_never_settles_is_measured_and_says_so():
    clock = FakeClock(lambda n: 0.010 * 1.01 ** min(n, 60_000))
    limits = Limits(warmup_max_s=0.05, min_time_s=0.0, max_samples=10)
    result = Loop(lambda: None, clock, limits, lambda _: None).run()
    assert not result.steady
    assert result.chunk.wall_s


def test_short_steps_share_a_sample():
    clock = FakeClock(lambda _: 0.0001)
    result = Loop(lambda: None, clock, Limits(min_time_s=0.0), lambda _: None).run()
    assert result.steps_per_sample == 20
    assert result.chunk.wall_s[0] == pytest.approx(0.0001)


def test_latency_mode_takes_single_steps_and_enough_of_them_for_a_tail():
    clock = FakeClock(lambda _: 0.0001)
    result = Loop(lambda: None, clock, Limits(min_time_s=0.0), lambda _: None, "latency").run()
    assert result.steps_per_sample == 1
    assert len(result.chunk.wall_s) >= 1000


def test_a_slow_host_cancels_in_calibrated_time():
    assert calibrated([0.010, 0.020], [NOMINAL_S, 2 * NOMINAL_S]) == pytest.approx([0.010, 0.010])


def test_every_sample_gets_the_reference_around_it():
    reference = Reference(python_work)
    limits = Limits(warmup_max_s=0.1, min_time_s=0.05, max_time_s=0.2)
    result = Loop(lambda: sum(range(20_000)), HostClock(), limits, lambda _: None, reference=reference).run()
    assert len(result.reference_s) == len(result.chunk.wall_s)
    assert all(value > 0 for value in result.reference_s)


def test_the_host_clock_measures_wall_and_cpu_time_apart():
    chunk = HostClock().chunk(lambda: time.sleep(0.01), 3, 1)
    assert statistics.median(chunk.wall_s) >= 0.01
    assert statistics.median(chunk.cpu_s) < 0.005


def test_the_collector_is_quiet_while_measuring_and_as_before_afterwards():
    assert gc.isenabled()
    with quiet_collector():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_allocations_are_summed_between_marks():
    changes = [(1, 100), (2, 50), (3, -50), (4, 200), (5, -300)]
    held = running_sums(changes, [(3, "forward"), (4, "end")])
    assert held.spans == [("start", 100, 150), ("forward", 300, 300), ("end", 0, 300)]
    assert (held.setup, held.phase_peaks()) == (100, {"forward": 300})


def test_growth_is_what_stays_after_each_step_and_one_odd_step_is_no_leak():
    leaking = Held([("step", 1000 + 64 * n, 0) for n in range(8)])
    assert leaking.growth() == 64
    steady = Held([("step", 9000 if n == 5 else 1000, 0) for n in range(9)])
    assert steady.growth() == 0


def test_devices_without_timing_events_are_waited_for_by_the_hosts_clock():
    """Apple's and older XPU builds of torch: a sample ends when the device has."""
    waited = []
    clock = AcceleratorClock(types.SimpleNamespace(synchronize=lambda: waited.append(1)))
    chunk = clock.chunk(lambda: None, 3, 2)
    assert (len(chunk.wall_s), len(waited)) == (3, 3)
    pytest.importorskip("torch")
    assert type(loop_clock("mps")) is AcceleratorClock
    assert isinstance(clock_for("xpu:0"), AcceleratorClock)
    assert profile.profile_steps(lambda: None, "mps", 1e-3, lambda _: None).unavailable == "there is no tracer for mps"


class FakeTracer:
    """Each step is one kernel of 1 ms; there is room for 40 steps more than the first 60."""

    def __init__(self):
        self.now, self.found = 0, []

    def start(self):
        pass

    def stop(self):
        pass

    def step(self):
        self.found.append(Interval("kernel", self.now + 1, 1_000_000))
        self.now += 2_000_000

    def now_ns(self):
        return self.now

    def room(self, steps):
        return 100 - steps

    def intervals(self):
        return self.found


@pytest.mark.parametrize(("most", "seen"), [(profile.MAX_STEPS, 100), (profile.FEW_STEPS, 60), (10, 10)])
def test_short_steps_are_traced_as_long_as_the_tracer_has_room(monkeypatch, most, seen):
    """With few at most, the tracer is not asked: every rank takes as many."""
    torch = pytest.importorskip("torch")
    tracer = FakeTracer()
    monkeypatch.setattr(profile, "open_tracer", lambda _: (tracer, "fake"))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)
    found = profile.profile_steps(tracer.step, "cuda:0", 1e-4, lambda _: None, most=most)
    assert len(found.steps) == len(found.begin_s) == len(found.took_s) == seen
    assert {step.busy_s for step in found.steps} == {1e-3}
