"""Open-loop load: arrivals that do not wait for answers, and a queue with dynamic batching. One thread, real time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field


def poisson(rate: float, seconds: float, seed: int, most: int = 100_000) -> list[float]:
    """Times of arrival within ``seconds`` at ``rate`` a second: exponential gaps, the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311 - load, not secrets
    times: list[float] = []
    at = chance.expovariate(rate)
    while at < seconds and len(times) < most:
        times.append(at)
        at += chance.expovariate(rate)
    return times


@dataclass(slots=True)
class Served:
    """Seconds from the time a request was due to its answer, one entry a request; and the size of every batch."""

    latency_s: list[float] = field(default_factory=list)
    due_s: list[float] = field(default_factory=list)
    """When each was due, since ``begin_s``."""
    batches: list[int] = field(default_factory=list)
    begin_s: float = 0.0
    """On the clock that was given."""
    wall_s: float = 0.0
    overloaded: bool = False
    """The queue grew without end and the run was cut short."""

    @property
    def requests(self) -> Iterator[tuple[float, float]]:
        """(when it was due, its latency) of each."""
        return zip(self.due_s, self.latency_s, strict=True)

    @property
    def rate(self) -> float:
        return len(self.latency_s) / self.wall_s if self.wall_s else 0.0


@dataclass(frozen=True, slots=True)
class Batching:
    """A batch goes when it is full, or when its oldest request has waited so long."""

    largest: int
    queue_delay_s: float


def serve(
    arrivals: Sequence[float],
    batching: Batching,
    answer: Callable[[int], object],
    alive: Callable[[str], None],
    *,
    give_up_s: float,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> Served:
    """Answers every arrival; ``answer(n)`` serves n requests and returns when they are done.

    Latency counts from the time of arrival in the schedule, so that waiting for a busy server shows. A request that has
    waited longer than ``give_up_s`` ends the run as overloaded.
    """
    begin = clock()
    served = Served(begin_s=begin)
    for first, size in batches(arrivals, batching, lambda: clock() - begin, sleep):
        answer(size)
        done = clock() - begin
        served.batches.append(size)
        served.due_s += arrivals[first : first + size]
        served.latency_s += [done - due for due in arrivals[first : first + size]]
        if done - arrivals[first] > give_up_s:
            served.overloaded = True
            break
        alive(f"{first + size} of {len(arrivals)} requests")
    served.wall_s = clock() - begin
    return served


def batches(
    arrivals: Sequence[float], batching: Batching, now: Callable[[], float], sleep: Callable[[float], None]
) -> Iterator[tuple[int, int]]:
    """(index of the first request, how many), each given when it is time to serve it."""
    first = 0
    while first < len(arrivals):
        size = due(arrivals, first, batching, now())
        if size == 0:
            sleep(max(0.0, next_look(arrivals, first, batching) - now()))
            continue
        yield first, size
        first += size


def due(arrivals: Sequence[float], first: int, batching: Batching, now: float) -> int:
    """How many requests go at this time; 0: wait."""
    waiting = 0
    while waiting < batching.largest and first + waiting < len(arrivals) and arrivals[first + waiting] <= now:
        waiting += 1
    if waiting == batching.largest or (waiting and now - arrivals[first] >= batching.queue_delay_s):
        return waiting
    return 0


def next_look(arrivals: Sequence[float], first: int, batching: Batching) -> float:
    """When something changes: the batch is full, or its oldest request has waited long enough."""
    full = first + batching.largest - 1
    oldest = arrivals[first] + batching.queue_delay_s
    return min(oldest, arrivals[full]) if full < len(arrivals) else oldest


def highest(meets: Callable[[float], bool], start: float, *, steps: int) -> float:
    """The highest load found for which ``meets`` holds, by doubling and then halving the distance; 0: not even 1 % of
    ``start``. ``steps`` runs at most.
    """
    low, high, load = 0.0, 0.0, start
    for _ in range(steps):
        if meets(load):
            low = load
            load = (low + high) / 2 if high else 2 * load
        else:
            high = load
            load = (low + high) / 2
        if load < 0.01 * start or (low and high and high / low < 1.03):
            break
    return low
