"""The gate: answers, error rates, and what it says it could have seen."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundspeed.service.domain.compare import GateConfig, compare, next_step
from groundspeed.service.domain.intervals import paired, unpaired


def sides(n, effect=0.0, cv=0.002, seed=0, samples=5):
    r = np.random.default_rng(seed)

    def side(shift):
        return [(np.exp(shift + cv * r.normal() + 0.01 * r.normal(size=samples))).tolist() for _ in range(n)]

    return side(0.0), side(math.log1p(effect))


@pytest.mark.parametrize(
    ("effect", "direction", "answer"),
    [
        (0.05, -1, "regressed"),
        (-0.05, -1, "improved"),
        (0.05, 1, "improved"),
        (-0.05, 1, "regressed"),
        (0.05, 0, "changed"),
        (0.0, -1, "unchanged"),
    ],
)
@pytest.mark.parametrize("pairs", [True, False])
def test_answers(effect, direction, answer, pairs):
    """A 5 % change is called by the metric's direction, none is called unchanged, and the interval holds the truth."""
    base, head = sides(8, effect, 0.002, 1, samples=200)
    v = compare(base, head, GateConfig(direction=direction, paired=pairs, threshold=0.01))
    assert v.answer == answer
    assert v.low <= effect <= v.high
    assert 0 < v.mde < 0.02


def test_noise_makes_it_inconclusive_and_it_says_what_it_could_have_seen():
    """With 10 % noise four pairs can't decide 1 %, and the MDE says so."""
    v = compare(*sides(4, 0.01, 0.1, 2))
    assert v.answer == "inconclusive"
    assert v.mde > 0.1
    assert v.reason


@pytest.mark.parametrize(("base", "head"), [([], []), ([], [[1.0]]), ([[1.0]], [])])
def test_a_missing_side_is_never_compared(base, head):
    """No data is its own state, never *no change*."""
    v = compare(base, head)
    assert v.answer == "never-compared"
    assert math.isnan(v.effect)
    assert "no process ran" in v.reason


@pytest.mark.parametrize("row", [[], [math.nan], [math.inf], [0.0], [-1.0]])
def test_processes_without_a_usable_number_do_not_count(row):
    """Empty, non-finite, zero and negative processes leave the rest to be compared, and are told."""
    base, head = sides(6, 0.05, 0.002, 3)
    v = compare([row, *base], [[1.0], *head])
    assert v.pairs == 6
    assert v.answer == "regressed"
    assert "1 of 7 pairs" in v.reason
    for unusable in (compare([row] * 5, head), compare(base, [row] * 5), compare([row] * 5, [[-1.0]] * 5)):
        assert unusable.answer == "never-compared"
        assert "gave a positive number" in unusable.reason or "is 0 in every process" in unusable.reason


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 9999), st.integers(2, 14), st.integers(-20, 20), st.booleans())
def test_unit_and_side_symmetry(seed, n, power, together):
    """The unit does not matter, and exchanging the sides turns the interval round."""
    config = GateConfig(paired=together)
    base, head = sides(n, 0.02, 0.01, seed)
    a = compare(base, head, config)
    scaled = compare([[v * 2.0**power for v in p] for p in base], [[v * 2.0**power for v in p] for p in head], config)
    assert (a.answer, a.pairs) == (scaled.answer, scaled.pairs)
    assert a.low == pytest.approx(scaled.low, abs=1e-9)
    back = compare(head, base, config)
    assert 1 / (1 + a.effect) == pytest.approx(1 + back.effect, rel=1e-9)
    assert 1 / (1 + a.low) == pytest.approx(1 + back.high, rel=1e-9)
    turned = {"regressed": "improved", "improved": "regressed"}
    assert abs(abs(math.log1p(a.effect)) - math.log1p(0.01)) < 1e-12 or back.answer == turned.get(a.answer, a.answer)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.floats(), max_size=4), max_size=6), st.lists(st.lists(st.floats(), max_size=4), max_size=6))
def test_any_floats_are_survived(base, head):
    """Whatever the samples are, there is an answer."""
    assert compare(base, head).answer
    assert compare(base, head, GateConfig(paired=False)).answer


def test_equal_sides_are_unchanged():
    """Identical samples on both sides: an effect of nought and an interval of no width."""
    v = compare([[1.0]] * 5, [[1.0]] * 5)
    assert (v.answer, v.effect, v.low, v.high) == ("unchanged", 0.0, 0.0, 0.0)


def decide(model, effect, config, r):
    b, h = model(r, config.max_pairs), model(r, config.max_pairs) + math.log1p(effect)
    base, head = [[float(v)] for v in np.exp(b)], [[float(v)] for v in np.exp(h)]
    for k in range(1, config.max_pairs + 1):
        if next_step(base[:k], head[:k], config) == "enough":
            return compare(base[:k], head[:k], config), k
    raise AssertionError("next_step never ends")


MODELS = {
    "normal": lambda r, n: 0.01 * r.normal(size=n),
    "heavy": lambda r, n: 0.006 * r.standard_t(3, n),
    "heavier": lambda r, n: np.clip(0.004 * r.standard_t(1, n), -5, 5),
    "modes": lambda r, n: 0.7 * (r.random(n) < 0.5) + 0.002 * r.normal(size=n),
}


@pytest.mark.parametrize("model", MODELS)
def test_false_regressions_stay_under_their_level_with_ten_looks(model):
    """Nothing changed, ten looks, a threshold that hides nothing: at most 2.5 % regressed (and its sampling error)."""
    config = GateConfig(threshold=1e-6, peeks=None, min_pairs=4, max_pairs=13)
    assert config.looks == 10
    r = np.random.default_rng(5)
    runs = 600
    answers = Counter(decide(MODELS[model], 0.0, config, r)[0].answer for _ in range(runs))
    most = 0.025 * runs + 2.33 * math.sqrt(0.025 * 0.975 * runs)
    assert answers["regressed"] <= most
    assert answers["improved"] <= most


def test_the_mde_is_what_the_gate_can_see():
    """An effect of the size of the typical MDE of 10 pairs is called about as often as the power says."""
    config = GateConfig(threshold=0.002, min_pairs=4)
    mde = float(np.median([compare(*sides(10, 0.0, 0.01, s), config).mde for s in range(200)]))
    seen = sum(compare(*sides(10, mde, 0.01, 500 + s), config).answer == "regressed" for s in range(300))
    assert 0.7 <= seen / 300 <= 0.97


def test_clear_effects_need_few_pairs_and_hopeless_noise_does_not_spend_the_budget():
    """A 5 % step in 0.2 % noise is decided by the first look; 30 % noise stops early as inconclusive."""
    config = GateConfig(peeks=None, max_pairs=20)
    r = np.random.default_rng(6)
    assert decide(lambda r, n: 0.002 * r.normal(size=n), 0.05, config, r)[1] == config.min_pairs
    verdict, pairs = decide(lambda r, n: 0.3 * r.normal(size=n), 0.0, config, r)
    assert verdict.answer == "inconclusive"
    assert pairs < 20


@pytest.mark.parametrize("pairs", [True, False])
def test_what_never_happens_on_either_side_is_unchanged(pairs):
    """Counts of zero are equal; zero beside three has no per cent, and the reason names the three."""
    config = GateConfig(paired=pairs, threshold=0.01)
    none, three = [[0.0, 0.0]] * 5, [[3.0]] * 5
    same = compare(none, none, config)
    assert (same.answer, same.effect, same.low, same.high, same.pairs) == ("unchanged", 0.0, 0.0, 0.0, 5)
    assert same.reason.startswith("0 in every process of both sides")
    for base, head in ((none, three), (three, none)):
        verdict = compare(base, head, config)
        assert verdict.answer == "never-compared"
        assert "is 0 in every process" in verdict.reason
        assert "median of 3;" in verdict.reason


def test_known_noise_keeps_lucky_pairs_from_deciding():
    """Four pairs that agree by luck do not override the spread that the series is known to have."""
    base, head = [[1.0]] * 4, [[1.03], [1.0301], [1.0299], [1.03]]
    assert compare(base, head).answer == "regressed"
    assert compare(base, head, GateConfig(noise_sd=0.05)).answer == "inconclusive"


def test_exact_intervals_cover():
    """Rank intervals hold the truth at least as often as they say, for skewed and heavy noise alike."""
    r = np.random.default_rng(7)
    for draw in (lambda n: r.exponential(size=n), lambda n: r.standard_t(2, n)):
        hits = [0, 0]
        for _ in range(400):
            a, b = draw(10), draw(10) + 1.0
            one, two = paired(b - a, 0.025), unpaired(a, b, 0.025)
            assert (one.method, two.method) == ("signed rank", "rank sum")
            hits[0] += one.low <= 1.0 <= one.high
            hits[1] += two.low <= 1.0 <= two.high
        assert min(hits) >= 0.93 * 400
