"""Identity, multiplicity, evidence, noise ledger and plain words."""

import math

import numpy as np
import pytest

from domain_series import series, values
from groundspeed.service.domain import evidence
from groundspeed.service.domain.compare import GateConfig, compare, never_compared
from groundspeed.service.domain.detect import detect
from groundspeed.service.domain.evidence import Conditions, assess
from groundspeed.service.domain.explain import explain_point, explain_verdict
from groundspeed.service.domain.identity import Accepted, Known, foretold, match
from groundspeed.service.domain.multiplicity import adjusted, expected_false_alarms
from groundspeed.service.domain.noise import components, may_gate
from groundspeed.service.domain.series import Point, SeriesData


def test_a_change_point_that_moves_by_a_commit_is_the_same_one():
    """Nearest in place and of the same direction; one undone and one new are told apart."""
    found = detect(series(values(300, [(100, 1.1), (200, 0.9)], 0.005, 1))).change_points
    known = [Known("a", 100, 101, 1.09), Known("b", 198, 199, 1.1), Known("c", 30, 31, 1.05)]
    same = match(known, found)
    assert same.same == (("a", 0),)
    assert set(same.gone) == {"b", "c"}
    assert same.new == (1,)


def test_an_accepted_verdict_announces_its_change_point():
    """The merge in the suspect range, the same way and about the size: told before; larger or elsewhere: news."""
    found = detect(series(values(300, [(100, 1.1), (200, 0.9)], 0.005, 1))).change_points
    assert foretold([Accepted("v", 100, 1.09), Accepted("w", 201, 0.9)], found) == {0: "v"}
    assert foretold([Accepted("v", 100, 1.03), Accepted("w", 200, 1.1)], found) == {}


def test_false_discoveries_are_held_down():
    """900 nulls and 100 clear effects: the share of false ones among the found is near q, and most are found."""
    r = np.random.default_rng(2)
    p = np.concatenate([r.random(900), r.random(100) * 1e-4])
    kept = adjusted(p.tolist()) <= 0.05
    assert kept[900:].mean() > 0.95
    assert kept[:900].sum() / kept.sum() < 0.09
    assert adjusted([]).size == 0
    assert np.isnan(adjusted([math.nan, 0.01])[0])
    assert adjusted([math.nan, 0.01])[1] == 0.01
    assert expected_false_alarms(200, 0.05) == 5.0


BASE = Conditions("H200", "n1", "gpu0", "env", "1", 1500.0, 0.9)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"hardware": "H100"}, "hardware"),
        ({"node": "n2"}, "nodes"),
        ({"device": "gpu1"}, "devices"),
        ({"environment": "new"}, "environment"),
        ({"benchmark_version": "2"}, "version"),
        ({"contaminated": True}, "another process"),
        ({"capped": 0.1, "clock_mhz": None}, "power cap"),
    ],
)
def test_unlike_sides_are_refused_with_words(change, word):
    """Each condition that differs refuses the comparison and says which it was."""
    head = Conditions(**{**{f: getattr(BASE, f) for f in BASE.__dataclass_fields__}, **change})
    found = assess(BASE, head)
    assert found.decision == "refuse"
    assert word in " ".join(found.words)


def test_like_sides_are_compared_and_another_clock_is_adjusted():
    """Equal or unknown conditions compare; 5 % of clock is scaled away; an environment question allows another one."""
    assert assess(BASE, BASE).decision == "compare"
    assert assess(Conditions(), Conditions()).decision == "compare"
    slow = Conditions("H200", "n1", "gpu0", "env", "1", 1425.0, 0.9)
    found = assess(BASE, slow)
    assert (found.decision, round(found.scale, 3)) == ("adjust", 0.95)
    assert evidence.adjusted([[2.0]], found) == [[1.9]]
    other = Conditions("H200", "n1", "gpu0", "new", "1", 1500.0, 0.9)
    assert assess(BASE, other, "environment").decision == "compare"


def test_time_without_cycles_is_the_machine():
    """A change in time that cycles do not share is no regression; one that they share is."""
    base = [[1.0 + 0.001 * k] for k in range(6)]
    slow = [[1.1 + 0.001 * k] for k in range(6)]
    time, same = compare(base, slow), compare(base, base)
    assert time.answer == "regressed"
    assert evidence.agreed(time, same).answer == "inconclusive"
    assert "clock" in evidence.agreed(time, same).reason
    assert evidence.agreed(time, time).answer == "regressed"
    assert evidence.agreed(time, None) is time
    assert evidence.agreed(time, never_compared("no clock")) is time


def test_the_ledger_tells_sources_of_noise_apart():
    """Within 2 %, between processes 1 %, between nodes 5 %: each is found near its size."""
    r = np.random.default_rng(3)
    nodes = {"a": -0.05, "b": 0.05, "c": 0.0}
    points = []
    for x in range(60):
        names = ("a", "b", "c", "a", "b", "c")
        v = tuple(float(np.exp(nodes[k] + 0.01 * r.normal())) for k in names)
        points.append(Point(x, v, within=(0.02,) * 6, nodes=names, days=(0, 0, 0, 1, 1, 1)))
    within, day, node = components(tuple(points))
    assert within == pytest.approx(0.02)
    assert node == pytest.approx(0.05, rel=0.2)
    assert day is not None
    assert day < 0.01
    noise = detect(SeriesData("s", -1, "time", tuple(points))).noise
    assert noise.within_process == pytest.approx(0.02)
    assert noise.between_process is not None
    one = tuple(Point(x, tuple(map(float, np.exp(0.01 * r.normal(size=4))))) for x in range(50))
    assert detect(SeriesData("s", -1, "time", one)).noise.between_process == pytest.approx(0.01, rel=0.15)


@pytest.mark.parametrize(
    ("cv", "more", "wanted"),
    [(0.0, {}, "constant"), (0.01, {}, "steady"), (0.08, {}, "noisy"), (0.01, {"busy_share": 0.2}, "launch-bound")],
)
def test_classes_say_what_may_gate(cv, more, wanted):
    """Constant and steady series gate; noisy and launch-bound ones are charted only."""
    found = detect(series(values(100, (), cv, 4), **more))
    assert found.series_class == wanted
    assert may_gate(wanted) == (wanted in {"constant", "steady"})


def test_the_mde_of_a_series_is_a_step_it_shows():
    """A step of the stated MDE, ten points on either side of it, is found in most series."""
    y = values(200, (), 0.02, 5)
    mde = detect(series(y)).noise.mde
    seen = sum(
        any(abs(c.x_after - 100) <= 3 for c in detect(series(values(110, [(100, 1 + mde)], 0.02, s))).change_points)
        for s in range(60)
    )
    assert seen >= 40


def test_every_point_has_its_words():
    """Flagged, quiet, outlier, missing, unmeasured and provisional points each say why."""
    y = values(120, [(60, 1.1), (118, 1.3)], 0.01, 6)
    y[30], y[40] = y[30] * 1.5, math.nan
    data = series(y)
    found = detect(data)
    told = {x: " ".join(explain_point(data, found, x)) for x in (60, 20, 30, 40, 500, 118)}
    assert "regression" in told[60]
    assert "standard errors" in told[60]
    assert "usual" in told[20] or "smallest change" in told[20]
    assert "outlier" in told[30]
    assert "not the same as no change" in told[40]
    assert "not measured" in told[500]
    assert "provisional" in told[118]
    gap = SeriesData("s", -1, "time", tuple(p for p in data.points if not 55 < p.x < 65))
    assert "one of the suspects" in " ".join(explain_point(gap, detect(gap), 58))


def test_the_newest_point_far_off_its_level_is_not_called_an_outlier_yet():
    level = values(200, [], 0.01, 3)
    level[[20, 60, 100, 140]] *= 1.5  # this series has outliers, so that one point at the end is no step yet
    level[-1] *= 1.5
    data = series(level)
    found = detect(data)
    assert not any(change.after == 199 for change in found.change_points)
    assert "nothing follows it yet" in " ".join(explain_point(data, found, 199))
    assert "an outlier, not a new level" in " ".join(explain_point(data, found, 60))


def test_every_verdict_has_its_words():
    """What was found and what could have been seen."""
    config = GateConfig()
    slow = compare([[1.0]] * 5, [[1.1]] * 5, config)
    assert explain_verdict(slow, config).startswith("Regressed: head over base is +10.00%")
    assert explain_verdict(compare([[1.0]] * 5, [[1.0]] * 5, config), config).startswith("Unchanged within 1.00%")
    assert explain_verdict(never_compared("lost."), config) == "Never compared: lost."
    assert explain_verdict(compare([[1.0]], [[1.0]], config), config).startswith("Inconclusive: ")
