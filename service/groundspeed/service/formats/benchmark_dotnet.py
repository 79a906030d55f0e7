"""BenchmarkDotNet's JSON (``--exporters json``, brief and full)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from groundspeed.service.formats.records import (
    Fact,
    Item,
    Machine,
    Metric,
    Origin,
    Record,
    Scalar,
    Skipped,
    Where,
    finite,
    spread_of,
)
from groundspeed.service.formats.source import Document, Lines, dict_of, list_of, loads, text_of
from groundspeed.service.formats.times import parse_time

NAME = "benchmarkdotnet"
_TIME = Metric("time", "s", -1, "time", "wall")
_ALLOCATED = Metric("allocated_bytes", "B", -1, "bytes")
_STACK = ("RuntimeVersion", "Architecture", "Configuration", "DotNetCliVersion")
_TITLE_TIME = re.compile(r"-(\d{8})-(\d{6})$")


def sniff(head: str) -> bool:
    return '"BenchmarkDotNetVersion"' in head or (
        '"Benchmarks"' in head and '"Method"' in head and '"Statistics"' in head
    )


def parse(document: Document) -> Iterator[Item]:
    text = document.text()
    doc = loads(text, document)
    if not isinstance(doc, dict) or not isinstance(doc.get("Benchmarks"), list):
        document.refuse('is no BenchmarkDotNet file: "Benchmarks" is missing.', 1)
    origin, lines = _origin(doc), Lines(text)
    for i, entry in enumerate(doc["Benchmarks"]):
        one = dict_of(entry)
        display = text_of(one.get("DisplayInfo"), 2000)
        where = document.where(lines.find(display) if display else 0, f"/Benchmarks/{i}")
        yield from _result(origin, one, where)


def _result(origin: Origin, entry: Mapping[str, Any], where: Where) -> Iterator[Item]:
    parts = [text_of(entry.get(key)) for key in ("Namespace", "Type", "Method")]
    name = ".".join(part for part in parts if part)
    if not parts[-1]:
        yield Skipped("has no Method", where)
        return
    params = _params(text_of(entry.get("Parameters"), 2000))
    job = text_of(entry.get("DisplayInfo"), 2000).partition(": ")[2].partition(" [")[0]
    if job and job != "DefaultJob":
        params["job"] = job[:200]
    stats = dict_of(entry.get("Statistics"))
    value = finite(stats.get("Median"))
    value = finite(stats.get("Mean")) if value is None else value
    if value is None:
        yield Record(origin, name, _TIME, where, params=params, outcome="failed", reason="there are no statistics")
        return
    samples = tuple(v * 1e-9 for v in map(finite, list_of(stats.get("OriginalValues"))) if v is not None)
    deviation = finite(stats.get("StandardDeviation"))
    yield Record(
        origin, name, _TIME, where, value * 1e-9, params, samples, spread_of(samples), len(samples) or 1,
        summary={} if deviation is None else {"stddev": deviation * 1e-9},
    )  # fmt: skip
    allocated = finite(dict_of(entry.get("Memory")).get("BytesAllocatedPerOperation"))
    if allocated is not None:
        yield Record(origin, name, _ALLOCATED, where, allocated, params)


def _params(text: str) -> dict[str, Scalar]:
    """From "N=10&Name=abc"."""
    params: dict[str, Scalar] = {}
    for part in filter(None, text.split("&")):
        name, _, value = part.partition("=")
        params[name[:200]] = int(value) if re.fullmatch(r"-?(0|[1-9]\d{0,17})", value) else value[:200]
    return params


def _origin(doc: Mapping[str, Any]) -> Origin:
    host = dict_of(doc.get("HostEnvironmentInfo"))
    titled = _TITLE_TIME.search(text_of(doc.get("Title")))
    cores = finite(host.get("LogicalCoreCount"))
    facts = [Fact("stack", key, text_of(host[key])) for key in _STACK if host.get(key)]
    if host.get("OsVersion"):
        facts.append(Fact("node", "os", text_of(host["OsVersion"]), tracked=False))
    return Origin(
        tool=NAME,
        tool_version=text_of(host.get("BenchmarkDotNetVersion")),
        measured_at=parse_time(f"{titled[1]}-{titled[2]}") if titled else None,
        machine=Machine(
            cpu_model=text_of(host.get("ProcessorName")),
            cpu_count=int(cores) if cores and 0 < cores < 1e6 else 0,
        ),
        environment=tuple(facts),
    )
