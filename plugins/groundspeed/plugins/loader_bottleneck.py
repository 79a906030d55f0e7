"""Which stage of a loader holds up the step. Pure but for ``own_time``, which times one call."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

WAITS = 0.1
"""More of the time than this spent waiting: the loader holds up the step."""
COPIES = 0.15
"""More of the time than this spent copying to the device."""


@dataclass(frozen=True, slots=True)
class OwnTime:
    """Of one call, seconds: on the CPU, and waiting for something other than a CPU."""

    wall_s: float
    cpu_s: float
    blocked_s: float


@dataclass(frozen=True, slots=True)
class Stages:
    """Shares are of the time from batch to batch; sample times None: the dataset has no index."""

    wait_share: float
    copy_share: float
    pinned: bool
    workers: int
    cpus: int
    sample_cpu_s: float | None
    sample_blocked_s: float | None

    def evidence(self, code: str) -> str:
        if code == "slow-copy":
            return f"{self.copy_share:.0%} of the time, in pageable memory"
        sample = (self.sample_cpu_s or 0.0, self.sample_blocked_s or 0.0)
        each = f"a sample takes {sample[0] * 1e3:.3g} ms of CPU and waits {sample[1] * 1e3:.3g} ms"
        if code == "too-few-workers":
            return f"{self.workers} workers, {self.cpus} CPUs; {each}"
        return f"{each}; {self.workers} workers"


def bottleneck(stages: Stages) -> str | None:
    """The symptom's code; None: the step does not wait. The copy comes first: no worker can make up for it."""
    if stages.copy_share > COPIES and not stages.pinned and stages.copy_share >= stages.wait_share:
        return "slow-copy"
    if stages.wait_share <= WAITS:
        return None
    cpu, blocked = stages.sample_cpu_s, stages.sample_blocked_s
    if cpu is None or blocked is None:
        return "too-few-workers" if max(stages.workers, 1) < stages.cpus else "input-bound"
    if blocked > cpu:
        return "slow-storage"
    # Decoding needs CPUs: as long as some are left, workers are what is missing.
    return "too-few-workers" if max(stages.workers, 1) < stages.cpus else "slow-decode"


def own_time(call: Callable[[], object]) -> OwnTime:
    """Time in the run queue is the host's, not the call's: it is taken off where the kernel tells it."""
    queued, cpu, begin = queue_s(), time.thread_time(), time.perf_counter()
    call()
    wall, used = time.perf_counter() - begin, time.thread_time() - cpu
    return OwnTime(wall, used, max(0.0, wall - used - (queue_s() - queued)))


def queue_s() -> float:
    """Seconds that this thread has been ready and waited for a CPU; 0 where the kernel does not tell."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) * 1e-9
    except (OSError, ValueError, IndexError):
        return 0.0
