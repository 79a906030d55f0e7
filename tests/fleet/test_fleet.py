"""A fleet's verdict on a change, on simulated fleets whose truth is known."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundspeed.service.domain.fleet.cells import FleetData, Metric, cells
from groundspeed.service.domain.fleet.effects import effect_of
from groundspeed.service.domain.fleet.outliers import benjamini_hochberg, outliers
from groundspeed.service.domain.fleet.verdict import holm, judge


@pytest.fixture(scope="module")
def bench(root: Path) -> ModuleType:
    """The simulator of `make bench-fleet`."""
    path = root / "tests" / "bench" / "fleet" / "simulate.py"
    spec = importlib.util.spec_from_file_location("fleet_simulate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fleet_simulate"] = module
    spec.loader.exec_module(module)
    return module


def fleet(bench: ModuleType, seed: int, effect: float, **shape: object) -> tuple[FleetData, np.ndarray]:
    noise, _ = bench.recorded_noise(None)
    return bench.simulate(np.random.default_rng(seed), bench.FleetShape(**shape), noise, effect)


def test_no_effect_is_go_and_twice_the_margin_is_no_go(bench: ModuleType) -> None:
    quiet = [judge(fleet(bench, seed, 0.0)[0]).answer for seed in range(20)]
    loud = [judge(fleet(bench, seed, 0.02)[0]).answer for seed in range(20)]
    assert quiet.count("no-go") <= 1
    assert quiet.count("go") >= 16
    assert loud.count("go") == 0
    assert loud.count("no-go") >= 18


def test_direction_is_respected(bench: ModuleType) -> None:
    data, _ = fleet(bench, 3, 0.03)
    better = FleetData(data.node, tuple(Metric(m.name, 1, m.margin) for m in data.metrics), data.before, data.after)
    assert judge(data).answer == "no-go"
    assert judge(better).answer == "go"


def test_broken_nodes_are_named_and_do_not_carry_the_fleet(bench: ModuleType) -> None:
    data, broken = fleet(bench, 5, 0.0, nodes=60, broken_nodes=2, broken_by=0.06)
    verdict = judge(data)
    assert verdict.answer == "go"
    assert set(broken.tolist()) <= {node for node, _, _ in verdict.bad_nodes}


def test_a_fifth_of_the_nodes_broken_is_no_go_though_the_mean_is_fine(bench: ModuleType) -> None:
    data, _ = fleet(bench, 6, 0.0, nodes=60, broken_nodes=14, broken_by=0.06)
    assert judge(data).answer == "no-go"


def test_a_slow_card_is_an_outlier_always_and_no_reason_against_the_driver(bench: ModuleType) -> None:
    data, _ = fleet(bench, 7, 0.0, slow_share=0.0, broken_nodes=0, nodes=24)
    data.before[17] *= 1.15
    data.after[17] *= 1.15
    verdict = judge(data)
    assert verdict.answer == "go"
    assert {(o.device, o.where) for o in verdict.outliers} == {(17, "always")}


def test_nodes_that_do_not_count_are_left_out_of_the_effect(bench: ModuleType) -> None:
    data, broken = fleet(bench, 8, 0.0, nodes=12, broken_nodes=4, broken_by=0.10)
    counted = np.ones(12, bool)
    counted[broken] = False
    verdict = judge(data, counted=counted)
    assert verdict.answer == "go"
    assert verdict.metrics[0].nodes == 8
    assert not set(broken.tolist()) & {node for node, _, _ in verdict.bad_nodes}


def test_fewer_than_three_nodes_is_not_enough_evidence(bench: ModuleType) -> None:
    data, _ = fleet(bench, 9, 0.05, nodes=2, broken_nodes=0)
    verdict = judge(data)
    assert verdict.answer == "not-enough-evidence"
    assert "at least 3" in verdict.reason


def test_nothing_measured_after_is_not_enough_evidence(bench: ModuleType) -> None:
    data, _ = fleet(bench, 10, 0.0)
    data.after[:] = np.nan
    assert judge(data).answer == "not-enough-evidence"


def test_zero_and_negative_values_count_as_missing() -> None:
    data = FleetData(
        np.arange(2), (Metric("m", -1, 0.01),), np.array([[[0.0, 2.0]], [[-1.0, np.nan]]]), np.ones((2, 1, 2))
    )
    table = cells(data)
    assert table.change[0, 0] == pytest.approx(-np.log(2.0))
    assert np.isnan(table.change[1, 0])


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="shapes do not fit"):
        FleetData(np.arange(3), (Metric("m", -1, 0.01),), np.ones((2, 1, 1)), np.ones((2, 1, 1)))


def test_the_interval_of_the_effect_holds_its_confidence() -> None:
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(400):
        change = 0.01 + 0.005 * rng.standard_t(4, 12)
        effect = effect_of(change, np.full(12, 1e-6), confidence=0.9)
        inside += effect.low <= 0.01 <= effect.high
    assert 0.86 <= inside / 400 <= 0.97


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_adjusted_p_values_are_never_smaller_and_keep_their_order(p: list[float]) -> None:
    for adjusted in (holm(p), list(benjamini_hochberg(np.array(p)))):
        assert all(a >= b - 1e-12 for a, b in zip(adjusted, p, strict=True))
        order = np.argsort(p, kind="stable")
        assert np.all(np.diff(np.array(adjusted)[order]) >= -1e-12)


def test_identical_devices_have_no_outliers() -> None:
    data = FleetData(np.arange(8), (Metric("m", -1, 0.01),), np.full((8, 1, 3), 5.0), np.full((8, 1, 3), 5.0))
    assert outliers(cells(data), data.margins) == ()
