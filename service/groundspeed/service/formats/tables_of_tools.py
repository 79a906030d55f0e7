"""Tables that tools print for people: console of google-benchmark, JMH and nvbench, CSV of the first and the last."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence

from groundspeed.service.formats import nvbench_tables
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
_GBENCH_HEAD = re.compile(r"^Benchmark[ \t]+Time[ \t]+CPU[ \t]+Iterations", re.MULTILINE)
_GBENCH_CSV = "name,iterations,real_time,cpu_time,time_unit"
_DERIVED = re.compile(r"_(?:mean|median|stddev|cv|BigO|RMS)$")
_COUNTER = re.compile(r"([A-Za-z_][\w/. -]*?)=([-+\d.eE]+)([kMGTmunp]i?)?(/s)?(?=\s|$)")
_SCALE = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "m": 1e-3, "u": 1e-6, "n": 1e-9, "p": 1e-12}
_BINARY = {"k": 1024.0, "M": 1024.0**2, "G": 1024.0**3, "T": 1024.0**4}
_JMH_HEAD = re.compile(
    r"^Benchmark[ \t]+(?:\([^()\n]+\)[ \t]+)*Mode[ \t]+(?:Cnt[ \t]+)?Score\b.*Units[ \t]*$", re.MULTILINE
)
_JMH_TAIL = re.compile(
    r"\s(?P<mode>thrpt|avgt|sample|ss)\s+(?:(?P<count>\d+)\s+)?(?P<score>≈ ?\S+|[-\d.,]+(?:E[-+]?\d+)?|NaN)"
    r"(?:\s+±\s*(?P<error>[\d.,NaE+-]+))?\s+(?P<unit>\S+)\s*$"
)
_JMH_CSV = re.compile(r'\ufeff?"?Benchmark"?[,;]"?Mode"?[,;]"?Threads"?[,;]"?Samples"?[,;]"?Score"?[,;]')
_TIME = Metric("real_time", "s", -1, "time", "wall")
_CPU = Metric("cpu_time", "s", -1, "time", "cpu")


def sniff(head: str) -> bool:
    return (
        _GBENCH_HEAD.search(head) is not None
        or _GBENCH_CSV in head
        or _JMH_HEAD.search(head) is not None
        or _JMH_CSV.match(head) is not None
        or nvbench_tables.is_csv(head)
        or nvbench_tables.is_markdown(head)
    )


def parse(document: Document) -> Iterator[Item]:
    head = document.head()
    if _GBENCH_CSV in head:
        yield from _gbench_csv(document)
    elif _JMH_CSV.match(head):
        yield from _jmh_csv(document)
    elif nvbench_tables.is_csv(head):
        yield from nvbench_tables.parse_csv(document)
    elif nvbench_tables.is_markdown(head):
        yield from nvbench_tables.parse_markdown(document)
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
    delimiter = ","
    for number, line in document.lines():
        text = line.lstrip("\ufeff")
        if not names:
            if text.replace('"', "").startswith(begins):
                delimiter = ";" if ";" in text and "," not in text.partition(";")[0] else ","
                names = next(csv.reader([text], delimiter=delimiter))
            continue
        try:
            cells = next(csv.reader([line], delimiter=delimiter), [])
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
    # JMH writes three decimals in the machine's language and never a mark of thousands: 11,618 is 11.618
    value = number_of(_plain(match["score"].replace("≈", "").strip(), comma="," in match["score"]))
    if value is None:
        return Skipped(f'"{match["score"]}" is no number', where)
    known = parse_unit(match["unit"])
    metric = metric_of(secondary.strip("·") or "score", known)
    error = match["error"] or ""
    spread = (number_of(_plain(error, comma="," in error)) or 0.0) * known.factor
    count = max(int(match["count"][:9]), 1) if match["count"] else 1
    origin = Origin(tool="jmh")
    return Record(origin, benchmark, metric, where, value * known.factor, params, spread=spread, count=count)


def _jmh_csv(document: Document) -> Iterator[Item]:
    """What `-rf csv` writes: one row a metric, in the language of the machine ("99,9%" tells of decimal commas)."""
    found = False
    for number, row in _rows(document, "Benchmark"):
        found, where = True, document.where(number)
        error = next((key for key in row if key.startswith("Score Error")), "")
        comma = "," in error
        benchmark, _, secondary = row.get("Benchmark", "").partition(":")
        value = number_of(_plain(row.get("Score", ""), comma=comma))
        if not benchmark or value is None:
            yield Skipped(f'"{row.get("Score", "")[:40]}" is no number' if benchmark else "has no name", where)
            continue
        known = parse_unit(row.get("Unit", ""))
        params: dict[str, Scalar] = {
            key.removeprefix("Param: "): text for key, text in row.items() if key.startswith("Param: ") and text
        }
        params["mode"] = row.get("Mode", "")
        count, threads = row.get("Samples", ""), row.get("Threads", "")
        if threads.isascii() and threads.isdigit() and len(threads) < 10:
            params["threads"] = int(threads)
        spread = number_of(_plain(row.get(error, ""), comma=comma)) or 0.0
        yield Record(
            Origin(tool="jmh"), benchmark, metric_of(secondary.strip("·") or "score", known), where,
            value * known.factor, params,
            spread=abs(spread) * known.factor,
            count=max(int(count), 1) if count.isascii() and count.isdigit() and len(count) < 10 else 1,
        )  # fmt: skip
    if not found:
        document.refuse("has no rows below its header.", 1)


def _plain(text: str, *, comma: bool) -> str:
    return text.replace(".", "").replace(",", ".") if comma else text
