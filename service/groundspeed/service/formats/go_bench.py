"""Go's benchmark format: ``key: value`` lines and ``BenchmarkName-8  N  value unit …`` lines, repeated with -count."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from groundspeed.service.formats.records import (
    Fact,
    Item,
    Machine,
    Metric,
    Origin,
    Outcome,
    Record,
    Scalar,
    Skipped,
    finite,
    number_of,
    spread_of,
)
from groundspeed.service.formats.source import Document, Lines, dict_of, list_of, loads, text_of
from groundspeed.service.formats.times import parse_time
from groundspeed.service.formats.units import Unit, parse_unit
from groundspeed.service.formats.units import metric as metric_of

NAME = "go"
MAX_OUTPUT = 100_000
MAX_PACKAGES = 10_000
_KEY = re.compile(r"^([a-z][^\s:A-Z]*):(?:[ \t]+(.*))?$")
_RESULT = re.compile(r"^Benchmark(\S*)[ \t]+(\d+)[ \t]+(.+)$")
_NAMED = re.compile(r"^Benchmark(\S*)[ \t]")
_LOOSE = re.compile(r"^(\d+)[ \t]+([-+.0-9eE]+ ns/op\b.*)$")
"""What is left of a line when the benchmark wrote text of its own between its name and its result."""
_PROCS = re.compile(r"^(.*?)-(\d{1,6})$")
_SERIES = re.compile(r'"unit":\s*"[^"]*/op[ "]')
_FAILED = re.compile(r"^--- (FAIL|SKIP): Benchmark(\S+)")
_COMMIT_KEYS = ("commit", "numerator_hash", "tip", "experiment-commit")
_TIME_KEYS = ("commit-time", "numerator_stamp", "experiment-commit-time")
_RUN_KEYS = ("runstamp", "upload-time", "bentstamp")
_NOT_ENVIRONMENT = {
    *_COMMIT_KEYS,
    *_TIME_KEYS,
    *_RUN_KEYS,
    "pkg",
    "note",
    "iexp",
    "suite",
    "experiment",
    "upload",
    "by",
}
_NOT_ENVIRONMENT |= {"upload-part", "upload-file", "branch", "numerator_branch"}
_GO_OWN = {"ns/op": "time", "B/op": "allocated_bytes", "allocs/op": "allocations", "MB/s": "throughput"}


def sniff(head: str) -> bool:
    if re.search(r"^Benchmark\S*[ \t]+\d+[ \t]+[-+.0-9eE]+[ \t]+\S", head, re.MULTILINE):
        return True
    if '"Action":' in head and '"Output":' in head and "Benchmark" in head:
        return True
    return bool(_SERIES.search(head)) and '"benchmarks"' in head and '"runs"' not in head


@dataclass(slots=True)
class _State:
    config: dict[str, str] = field(default_factory=dict)
    origin: Origin | None = None
    pending: tuple[str, dict[str, Scalar], dict[str, list[float]], Any] | None = None


def parse(document: Document) -> Iterator[Item]:
    head = document.head()
    if head.lstrip().startswith(("[", "{")) and '"Action":' not in head:
        yield from _parse_series(document)
        return
    state, found, named = _State(), False, ""
    for number, raw in _events(document) if head.lstrip().startswith("{") else document.lines():
        line = raw.strip()
        if match := _KEY.match(line):
            yield from _flush(state)
            state.config[match[1]] = match[2] or ""
            state.origin = None
        elif match := _RESULT.match(line):
            found, named = True, ""
            yield from _result(document, state, match[1], match[3], number)
        elif named and (match := _LOOSE.match(line)):
            found = True
            yield from _result(document, state, named, match[2], number)
            named = ""
        elif match := _NAMED.match(raw.lstrip()):
            named = match[1]
        elif match := _FAILED.match(line):
            yield from _flush(state)
            found = True
            name, params = _name(match[2])
            outcome: Outcome = "failed" if match[1] == "FAIL" else "skipped"
            reason = f"go test says {match[1]}"
            yield Record(
                _origin(state),
                name,
                _metric("ns/op"),
                document.where(number),
                params=params,
                outcome=outcome,
                reason=reason,
            )
    yield from _flush(state)
    if not found:
        document.refuse("has no benchmark lines.", 1)


def _events(document: Document) -> Iterator[tuple[int, str]]:
    """The output of ``go test -json``, whose events cut a benchmark's line in two."""
    parts: dict[str, str] = {}
    for number, line in document.lines():
        event = dict_of(loads(line, document, number)) if line.strip() else {}
        if event.get("Action") != "output":
            continue
        key = text_of(event.get("Package"))
        text = parts.pop(key, "") + text_of(event.get("Output"), MAX_OUTPUT)
        *complete, rest = text.split("\n")
        yield from ((number, one) for one in complete)
        if rest and len(parts) < MAX_PACKAGES:
            parts[key] = rest[:MAX_OUTPUT]
    yield from ((0, rest) for rest in parts.values())


def _result(document: Document, state: _State, full: str, rest: str, number: int) -> Iterator[Item]:
    name, params = _name(full)
    words = rest.split()
    values: dict[str, float] = {}
    for text, unit in zip(words[::2], words[1::2], strict=False):
        value = number_of(text)
        if value is None:
            yield Skipped(f'"{text[:40]}" is no number', document.where(number))
            break
        values[unit] = value
    if not values:
        yield Skipped("has no value with a unit", document.where(number))
        return
    if state.pending and (state.pending[0], state.pending[1], list(state.pending[2])) != (name, params, list(values)):
        yield from _flush(state)
    if state.pending is None:
        state.pending = (name, params, {unit: [] for unit in values}, document.where(number))
    for unit, value in values.items():
        state.pending[2][unit].append(value)
    if len(next(iter(state.pending[2].values()))) >= 100_000:
        yield from _flush(state)


def _flush(state: _State) -> Iterator[Record]:
    if state.pending is None:
        return
    name, params, columns, where = state.pending
    state.pending = None
    origin = _origin(state)
    package = state.config.get("pkg", "")
    for unit, raw in columns.items():
        factor = _unit(unit).factor
        values = [v * factor for v in raw]
        middle = sorted(values)[(len(values) - 1) // 2 : len(values) // 2 + 1]
        yield Record(
            origin, f"{package}.{name}" if package else name, _metric(unit), where, sum(middle) / len(middle), params,
            tuple(values), spread_of(values), len(values),
        )  # fmt: skip


def _metric(unit: str) -> Metric:
    if unit == "allocs/op":
        return Metric("allocations", "1", -1, "counter")
    known = _unit(unit)
    name = _GO_OWN.get(unit, re.sub(r"(?<=-)(?:ns|bytes)/op$", "", unit).strip("-") if "/op" in unit else unit)
    return metric_of(name or unit, known, clock="wall" if known.kind == "time" else "none", gate=unit in _GO_OWN)


def _unit(text: str) -> Unit:
    """A custom metric names itself before its unit: "p99-ns/op", "peak-RSS-bytes", "STW-sec"."""
    known, (head, dash, tail) = parse_unit(text), text.rpartition("-")
    if known.kind == "counter" and head and dash:
        behind = parse_unit(tail)
        return behind if behind.kind in {"time", "bytes", "rate"} else known
    return known


def _name(text: str) -> tuple[str, dict[str, Scalar]]:
    """A name such as "CRC32/poly=IEEE/size=15-8" is CRC32 with poly, size and gomaxprocs 8."""
    params: dict[str, Scalar] = {}
    if match := _PROCS.match(text):
        text = match[1]
        params["gomaxprocs"] = int(match[2])
    kept: list[str] = []
    for part in text.split("/"):
        key, equals, value = part.partition("=")
        if equals and key and kept and "," not in part:
            params[key] = int(value) if re.fullmatch(r"-?\d{1,18}", value) else value
        else:
            kept.append(part)
    return "/".join(kept) or "Benchmark", params


def _origin(state: _State) -> Origin:
    if state.origin is not None:
        return state.origin
    config = state.config
    commit = next((config[k] for k in _COMMIT_KEYS if re.fullmatch(r"[0-9a-f]{7,64}", config.get(k, ""))), "")
    facts = [
        Fact("node" if k in {"goos", "goarch", "cpu", "builder_type"} else "build", k, v[:200])
        for k, v in sorted(config.items())
        if k not in _NOT_ENVIRONMENT and v and k not in {"builder_id", "cpu"}
    ]
    state.origin = Origin(
        tool=NAME,
        commit=commit,
        committed_at=next((t for k in _TIME_KEYS if (t := parse_time(config.get(k)))), None),
        measured_at=next((t for k in _RUN_KEYS if (t := parse_time(config.get(k)))), None),
        branch=config.get("branch") or config.get("numerator_branch", ""),
        machine=Machine(
            name=config.get("builder_id", ""), cpu_model=config.get("cpu") or config.get("builder_type", "")
        ),
        environment=tuple(facts),
        label=config.get("note", "")[:200],
    )
    return state.origin


def _parse_series(document: Document) -> Iterator[Item]:
    """What ``benchseries`` computes: the ratio of two sides (numerator over denominator) for each benchmark and day."""
    text = document.text()
    doc, lines = loads(text, document), Lines(text)
    for t, table in enumerate(doc if isinstance(doc, list) else [doc]):
        one = dict_of(table)
        names, days = list_of(one.get("benchmarks")), list_of(one.get("series"))
        if not names or not days:
            document.refuse("is no list of Go benchmark series.", 1)
        unit = text_of(one.get("unit")).partition(" ")[0]
        residues = {
            text_of(dict_of(r).get("s")): ", ".join(map(text_of, list_of(dict_of(r).get("slice"))))
            for r in list_of(one.get("residues"))
        }
        rows = list_of(one.get("summaries"))
        for i, day in enumerate(days):
            pair = dict_of(dict_of(one.get("hashpairs")).get(text_of(day)))
            origin = Origin(
                tool="go-benchseries", commit=text_of(pair.get("NumHash")), committed_at=parse_time(day),
                branch=residues.get("numerator_branch", ""),
                machine=Machine(name=" ".join(text_of(one.get("unit")).split()[3:]),
                cpu_model=residues.get("builder_type", "")),
                environment=(Fact("build", "denominator", text_of(pair.get("DenHash"))),),
            )  # fmt: skip
            for j, cell in enumerate(list_of(rows[i]) if i < len(rows) else []):
                where = document.where(lines.find("center"), f"/{t}/summaries/{i}/{j}")
                yield _cell(origin, text_of(names[j]) if j < len(names) else "", unit, dict_of(cell), where)


def _cell(origin: Origin, name: str, unit: str, cell: Mapping[str, Any], where: Any) -> Item:
    centre = finite(cell.get("center"))
    if not name or not cell.get("present") or centre is None:
        return Skipped(f"{name or 'a cell without a benchmark'}: not measured", where)
    benchmark, params = _name(name)
    low, high = finite(cell.get("low")), finite(cell.get("high"))
    summary = {k: v for k, v in (("low", low), ("high", high)) if v is not None}
    metric = Metric(f"ratio of {unit}"[:200], "1", -1 if "sec" in unit or "ns" in unit else 0, "ratio")
    spread = 0.5 * max(high - low, 0.0) if low is not None and high is not None else 0.0
    return Record(origin, benchmark, metric, where, centre, params, spread=spread, summary=summary)
