"""The neutral form of a foreign result: what every parser yields and every writer takes.

A parser is a generator of :class:`Record`, :class:`Grid` (many records of one parametrised benchmark, kept as columns
because histories have millions) and :class:`Skipped` (what could not be used, why, and where it stands). A file that
cannot be read at all raises :class:`Refused`. Nothing is dropped in silence.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median
from typing import Literal

Scalar = bool | int | float | str
Kind = Literal["time", "rate", "bytes", "ratio", "counter"]
Direction = Literal[-1, 0, 1]
Clock = Literal["wall", "device", "cycles", "cpu", "none"]
Outcome = Literal["ok", "wrong", "failed", "oom", "timeout", "crashed", "unsupported", "skipped"]
Layer = Literal["node", "stack", "build"]


@dataclass(frozen=True, slots=True)
class Where:
    """A place in a source: file name, line counted from 1 (0: unknown) and a JSON pointer or a word, when it has
    one.
    """

    source: str
    line: int = 0
    pointer: str = ""

    def __str__(self) -> str:
        text = f"{self.source}:{self.line}" if self.line else self.source
        return f"{text} ({self.pointer})" if self.pointer else text


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something in a source that did not become a result."""

    reason: str
    where: Where


class Refused(Exception):
    """A source that cannot be read: why, where, and what to do."""

    def __init__(self, reason: str, where: Where, advice: str = "") -> None:
        super().__init__(f"{where}: {reason}{' ' + advice if advice else ''}")
        self.reason = reason
        self.where = where
        self.advice = advice

    def __reduce__(self) -> tuple[type[Refused], tuple[str, Where, str]]:
        """Comes through a pool of processes whole."""
        return Refused, (self.reason, self.where, self.advice)


@dataclass(frozen=True, slots=True)
class Metric:
    """One quantity. ``unit`` is SI or field-standard ("s", "B", "B/s", "1/s", "FLOP/s", "1"); values are in it."""

    name: str
    unit: str
    direction: Direction
    kind: Kind
    clock: Clock = "none"
    gate: bool = True


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact of the environment a result was made in. ``tracked`` false: shown, but makes no other environment."""

    layer: Layer
    name: str
    value: str
    tracked: bool = True


@dataclass(frozen=True, slots=True)
class Machine:
    """What is known of the machine. ``name`` is a host name; ``identity`` true: its owner named it as a place to
    compare within (asv's machines), so that it belongs to the class of hardware.
    """

    name: str = ""
    identity: bool = False
    cpu_model: str = ""
    cpu_count: int = 0
    memory_bytes: int = 0
    gpu_model: str = ""
    gpu_count: int = 0
    topology: str = ""
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Origin:
    """What the results of one run of a tool share.

    ``commit`` may be short or empty; times may be None. ``branch``, ``title`` and ``author`` are of the commit.
    """

    tool: str
    tool_version: str = ""
    commit: str = ""
    committed_at: datetime | None = None
    measured_at: datetime | None = None
    branch: str = ""
    title: str = ""
    author: str = ""
    project: str = ""
    machine: Machine = Machine()
    environment: tuple[Fact, ...] = ()
    label: str = ""
    """What tells this run from another of the same commit, when the tool says (a baseline's name, a file)."""
    raw: str = ""
    """The head of the tool's own file as JSON, where an export has to give it back unchanged (asv)."""


@dataclass(frozen=True, slots=True)
class Record:
    """One metric of one benchmark at one point of its parameters, from one run.

    ``samples`` are raw values; when the tool kept only a summary they are empty and ``value`` stands alone with
    ``spread`` (median absolute deviation, or what comes nearest; named in ``summary``) and ``count``.
    ``outcome`` other than "ok": a failure, ``value`` is None and ``reason`` tells it.
    """

    origin: Origin
    benchmark: str
    metric: Metric
    where: Where
    value: float | None = None
    params: Mapping[str, Scalar] = field(default_factory=dict)
    samples: tuple[float, ...] = ()
    spread: float = 0.0
    count: int = 1
    version: str = "1"
    outcome: Outcome = "ok"
    reason: str = ""
    summary: Mapping[str, float] = field(default_factory=dict)

    @property
    def values(self) -> int:
        """How many numbers of the source this record stands for."""
        return len(self.samples) or (self.value is not None)


@dataclass(frozen=True, slots=True)
class Grid:
    """All points of one parametrised benchmark from one run, as columns.

    ``axes`` are (name, values in order); ``values`` has one entry for each point of their product (the last axis runs
    fastest): a number, None where it failed, NaN where it was skipped. ``columns`` are summary statistics of the same
    length, as the tool names them; ``samples`` raw values, where they were kept. ``axis_reprs`` are the axes' values as
    the tool wrote them.
    """

    origin: Origin
    benchmark: str
    metric: Metric
    where: Where
    axes: tuple[tuple[str, tuple[Scalar, ...]], ...]
    values: Sequence[float | None]
    version: str = "1"
    axis_reprs: tuple[tuple[str, ...], ...] = ()
    columns: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    samples: Sequence[Sequence[float] | None] = ()
    started_at: datetime | None = None
    duration_s: float = 0.0

    def points(self) -> Iterator[dict[str, Scalar]]:
        """The parameters of each value, in order."""
        names = [name for name, _ in self.axes]
        for point in itertools.product(*(values for _, values in self.axes)):
            yield dict(zip(names, point, strict=True))

    def records(self) -> Iterator[Record]:
        """The same, one by one."""
        for i, (params, value) in enumerate(zip(self.points(), self.values, strict=False)):
            summary = {
                name: v for name, col in self.columns.items() if (v := col[i] if i < len(col) else None) is not None
            }
            raw = self.samples[i] if i < len(self.samples) else None
            failed = value is None or not math.isfinite(value)
            yield Record(
                origin=self.origin,
                benchmark=self.benchmark,
                metric=self.metric,
                where=self.where,
                value=None if failed else value,
                params=params,
                samples=() if failed else tuple(raw or ()),
                spread=quartile_spread(summary),
                count=int(summary.get("repeat", 1)),
                version=self.version,
                outcome="ok" if not failed else "failed" if value is None else "skipped",
                reason="" if not failed else "the benchmark failed" if value is None else "the benchmark was skipped",
                summary=summary,
            )


Item = Record | Grid | Skipped


STUMBLES = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What a parser raises that stumbles over a file, which must not stop the import of the others."""


def stumbled(error: Exception, where: Where) -> Refused:
    """The same in words."""
    reason = f"could not be understood ({type(error).__name__}: {str(error)[:100]})."
    return Refused(reason, where, "Please report it with the file.")


def sound(items: Iterable[Item]) -> Iterator[Item]:
    """The same items; what has no name, or a number that grew beyond all bounds in its new
    unit, is skipped with its place.
    """
    for item in items:
        if isinstance(item, Record) and not item.benchmark.strip():
            yield Skipped("has no name", item.where)
        elif isinstance(item, Record) and not _is_sound(item):
            yield Skipped("its value is too large a number", item.where)
        else:
            yield item


def _is_sound(record: Record) -> bool:
    if record.value is not None and not math.isfinite(record.value):
        return False
    return math.isfinite(record.spread) and all(map(math.isfinite, record.samples))


def quartile_spread(summary: Mapping[str, float]) -> float:
    """Half the interquartile range: what comes nearest to a median absolute deviation when only quartiles are kept."""
    low, high = summary.get("q_25"), summary.get("q_75")
    return 0.0 if low is None or high is None else max(0.5 * (high - low), 0.0)


def spread_of(samples: Sequence[float]) -> float:
    """Median absolute deviation of the samples, in their unit."""
    if len(samples) < 2:
        return 0.0
    centre = median(samples)
    return median(abs(v - centre) for v in samples)


def finite(value: object) -> float | None:
    """The number, or None for whatever is not a finite one (text, booleans, NaN, numbers too large)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?([eE][+-]?\d+)?")


def number_of(text: str) -> float | None:
    """The finite number that a text is ("1,234.5" too), or None; "1,5" could be two numbers and is none."""
    plain = text.strip()
    if "," in plain and _THOUSANDS.fullmatch(plain):
        plain = plain.replace(",", "")
    try:
        return finite(float(plain))
    except ValueError:
        return None
