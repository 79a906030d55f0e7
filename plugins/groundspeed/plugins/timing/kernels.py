"""Device-busy time: what the device's own trace says, apart from what the host does around it. Pure functions."""

from __future__ import annotations

import bisect
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

COMMUNICATION = ("nccl", "rccl", "oneccl")


@dataclass(frozen=True, slots=True)
class Interval:
    """One activity on the device: a kernel, a copy or a fill. Times in nanoseconds of one clock."""

    name: str
    start_ns: int
    duration_ns: int

    @property
    def communicates(self) -> bool:
        return any(word in self.name.lower() for word in COMMUNICATION)


@dataclass(frozen=True, slots=True)
class StepTrace:
    """One step's device activities, summed up; seconds."""

    busy_s: float
    """Union of all intervals: the device did something."""
    compute_s: float
    """Union of what is not communication."""
    communication_s: float
    """Union of communication kernels, waiting for other ranks included."""
    exposed_communication_s: float
    """Communication while nothing else ran."""
    launches: int


@dataclass(slots=True)
class KernelTable:
    """By name: how often and how long in all, and the median of one."""

    rows: dict[str, list[int]] = field(default_factory=dict)
    steps: int = 0

    def add(self, intervals: Iterable[Interval]) -> None:
        for interval in intervals:
            self.rows.setdefault(interval.name, []).append(interval.duration_ns)

    def as_json(self) -> dict[str, Any]:
        """Per step; sorted by time, longest first."""
        steps = max(self.steps, 1)
        rows = [
            {
                "name": name,
                "count_per_step": len(durations) / steps,
                "time_per_step_s": sum(durations) * 1e-9 / steps,
                "median_s": statistics.median(durations) * 1e-9,
                "communication": Interval(name, 0, 0).communicates,
            }
            for name, durations in self.rows.items()
        ]
        rows.sort(key=lambda row: -float(str(row["time_per_step_s"])))
        return {"version": 1, "steps": self.steps, "kernels": rows}


def union_ns(intervals: Iterable[tuple[int, int]]) -> int:
    """Length of the union of (start, end) pairs."""
    total, last_end = 0, None
    for start, end in sorted(intervals):
        if last_end is None or start >= last_end:
            total += end - start
            last_end = end
        elif end > last_end:
            total += end - last_end
            last_end = end
    return total


def step_trace(intervals: Sequence[Interval]) -> StepTrace:
    spans = [(one.start_ns, one.start_ns + one.duration_ns, one.communicates) for one in intervals]
    busy = union_ns((start, end) for start, end, _ in spans)
    compute = union_ns((start, end) for start, end, communicates in spans if not communicates)
    communication = union_ns((start, end) for start, end, communicates in spans if communicates)
    return StepTrace(
        busy_s=busy * 1e-9,
        compute_s=compute * 1e-9,
        communication_s=communication * 1e-9,
        exposed_communication_s=(busy - compute) * 1e-9,
        launches=len(spans),
    )


def split_steps(intervals: Sequence[Interval], boundaries_ns: Sequence[int]) -> list[list[Interval]]:
    """Assigns each interval to the step it started in. ``boundaries_ns``: the end of each step, the device idle there.

    The host's and the device's clock agree to microseconds and an idle device separates the steps, so that an interval
    that starts after the last boundary still belongs to the last step.
    """
    steps: list[list[Interval]] = [[] for _ in boundaries_ns]
    for interval in intervals:
        index = min(bisect.bisect_left(boundaries_ns, interval.start_ns), len(steps) - 1)
        steps[index].append(interval)
    return steps


def waiting_and_moving(durations_by_rank: Mapping[int, Sequence[float]]) -> dict[int, tuple[float, float]]:
    """Seconds by rank that communication kernels (waited for other ranks, moved data), from their durations in order.

    The n-th communication kernel of every rank is the same collective. The rank that came last waits for nobody: the
    shortest duration among the ranks is the time of moving, and what another rank's took longer was waiting. Raises
    ValueError when ranks ran different numbers of kernels.
    """
    counts = {len(durations) for durations in durations_by_rank.values()}
    if len(counts) != 1:
        raise ValueError(f"ranks ran different numbers of communication kernels: {sorted(counts)}")
    moving = [min(same) for same in zip(*durations_by_rank.values(), strict=True)]
    return {rank: (sum(durations) - sum(moving), sum(moving)) for rank, durations in durations_by_rank.items()}
