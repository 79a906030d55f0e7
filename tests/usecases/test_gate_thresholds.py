"""The smallest change that a gate calls, where the configuration names none."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from groundspeed.service.usecases import gate


@pytest.mark.parametrize(
    ("kind", "clock", "wanted"),
    [("time", "device", 0.005), ("time", "wall", 0.01), ("bytes", "none", 0.005), ("counter", "none", 0.002)],
)
def test_the_devices_own_clock_is_gated_at_half_a_percent(kind, clock, wanted):
    series = SimpleNamespace(metric="m", kind=kind, clock=clock, direction=-1, noise=None)
    one = SimpleNamespace(series=series, suite="s")
    job = SimpleNamespace(spec={"min_pairs": 3, "max_pairs": 12})
    assert gate._settings(one, job, {}).threshold == wanted
