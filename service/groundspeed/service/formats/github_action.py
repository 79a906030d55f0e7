"""github-action-benchmark: its history (``data.js`` of a gh-pages branch, or the same as JSON) and its custom JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from groundspeed.service.formats.records import (
    Direction,
    Item,
    Metric,
    Origin,
    Record,
    Skipped,
    Where,
    finite,
    number_of,
)
from groundspeed.service.formats.source import Document, Lines, dict_of, list_of, loads, text_of
from groundspeed.service.formats.times import parse_time
from groundspeed.service.formats.units import metric as metric_of
from groundspeed.service.formats.units import parse_unit

NAME = "github-action-benchmark"
_ASSIGNMENT = re.compile(r"^\s*window\.BENCHMARK_DATA\s*=\s*")
_RANGE = re.compile(r"([-+\d.,eE]+)\s*%?\s*$")
_TOOL_DIRECTION: dict[str, Direction] = {
    "customBiggerIsBetter": 1, "customSmallerIsBetter": -1, "cargo": -1, "go": -1, "googlecpp": -1, "catch2": -1,
    "benchmarkluau": -1, "benchmarkdotnet": -1,
}  # fmt: skip


def sniff(head: str) -> bool:
    if "BENCHMARK_DATA" in head or ('"entries"' in head and '"benches"' in head):
        return True
    return head.lstrip().startswith("[") and '"name"' in head and '"unit"' in head and '"value"' in head


_DERIVED = re.compile(r"_(?:stddev|cv|BigO|RMS)$")


def parse(document: Document) -> Iterator[Item]:
    text = document.text()
    body = _ASSIGNMENT.sub("", text, count=1)
    first = 1 + text[: len(text) - len(body)].count("\n")
    doc = loads(body.rstrip().removesuffix(";"), document, first)
    lines = Lines(text)
    if isinstance(doc, list):
        origin = Origin(tool=NAME)
        for i, bench in enumerate(doc):
            yield _bench(
                origin, "", "", dict_of(bench), document.where(lines.find(text_of(dict_of(bench).get("name"))), f"/{i}")
            )
        return
    if not isinstance(doc, dict) or not isinstance(doc.get("entries"), dict):
        document.refuse('is no github-action-benchmark history: "entries" is missing.', 1)
    for suite, runs in doc["entries"].items():
        for i, run in enumerate(list_of(runs)):
            yield from _run(
                document, lines, text_of(doc.get("repoUrl")), str(suite), dict_of(run), f"/entries/{suite}/{i}"
            )


def _run(
    document: Document, lines: Lines, url: str, suite: str, run: Mapping[str, Any], pointer: str
) -> Iterator[Item]:
    commit = dict_of(run.get("commit"))
    sha = text_of(commit.get("id"))
    line = lines.find(sha) if sha else 0
    benches = list_of(run.get("benches"))
    if not benches:
        yield Skipped("has no benches", document.where(line, pointer))
    origin = Origin(
        tool=NAME,
        tool_version=text_of(run.get("tool")),
        commit=sha.lower() if re.fullmatch(r"[0-9a-fA-F]{7,64}", sha) else "",
        committed_at=parse_time(commit.get("timestamp")),
        measured_at=parse_time(run.get("date")),
        title=text_of(commit.get("message")).partition("\n")[0],
        author=text_of(dict_of(commit.get("author")).get("name")),
        project=url,
        label=suite,
    )
    for i, bench in enumerate(benches):
        one = dict_of(bench)
        where = document.where(lines.find(text_of(one.get("name"))), f"{pointer}/benches/{i}")
        yield _bench(origin, suite, text_of(run.get("tool")), one, where)


def _bench(origin: Origin, suite: str, tool: str, bench: Mapping[str, Any], where: Where) -> Item:
    name = text_of(bench.get("name"), 2000)
    raw = bench.get("value")
    value = number_of(raw) if isinstance(raw, str) else finite(raw)
    if not name or value is None:
        return Skipped("has no name or no number", where)
    if tool == "googlecpp" and _DERIVED.search(name):
        return Skipped("is derived from other lines", where)
    unit = parse_unit(text_of(bench.get("unit")))
    direction = _TOOL_DIRECTION.get(tool) or unit.direction or (1 if unit.unit.endswith("/s") else -1 if tool else 0)
    if unit.kind == "rate":
        direction = 1
    metric = metric_of("value", unit, clock="wall" if unit.kind in {"time", "rate"} else "none", direction=direction)
    spread = bench.get("range")
    match = _RANGE.search(spread.replace("±", "").strip()) if isinstance(spread, str) else None
    deviation = finite(spread) if match is None else number_of(match[1])
    if deviation is not None and tool == "pytest" and unit.kind == "rate":
        deviation *= abs(value) ** 2  # it is that of the times, in seconds, beside their rate
    percent = isinstance(spread, str) and spread.rstrip().endswith("%")
    absolute = 0.0 if deviation is None else abs(deviation) * (abs(value) / 100 if percent else 1.0) * unit.factor
    return Record(
        origin, f"{suite}: {name}" if suite else name, _named(metric, unit.kind), where, value * unit.factor,
        spread=absolute,
        summary={"range": absolute} if absolute else {},
    )  # fmt: skip


def _named(metric: Metric, kind: str) -> Metric:
    name = {"time": "time", "rate": "rate", "bytes": "bytes"}.get(kind, "value")
    return Metric(name, metric.unit, metric.direction, metric.kind, metric.clock, metric.gate)
