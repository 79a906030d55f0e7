"""Criterion.rs: its ``target/criterion`` tree, its console output, and cargo-criterion's message stream.

Of the tree the files ``sample.json`` (all measurements), ``estimates.json`` and ``benchmark.json`` (the name) are read;
``raw.csv`` holds the same measurements once more, ``tukey.json`` fences for its plots, ``change/`` a comparison.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from typing import Any

from groundspeed.service.formats.records import (
    Item,
    Metric,
    Origin,
    Record,
    Scalar,
    Skipped,
    Where,
    finite,
    number_of,
    spread_of,
)
from groundspeed.service.formats.source import Document, dict_of, list_of, loads, text_of
from groundspeed.service.formats.units import parse_unit

NAME = "criterion"
TREE_FILES = ("benchmark.json", "estimates.json", "sample.json", "tukey.json", "raw.csv")
_TIME = Metric("time", "s", -1, "time", "wall")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_RANGE = re.compile(
    r"(time|thrpt):\s+\[([-+0-9.eE]+) (\S+) ([-+0-9.eE]+) (\S+) ([-+0-9.eE]+) (\S+)\]\s*$"
)  # the lower bound, the estimate and the upper bound, each with its unit
_PANIC = re.compile(r"^thread '(.*)' panicked at (.*)$")
_BENCHMARKING = re.compile(r"^Benchmarking (.+?)(?:: (?:Warming up|Collecting|Analyzing).*)?$")
_NOT_A_NAME = re.compile(r"Found \d+ outliers|change:|Running |Gnuplot|Warning|Performance has|No change|Change within")
_LIBTEST = re.compile(r"^test (.+?)\s+\.\.\. bench:\s+([\d,.]+) (\S+) \(\+/- ([\d,.]+)\)")


def sniff(head: str) -> bool:
    if re.search(r"^test .+\s\.\.\. bench:\s+[\d,.]+ \S+ \(\+/-", head, re.MULTILINE):
        return True
    plain = _ANSI.sub("", head)
    if (
        head.startswith("group,function,value,")
        or re.match(r"\s*\[\[\d+(?:\.\d+)?,", head)
        or '"sampling_mode"' in head
    ):
        return True
    if '"reason"' in head and '"benchmark-complete"' in head:
        return True
    return bool(re.search(r"\btime:\s+\[[0-9.]+ \S+ [0-9.]+ \S+ [0-9.]+ \S+\]", plain)) or (
        ('"Mean"' in head and '"point_estimate"' in head) or ('"group_id"' in head and '"directory_name"' in head)
    )


def parse(document: Document) -> Iterator[Item]:
    """Console output; a single file of a tree is read with what its path tells."""
    head = document.head().lstrip()
    if '"benchmark-complete"' in head:
        yield from _messages(document)
    elif head.startswith("group,function,value,"):
        yield from _raw_csv(document)
    elif head.startswith(("{", "[")):
        name = document.path.name if document.path.name in TREE_FILES else _kind(head)
        folder = str(document.path.parent)
        yield from (
            _folder(folder, document.path.parent.name, {name: document}, {})
            if document.path.parent.name != "change"
            else [Skipped("compares two runs and holds no measurement", document.where())]
        )
    else:
        yield from _console(document)


def _kind(head: str) -> str:
    return (
        "sample.json"
        if head.startswith("[") or '"sampling_mode"' in head
        else "estimates.json"
        if "estimate" in head
        else "benchmark.json"
    )


def _messages(document: Document) -> Iterator[Item]:
    """cargo-criterion --message-format=json: one message a line."""
    for number, line in document.lines():
        message = dict_of(loads(line, document, number)) if line.strip() else {}
        if message.get("reason") != "benchmark-complete":
            continue
        where, typical = document.where(number), dict_of(message.get("typical"))
        unit = parse_unit(text_of(typical.get("unit")) or "ns")
        value = finite(typical.get("estimate"))
        times, counts = list_of(message.get("measured_values")), list_of(message.get("iteration_count"))
        samples = tuple(
            t / n * unit.factor
            for t, n in zip(map(finite, times), map(finite, counts), strict=False)
            if t is not None and n
        )
        if value is None:
            yield Skipped("has no typical time", where)
            continue
        benchmark, params = _name(text_of(message.get("id")) or "benchmark")
        yield Record(
            Origin(tool=NAME),
            benchmark,
            _TIME,
            where,
            value * unit.factor,
            params,
            samples,
            spread_of(samples),
            len(samples) or 1,
        )


def _raw_csv(document: Document) -> Iterator[Item]:
    """raw.csv: one sample a line, with how often the function ran in it."""
    found: dict[tuple[str, ...], tuple[int, list[float]]] = {}
    reader = csv.reader(line for _, line in document.lines())
    columns = next(reader, [])
    for row in reader:
        cells = dict(zip(columns, row, strict=False))
        nanoseconds = number_of(cells.get("sample_time_nanos") or cells.get("sample_measured_value") or "")
        iterations = number_of(cells.get("iteration_count", ""))
        if nanoseconds is None or not iterations:
            yield Skipped("has no time or no iterations", document.where(reader.line_num))
            continue
        key = tuple(cells.get(c, "") for c in ("group", "function", "value"))
        entry = found.setdefault(key, (reader.line_num, []))
        entry[1].append(nanoseconds / iterations * 1e-9)
    for (group, function, value), (line, samples) in found.items():
        middle = sorted(samples)[(len(samples) - 1) // 2 : len(samples) // 2 + 1]
        name = "/".join(x for x in (group, function) if x)
        params: dict[str, Scalar] = (
            {"value": int(value) if re.fullmatch(r"-?\d{1,18}", value) else value} if value else {}
        )
        centre = sum(middle) / len(middle)
        yield Record(
            Origin(tool=NAME),
            name,
            _TIME,
            document.where(line),
            centre,
            params,
            tuple(samples),
            spread_of(samples),
            len(samples),
        )


def _console(document: Document) -> Iterator[Item]:
    origin, current, alone, measured, found = Origin(tool=NAME), "", "", "", False
    for number, raw in document.brief_lines():
        line = _ANSI.sub("", raw).rstrip()
        if match := _LIBTEST.match(line):
            found = True
            yield _libtest(match, document.where(number))
        elif match := _RANGE.search(line):
            found = True
            # a throughput is of the time above it
            own = line[: match.start()].strip()
            measured = own or (measured if match[1] == "thrpt" else "") or alone or current
            yield from _range(origin, measured, match, document.where(number))
        elif match := _PANIC.match(line):
            found = True
            reason = f"panicked at {match[2]}"[:500]
            name = current or "after the last benchmark"
            yield Record(origin, name, _TIME, document.where(number), outcome="failed", reason=reason)
        elif match := _BENCHMARKING.match(line):
            current, alone, measured = match[1], "", ""
        elif line and not line[0].isspace() and not _NOT_A_NAME.match(line):
            alone = line  # a long name stands on a line of its own, before its time
    if not found:
        document.refuse("has no benchmark results.", 1)


def _range(origin: Origin, name: str, match: re.Match[str], where: Where) -> Iterator[Item]:
    numbers = [_number(match[i]) for i in (2, 4, 6)]
    units = [parse_unit(match[i]) for i in (3, 5, 7)]
    if any(n is None for n in numbers) or not name:
        yield Skipped("has a bound that is no number, or no name before it", where)
        return
    low, centre, high = (n * u.factor for n, u in zip(numbers, units, strict=True) if n is not None)
    benchmark, params = _name(name)
    metric = _TIME if match[1] == "time" else Metric("throughput", units[1].unit, 1, "rate", "wall", gate=False)
    yield Record(
        origin, benchmark, metric, where, centre, params, spread=0.5 * max(high - low, 0.0),
        summary={"low": low, "high": high},
    )  # fmt: skip


def _libtest(match: re.Match[str], where: Where) -> Item:
    value, deviation = _number(match[2]), _number(match[4])
    unit = parse_unit(match[3])
    if value is None:
        return Skipped("has no number", where)
    metric = _TIME if unit.kind == "time" else Metric("bench", unit.unit, unit.direction or -1, unit.kind)
    spread = (deviation or 0.0) * unit.factor
    return Record(Origin(tool="cargo bench"), match[1].strip(), metric, where, value * unit.factor, spread=0.5 * spread)


def _number(text: str) -> float | None:
    try:
        return finite(float(text.replace(",", "")))
    except ValueError:
        return None


def _name(full: str) -> tuple[str, dict[str, Scalar]]:
    """A name such as "group/function/1024" is group/function with value 1024."""
    head, _, last = full.rpartition("/")
    if head and re.fullmatch(r"-?\d{1,18}", last):
        return head, {"value": int(last)}
    return full, {}


def parse_tree(documents: list[Document]) -> Iterator[Item]:
    """All measurements of a tree: the newest ("new") and the saved baselines, one record each."""
    folders: dict[str, dict[str, Document]] = {}
    for document in documents:
        folders.setdefault(str(document.path.parent), {})[document.path.name] = document
    seen: dict[str, tuple[float, ...]] = {}
    # "new" first: a baseline that is the same measurement is told as such
    for folder, files in sorted(folders.items(), key=lambda entry: (not entry[0].endswith("new"), entry[0])):
        kind = folder.rpartition("/")[2]
        for name in ("tukey.json", "raw.csv"):
            if name in files:
                yield Skipped("repeats what sample.json and estimates.json say", files[name].where())
        if kind == "change":
            yield from (Skipped("compares two runs and holds no measurement", d.where()) for d in files.values())
            continue
        yield from _folder(folder, kind, files, seen)


def _folder(
    folder: str, kind: str, files: Mapping[str, Document], seen: dict[str, tuple[float, ...]]
) -> Iterator[Item]:
    if "benchmark.json" in files and len(files) == 1:
        yield Skipped("names a benchmark and holds no measurement", files["benchmark.json"].where())
        return
    identity = dict_of(files["benchmark.json"].json()) if "benchmark.json" in files else {}
    full = text_of(identity.get("full_id")) or folder.rpartition("/")[0] or folder
    estimates = dict_of(files["estimates.json"].json()) if "estimates.json" in files else {}
    samples = _samples(files["sample.json"]) if "sample.json" in files else ()
    at = files.get("sample.json") or files.get("estimates.json")
    if at is None:
        return
    if samples and seen.setdefault(full, samples) is not samples and seen[full] == samples:
        yield Skipped(f'baseline "{kind}" is the same measurement as the newest', at.where())
        return
    value = _estimate(estimates, "Slope") or _estimate(estimates, "Median") or _estimate(estimates, "Mean")
    if value is None and not samples:
        yield Skipped("has neither samples nor an estimate", at.where())
        return
    middle = sorted(samples)[(len(samples) - 1) // 2 : len(samples) // 2 + 1]
    centre = value * 1e-9 if value is not None else sum(middle) / len(middle)
    deviation = _estimate(estimates, "MedianAbsDev")
    benchmark, params = _identity(identity, full)
    yield Record(
        Origin(tool=NAME, label="" if kind == "new" else f"baseline {kind}"), benchmark, _TIME, at.where(), centre,
        params,
        samples, spread_of(samples) if samples else (deviation or 0.0) * 1e-9, len(samples) or 1,
        summary={k: v * 1e-9 for k in ("Mean", "Median", "Slope", "StdDev") if (v := _estimate(estimates,
        k)) is not None},
    )  # fmt: skip


def _identity(identity: Mapping[str, Any], full: str) -> tuple[str, dict[str, Scalar]]:
    value = identity.get("value_str")
    if not isinstance(value, str) or not value:
        return full, {}
    head = "/".join(text_of(identity.get(k)) for k in ("group_id", "function_id") if identity.get(k))
    return head or full, {"value": int(value) if re.fullmatch(r"-?\d{1,18}", value) else value}


def _estimate(estimates: Mapping[str, Any], name: str) -> float | None:
    return finite(dict_of(estimates.get(name) or estimates.get(name.lower())).get("point_estimate"))


def _samples(document: Document) -> tuple[float, ...]:
    """Seconds an iteration. Old versions write [iterations, times], newer ones an object."""
    doc = document.json()
    pair = [doc.get("iters"), doc.get("times")] if isinstance(doc, dict) else list_of(doc)[-2:]
    if len(pair) != 2:
        return ()
    iterations, times = list_of(pair[0]), list_of(pair[1])
    values = [
        t / n * 1e-9
        for n, t in zip(map(finite, iterations), map(finite, times), strict=False)
        if n is not None and t is not None and n > 0
    ]
    return tuple(v for v in values if finite(v) is not None)
