"""The loop that drives a stepped plugin's workload: warm-up until steady, then samples until the stop rule is met."""

from __future__ import annotations

import contextlib
import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from groundspeed.plugins.protocol import Limits
from groundspeed.plugins.timing.clocks import Chunk, Clock, Step
from groundspeed.plugins.timing.reference import Reference, calibrated
from groundspeed.plugins.timing.steady import SteadyTest
from groundspeed.plugins.timing.stopping import StopRule, relative_half_width

SHORTEST_SAMPLE_S = 2e-3
"""A sample shorter than this would measure the clock and the loop: several steps make one."""
CHUNK_S = 0.1
"""Between chunks the loop reports life, collects garbage and asks the stop rule."""
DEVICE_CHUNK_S = 0.25
"""On an accelerator: the pause between chunks must be small beside them, or a capped device cools in it."""
REFERENCE_EVERY_S = 4e-3
"""With a reference workload a chunk is short, so that the two see the same host."""
LATENCY_SAMPLES = 1000
"""What a 99th percentile needs; asked for in latency mode as long as the time limit allows."""
LATENCY_MAX_SAMPLES = 20_000


@dataclass(slots=True)
class LoopResult:
    """Everything the loop saw."""

    chunk: Chunk = field(default_factory=Chunk)
    warmup: Chunk = field(default_factory=Chunk)
    warmup_steps: int = 0
    steps_per_sample: int = 1
    steady: bool = False
    stopped: str = ""
    """Why measuring ended: narrow, samples, time."""
    warmup_s: float = 0.0
    measure_s: float = 0.0
    half_width: float = math.inf
    """Relative half-width of the interval of the median of what the stop rule watches."""
    reference_s: list[float] = field(default_factory=list)
    """For each sample the mean of the reference's CPU time before and after; empty without a reference."""
    energy_j_per_step: float | None = None
    """Used by the device while measuring, after the window that was kept; None: not known."""


@dataclass(slots=True)
class Loop:
    """Drives ``step`` with ``clock``; ``progress`` is called about every tenth of a second."""

    step: Step
    clock: Clock
    limits: Limits
    progress: Callable[[str], None]
    mode: Literal["throughput", "latency"] = "throughput"
    reference: Reference | None = None
    energy_j: Callable[[], float | None] | None = None
    """The device's energy counter, read at the ends of measuring only."""
    steady_test: SteadyTest = field(default_factory=SteadyTest)
    chunk_s: float = CHUNK_S
    accelerator: bool = False
    """The samples of the window that the test found steady are measured ones: on a device that nobody else drives they
    are like those that follow."""

    def __post_init__(self) -> None:
        self.limits = self.limits.on(accelerator=self.accelerator)

    def run(self) -> LoopResult:
        result = LoopResult()
        with quiet_collector():
            self._warm_up(result)
            kept = len(result.chunk.wall_s)
            before = self.energy_j() if self.energy_j is not None else None
            self._measure(result)
            after = self.energy_j() if self.energy_j is not None else None
            if before is not None and after is not None:
                steps = (len(result.chunk.wall_s) - kept) * result.steps_per_sample
                result.energy_j_per_step = (after - before) / steps
        return result

    def _warm_up(self, result: LoopResult) -> None:
        """First step alone (compilation, allocation, caches), then chunks until steady or out of budget."""
        start = time.perf_counter()
        first = self.clock.chunk(self.step, 1, 1)
        result.warmup.extend(first)
        result.warmup_steps = 1
        second = self.clock.chunk(self.step, 1, 1)
        result.warmup.extend(second)
        result.warmup_steps += 1
        result.steps_per_sample = self._steps_per_sample(second.wall_s[0])
        elapsed = [first.wall_s[0], second.wall_s[0]]
        # Compiling and loading kernels on the first steps is not warming up: the budget begins after them.
        begin = time.perf_counter()
        while time.perf_counter() - begin < self.limits.warmup_max_s:
            chunk = self._take(self._chunk_samples(result, result.warmup.wall_s[-1]), result.steps_per_sample)
            result.warmup.extend(chunk)
            result.warmup_steps += len(chunk.wall_s) * result.steps_per_sample
            elapsed += [value * result.steps_per_sample for value in chunk.wall_s]
            self.progress(f"warming up: {result.warmup_steps} steps")
            gc.collect()
            # The first two samples are of another size and of another nature; the test never sees them.
            if self.steady_test.holds(result.warmup.wall_s[2:], elapsed[2:]):
                result.steady = True
                break
        result.warmup_s = time.perf_counter() - start
        if result.steady and self.accelerator:
            self._keep_window(result, elapsed)

    def _keep_window(self, result: LoopResult, elapsed: Sequence[float]) -> None:
        count = self.steady_test.count(elapsed[2:])
        result.chunk.extend(result.warmup.newest(count))
        result.measure_s = min(sum(elapsed[-count:]), result.warmup_s)
        result.warmup_s -= result.measure_s

    def _measure(self, result: LoopResult) -> None:
        rule = self._rule()
        begin, kept_s = time.perf_counter(), result.measure_s
        last = statistics.median(result.warmup.wall_s[-5:])
        watched: Sequence[float] = result.chunk.wall_s
        while not result.stopped:
            until = time.perf_counter() + self.chunk_s
            reference_s = self.reference() if self.reference else 0.0
            while True:
                chunk = self._take(self._chunk_samples(result, last), result.steps_per_sample)
                result.chunk.extend(chunk)
                if self.reference is None:
                    break
                before, reference_s = reference_s, self.reference()
                result.reference_s += [(before + reference_s) / 2] * len(chunk.wall_s)
                if time.perf_counter() >= until or len(result.chunk.wall_s) >= rule.max_samples:
                    break
            gc.collect()
            self.progress(f"measuring: {len(result.chunk.wall_s)} samples")
            result.measure_s = time.perf_counter() - begin + kept_s
            if self.reference is not None:
                watched = calibrated(result.chunk.cpu_s, result.reference_s)
            result.stopped = rule.verdict(watched, result.measure_s - kept_s)
        result.half_width = relative_half_width(watched)

    def _take(self, samples: int, steps_per_sample: int) -> Chunk:
        if self.mode == "latency":
            return self.clock.latency_chunk(self.step, samples)
        return self.clock.chunk(self.step, samples, steps_per_sample)

    def _steps_per_sample(self, step_s: float) -> int:
        if self.mode == "latency":
            return 1
        shortest = SHORTEST_SAMPLE_S if self.reference is None else REFERENCE_EVERY_S
        return max(1, math.ceil(shortest / max(step_s, 1e-7)))

    def _chunk_samples(self, result: LoopResult, step_s: float) -> int:
        """As many samples as fit in a chunk, and no more than are still wanted by the maximum."""
        chunk_s = self.chunk_s if self.reference is None else REFERENCE_EVERY_S
        fitting = int(chunk_s / max(step_s * result.steps_per_sample, 1e-7))
        left = self._rule().max_samples - len(result.chunk.wall_s)
        return max(1, min(fitting, max(left, 1)))

    def _rule(self) -> StopRule:
        limits = self.limits
        latency = self.mode == "latency"
        return StopRule(
            min_samples=limits.min_samples,
            max_samples=max(limits.max_samples, LATENCY_MAX_SAMPLES) if latency else limits.max_samples,
            min_time_s=limits.min_time_s,
            max_time_s=limits.max_time_s,
            relative_half_width=limits.relative_half_width,
            wanted_samples=LATENCY_SAMPLES if latency else 0,
        )


@contextlib.contextmanager
def quiet_collector() -> Iterator[None]:
    """Python's cyclic collector runs between chunks only, so that its pauses fall on no sample."""
    was = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was:
            gc.enable()
