"""The core's way through an accelerator, whose part is played: torch's events, the tracer and NVML are made up, the clock
is the host's. What a step costs there is not the question; what the result says of it is.
"""

from __future__ import annotations

import statistics
import time

import pytest
from tests.plugins.conftest import metric
from tests.plugins.test_devices import FakeNvml

from groundspeed.plugins import device
from groundspeed.plugins.device.nvml import Nvml
from groundspeed.plugins.timing import conditions as conditions_of
from groundspeed.plugins.timing import profile
from groundspeed.plugins.timing.kernels import Interval

torch = pytest.importorskip("torch")
HERE = "tests.plugins.targets_for_suites"


class Event:
    """Reached at once: the host does the work."""

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at_s = time.perf_counter()

    def query(self):
        return True

    def synchronize(self):
        pass

    def elapsed_time(self, other):
        return (other.at_s - self.at_s) * 1e3


class Tracer:
    """One kernel of 0.9 ms begins at the end of each step that it is told of."""

    def __init__(self):
        self.found = []

    def start(self):
        pass

    def stop(self):
        pass

    def room(self, _steps):
        return 0

    def now_ns(self):
        now = time.perf_counter_ns()
        self.found.append(Interval("gemm", now + 1, 900_000))
        return now

    def intervals(self):
        return self.found


@pytest.fixture
def played(monkeypatch, here):
    """Runs a suite on "cuda:0" beside those processes."""

    def run(plugin, target, params=None, strangers=()):
        library = FakeNvml()
        library.processes = list(strangers)
        monkeypatch.setattr(device, "_opened", [Nvml(library)])
        monkeypatch.setattr(conditions_of, "settle", lambda _: 0.0)
        monkeypatch.setattr(profile, "open_tracer", lambda _: (Tracer(), "played"))
        monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H200")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        return here(plugin, f"{HERE}:{target}", params, device="cuda:0")

    return run


def test_three_clocks_and_the_conditions_beside_them(played):
    report = played("training", "step_of_a_millisecond")
    assert report.outcome == "ok", report.evidence
    assert report.device_uuid == "GPU-1"
    assert set(metric(report, "step_time").states) == {"valid"}
    assert statistics.median(metric(report, "device_busy_time").values) == pytest.approx(0.9e-3)
    assert set(metric(report, "device_busy_time").states) == {"valid"}
    assert len(metric(report, "device_busy_time").states) == len(metric(report, "device_busy_time").values)
    assert metric(report, "launches").states == ()
    assert metric(report, "energy_per_step").values == (0.0,)  # the counter of this device stands still
    conditions = report.conditions
    assert (conditions["device"]["sm_mhz"]["median"], conditions["foreign_processes"]) == (1480, [])
    assert conditions["device"]["clock_events"] == {"power cap": 1.0}
    assert "power_capped" in conditions["labels"]
    assert len(conditions["trace"]["t_s"]) == len(conditions["trace"]["foreign"])
    assert set(conditions["hygiene"]) == {"before", "during", "after", "not_available", "policy"}
    assert "unavailable" in conditions["kernel_log"] or conditions["kernel_log"] == {"faults": []}
    assert "keeps no peaks" in conditions["peak_memory"]["unavailable"]  # torch has not used what is played
    assert [one["kind"] for one in report.artefacts] == ["kernel-table"]


def test_whatever_was_measured_beside_a_stranger_is_rejected(played):
    report = played("inference", "request_of_a_millisecond", strangers=[(4242, 1 << 30)])
    assert report.outcome == "ok", report.evidence
    states = {one.metric: set(one.states) for one in report.metrics}
    for name in (
        "latency_p50",
        "latency_p99",
        "throughput",
        "device_busy_time",
        "device_busy_share",
        "energy_per_step",
    ):
        assert states[name] == {"rejected"}, name
    assert states["launches"] == set()
    assert "another process held the device" in report.conditions["labels"]["contaminated"]
    assert report.conditions["foreign_processes"] == [{"pid": 4242, "memory_bytes": 1 << 30}]
    assert "process 4242 holds 1024 MiB" in report.conditions["hygiene"]["before"][0]
