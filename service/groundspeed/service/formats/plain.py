"""The usual asv results, many at once: benchmarks whose every point has a number and the whole set of statistics.

A long history has hundreds of thousands of them, and nearly all look so. One that does is checked and taken into
columns that all of a file share; whatever else a file holds is left to :mod:`groundspeed.service.formats.asv`, which
says what is to be said of it. Both make the same rows.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress, repeat
from operator import itemgetter
from typing import Any

import numpy as np
import orjson

from groundspeed.service.formats.asv import STATISTICS
from groundspeed.service.formats.digests import digest
from groundspeed.service.formats.records import Grid, Metric, Origin, Scalar, Where
from groundspeed.service.formats.times import parse_time

_COLUMNS = ("result", "params", "version", "started_at", "duration", *(f"stats_{key}" for key in STATISTICS))
_FLOATS = {float}
_INTEGERS = {int}
_LISTS = {list}
_TIMES = {int, float, type(None)}
_MOST = 2**31


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

    def take(self, results: Mapping[str, Any], columns: Sequence[str], origin: Origin) -> Mapping[str, Any]:
        """Takes what is usual and of a known shape among the entries of a file; returns the others."""
        if not set(_COLUMNS) <= set(columns) or len(set(columns)) != len(columns):
            return results
        self._origin = origin
        chosen = itemgetter(*map(columns.index, _COLUMNS))
        samples = columns.index("samples") if "samples" in columns else len(columns)
        entries = [self._entry(name, row, chosen, samples) for name, row in results.items()]
        self._taken = _usual([entry for entry in entries if entry is not None])
        taken = {entry[0].benchmark for entry in self._taken}
        return {name: row for name, row in results.items() if name not in taken}

    def _entry(self, name: str, row: Any, chosen: Callable[[Any], tuple[Any, ...]], samples: int) -> Entry | None:
        """A row of a known shape with columns of one length; None: something else."""
        if type(row) is not list or (len(row) > samples and row[samples] is not None):
            return None
        try:
            result, params, version, started, duration, *statistics = chosen(row)
        except IndexError:
            return None
        for given, size, shape in self.shapes.known.get(name, ()):
            if shape.version == version and given == (params or []):
                columns = (result, *statistics)
                if set(map(type, columns)) != _LISTS or set(map(len, columns)) != {size} or type(started) not in _TIMES:
                    return None
                return (shape, started, *columns, duration)
        return None

    def block(self, where: Where) -> Block | None:
        """All that was taken; None of nothing."""
        if not self._taken:
            return None
        shapes, started, results, ci_a, ci_b, q25, q75, number, repeat, durations = zip(*self._taken, strict=True)
        values = array("d", chain.from_iterable(results))
        low, high = (np.fromiter(chain.from_iterable(column), np.float64, len(values)) for column in (q25, q75))
        spreads = np.where(high > low, 0.5 * (high - low), 0.0)
        spreads[~np.isfinite(spreads)] = 0.0
        lengths = list(map(len, results))
        starts, digests = _named(shapes, started, values, lengths)
        statistics = zip(ci_a, ci_b, q25, q75, number, repeat, strict=True)
        return Block(
            self._origin, where, shapes, lengths, digests, [_facts(*one) for one in statistics], starts,
            list(map(_duration, durations)), values.tolist(), spreads.tolist(), list(chain.from_iterable(repeat)),
        )  # fmt: skip


def _usual(entries: list[Entry]) -> list[Entry]:
    """Those of which every point has a finite number and all statistics: halves of a list in which some have not are
    looked at by themselves.
    """
    if not entries or _are_usual(entries):
        return entries
    half = len(entries) // 2
    return _usual(entries[:half]) + _usual(entries[half:]) if half else []


def _are_usual(entries: list[Entry]) -> bool:
    """Checked by sets of types, at the speed of C."""
    columns = [list(chain.from_iterable(column)) for column in list(zip(*entries, strict=True))[2:9]]
    for column in columns[:5]:
        if set(map(type, column)) != _FLOATS or not math.isfinite(sum(column)):
            return False
    return all(set(map(type, one)) == _INTEGERS and min(one) > 0 and max(one) < _MOST for one in columns[5:])


def _named(
    shapes: Sequence[Shape], started: Sequence[Any], values: array[float], lengths: Sequence[int]
) -> tuple[list[str], list[str]]:
    """When each grid began, as text, and its digest."""
    starts, digests, at, raw = [], [], 0, memoryview(values).cast("B")
    for shape, length, moment in zip(shapes, lengths, map(parse_time, started), strict=True):
        start = moment.isoformat(" ", "microseconds") if moment else ""
        end = at + 8 * length
        starts.append(start)
        digests.append(digest(raw[at:end], "[]", start.replace(".000000", "") or "None", shape.version))
        at = end
    return starts, digests


def _facts(*statistics: list[Any]) -> str:
    return orjson.dumps({"stats": dict(zip(STATISTICS, statistics, strict=True))})[1:-1].decode()


def _duration(value: object) -> float:
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e9 else 0.0
