"""What real series do, and what detection makes of it."""

import numpy as np
import pytest

from domain_series import series, values
from groundspeed.service.domain.detect import DetectConfig, StaleStateError, detect
from groundspeed.service.domain.series import Point, SeriesData


def places(found, *, firm=False):
    return [c.x_after for c in found.change_points if not (firm and c.provisional)]


def test_a_step_is_found_where_it_is_with_its_size():
    """A 5 % step in 1 % noise is found at its commit, its interval holds the truth, and it is no longer provisional."""
    (c,) = detect(series(values(300, [(120, 1.05)], 0.01, 1))).change_points
    assert (c.x_before, c.x_after, c.kind, c.provisional, c.cause) == (119, 120, "regression", False, "code")
    assert c.ratio_low < 1.05 < c.ratio_high
    assert c.ratio_high - c.ratio_low < 0.01


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    """Of 200 steps of 6 %, the 95 % intervals miss at most 8 %."""
    inside = total = 0
    for seed in range(200):
        for c in detect(series(values(120, [(60, 1.06)], 0.01, seed))).change_points:
            total += 1
            inside += c.ratio_low <= 1.06 <= c.ratio_high
    assert total >= 199
    assert inside >= 0.92 * total


def test_a_step_that_recovers_is_two_change_points():
    """A regression and its fix are both found."""
    found = detect(series(values(200, [(80, 1.1), (100, 1 / 1.1)], 0.01, 2)))
    assert [(c.x_after, c.kind) for c in found.change_points] == [(80, "regression"), (100, "improvement")]


@pytest.mark.parametrize("seed", range(20))
def test_outliers_are_no_steps(seed):
    """2 % of points up to twice too slow, alone or in pairs, leave a quiet series quiet."""
    y = values(400, (), 0.005, seed)
    r = np.random.default_rng(seed)
    y[r.random(400) < 0.02] *= 1 + r.exponential(0.4)
    y[200:202] *= 1.8
    assert places(detect(series(y)), firm=True) == []


@pytest.mark.parametrize("seed", range(10))
def test_modes_are_no_steps_and_do_not_hide_one(seed):
    """A series that jumps between two modes 10 % apart is called bimodal; only its true 5 % step is found."""
    r = np.random.default_rng(seed)
    y = values(400, [(250, 1.05)], 0.004, seed) * np.where(r.random(400) < 0.35, 1.1, 1.0)
    found = detect(series(y))
    assert found.series_class == "bimodal"
    assert found.noise.mode_gap == pytest.approx(0.1, abs=0.02)
    (c,) = [c for c in found.change_points if not c.provisional]
    assert abs(c.x_after - 250) <= 1
    assert c.ratio == pytest.approx(1.05, abs=0.01)


@pytest.mark.parametrize("seed", range(10))
def test_drift_is_reported_as_drift(seed):
    """A slow rise of 15 % over 500 points is one drift and no step, and a step on it is still found."""
    slope = np.exp(np.linspace(0, np.log(1.15), 500))
    found = detect(series(values(500, (), 0.006, seed) * slope))
    assert places(found) == []
    assert found.drift is not None
    assert found.drift.total == pytest.approx(0.15, abs=0.04)
    stepped = detect(series(values(500, [(300, 1.06)], 0.006, seed) * slope))
    assert [abs(p - 300) <= 1 for p in places(stepped)] == [True]
    assert stepped.change_points[0].ratio == pytest.approx(1.06, abs=0.012)


@pytest.mark.parametrize("seed", range(10))
def test_growing_noise_is_no_step(seed):
    """Noise that grows eightfold over the series raises no false step in its loud part."""
    r = np.random.default_rng(seed)
    y = np.exp(np.linspace(0.004, 0.032, 800) * r.normal(size=800))
    assert places(detect(series(y)), firm=True) == []


def test_a_counter_does_not_alarm_at_rounding():
    """A series of bytes without noise is silent about a change of 4 kB in 1 GB and finds one of 2 %."""
    y = np.full(200, 1e9)
    y[100:] += 4096
    found = detect(series(y, kind="bytes"))
    assert found.change_points == ()
    assert found.series_class == "constant"
    y[150:] *= 1.02
    assert places(detect(series(y, kind="bytes"))) == [150]


def test_a_quantised_timer_is_not_a_step_machine():
    """Values on a 2 % grid flip between two levels without a change point; the quantum is reported."""
    y = np.round(values(300, (), 0.008, 5) * 50) / 50
    found = detect(series(y))
    assert places(found, firm=True) == []
    assert found.noise.quantum == pytest.approx(0.02, abs=0.001)


def test_a_very_steady_series_shows_a_fifth_of_a_percent_when_nobody_set_a_threshold():
    """Device-busy time with 0.02 % noise shows 0.4 %; a configured threshold of 1 % hides it."""
    y = values(60, [(30, 1.004)], 0.0002, 4)
    assert places(detect(series(y))) == [30]
    assert places(detect(series(y), DetectConfig(min_effect=0.01))) == []
    assert places(detect(series(y, min_effect=0.01))) == []


def test_the_newest_points_are_provisional_until_more_come():
    """A step two points from the end is provisional; with eight points it is firm; gone with them if they return."""
    y = values(120, [(100, 1.15)], 0.01, 6)
    (early,) = detect(series(y[:102])).change_points
    assert (early.x_after, early.provisional) == (100, True)
    (late,) = detect(series(y[:110])).change_points
    assert (late.x_after, late.provisional) == (100, False)
    back = y.copy()
    back[102:] /= 1.15
    assert places(detect(series(back)), firm=True) == []


def test_an_environment_change_gets_its_own_estimate():
    """Environment and commit changed between the same points: both; the same commit again: the environment."""
    y = values(80, [(40, 1.08)], 0.005, 7)
    points = [Point(i, (float(v),), environment="old" if i < 40 else "new") for i, v in enumerate(y)]
    found = detect(SeriesData("s", -1, "time", tuple(points)))
    (c,) = found.change_points
    (effect,) = found.environment_effects
    assert (c.x_after, c.cause, c.environment_before, c.environment_after) == (40, "both", "old", "new")
    assert effect.confounded
    assert effect.ratio_low < 1.08 < effect.ratio_high
    again = [*points[:40], Point(39, (float(y[40]),), environment="new"), *points[40:]]
    found = detect(SeriesData("s", -1, "time", tuple(again)))
    (c,) = found.change_points
    assert (c.x_before, c.x_after, c.cause) == (39, 39, "environment")
    assert not found.environment_effects[0].confounded


def test_an_environment_without_effect_is_estimated_and_not_flagged():
    """The estimate is there, holds 1, and no change point is made of it."""
    y = values(80, (), 0.005, 8)
    points = tuple(Point(i, (float(v),), environment=str(i // 40)) for i, v in enumerate(y))
    found = detect(SeriesData("s", -1, "time", points))
    assert found.change_points == ()
    assert found.environment_effects[0].ratio_low < 1.0 < found.environment_effects[0].ratio_high


def test_settled_points_are_not_touched():
    """A point before what is settled is refused with advice; one in the open part replaces its like."""
    y = values(1700, [(900, 1.1)], 0.01, 9)
    found = detect(series(y))
    with pytest.raises(StaleStateError, match="from all points"):
        detect(series([1.0], start=100), state=found.state)
    changed = detect(SeriesData("s", -1, "time", (Point(1699, (50.0,)),)), state=found.state)
    assert changed.state.stretch.y[-1] == 50.0
    assert changed.state.stretch.size == found.state.stretch.size


def test_points_out_of_order_are_refused():
    """Points come in order of x."""
    with pytest.raises(ValueError, match="in order"):
        detect(SeriesData("s", -1, "time", (Point(3, (1.0,)), Point(2, (1.0,)))))


@pytest.mark.parametrize("tick", [0.01, 0.02])
def test_a_coarse_timer_that_flips_by_chance_is_no_step(tick):
    """Noise under one tick reads the same most of the time: four flips in a row mean nothing, a real step shows."""
    alarms = 0
    for seed in range(20):
        y = values(1000, [(600, 1.08)], 0.004, seed, level=1.004)
        found = detect(series(np.maximum(np.round(y / tick), 1) * tick))
        places = [c.x_after for c in found.change_points]
        assert any(abs(x - 600) <= 1 for x in places)
        alarms += len(places) - 1
    assert alarms <= 1


def test_a_rare_mode_that_comes_in_a_row_by_chance_is_no_step():
    """A sixth of the points lies 4 % higher, too near to be told apart: runs of them are expected, and are not told."""
    alarms = 0
    for seed in range(12):
        r = np.random.default_rng(seed)
        y = values(3000, (), 0.009, seed) * np.where(r.random(3000) < 0.16, 1.045, 1.0)
        alarms += len(detect(series(y)).change_points)
    assert alarms <= 2


def test_a_step_that_was_undone_four_commits_later_is_told():
    """The same four points in a series that has no others like them are a step and its fix."""
    found = detect(series(values(400, [(200, 1.06), (204, 1 / 1.06)], 0.009, 1)))
    assert [c.x_after for c in found.change_points] == [200, 204]


def test_growth_up_to_the_end_is_no_step_at_the_end():
    """Points that grow ever faster have no step at the last two of them; one that jumps there has."""
    curve = np.exp(np.linspace(0.0, 1.0, 100) ** 6 * 0.4) * values(100, (), 0.001, 3)
    assert [c.x_after for c in detect(series(curve)).change_points if c.x_after >= 97] == []
    flat = values(100, [(98, 1.1)], 0.001, 3)
    assert [(c.x_after, c.provisional) for c in detect(series(flat)).change_points] == [(98, True)]


def test_in_a_few_points_one_outlier_at_the_end_is_one_more_outlier():
    """Where the series has shown an outlier before, a last point far off is no step; where not, it is provisional."""
    calm = values(27, (), 0.02, 4)
    end = calm.copy()
    end[-1] *= 2.0
    assert [(c.x_after, c.provisional) for c in detect(series(end)).change_points] == [(26, True)]
    end[9] *= 1.5
    assert detect(series(end)).change_points == ()


@pytest.mark.parametrize("shape", ["plain", "noisy", "heavy"])
def test_false_steps_are_as_rare_as_configured(shape):
    """Over 60,000 points of plain noise there is at most one false firm step per 10,000 points."""
    r = np.random.default_rng(11)
    false = 0
    for _ in range(60):
        e = r.standard_t(4, 1000) / 1.4 if shape == "heavy" else r.normal(size=1000)
        found = detect(series(np.exp((0.02 if shape == "noisy" else 0.006) * e)))
        false += len(places(found, firm=True))
    assert false <= 6
