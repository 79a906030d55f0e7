"""Julia's BenchmarkTools: JSON of ``BenchmarkTools.save``, groups of trials or of estimates made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from groundspeed.service.formats.records import Fact, Item, Metric, Origin, Record, Skipped, Where, finite, spread_of
from groundspeed.service.formats.source import Document, dict_of, list_of, loads, text_of

NAME = "benchmarktools"
_TIME = Metric("time", "s", -1, "time", "wall")
_OTHERS = (
    ("memory", Metric("memory", "B", -1, "bytes")),
    ("allocs", Metric("allocations", "1", -1, "counter", gate=False)),
)
_TRIALS = {"Trial", "TrialEstimate"}
_DEEPEST = 30


def sniff(head: str) -> bool:
    return '"BenchmarkTools"' in head and ('"BenchmarkGroup"' in head or any(f'"{name}"' in head for name in _TRIALS))


def parse(document: Document) -> Iterator[Item]:
    doc = loads(document.text(), document)
    versions, values = [*list_of(doc), None, None][:2]
    if not isinstance(values, list):
        document.refuse("is no file of BenchmarkTools: it is not a list of versions and values.", 1)
    julia, tools = (text_of(dict_of(versions).get(key)) for key in ("Julia", "BenchmarkTools"))
    version = dict_of(dict_of(versions).get("BenchmarkTools"))
    if version:
        tools = ".".join(text_of(version.get(part)) for part in ("major", "minor", "patch"))
    origin = Origin(tool=NAME, tool_version=tools, environment=(Fact("stack", "julia", julia),) if julia else ())
    for i, value in enumerate(values):
        yield from _value(origin, "", value, document.where(pointer=f"/1/{i}"), 0)


def _value(origin: Origin, name: str, value: Any, where: Where, depth: int) -> Iterator[Item]:
    """A [type, fields] pair: a group of named ones, or what was measured."""
    first, second = [*list_of(value), None, None][:2]
    kind, fields = text_of(first).rpartition(".")[2], dict_of(second)
    if kind == "BenchmarkGroup" and depth < _DEEPEST:
        for key, inner in dict_of(fields.get("data")).items():
            yield from _value(origin, f"{name}/{key}" if name else str(key), inner, where, depth + 1)
    elif kind in _TRIALS:
        yield from _trial(origin, name or "benchmark", fields, where)
    else:
        yield Skipped(f'is a "{kind[:40]}", which is not known' if kind else "is no benchmark", where)


def _trial(origin: Origin, name: str, fields: Mapping[str, Any], where: Where) -> Iterator[Item]:
    raw = list_of(fields.get("times")) or [fields.get("time")]
    times = [v * 1e-9 for v in map(finite, raw) if v is not None]
    if not times:
        yield Skipped(f"{name[:100]} has no times", where)
        return
    middle = sorted(times)[(len(times) - 1) // 2 : len(times) // 2 + 1]
    yield Record(origin, name, _TIME, where, sum(middle) / len(middle), {}, tuple(times), spread_of(times), len(times))
    for key, metric in _OTHERS:
        if (value := finite(fields.get(key))) is not None:
            yield Record(origin, name, metric, where, value)
