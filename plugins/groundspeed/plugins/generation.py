"""Generation: a decoder with a key-value cache and continuous batching of a trace of requests."""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from groundspeed.plugins import open_loop, targets, tasks
from groundspeed.plugins.common import SEED, THREADS
from groundspeed.plugins.inference import percentile
from groundspeed.plugins.serving import waiter
from groundspeed.plugins.spi import (
    Context,
    Direction,
    Kind,
    Measured,
    Metric,
    Needs,
    Param,
    SampleState,
    WrongResult,
)
from groundspeed.plugins.symptoms import hint
from groundspeed.plugins.timing.loop import LATENCY_SAMPLES

TOLERANCE = {"fp32": 1e-4, "fp16": 1e-2, "bf16": 6e-2}
"""Largest relative error of the logits through the cache against the whole sequence at once."""


@dataclass(slots=True)
class Request:
    """``due_s`` by the schedule; times in seconds since the start, 0 until they have come."""

    due_s: float
    prompt: int
    wanted: int
    slot: int = -1
    made: int = 0
    first_s: float = 0.0
    done_s: float = 0.0

    @property
    def to_first_s(self) -> float:
        return self.first_s - self.due_s

    @property
    def per_token_s(self) -> float | None:
        """Mean time of a token after the first."""
        return (self.done_s - self.first_s) / (self.made - 1) if self.made > 1 else None


@dataclass(slots=True)
class Seen:
    """``finished`` in the order of finishing; times of the engine's steps in seconds."""

    finished: list[Request] = field(default_factory=list)
    prefill_s: list[float] = field(default_factory=list)
    decode_s: list[float] = field(default_factory=list)
    begin_s: float = 0.0
    """On ``time.perf_counter``."""
    wall_s: float = 0.0


class Generation:
    """Self-timed. The target's convention is in docs/suites.md; ``models.generation`` has a reference."""

    timing: ClassVar[Literal["self-timed"]] = "self-timed"
    name = "generation"
    version = "1"
    description = "Time to first token, time per output token and tokens/s of a decoder, continuous batching"
    needs = Needs(packages=("torch>=2.6",), target=True)
    params: tuple[Param, ...] = (
        Param("batch_size", "int", 8, minimum=1, description="requests that are decoded together at most"),
        Param("requests", "int", 32, minimum=1, maximum=100_000, description="in the trace"),
        Param("load", "float", 0.0, minimum=0.0, description="requests a second (Poisson); 0: all at once"),
        Param("prompt", "int", 0, minimum=0, description="tokens, half to one and a half of it; 0: 512, on the CPU 8"),
        Param("output", "int", 0, minimum=0, description="tokens, half to one and a half of it; 0: 128, on the CPU 6"),
        Param("precision", "str", "fp32", choices=("fp32", "fp16", "bf16"), description="of the model, passed on"),
        THREADS,
        SEED,
    )

    def metrics(self) -> tuple[Metric, ...]:
        def time_of(name: str, description: str, formula: str, *, gate: bool = False) -> Metric:
            return Metric(name, "s", Direction.LOWER, Kind.TIME, description, formula, gate, "wall")

        return (
            time_of("time_to_first_token", "from the time a request is due to its first token, one a request",
                    "first token - due by the schedule", gate=True),
            time_of("time_to_first_token_p99", "of 100 requests 99 are faster", "99th percentile, nearest rank"),
            time_of("time_per_output_token", "of the tokens after the first, one value a request",
                    "(last token - first token) / (tokens - 1)", gate=True),
            time_of("time_per_output_token_p99", "of 100 requests 99 are faster", "99th percentile, nearest rank"),
            Metric("token_rate", "tokens/s", Direction.HIGHER, Kind.RATE, clock="wall", gate=False,
                   description="output tokens of all requests", formula="tokens made / time from start to last token"),
            time_of("prefill_time", "reading one prompt and making its first token", "perf_counter, device waited for"),
            time_of("decode_time", "one token for every request under way", "perf_counter, device waited for"),
        )  # fmt: skip

    def run(self, context: Context) -> Iterable[Measured]:
        tasks.set_threads(context)
        with context.phase("setup"):
            engine = targets.make(context)
        trace = make_trace(context)
        longest = max(one.prompt + one.wanted for one in trace)
        with context.phase("check"):
            check(engine, context, longest)
        with context.phase("warmup"):
            rehearse(engine, context, longest)
        seen = drive(engine, trace, context, longest)
        gate = False if context.device == "cpu" else None
        first = [one.to_first_s for one in seen.finished]
        each = [value for one in seen.finished if (value := one.per_token_s) is not None]
        worth = functools.partial(worth_of, context, seen)
        if len(first) < LATENCY_SAMPLES:
            context.labels["tail_from_few"] = f"{len(first)} requests: {hint('tail-from-few')}"
        yield Measured("time_to_first_token", first, states=[worth(one) for one in seen.finished], gate=gate)
        yield Measured("time_to_first_token_p99", [percentile(first, 99)])
        if each:
            states = [worth(one) for one in seen.finished if one.per_token_s is not None]
            yield Measured("time_per_output_token", each, states=states, gate=gate)
            yield Measured("time_per_output_token_p99", [percentile(each, 99)])
        yield Measured("token_rate", [sum(one.made for one in seen.finished) / seen.wall_s])
        yield Measured("prefill_time", seen.prefill_s)
        if seen.decode_s:
            yield Measured("decode_time", seen.decode_s)
        context.facts.update({"requests": len(trace), "longest": longest})


def worth_of(context: Context, seen: Seen, one: Request) -> SampleState:
    """By the device's conditions while the request waited and was answered."""
    return context.state_between(seen.begin_s + one.due_s, one.done_s - one.due_s)


def make_trace(context: Context) -> list[Request]:
    """Lengths and times of arrival, the same for the same seed."""
    params, small = context.params, context.device == "cpu"
    prompt, output = int(params["prompt"]) or (8 if small else 512), int(params["output"]) or (6 if small else 128)
    chance = random.Random(int(params["seed"]))  # noqa: S311 - lengths of a load

    def about(length: int) -> int:
        return max(1, chance.randint(length - length // 2, length + length // 2))

    count, load = int(params["requests"]), float(params["load"])
    due = [0.0] * count
    if load:
        due = open_loop.poisson(load, float("inf"), int(params["seed"]), most=count)
    return [Request(at, about(prompt), about(output)) for at in due]


def drive(engine: Any, trace: list[Request], context: Context, longest: int) -> Seen:
    """The engine's loop: requests that are due take free slots, then one token is made for all under way."""
    slots = int(context.params["batch_size"])
    cache = targets.part(engine, "start")(slots, longest)
    vocabulary = int(targets.part(engine, "vocabulary"))
    chance = random.Random(int(context.params["seed"]) + 1)  # noqa: S311 - tokens
    prefill, decode = timed(engine, "prefill", context), timed(engine, "decode", context)
    seen, waiting, free = Seen(), list(trace), list(range(slots))
    active: list[Request] = []
    newest: dict[int, int] = {}
    begin = seen.begin_s = time.perf_counter()
    while waiting or active:
        while waiting and free and waiting[0].due_s <= time.perf_counter() - begin:
            request = waiting.pop(0)
            request.slot = free.pop()
            tokens = [chance.randrange(vocabulary) for _ in range(request.prompt)]
            newest[request.slot], seconds = prefill(cache, request.slot, tokens)
            seen.prefill_s.append(seconds)
            request.made, request.first_s = 1, time.perf_counter() - begin
            request.done_s = request.first_s
            active.append(request)
        active = retire(active, free, seen)
        if active:
            used = [request.slot for request in active]
            made, seconds = decode(cache, used, [newest[slot] for slot in used])
            seen.decode_s.append(seconds)
            now = time.perf_counter() - begin
            for request, token in zip(active, made, strict=True):
                newest[request.slot], request.made, request.done_s = token, request.made + 1, now
            active = retire(active, free, seen)
            context.progress(f"{len(seen.finished)} of {len(trace)} requests")
        elif waiting:
            time.sleep(max(0.0, waiting[0].due_s - (time.perf_counter() - begin)))
    seen.wall_s = time.perf_counter() - begin
    return seen


def retire(active: list[Request], free: list[int], seen: Seen) -> list[Request]:
    """Those that have all their tokens give their slot back; returns the others."""
    for request in active:
        if request.made >= request.wanted:
            free.append(request.slot)
            seen.finished.append(request)
    return [request for request in active if request.made < request.wanted]


def timed(engine: Any, name: str, context: Context) -> Callable[..., tuple[Any, float]]:
    """The engine's call, with greedy choice of the token and the device waited for."""
    call, wait = targets.part(engine, name), waiter(context.device)

    def run(*arguments: Any) -> tuple[Any, float]:
        begin = time.perf_counter()
        logits = call(*arguments)
        tokens = logits.argmax(-1).tolist()
        wait()
        return tokens, time.perf_counter() - begin

    return run


def rehearse(engine: Any, context: Context, longest: int) -> None:
    """Each kind of call a few times, unmeasured: plans of libraries, allocation."""
    slots = int(context.params["batch_size"])
    cache = targets.part(engine, "start")(slots, longest)
    for _ in range(3):
        for slot in range(min(slots, 2)):
            targets.part(engine, "prefill")(cache, slot, [0] * max(1, longest // 2))
        used = list(range(min(slots, 2)))
        targets.part(engine, "decode")(cache, used, [0] * len(used))
        context.progress("warming up")
    waiter(context.device)()


def check(engine: Any, context: Context, longest: int) -> None:
    """Logits through the cache against those of the whole sequence at once, where the target has ``whole``."""
    whole = targets.part(engine, "whole")
    if whole is None:
        return
    tokens = [(7 * index + 3) % int(targets.part(engine, "vocabulary")) for index in range(min(12, longest))]
    cache = targets.part(engine, "start")(2, longest)
    half = max(1, len(tokens) // 2)
    found = targets.part(engine, "prefill")(cache, 1, tokens[:half])
    for token in tokens[half:]:
        found = targets.part(engine, "decode")(cache, [1], [token])[0]
    wanted = whole(tokens)
    error = float((found.double() - wanted.double()).norm() / wanted.double().norm())
    limit = TOLERANCE[str(context.params["precision"])]
    if not error <= limit:
        raise WrongResult(
            f"logits through the cache differ from those of the whole sequence by {error:.2e} > {limit:g}"
        )


PLUGIN = Generation()
