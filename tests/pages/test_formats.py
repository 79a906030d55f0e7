"""How figures are written."""

from __future__ import annotations

import pytest

from groundspeed.service.pages import formats, svg
from groundspeed.service.usecases import written
from groundspeed.service.usecases.views.history import thin


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.01234, "s", "12.34 ms"),
        (3.2e-7, "s", "320.0 ns"),
        (412.0, "samples/s", "412.0 samples/s"),
        (3.21e9, "B", "2.990 GiB"),
        (41e9, "B/s", "41.00 GB/s"),
        (0.0, "s", "0 s"),
        (-0.5, "s", "−500.0 ms"),
        (1234567.0, "", "1 234 567"),
        (float("nan"), "s", "–"),
        (None, "s", "–"),
    ],
)
def test_a_quantity_has_four_figures_and_the_unit_that_suits_it(value: float | None, unit: str, text: str) -> None:
    assert formats.quantity(value, unit).replace("\u202f", " ") == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1.19, "+19.0 %"),
        (0.84, "−16.0 %"),
        (1.0, "0.0 %"),
        (1.00001, "0.0 %"),
        (3.2, "×3.20"),
        (None, "–"),
        (0.5, "−50.0 %"),
    ],
)
def test_a_ratio_is_written_as_a_change(ratio: float | None, text: str) -> None:
    assert formats.percent(ratio).replace("\u202f", " ") == text


def test_thinning_keeps_extremes_ends_and_changes() -> None:
    """Of 100,000 points 2,000 stay, among them the highest, the lowest, the first, the last and what is to be kept."""
    values = [float((i * 7919) % 1000) for i in range(100_000)]
    values[54_321], values[12_345] = 5000.0, -5000.0
    chosen = thin(values, {777, 88_888}, 2000)
    assert len(chosen) <= 2000
    assert {0, 99_999, 54_321, 12_345, 777, 88_888} <= set(chosen)
    assert chosen == sorted(chosen)


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [
        (0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.0, 4.4e-323, [0.0]),
        (-1e308, 1e308, [-1e308]),  # their distance is more than a float holds
        (1.0, 1.0, [1.0]),
        (0.0, 1.7e308, [0.0, 5e307, 1e308, 1.5e308]),
    ],
)
def test_an_axis_has_marks_whatever_its_values(low: float, high: float, found: list[float]) -> None:
    assert svg.ticks(low, high) == pytest.approx(found)


def test_parameters_are_written_as_configurations_write_them() -> None:
    assert written.params({"compile": True, "batch": 8, "precision": "bf16"}) == "compile=true, batch=8, precision=bf16"
    assert written.params({}) == ""
