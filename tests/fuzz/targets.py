"""What is fuzzed: every importer on damaged files, the parsers written by hand on text made for them, detection on anything.

A target takes bytes and must come back: with items, or with :class:`Refused`. It must not raise anything else, take longer
than the file deserves, or remember more than the file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import islice

from groundspeed.service.formats import asv, criterion, csv_table, detect, own, prepared
from groundspeed.service.formats.records import Grid, Record, Refused, Skipped, sound
from groundspeed.service.formats.source import of_bytes
from groundspeed.service.usecases.import_tables import storable

MAX_ITEMS = 200_000
HAND_WRITTEN = (
    "nccl-tests",
    "go",
    "criterion",
    "console",
    "gpu-tool-log",
    "mlperf",
    "csv",
    "nccl-sweep-failures",
    "tool-table",
)
"""Parsers of text that are our own from the first character on."""

Target = Callable[[bytes], None]


def check(items: object) -> None:
    """Every item keeps the promises of records.py, and what it holds can be stored."""
    count = 0
    for item in islice(items, MAX_ITEMS):  # type: ignore[call-overload]
        count += 1
        assert isinstance(item, Record | Grid | Skipped)
        assert str(item.where) if isinstance(item, Skipped) else item.where.source
        if isinstance(item, Grid):
            ready = prepared.prepare(item)
            assert len(ready.indices) == len(ready.values) == len(ready.spreads) == len(ready.counts)
            assert len(ready.indices) + len(ready.missing) == len(item.values)
            assert all(map(math.isfinite, (*ready.values, *ready.spreads)))
            json.loads("{" + ready.facts + "}")
            continue
        if isinstance(item, Skipped):
            assert item.reason
            continue
        assert item.benchmark
        assert item.value is None or math.isfinite(item.value), item
        assert item.outcome != "ok" or item.value is not None, item
        assert all(map(math.isfinite, item.samples))
        json.dumps(storable(item.params), allow_nan=False)
        own.dump(item) if all(
            isinstance(v, bool | int | str) or math.isfinite(v) for v in item.params.values()
        ) else None
    assert count < MAX_ITEMS


def named(error: Refused) -> None:
    """A refusal says where."""
    assert error.where.source


def forced(name: str) -> Target:
    """One importer on whatever it is given."""

    def target(data: bytes) -> None:
        try:
            check(detect.parse(of_bytes("fuzz/new/input", data), name))
        except Refused as error:
            named(error)

    return target


def anything(data: bytes) -> None:
    """Detection and whatever it finds."""
    try:
        check(detect.parse(of_bytes("fuzz/input", data)))
    except Refused as error:
        named(error)


def mapped(data: bytes) -> None:
    """A table with a mapping."""
    mapping = csv_table.parse_mapping(["benchmark=a", "metric=b:ms", "param=c"])
    try:
        check(sound(csv_table.parse(of_bytes("fuzz.csv", b"a,b,c\n" + data), mapping)))
    except Refused as error:
        named(error)


def tree(data: bytes) -> None:
    """An asv results file within a tree that describes its benchmarks."""
    known = asv.Tree(
        {"b.time_x": {"type": "time", "unit": "seconds", "param_names": ["n"], "params": [["1", "2"]]}}, {}
    )
    try:
        check(sound(asv.parse(of_bytes("box/x.json", data), known)))
    except Refused as error:
        named(error)


def criterion_tree(data: bytes) -> None:
    """A file of every name of a criterion tree with the same content."""
    documents = [of_bytes(f"g/f/new/{name}", data) for name in ("benchmark.json", "estimates.json", "sample.json")]
    try:
        check(sound(criterion.parse_tree(documents)))
    except Refused as error:
        named(error)


TARGETS: dict[str, Target] = {
    **{name: forced(name) for name in detect.BY_NAME},
    "detect": anything, "csv-mapped": mapped, "asv-tree": tree, "criterion-tree": criterion_tree,
}  # fmt: skip
