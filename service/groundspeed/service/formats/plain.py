"""The usual asv results, many at once: benchmarks whose every point has a number and the whole set of statistics.

A long history has hundreds of thousands of them, and nearly all look so. One that does is checked and taken into
columns that all of a file share; whatever else a file holds is left to :mod:`groundspeed.service.formats.asv`, which
says what is to be said of it. Both make the same rows.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress, repeat
from operator import itemgetter
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from groundspeed.service.formats.asv import STATISTICS
from groundspeed.service.formats.digests import digest
from groundspeed.service.formats.records import Grid, Metric, Origin, Scalar, Where
from groundspeed.service.formats.times import EARLIEST_S, LATEST_S, SCALES

_COLUMNS = ("result", "params", "version", "started_at", "duration", *(f"stats_{key}" for key in STATISTICS))
_CI_A, _CI_B, _Q25, _Q75, _NUMBER, _REPEAT = STATISTICS
_FLOATS = {float}
_KINDS = (*[float] * 5, int, int)
"""Of the values and the six statistics."""
_TIMES = {int, float, type(None)}
_MOST = 2**31
_NO_TIME = 1e20
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """What a benchmark is in all files of a tree: ``axis_reprs`` are the values of its axes as the tool wrote them,
    ``axes_key`` names them. Known by its identity.
    """

    benchmark: str
    version: str
    metric: Metric
    axes: tuple[tuple[str, tuple[Scalar, ...]], ...]
    axis_reprs: tuple[tuple[str, ...], ...]
    axes_key: str

    def points(self) -> list[dict[str, Scalar]]:
        """Its parameters, point by point."""
        return list(Grid(Origin(""), self.benchmark, self.metric, Where(""), self.axes, ()).points())


@dataclass(slots=True, eq=False)
class Block:
    """The usual grids of one file, as columns: one entry a grid up to ``durations_s``, one a point from ``values`` on.

    ``starts`` are texts in UTC, ``facts`` JSON text without its braces; ``values`` and ``spreads`` are in the metric's
    unit.
    """

    origin: Origin
    where: Where
    shapes: Sequence[Shape]
    lengths: Sequence[int]
    digests: Sequence[str]
    facts: Sequence[str]
    starts: Sequence[str]
    durations_s: Sequence[float]
    values: Sequence[float]
    spreads: Sequence[float]
    counts: Sequence[int]

    @property
    def read(self) -> int:
        """How many values the source holds."""
        return len(self.values)

    def only(self, wanted: Sequence[bool]) -> Block:
        """With some of the grids, those for which ``wanted`` is true."""
        points = list(chain.from_iterable(map(repeat, wanted, self.lengths)))
        grids = (self.shapes, self.lengths, self.digests, self.facts, self.starts, self.durations_s)
        numbers = (self.values, self.spreads, self.counts)
        columns: list[list[Any]] = [list(compress(column, wanted)) for column in grids]
        columns += [list(compress(column, points)) for column in numbers]
        return Block(self.origin, self.where, *columns)


@dataclass(slots=True)
class Shapes:
    """The shapes that a process has met in a tree, by benchmark: those of one differ in version or parameters."""

    known: dict[str, list[tuple[list[list[str]], int, Shape]]] = field(default_factory=dict)

    def learn(self, shape: Shape) -> None:
        params, size = [list(a) for a in shape.axis_reprs], math.prod([len(a) for _, a in shape.axes])
        there = self.known.setdefault(shape.benchmark, [])
        if not any(one.version == shape.version and given == params for given, _, one in there):
            there.append((params, size, shape))


Entry = tuple[Shape, Any, list[Any], list[Any], list[Any], list[Any], list[Any], list[Any], list[Any], Any]
"""Of a grid: shape, when it began, its values, the six statistics in their order, and how long it took."""


@dataclass(slots=True)
class Collector:
    """Takes the usual grids of one file."""

    shapes: Shapes
    _origin: Origin = field(default_factory=lambda: Origin(""))
    _taken: list[Entry] = field(default_factory=list)
    _columns: list[list[Any]] = field(default_factory=list)

    def take(self, results: Mapping[str, Any], columns: Sequence[str], origin: Origin) -> Mapping[str, Any]:
        """Takes what is usual and of a known shape among the entries of a file; returns the others."""
        if not set(_COLUMNS) <= set(columns) or len(set(columns)) != len(columns):
            return results
        self._origin = origin
        chosen = itemgetter(*map(columns.index, _COLUMNS))
        samples = columns.index("samples") if "samples" in columns else len(columns)
        entries = [self._entry(name, row, chosen, samples) for name, row in results.items()]
        self._taken, self._columns = _usual([entry for entry in entries if entry is not None])
        taken = {entry[0].benchmark for entry in self._taken}
        return {name: row for name, row in results.items() if name not in taken}

    def _entry(self, name: str, row: Any, chosen: Callable[[Any], tuple[Any, ...]], samples: int) -> Entry | None:
        """A row of a known shape with columns of one length; None: something else."""
        if type(row) is not list or (len(row) > samples and row[samples] is not None):
            return None
        try:
            result, params, version, started, duration, ci_a, ci_b, q25, q75, number, repeated = chosen(row)
        except IndexError:
            return None
        kind = type(result) is type(ci_a) is type(ci_b) is type(q25) is type(q75) is type(number) is type(repeated)
        # Most of what is not usual has no number at some point.
        if not kind or type(result) is not list or type(started) not in _TIMES or set(map(type, result)) != _FLOATS:
            return None
        points = len(result)
        if not points == len(ci_a) == len(ci_b) == len(q25) == len(q75) == len(number) == len(repeated):
            return None
        for given, size, shape in self.shapes.known.get(name, ()):
            if shape.version == version and size == points and given == (params or []):
                return shape, started, result, ci_a, ci_b, q25, q75, number, repeated, duration
        return None

    def block(self, where: Where) -> Block | None:
        """All that was taken; None of nothing."""
        if not self._taken:
            return None
        shapes, started, results, ci_a, ci_b, q25, q75, number, repeated, durations = zip(*self._taken, strict=True)
        values, _, _, low, high, _, counts = self._columns
        numbers = array("d", values)
        lengths = list(map(len, results))
        starts, digests = _named(shapes, started, numbers, lengths)
        statistics = zip(ci_a, ci_b, q25, q75, number, repeated, strict=True)
        return Block(
            self._origin, where, shapes, lengths, digests, _facts(statistics), starts, list(map(_duration, durations)),
            numbers, _spreads(np.array(low, np.float64), np.array(high, np.float64)), array("q", counts),
        )  # fmt: skip


def _usual(entries: list[Entry]) -> tuple[list[Entry], list[list[Any]]]:
    """Those of which every point has a finite number and all statistics, and the columns of these for all of them."""
    while entries:
        columns = [list(chain.from_iterable(column)) for column in list(zip(*entries, strict=True))[2:9]]
        if all(map(_is_usual, columns, _KINDS)):
            return entries, columns
        usual = [entry for entry in entries if all(map(_is_usual, entry[2:9], _KINDS))]
        if len(usual) == len(entries):  # a sum of all was no number, those of each are
            return entries, columns
        entries = usual
    return [], []


def _is_usual(column: list[Any], kind: type) -> bool:
    """Whether all are numbers as they should be: checked by the set of types, at the speed of C."""
    if set(map(type, column)) != {kind}:
        return False
    if kind is float:
        return math.isfinite(sum(column))
    return bool(min(column) > 0 and max(column) < _MOST)


def _spreads(low: Floats, high: Floats) -> array[float]:
    spreads = np.where(high > low, 0.5 * (high - low), 0.0)
    spreads[~np.isfinite(spreads)] = 0.0
    return array("d", spreads.tobytes())


def _named(
    shapes: Sequence[Shape], started: Sequence[Any], values: array[float], lengths: Sequence[int]
) -> tuple[list[str], list[str]]:
    """When each grid began, as text, and its digest."""
    starts, digests, at, raw = _texts(started), [], 0, memoryview(values).cast("B")
    for shape, length, start in zip(shapes, lengths, starts, strict=True):
        end = at + 8 * length
        digests.append(digest(raw[at:end], "[]", start.replace(".000000", "") or "None", shape.version))
        at = end
    return starts, digests


def _texts(started: Sequence[Any]) -> list[str]:
    """Moments as texts in UTC, empty where there is none: what :func:`parse_time` makes of each, for all at once."""
    try:
        numbers = np.array(started, np.float64)
    except OverflowError:  # an integer beyond all times
        numbers = np.array([v if v is not None and abs(v) < _NO_TIME else math.nan for v in started], np.float64)
    seconds = np.full(numbers.size, math.nan)
    for scale in reversed(SCALES):
        scaled = numbers / scale
        seconds = np.where((scaled > EARLIEST_S) & (scaled < LATEST_S), scaled, seconds)
    known = np.isfinite(seconds)
    part, whole = np.modf(np.where(known, seconds, 0.0))
    micros = whole.astype(np.int64) * 1_000_000 + np.rint(part * 1e6).astype(np.int64)
    texts = np.datetime_as_string(micros.astype("datetime64[us]")).tolist()
    return [f"{t[:10]} {t[11:]}+00:00" if there else "" for t, there in zip(texts, known.tolist(), strict=True)]


def _facts(statistics: Iterable[tuple[list[Any], ...]]) -> list[str]:
    """Of each grid, JSON without its braces."""
    docs = [
        {"stats": {_CI_A: a, _CI_B: b, _Q25: c, _Q75: d, _NUMBER: e, _REPEAT: f}} for a, b, c, d, e, f in statistics
    ]
    text = orjson.dumps(docs).decode()
    return text[2:-2].split("},{")  # numbers alone: what divides grids is nowhere else


def _duration(value: object) -> float:
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e9 else 0.0
