"""The clock whose chunks follow each other without a pause, against a device with a clock of its own."""

from __future__ import annotations

import time

import pytest

from groundspeed.plugins.timing.unbroken import IN_FLIGHT_S, UnbrokenClock


class Device:
    """A stream: work is queued at host time ``host_s`` and runs after what was queued before; Event as torch's."""

    def __init__(self):
        self.host_s, self.free_s, self.idle_s = 0.0, 0.0, []
        device = self

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self):
                device.wait()
                self.at_s = device.free_s

            def query(self):
                return self.at_s <= device.host_s

            def synchronize(self):
                device.host_s = max(device.host_s, self.at_s)

            def elapsed_time(self, other):
                return (other.at_s - self.at_s) * 1e3

        self.Event = Event

    def synchronize(self):
        self.host_s = max(self.host_s, self.free_s)

    def wait(self):
        if self.host_s > self.free_s:
            self.idle_s.append(self.host_s - self.free_s)
            self.free_s = self.host_s

    def step(self):
        self.wait()
        self.free_s += 1e-3


@pytest.fixture
def device():
    return Device()


def test_the_device_does_not_rest_between_chunks(device):
    clock = UnbrokenClock(device)
    clock.chunk(device.step, 1, 2)
    clock.chunk(device.step, 10, 2)
    device.idle_s.clear()
    for _ in range(5):
        device.host_s += IN_FLIGHT_S / 2
        chunk = clock.chunk(device.step, 10, 2)
        assert chunk.wall_s == pytest.approx([1e-3] * 10)
        assert len(chunk.cpu_s) == len(chunk.start_s) == len(chunk.preempted) == 10
    assert not device.idle_s


def test_a_longer_pause_falls_on_no_sample(device):
    clock = UnbrokenClock(device)
    clock.chunk(device.step, 1, 1)
    clock.chunk(device.step, 10, 1)
    device.host_s += 20 * IN_FLIGHT_S
    assert clock.chunk(device.step, 50, 1).wall_s == pytest.approx([1e-3] * 50)
    assert device.idle_s


def test_a_lone_sample_runs_nothing_more(device):
    clock, ran = UnbrokenClock(device), []
    clock.chunk(lambda: ran.append(device.step()), 1, 1)
    assert len(ran) == 1


def test_another_step_starts_afresh(device):
    clock, ran = UnbrokenClock(device), []
    clock.chunk(device.step, 1, 1)
    clock.chunk(device.step, 10, 1)
    chunk = clock.chunk(lambda: (device.step(), ran.append(1)), 3, 2)
    assert chunk.wall_s == pytest.approx([1e-3] * 3)
    assert len(ran) == 6


def test_waiting_for_the_device_forgets_what_is_in_flight(device):
    clock = UnbrokenClock(device)
    clock.chunk(device.step, 1, 1)
    clock.chunk(device.step, 10, 1)
    clock.synchronize()
    assert device.host_s >= device.free_s
    ran = []
    step = device.step
    clock.chunk(lambda: (step(), ran.append(1)), 4, 1)
    assert len(ran) >= 4


def test_a_latency_is_from_the_call_to_the_end_on_the_device(device):
    """Every step is waited for, and within the time that is taken of it."""
    said = []
    device.synchronize = lambda: (said.append("wait"), time.sleep(0.01))
    clock = UnbrokenClock(device)
    chunk = clock.latency_chunk(lambda: said.append("step"), 3)
    assert said == ["step", "wait"] * 3
    assert min(chunk.wall_s) >= 0.01
