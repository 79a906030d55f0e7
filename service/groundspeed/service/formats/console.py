"""Console output of asv, Catch2, benchmark.js and Luau's benchmarks, pasted or captured in a CI job."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from groundspeed.service.formats.asv import metric_for
from groundspeed.service.formats.records import Fact, Item, Metric, Origin, Record, Skipped, number_of
from groundspeed.service.formats.source import Document
from groundspeed.service.formats.units import parse_unit

NAME = "console"
MAX_ROWS = 100_000
_ASV = re.compile(r"^\[\s*\d+\.\d+%\] ··· (\S+\.\S+)\s+(.+?)\s*$")
_ASV_COMMIT = re.compile(r"^\[\s*\d+\.\d+%\] · For \S+ commit ([0-9a-f]{7,40})\b(?: <([^>]+)>)?")
_ASV_ENVIRONMENT = re.compile(r"^\[\s*\d+\.\d+%\] ·· Benchmarking (\S+)")
_ASV_VALUE = re.compile(r"^([-+\d.]+)(?:±([-+\d.]+))?([a-zA-Zμµ%]*)$")
_ASV_TABLE = re.compile(r"^\s+=[=\s]*$")
_ASV_SCALE = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "": 1.0, "m": 1e-3, "μ": 1e-6, "µ": 1e-6, "n": 1e-9}
_CATCH_HEAD = re.compile(r"^(.*\S)\s+(\d+)\s+(\d+)\s+[\d.]+ (?:ns|us|ms|s|m)\s*$")
_CATCH_VALUES = re.compile(
    r"^\s+([\d.]+) (ns|us|µs|ms|s|m)\s+([\d.]+) (ns|us|µs|ms|s|m)\s+([\d.]+) (ns|us|µs|ms|s|m)\s*$"
)
_JS = re.compile(r"^\s*(\S.*?) x ([\d,.]+) ops/sec ±([\d.]+)%(?: \((\d+) runs? sampled\))?\s*$")
_LUAU = re.compile(r"^SUCCESS: (\S.*?)\s*:\s*([\d.]+)ms \+/-\s*([\d.]+)% on (\S+)\s*$")
_TIME = Metric("time", "s", -1, "time", "wall")
_RATE = Metric("throughput", "1/s", 1, "rate", "wall")


def sniff(head: str) -> bool:
    if any(_JS.match(line) or _LUAU.match(line) for line in head.splitlines()[:2000]):
        return True
    return bool(re.search(r"^\[\s*\d+\.\d+%\] ·", head,
    re.MULTILINE)) or "is a Catch v" in head or "is a Catch2 v" in head or (
        "benchmark name" in head and "low mean" in head
    )  # fmt: skip


def parse(document: Document) -> Iterator[Item]:
    head = document.head()
    if "low mean" in head:
        yield from _catch2(document)
    elif re.search(r" ops/sec ±|^SUCCESS: ", head, re.MULTILINE):
        yield from _one_a_line(document)
    else:
        yield from _asv(document)


def _one_a_line(document: Document) -> Iterator[Item]:
    """benchmark.js gives operations a second, Luau's benchmarks milliseconds; both a margin of error in percent."""
    found = False
    for number, line in document.brief_lines():
        where = document.where(number)
        if match := _JS.match(line):
            value, margin, count = number_of(match[2]), number_of(match[3]), int((match[4] or "1")[:9])
            metric, factor, origin = _RATE, 1.0, Origin(tool="benchmark.js")
        elif match := _LUAU.match(line):
            value, margin, count = number_of(match[2]), number_of(match[3]), 1
            metric, factor, origin = _TIME, 1e-3, Origin(tool="benchmarkluau", label=match[4][:200])
        else:
            continue
        found = True
        if value is None:
            yield Skipped("has no number", where)
            continue
        spread = value * factor * (margin or 0.0) / 100
        yield Record(origin, match[1], metric, where, value * factor, spread=spread, count=max(count, 1))
    if not found:
        document.refuse("has no results of benchmark.js.", 1)


def _asv(document: Document) -> Iterator[Item]:
    commit, branch, environment, found = "", "", "", False
    table: list[tuple[int, str]] = []
    name = ""
    for number, line in document.brief_lines():
        if match := _ASV_COMMIT.match(line):
            commit, branch = match[1], match[2] or ""
        elif match := _ASV_ENVIRONMENT.match(line):
            environment = match[1]
        elif match := _ASV.match(line):
            found = True
            origin = Origin(
                tool="asv",
                commit=commit,
                branch=branch,
                environment=(Fact("stack", "asv env_name", environment),),
                label=environment,
            )
            yield from _table(origin, name, table, document)
            name, table = match[1], []
            if match[2] != "ok" and not re.fullmatch(r"\d+/\d+ failed", match[2]):
                yield _asv_value(origin, match[1], match[2], document.where(number))
                name = ""
        elif name and line.strip() and not line.startswith("[") and len(table) < MAX_ROWS:
            table.append((number, line))
    if name:
        origin = Origin(
            tool="asv",
            commit=commit,
            branch=branch,
            environment=(Fact("stack", "asv env_name", environment),),
            label=environment,
        )
        yield from _table(origin, name, table, document)
    if not found:
        document.refuse("has no lines of finished asv benchmarks.", 1)


def _asv_value(origin: Origin, name: str, text: str, where: Any, params: Any = None) -> Item:
    metric, params = metric_for(name, {}), params or {}
    if text in {"failed", "n/a"}:
        return Record(
            origin,
            name,
            metric,
            where,
            params=params,
            outcome="failed" if text == "failed" else "skipped",
            reason=f"asv says {text}",
        )
    match = _ASV_VALUE.match(text)
    value = number_of(match[1]) if match else None
    if match is None or value is None:
        return Skipped(f'"{text[:60]}" is no value of asv', where)
    unit = match[3]
    factor = parse_unit(unit).factor if metric.kind == "time" else _ASV_SCALE.get(unit, 1.0)
    spread = number_of(match[2] or "") or 0.0
    return Record(origin, name, metric, where, value * factor, params, spread=spread * factor)


def _table(origin: Origin, name: str, rows: list[tuple[int, str]], document: Document) -> Iterator[Item]:
    """A table of parameters: header cells above, a row for each value of the first parameters."""
    body = [
        (number, line) for number, line in rows if not _ASV_TABLE.match(line) and set(line.strip()) - {"-", " ", "="}
    ]
    if not body:
        return
    header = re.split(r"\s{2,}", body[0][1].strip())
    for number, line in body[1:]:
        cells = re.split(r"\s{2,}", line.strip())
        if len(cells) == 2 and len(header) <= 2:
            yield _asv_value(origin, name, cells[1], document.where(number), {header[0]: cells[0]})
        elif len(cells) == len(header):
            for column, cell in zip(header[1:], cells[1:], strict=True):
                if _ASV_VALUE.match(cell) or cell in {"failed", "n/a"}:
                    yield _asv_value(
                        origin, name, cell, document.where(number), {header[0]: cells[0], "column": column}
                    )
        else:
            yield Skipped("is a row of a table that cannot be read", document.where(number))


def _catch2(document: Document) -> Iterator[Item]:
    name, samples, step, found = "", 0, 0, False
    for number, line in document.brief_lines():
        if match := _CATCH_HEAD.match(line):
            name, samples, step, found = match[1].strip(), int(match[2][:9]), 1, True
        elif step and (match := _CATCH_VALUES.match(line)):
            low, high = (_seconds(match[i], match[i + 1]) for i in (3, 5))
            value = _seconds(match[1], match[2])
            if step == 1 and value is not None:
                summary = {k: v for k, v in (("low", low), ("high", high)) if v is not None}
                spread = 0.5 * max(high - low, 0.0) if low is not None and high is not None else 0.0
                yield Record(
                    Origin(tool="catch2"),
                    name,
                    _TIME,
                    document.where(number),
                    value,
                    spread=spread,
                    count=samples,
                    summary=summary,
                )
            step = step + 1 if step < 2 else 0
        elif line.startswith(("---", "===")):
            step = 0
    if not found:
        document.refuse("has no results of Catch2 benchmarks.", 1)


def _seconds(text: str, unit: str) -> float | None:
    value = number_of(text)
    return None if value is None else value * parse_unit(unit).factor
