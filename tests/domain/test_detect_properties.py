"""What holds for any series whatever."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain_series import series, values
from groundspeed.service.domain.detect import DetectorState, detect
from groundspeed.service.domain.history import GUARD, KEEP, SPAN
from groundspeed.service.domain.series import Point, SeriesData

FAST = settings(max_examples=60, deadline=None)


@st.composite
def histories(draw: st.DrawFn, most: int = 160) -> np.ndarray:
    """Series of 0 to ``most`` points with up to three steps, outliers, gaps and any of three noise levels."""
    n = draw(st.integers(0, most))
    seed = draw(st.integers(0, 10_000))
    steps = draw(st.lists(st.tuples(st.integers(0, max(n - 1, 0)), st.floats(0.6, 1.7)), max_size=3))
    y = values(n, steps, draw(st.sampled_from([0.0, 0.003, 0.03])), seed, draw(st.sampled_from([1e-6, 1.0, 3e9])))
    for at in draw(st.lists(st.integers(0, max(n - 1, 0)), max_size=4)):
        if n:
            y[at] *= draw(st.sampled_from([math.nan, 1.5, 0.1]))
    return y


def told(found, key=lambda c: (c.x_before, c.x_after, c.provisional)):
    return [key(c) for c in found.change_points]


@FAST
@given(histories(), st.integers(-30, 30))
def test_the_unit_does_not_matter(y, power):
    """Multiplying all values by a power of two changes neither places nor ratios."""
    a, b = detect(series(y)), detect(series(y * 2.0**power))
    assert told(a) == told(b)
    assert [c.ratio for c in a.change_points] == pytest.approx([c.ratio for c in b.change_points], rel=1e-9)
    assert a.series_class == b.series_class


@FAST
@given(histories(), st.floats(1e-9, 1e9))
def test_any_other_unit_gives_the_same_changes(y, factor):
    """Seconds or hours: the same places, and ratios but for rounding."""
    a, b = detect(series(y)), detect(series(y * factor))
    assert told(a) == told(b)
    assert [c.ratio for c in a.change_points] == pytest.approx([c.ratio for c in b.change_points], rel=1e-6)


@FAST
@given(st.integers(0, 60), st.integers(0, 10_000))
def test_permuting_equal_points_changes_nothing(n, seed):
    """Points that read the same may come in any order: only values and their places count."""
    r = np.random.default_rng(seed)
    y = r.choice([1.0, 1.1], n)
    order = np.arange(n)
    for value in (1.0, 1.1):
        same = np.nonzero(y == value)[0]
        order[same] = r.permutation(same)
    assert detect(series(y[order])).change_points == detect(series(y)).change_points


@FAST
@given(histories())
def test_direction_only_names_the_change(y):
    """Where lower is better a rise is a regression, where higher is better an improvement, at the same places."""
    low, high, none = (detect(series(y, direction=d)) for d in (-1, 1, 0))
    assert told(low) == told(high) == told(none)
    opposite = {"regression": "improvement", "improvement": "regression"}
    assert [opposite[c.kind] for c in low.change_points] == [c.kind for c in high.change_points]
    assert {c.kind for c in none.change_points} <= {"change"}
    for c in low.change_points:
        assert c.kind == ("regression" if c.difference > 0 else "improvement")


@FAST
@given(histories())
def test_the_inverse_series_changes_at_the_same_places(y):
    """Rates and times tell the same story: 1/y has the same settled change points with the inverse ratios.

    Of steps and outliers within a few points of each other, provisional ones may lie a point or two apart.
    """
    a, b = ([c for c in detect(series(one)).change_points if not c.provisional] for one in (y, 1.0 / y))
    assert [(c.x_before, c.x_after) for c in a] == [(c.x_before, c.x_after) for c in b]
    assert [1.0 / c.ratio for c in a] == pytest.approx([c.ratio for c in b], rel=1e-6)


@FAST
@given(histories(60), st.permutations(range(3)))
def test_the_order_of_processes_of_a_point_does_not_matter(y, order):
    """A point is a set of processes."""
    r = np.random.default_rng(1)
    rows = [v * np.exp(0.01 * r.normal(size=3)) for v in y[~np.isnan(y)]]
    a = SeriesData("s", -1, "time", tuple(Point(i, tuple(map(float, v))) for i, v in enumerate(rows)))
    b = SeriesData("s", -1, "time", tuple(Point(i, tuple(float(v[k]) for k in order)) for i, v in enumerate(rows)))
    x, z = detect(a), detect(b)
    assert told(x) == told(z)
    assert [c.ratio for c in x.change_points] == pytest.approx([c.ratio for c in z.change_points], rel=1e-9)


@FAST
@given(histories(), st.integers(1, 50))
def test_gaps_and_numbering_do_not_matter(y, stretch):
    """Missing points between measured ones change the suspect ranges and nothing else."""
    y = y[~np.isnan(y)]
    a = detect(series(y))
    spread = SeriesData("s", -1, "time", tuple(Point(i * stretch, (float(v),)) for i, v in enumerate(y)))
    b = detect(spread)
    assert [c.x_after * stretch for c in a.change_points] == [c.x_after for c in b.change_points]
    assert all(len(c.unmeasured) == stretch - 1 for c in b.change_points)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 6, 7, 39, 40, 41, 500])
@pytest.mark.parametrize("fill", [1.0, 0.0, -2.0, math.nan, 1e300, 5e-324])
def test_equal_values_never_change(n, fill):
    """No points, few points, all equal, all zero, all missing: no change point and no complaint."""
    found = detect(series([fill] * n))
    assert found.change_points == ()
    assert found.drift is None
    assert found.series_class in {"unknown", "constant"}


@FAST
@given(st.lists(st.one_of(st.floats(width=64), st.just(math.nan), st.integers(-3, 3).map(float)), max_size=80))
def test_any_floats_at_all_are_survived(y):
    """Infinite, tiny, huge, negative and missing values give an answer with finite levels."""
    found = detect(series(y))
    for c in found.change_points:
        assert math.isfinite(c.strength) or c.strength > 0
        assert c.x_before < c.x_after
        assert 0.0 <= c.p_value <= 1.0


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.004, 0.02]), st.lists(st.integers(1, 400), min_size=1, max_size=25))
def test_point_by_point_is_the_same_as_at_once(seed, cv, pieces):
    """However a history arrives, in pieces of any size or all at once, and through stored bytes, findings are equal."""
    n = sum(pieces)
    r = np.random.default_rng(seed)
    steps = [(int(p), float(q)) for p, q in zip(r.integers(0, n, 6), r.uniform(0.8, 1.3, 6), strict=True)]
    whole = series(values(n, steps, cv, seed))
    state, at = None, 0
    for size in pieces:
        part = SeriesData("s", -1, "time", whole.points[at : at + size])
        found = detect(part, state=state)
        state = DetectorState.from_bytes(found.state.to_bytes())
        at += size
    once = detect(whole)
    assert once.change_points == found.change_points
    assert once.drift == found.drift
    assert once.series_class == found.series_class


def test_what_is_settled_stays():
    """No change point older than the guard of a full stretch ever changes again as points come."""
    y = values(3 * SPAN, [(700, 1.1), (SPAN - GUARD - 5, 1.1), (2 * SPAN, 0.9)], 0.01, 3)
    state, seen = None, ()
    for at in range(0, y.size, 97):
        found = detect(series(y[at : at + 97], start=at), state=state)
        state = found.state
        assert found.change_points[: len(seen)] == seen
        seen = state.settled
        assert state.stretch.size < SPAN
    assert len(seen) >= 2
    assert KEEP < SPAN - GUARD
