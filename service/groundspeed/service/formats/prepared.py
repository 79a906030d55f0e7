"""Grids made ready for a table: what needs computing is computed here, so that other processes can do it.

Parsing takes half of the import of a long history. :func:`read_file` reads a file here, :func:`send_file` in a process
of a pool: what it gives back is cheap to send (flat arrays, statistics as text, what benchmarks are once), and
:class:`Receiver` makes the same of it.
"""

from __future__ import annotations

import math
import os
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import orjson

from groundspeed.service.formats import asv
from groundspeed.service.formats.digests import digest
from groundspeed.service.formats.plain import Block, Collector, Shape, Shapes
from groundspeed.service.formats.records import (
    STUMBLES,
    Grid,
    Metric,
    Origin,
    Record,
    Refused,
    Scalar,
    Skipped,
    Where,
    stumbled,
)
from groundspeed.service.formats.source import Document


@dataclass(slots=True, eq=False)
class Prepared:
    """A grid: ``indices`` are the points that have a number, with their ``values``, ``spreads`` and ``counts``.

    ``missing`` are the points without (index, "failed" or "skipped"). ``facts`` is JSON text without its braces.
    ``digest`` names the content, ``axes_key`` the axes.
    """

    origin: Origin
    benchmark: str
    version: str
    metric: Metric
    where: Where
    """Its file."""
    axes: tuple[tuple[str, tuple[Scalar, ...]], ...]
    axis_reprs: tuple[tuple[str, ...], ...]
    axes_key: str
    indices: Sequence[int]
    values: Sequence[float]
    spreads: Sequence[float]
    counts: Sequence[int]
    samples: Sequence[Sequence[float] | None]
    missing: Sequence[tuple[int, str]]
    facts: str
    digest: str
    started: str
    """When, as text in UTC; empty when the source does not say."""
    duration_s: float
    read: int
    """How many values the source holds."""

    def failures(self) -> list[Record]:
        """A record for each point without a number."""
        if not self.missing:
            return []
        points, where = list(self.grid().points()), Where(self.where.source, self.where.line, self.benchmark)
        why = {"failed": "the benchmark failed", "skipped": "the benchmark was skipped"}
        return [
            Record(
                self.origin, self.benchmark, self.metric, where, params=points[i], version=self.version,
                outcome="failed" if outcome == "failed" else "skipped", reason=why[outcome],
            )
            for i, outcome in self.missing
        ]  # fmt: skip

    def grid(self) -> Grid:
        """The axes alone, to walk their points."""
        return Grid(self.origin, self.benchmark, self.metric, self.where, self.axes, ())


Ready = Block | Prepared | Record | Skipped


def prepare(grid: Grid, axes_keys: dict[int, str] | None = None, file: Where | None = None) -> Prepared:
    """Compute all that the table needs. ``axes_keys`` remembers names of axes by identity, for axes that stay alive;
    ``file`` is the place of all grids of a file, which is sent once.
    """
    values = grid.values
    missing: list[tuple[int, str]] = []
    if None in values or not all(map(math.isfinite, values)):  # type: ignore[arg-type]
        missing = [(i, _outcome(v)) for i, v in enumerate(values) if v is None or not math.isfinite(v)]
    gone = {i for i, _ in missing}
    indices: Sequence[int] = [i for i in range(len(values)) if i not in gone] if missing else range(len(values))
    kept: list[float] = [v for v in values if v is not None and math.isfinite(v)] if missing else list(values)  # type: ignore[arg-type]
    spreads, counts, samples = _columns(grid, indices)
    key = axes_keys.get(id(grid.axes)) if axes_keys is not None else None
    if key is None:
        key = digest(repr(grid.axes).encode("utf-8", "replace")) if grid.axes else ""
        if axes_keys is not None:
            axes_keys[id(grid.axes)] = key
    started = grid.started_at.isoformat(" ", "microseconds") if grid.started_at else ""
    return Prepared(
        origin=grid.origin, benchmark=grid.benchmark, version=grid.version, metric=grid.metric,
        where=file or grid.where, axes=grid.axes, axis_reprs=grid.axis_reprs, axes_key=key, indices=indices,
        values=kept, spreads=spreads, counts=counts, samples=samples, missing=missing, facts=_facts(grid, missing),
        digest=digest(array("d", kept).tobytes(), repr(missing), str(grid.started_at), grid.version),
        started=started, duration_s=grid.duration_s, read=len(values) - values.count(None),
    )  # fmt: skip


def _outcome(value: float | None) -> str:
    return "failed" if value is None else "skipped"


def _columns(
    grid: Grid, indices: Sequence[int]
) -> tuple[Sequence[float], Sequence[int], Sequence[Sequence[float] | None]]:
    low, high, repeat = (grid.columns.get(k) for k in ("q_25", "q_75", "repeat"))
    if low and high and None not in low and None not in high:
        spreads = [0.5 * (b - a) if b > a else 0.0 for a, b in zip(low, high, strict=True)]  # type: ignore[operator]
    else:
        spreads = [_half(low[i], high[i]) if low and high else 0.0 for i in range(len(grid.values))]
    if not all(map(math.isfinite, spreads)):
        spreads = [s if math.isfinite(s) else 0.0 for s in spreads]
    samples = [grid.samples[i] for i in indices] if grid.samples else []
    counts = _counts(repeat) if repeat else [1] * len(grid.values)
    if len(indices) != len(grid.values):
        spreads, counts = [spreads[i] for i in indices], [counts[i] for i in indices]
    if samples:
        counts = [len(s) if s else n for s, n in zip(samples, counts, strict=True)]
    return spreads, counts, samples


def _counts(repeat: Sequence[float | None]) -> Sequence[int]:
    if set(map(type, repeat)) == {int} and min(repeat) > 0 and max(repeat) < 2**31:  # type: ignore[type-var,operator]
        return repeat  # type: ignore[return-value]
    return [int(n) if n and 0 < n < 2**31 else 1 for n in repeat]


def _half(low: float | None, high: float | None) -> float:
    return max(0.5 * (high - low), 0.0) if low is not None and high is not None else 0.0


def _facts(grid: Grid, missing: Sequence[tuple[int, str]]) -> str:
    """JSON text without its braces. Numbers that are none become null, as the writer of JSON does by itself."""
    facts: dict[str, object] = {}
    if grid.columns:
        facts["stats"] = grid.columns
    skipped = [i for i, outcome in missing if outcome == "skipped"] if missing else None
    if skipped:
        facts["skipped"] = skipped
    return orjson.dumps(facts).decode()[1:-1] if facts else ""


_TREE = asv.Tree()
_AXES_KEYS: dict[int, str] = {}
_SHAPES = Shapes()


def begin(tree: asv.Tree) -> None:
    """In a process of a pool, once: the tree that its files belong to."""
    global _TREE, _SHAPES
    _TREE, _SHAPES = tree, Shapes()
    _AXES_KEYS.clear()
    _SENT.clear()
    _SHARED.clear()


def _open(path: str) -> IO[bytes]:
    return Path(path).open("rb")


def read_file(path: str, name: str) -> tuple[list[Ready], Refused | None]:
    """Everything in one asv results file, with what ended it early when something did."""
    found: list[Ready] = []
    document = Document(name, partial(_open, path))
    place, usual, refused = document.where(), Collector(_SHAPES), None
    try:
        for item in asv.parse(document, _TREE, usual):
            if not isinstance(item, Grid):
                found.append(item)
                continue
            ready = prepare(item, _AXES_KEYS, place)
            _SHAPES.learn(_shape(ready))
            found.append(ready)
    except Refused as error:
        refused = error
    except STUMBLES as error:
        refused = stumbled(error, place)
    block = usual.block(place)
    return ([block, *found] if block else found), refused


def _shape(item: Prepared) -> Shape:
    return Shape(item.benchmark, item.version, item.metric, item.axes, item.axis_reprs, item.axes_key)


@dataclass(slots=True)
class Sent:
    """A file's items on their way between processes: grids as tuples without their numbers, which stand in a row, and
    without what is the same in all files, which is in ``new`` when ``process`` sends it for the first time.
    """

    process: int
    new: list[Shape]
    items: list[Any]
    values: array[float]
    spreads: array[float]
    counts: array[int]
    refused: Refused | None


_SENT: dict[tuple[str, str, str], int] = {}
_SHARED: dict[Shape, int] = {}


def send_file(path: str, name: str) -> Sent:
    """What :func:`read_file` finds, for a :class:`Receiver` in another process."""
    found, refused = read_file(path, name)
    sent = Sent(os.getpid(), [], [], array("d"), array("d"), array("q"), refused)
    for item in found:
        if isinstance(item, Block):
            sent.items.append(
                (array("q", [_nth_known(sent, shape) for shape in item.shapes]), replace(item, shapes=()))
            )
            continue
        if not isinstance(item, Prepared):
            sent.items.append(item)
            continue
        nth = _nth(sent, _shape(item))
        sent.values.extend(item.values)
        sent.spreads.extend(item.spreads)
        sent.counts.extend(item.counts)
        indices: int | list[int] = len(item.values) if isinstance(item.indices, range) else list(item.indices)
        sent.items.append((
            nth, item.origin, item.where, indices, item.samples or (), item.missing or (), item.facts, item.digest,
            item.started, item.duration_s, item.read,
        ))  # fmt: skip
    return sent


def _nth(sent: Sent, shape: Shape) -> int:
    """The number of a shape among those that this process sends, with which the shape itself goes once."""
    key = shape.benchmark, shape.version, shape.axes_key
    nth = _SENT.get(key)
    if nth is None:
        nth = _SENT[key] = len(_SENT)
        sent.new.append(shape)
    return nth


def _nth_known(sent: Sent, shape: Shape) -> int:
    """The same of a shape that the tree's files share."""
    nth = _SHARED.get(shape)
    if nth is None:
        nth = _SHARED[shape] = _nth(sent, shape)
    return nth


class Receiver:
    """Makes the items of files that other processes have read; remembers what each of them sends once."""

    def __init__(self) -> None:
        self._known: dict[int, list[Shape]] = {}

    def items(self, sent: Sent) -> list[Ready]:
        """The same as :func:`read_file` gave."""
        values, spreads, counts, at = sent.values.tolist(), sent.spreads.tolist(), sent.counts.tolist(), 0
        known = self._known.setdefault(sent.process, [])
        known += sent.new
        found: list[Ready] = []
        for item in sent.items:
            if type(item) is not tuple:
                found.append(item)
                continue
            if len(item) == 2:
                found.append(replace(item[1], shapes=[known[nth] for nth in item[0]]))
                continue
            nth, origin, where, indices, samples, missing, facts, digest_, started, duration, read = item
            one = known[nth]
            if type(indices) is int:
                indices = range(indices)
            end = at + len(indices)
            found.append(Prepared(
                origin, one.benchmark, one.version, one.metric, where, one.axes, one.axis_reprs, one.axes_key, indices,
                values[at:end], spreads[at:end], counts[at:end], samples, missing, facts, digest_, started, duration,
                read,
            ))  # fmt: skip
            at = end
        return found
