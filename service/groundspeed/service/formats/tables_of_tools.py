"""Tables that tools print for people: console of google-benchmark and JMH, CSV of nvbench and google-benchmark."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence

from groundspeed.service.formats.records import Item, Metric, Origin, Record, Scalar, Skipped, Where, number_of
from groundspeed.service.formats.source import Document
from groundspeed.service.formats.units import metric as metric_of
from groundspeed.service.formats.units import parse_unit

NAME = "tool-table"
_GBENCH_LINE = re.compile(
    r"^(?P<name>\S.*?)\s+(?P<real>[-+\d.eE]+) (?P<unit>ns|us|ms|s)\s+(?P<cpu>[-+\d.eE]+) (?:ns|us|ms|s)\s+(?P<n>\d+)"
    r"(?P<rest>.*)$"
)
_GBENCH_ERROR = re.compile(r"^(?P<name>\S+)\s+(?:ERROR OCCURRED|SKIPPED): '(?P<why>.*)'\s*$")
_GBENCH_HEAD = re.compile(r"^Benchmark\s+Time\s+CPU\s+Iterations", re.MULTILINE)
_GBENCH_CSV = "name,iterations,real_time,cpu_time,time_unit"
_DERIVED = re.compile(r"_(?:mean|median|stddev|cv|BigO|RMS)$")
_COUNTER = re.compile(r"([A-Za-z_][\w/. -]*?)=([-+\d.eE]+)([kMGTmunp]i?)?(/s)?(?=\s|$)")
_SCALE = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "m": 1e-3, "u": 1e-6, "n": 1e-9, "p": 1e-12}
_BINARY = {"k": 1024.0, "M": 1024.0**2, "G": 1024.0**3, "T": 1024.0**4}
_JMH_HEAD = re.compile(r"^Benchmark\s+(?:\(.+?\)\s+)*Mode\s+(?:Cnt\s+)?Score\b.*Units\s*$", re.MULTILINE)
_JMH_TAIL = re.compile(
    r"\s(?P<mode>thrpt|avgt|sample|ss)\s+(?:(?P<count>\d+)\s+)?(?P<score>≈ ?\S+|[-\d.,]+(?:E[-+]?\d+)?|NaN)"
    r"(?:\s+±\s*(?P<error>[\d.,NaE+-]+))?\s+(?P<unit>\S+)\s*$"
)
_NVBENCH_HEAD = "Benchmark,Device,Device Name,"
_NVBENCH: dict[str, Metric] = {
    "CPU Time (sec)": Metric("cpu_time", "s", -1, "time", "wall"),
    "GPU Time (sec)": Metric("gpu_time", "s", -1, "time", "device"),
    "Batch GPU (sec)": Metric("batch_gpu_time", "s", -1, "time", "device"),
    "Elem/s (elem/sec)": Metric("item_rate", "1/s", 1, "rate"),
    "GlobalMem BW (bytes/sec)": Metric("global_memory_rate", "B/s", 1, "rate"),
}
_NOT_AXES = {"Benchmark", "Device", "Device Name", "Skipped", "Samples", "Batch", "BWUtil", "GlobalMem BWUtil"}
_TIME = Metric("real_time", "s", -1, "time", "wall")
_CPU = Metric("cpu_time", "s", -1, "time", "cpu")


def sniff(head: str) -> bool:
    return (
        _GBENCH_HEAD.search(head) is not None
        or _GBENCH_CSV in head
        or _JMH_HEAD.search(head) is not None
        or head.lstrip("\ufeff").startswith(_NVBENCH_HEAD)
    )


def parse(document: Document) -> Iterator[Item]:
    head = document.head()
    if _GBENCH_CSV in head:
        yield from _gbench_csv(document)
    elif head.lstrip("\ufeff").startswith(_NVBENCH_HEAD):
        yield from _nvbench_csv(document)
    elif _GBENCH_HEAD.search(head):
        yield from _gbench(document)
    else:
        yield from _jmh(document)


def _gbench(document: Document) -> Iterator[Item]:
    origin, found, began = Origin(tool="google-benchmark"), False, False
    for number, line in document.lines():
        began = began or _GBENCH_HEAD.match(line) is not None
        if not began:
            continue
        if match := _GBENCH_ERROR.match(line):
            found = True
            yield Record(
                origin, match["name"], _TIME, document.where(number), outcome="failed", reason=match["why"][:300]
            )
        elif match := _GBENCH_LINE.match(line[:2000]):
            found = True
            name = match["name"]
            if _DERIVED.search(name):
                yield Skipped("is derived from other lines", document.where(number))
                continue
            factor = parse_unit(match["unit"]).factor
            for metric, text in ((_TIME, match["real"]), (_CPU, match["cpu"])):
                value = number_of(text)
                if value is not None:
                    yield Record(origin, name, metric, document.where(number), value * factor)
            yield from _counters(origin, name, match["rest"], document.where(number))
    if not found:
        document.refuse("has no results of google-benchmark.", 1)


def _counters(origin: Origin, name: str, text: str, where: Where) -> Iterator[Record]:
    for match in _COUNTER.finditer(text):
        value = number_of(match[2])
        if value is None:
            continue
        prefix = match[3] or ""
        scale = _BINARY.get(prefix[0], 1.0) if prefix.endswith("i") else _SCALE.get(prefix, 1.0) if prefix else 1.0
        counter = match[1].strip()[-200:]
        unit = "B/s" if counter == "bytes_per_second" else "1/s" if match[4] else "1"
        kind_of_rate = bool(match[4]) or counter.endswith("_per_second")
        metric = Metric(counter, unit, 1, "rate") if kind_of_rate else Metric(counter, unit, 0, "counter", gate=False)
        yield Record(origin, name, metric, where, value * scale)


def _rows(document: Document, begins: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows of a CSV table as dictionaries, after whatever stands above its header."""
    names: list[str] = []
    for number, line in document.lines():
        text = line.lstrip("\ufeff")
        if not names:
            if text.startswith(begins):
                names = next(csv.reader([text]))
            continue
        try:
            cells = next(csv.reader([line]), [])
        except csv.Error:
            cells = []
        if cells:
            yield number, dict(zip(names, cells, strict=False))


def _gbench_csv(document: Document) -> Iterator[Item]:
    origin, found = Origin(tool="google-benchmark"), False
    fixed = {"name", "iterations", "real_time", "cpu_time", "time_unit", "label", "error_occurred", "error_message"}
    for number, row in _rows(document, "name,iterations"):
        name, where, found = row.get("name", ""), document.where(number), True
        if not name or _DERIVED.search(name):
            yield Skipped("has no name" if not name else "is derived from other lines", where)
            continue
        if row.get("error_occurred") == "true":
            yield Record(
                origin, name, _TIME, where, outcome="failed", reason=row.get("error_message", "")[:300] or "error"
            )
            continue
        params: dict[str, Scalar] = {"label": row["label"]} if row.get("label") else {}
        factor = parse_unit(row.get("time_unit") or "ns").factor
        for metric, key in ((_TIME, "real_time"), (_CPU, "cpu_time")):
            value = number_of(row.get(key, ""))
            if value is None:
                yield Skipped(f'{key} "{row.get(key, "")[:40]}" is no number', where)
            else:
                yield Record(origin, name, metric, where, value * factor, params)
        yield from _others(origin, name, row, fixed, params, where)
    if not found:
        document.refuse("has no results of google-benchmark.", 1)


def _others(
    origin: Origin, name: str, row: Mapping[str, str], fixed: set[str], params: Mapping[str, Scalar], where: Where
) -> Iterator[Record]:
    """Counters that have columns of their own."""
    for key, text in row.items():
        value = number_of(text or "") if key and key not in fixed else None
        if value is None:
            continue
        rate = key.endswith("_per_second")
        unit = "B/s" if key == "bytes_per_second" else "1/s" if rate else "1"
        metric = Metric(key, unit, 1, "rate") if rate else Metric(key, unit, 0, "counter", gate=False)
        yield Record(origin, name, metric, where, value, params)


def _nvbench_csv(document: Document) -> Iterator[Item]:
    origin, found = Origin(tool="nvbench"), False
    for number, row in _rows(document, _NVBENCH_HEAD):
        found = True
        where, name = document.where(number), row.get("Benchmark", "")
        if not name:
            yield Skipped("has no name", where)
            continue
        axes = [k for k in row if k and k not in _NOT_AXES and k not in _NVBENCH and "(" not in k and "Noise" not in k]
        params: dict[str, Scalar] = {"device": row.get("Device Name", ""), **{k: row[k] for k in axes}}
        if row.get("Skipped", "No") not in {"No", ""}:
            metric = _NVBENCH["GPU Time (sec)"]
            yield Record(origin, name, metric, where, params=params, outcome="skipped", reason=row["Skipped"][:300])
            continue
        for column, metric in _NVBENCH.items():
            value = number_of(row.get(column, ""))
            if value is not None:
                yield Record(origin, name, metric, where, value, params)
    if not found:
        document.refuse("has no rows below its header.", 1)


def _jmh(document: Document) -> Iterator[Item]:
    names: Sequence[str] = ()
    found = False
    for number, line in document.lines():
        if _JMH_HEAD.match(line):
            names = re.findall(r"\(([^()]+)\)", line)
            found = True
            continue
        match = _JMH_TAIL.search(line[:2000]) if found else None
        if match is None:
            continue
        head = line[: match.start()].split()
        if not head or len(head) != 1 + len(names):
            yield Skipped("is a row that does not fit its header", document.where(number))
            continue
        params: dict[str, Scalar] = {n: v for n, v in zip(names, head[1:], strict=True) if v != "N/A"}
        yield _jmh_row(document.where(number), head[0], params | {"mode": match["mode"]}, match)
    if not found:
        document.refuse("has no table of JMH.", 1)


def _jmh_row(where: Where, name: str, params: Mapping[str, Scalar], match: re.Match[str]) -> Item:
    benchmark, _, secondary = name.partition(":")
    value = number_of(match["score"].replace("≈", "").strip())
    if value is None:
        return Skipped(f'"{match["score"]}" is no number', where)
    known = parse_unit(match["unit"])
    metric = metric_of(secondary.strip("·") or "score", known)
    spread = (number_of(match["error"] or "") or 0.0) * known.factor
    count = max(int(match["count"][:9]), 1) if match["count"] else 1
    origin = Origin(tool="jmh")
    return Record(origin, benchmark, metric, where, value * known.factor, params, spread=spread, count=count)
