"""What samples and results are worth, from the conditions they were taken under. Pure functions."""

from __future__ import annotations

import bisect
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from groundspeed.plugins.device import reasons
from groundspeed.plugins.device.base import Reading
from groundspeed.plugins.spi import SampleState
from groundspeed.plugins.symptoms import hint
from groundspeed.plugins.timing.sampler import Trace

LAUNCH_BOUND_SHARE = 0.8
"""Busy time below this share of wall time: the host decides how long a step takes."""
INPUT_BOUND_SHARE = 0.1
"""More of the wall time than this spent waiting for the next batch."""
CAPPED_SHARE = 0.5
"""A result is power-capped or throttled when this share of its readings says so."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """One state and reason a sample ("" for valid), and labels of the whole result with their words."""

    states: tuple[SampleState, ...]
    reasons: tuple[str, ...]
    labels: dict[str, str] = field(default_factory=dict)


def classify_samples(start_s: Sequence[float], duration_s: Sequence[float], trace: Trace) -> Verdicts:
    """Joins each sample with the readings within it, or the nearest before and after it when it is shorter.

    A foreign process on the device: *rejected*. A slowdown other than the power cap (thermal, power brake): *degraded*.
    """
    states, why = [], []
    for start, duration in zip(start_s, duration_s, strict=True):
        low = max(0, bisect.bisect_right(trace.t_s, start) - 1)
        high = bisect.bisect_left(trace.t_s, start + duration) + 1
        state, reason = _judge(trace.readings[low:high], trace.foreign[low:high])
        states.append(state)
        why.append(reason)
    window = _window(start_s[0], start_s[-1] + duration_s[-1], trace) if start_s else trace
    return Verdicts(tuple(states), tuple(why), _labels(window))


def state_between(trace: Trace, start_s: float, duration_s: float) -> SampleState:
    """As ``classify_samples``, of one sample; valid where nothing was read."""
    return classify_samples([start_s], [duration_s], trace).states[0]


def labels(trace: Trace) -> dict[str, str]:
    """Labels of a whole result that was taken under these conditions, with their words."""
    return _labels(trace)


def _window(start_s: float, end_s: float, trace: Trace) -> Trace:
    """The readings while samples were taken, and the nearest one before and after."""
    low = max(0, bisect.bisect_right(trace.t_s, start_s) - 1)
    high = bisect.bisect_left(trace.t_s, end_s) + 1
    return Trace(trace.t_s[low:high], trace.readings[low:high], trace.foreign[low:high])


def _judge(readings: Sequence[Reading], strangers: Sequence[int | None]) -> tuple[SampleState, str]:
    if any(strangers):
        return SampleState.REJECTED, "another process held the device"
    bits = 0
    for reading in readings:
        bits |= reading.reasons or 0
    if bits & reasons.SLOWED:
        return SampleState.DEGRADED, ", ".join(reasons.in_words(bits & reasons.SLOWED))
    return SampleState.VALID, ""


def _labels(trace: Trace) -> dict[str, str]:
    known = [reading.reasons for reading in trace.readings if reading.reasons is not None]
    labels = {}
    if known:
        capped = sum(bool(bits & reasons.POWER_CAP) for bits in known) / len(known)
        hot = sum(bool(bits & reasons.THERMAL) for bits in known) / len(known)
        if capped >= CAPPED_SHARE:
            labels["power_capped"] = f"in {capped:.0%} of the readings {hint('power-capped')}"
        if hot > 0:
            labels["thermally_throttled"] = f"in {hot:.0%} of the readings {hint('thermally-throttled')}"
    if any(trace.foreign):
        labels["contaminated"] = f"another process held the device while this was measured: {hint('contaminated')}"
    return labels


def bound_labels(wall_s: float, busy_s: float | None, input_wait_s: float | None) -> dict[str, str]:
    """Launch-bound and input-bound, from medians per step in seconds; None: not known.

    A device that is idle because the step waits for its batch is input-bound: launch-bound too only where it does not
    keep busy in the rest of the step either.
    """
    labels = {}
    launching_s = wall_s - (input_wait_s or 0.0)
    if busy_s is not None and wall_s > 0 and busy_s < LAUNCH_BOUND_SHARE * launching_s:
        labels["launch_bound"] = f"the device works {busy_s / wall_s:.0%} of the time: {hint('launch-bound')}"
    if input_wait_s is not None and wall_s > 0 and input_wait_s / wall_s > INPUT_BOUND_SHARE:
        labels["input_bound"] = (
            f"{input_wait_s / wall_s:.0%} of a step is waiting for the next batch: {hint('input-bound')}"
        )
    return labels


def summary(trace: Trace) -> dict[str, object]:
    """Medians and ranges of the readings, and how often each clock event reason was set."""
    found: dict[str, object] = {}
    for name in ("sm_mhz", "memory_mhz", "power_w", "temperature_c", "utilisation", "memory_used_bytes"):
        values = [value for reading in trace.readings if (value := getattr(reading, name)) is not None]
        if values:
            found[name] = {"median": statistics.median(values), "min": min(values), "max": max(values)}
        else:
            found[name] = {"unavailable": "the device gives no such reading"}
    known = [reading.reasons for reading in trace.readings if reading.reasons is not None]
    counts = Counter(word for bits in known for word in reasons.in_words(bits))
    found["clock_events"] = {word: round(count / len(known), 4) for word, count in counts.items()}
    if not known:
        found["clock_events"] = {"unavailable": "the device gives no reasons for its clock"}
    return found


def worst(states: Iterable[SampleState]) -> SampleState:
    """Of one sample by several devices' conditions; valid where there is none."""
    order = (SampleState.VALID, SampleState.DEGRADED, SampleState.REJECTED)
    return max(states, key=order.index, default=SampleState.VALID)


def clock_at(t_s: float, trace: Trace) -> float | None:
    """SM clock in Hz at a time, from the nearest reading; None: not known."""
    index = min(bisect.bisect_left(trace.t_s, t_s), len(trace.t_s) - 1)
    if index < 0:
        return None
    mhz = trace.readings[index].sm_mhz
    return None if mhz is None else mhz * 1e6
