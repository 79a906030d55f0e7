"""Metrics that every stepped suite has on an accelerator, and their values from one measurement."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from groundspeed.plugins.spi import Direction, Kind, Measured, Measurement, Metric, Param
from groundspeed.plugins.timing.reference import calibrated

THREADS = Param(
    "threads", "int", 0, minimum=0, description="torch's CPU threads; 0: 1 on CPU, torch's choice beside an accelerator"
)
SEED = Param("seed", "int", 0, minimum=0, series=False, description="of Python's, numpy's and torch's generators")
CYCLES_BUSY_SHARE = 0.9
"""Wall time x clock counts the device's cycles only where the device is busy nearly all the time."""


def device_metrics() -> tuple[Metric, ...]:
    """Per step, from the device's own trace, in a pass apart from the timed one."""
    return (
        Metric("device_busy_time", "s", Direction.LOWER, Kind.TIME, clock="device",
               description="time in which the device did something: steady to 0.1 % where wall time is not",
               formula="union of kernel, copy and fill intervals of a step in CUPTI's trace"),
        Metric("exposed_host_time", "s", Direction.LOWER, Kind.TIME, clock="wall", gate=False,
               description="time of a step in which the device waits for the host",
               formula="median wall time - median device_busy_time, not below 0"),
        Metric("device_busy_share", "1", Direction.HIGHER, Kind.RATIO, clock="wall", gate=False,
               description="how busy the step keeps the device", formula="device_busy_time / wall time"),
        Metric("launches", "1", Direction.LOWER, Kind.COUNTER, clock="none", gate=False,
               description="activities a step puts on the device", formula="count in the device's trace"),
        Metric("exposed_communication_time", "s", Direction.LOWER, Kind.TIME, clock="device", gate=False,
               description="communication kernels while nothing else ran on the device, waiting included",
               formula="device_busy_time - union of compute intervals"),
        Metric("device_cycles", "1", Direction.LOWER, Kind.COUNTER, clock="cycles", gate=False,
               description="clock cycles of a step: a step in time without one in cycles is the machine",
               formula="wall time x SM clock read at that time; only where the device is busy over 90 % of it"),
        Metric("energy_per_step", "J", Direction.LOWER, Kind.COUNTER, gate=False,
               description="energy of the device", formula="difference of NVML's total while measuring / steps"),
        Metric("peak_memory", "B", Direction.LOWER, Kind.BYTES, gate=True,
               description="most bytes torch's allocator had handed out at once, warm-up included",
               formula="max_memory_allocated; a benchmark is a fresh process"),
    )  # fmt: skip


def device_values(measurement: Measurement) -> Iterable[Measured]:
    """Those of the device metrics that could be read."""
    busy = measurement.step_device_busy_s
    wall = statistics.median(measurement.step_wall_s)
    if busy:
        median = statistics.median(busy)
        traced = measurement.device_states
        yield Measured("device_busy_time", busy, states=traced)
        yield Measured("exposed_host_time", [max(0.0, wall - median)])
        yield Measured("device_busy_share", [min(1.0, median / wall)])
        yield Measured("launches", measurement.device_trace["launches"])
        exposed = measurement.device_trace["exposed_communication_s"]
        if any(measurement.device_trace["communication_s"]):
            yield Measured("exposed_communication_time", exposed, states=traced)
        if measurement.step_device_cycles and median / wall >= CYCLES_BUSY_SHARE:
            yield Measured("device_cycles", measurement.step_device_cycles, states=measurement.states)
    if measurement.energy_j_per_step is not None:
        yield Measured("energy_per_step", [measurement.energy_j_per_step])
    if "allocated" in measurement.memory_peak_bytes:
        yield Measured("peak_memory", [float(measurement.memory_peak_bytes["allocated"])])


def cpu_metrics(unit_of_work: str) -> tuple[Metric, ...]:
    """The two clocks of a CPU besides the wall's; ``unit_of_work`` in words: "one product"."""
    return (
        Metric("work_cpu_calibrated", "s", Direction.LOWER, Kind.TIME, clock="cpu",
               description=f"on the CPU: CPU time of {unit_of_work} on a host of nominal speed",
               formula="work_cpu_time x 2.5 ms / CPU time of the reference workload around it"),
        Metric("work_cpu_time", "s", Direction.LOWER, Kind.TIME, clock="cpu", gate=False,
               description=f"on the CPU: CPU time of this process for {unit_of_work}, all threads",
               formula="clock_gettime(CLOCK_PROCESS_CPUTIME_ID) around it"),
    )  # fmt: skip


def cpu_values(measurement: Measurement, device: str) -> Iterable[Measured]:
    """Those of ``cpu_metrics``; nothing on an accelerator."""
    if device == "cpu":
        yield Measured("work_cpu_time", measurement.step_cpu_s, states=measurement.states)
        if measurement.step_reference_s:
            yield Measured("work_cpu_calibrated", calibrated(measurement.step_cpu_s, measurement.step_reference_s))


DEVICE_DRIVEN_SHARE = 0.97
"""From this share of device-busy time on, the device decides a step's wall time: a graph replay, a large product.

Below it the host can, in one process and not in the next: a GPT step on an H200 was busy for 94 % of its wall time in
some processes and for 65 % in others of the same build, while device-busy time repeated to 0.05 %.
"""


def wall_gates(measurement: Measurement, device: str, *, replayed: bool = False) -> bool | None:
    """Whether wall time gates: never on a shared CPU, not where the host's launches can decide it; else as declared.

    ``replayed``: a step is one launch of a captured graph, so that the host has little to decide.
    """
    if device == "cpu" or "launch_bound" in measurement.labels:
        return False
    busy, wall = measurement.step_device_busy_s, measurement.step_wall_s
    at_its_limit = replayed or "power_capped" in measurement.labels
    if not at_its_limit and busy and wall and statistics.median(busy) < DEVICE_DRIVEN_SHARE * statistics.median(wall):
        return False
    return None
