"""Google Benchmark JSON, with and without run_type, families, aggregates, counters and errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from groundspeed.service.formats.records import (
    Clock,
    Fact,
    Item,
    Machine,
    Metric,
    Origin,
    Outcome,
    Record,
    Scalar,
    Skipped,
    Where,
    finite,
    spread_of,
)
from groundspeed.service.formats.source import Document, Lines, dict_of, loads, text_of
from groundspeed.service.formats.times import parse_time
from groundspeed.service.formats.units import parse_unit

NAME = "google-benchmark"
_OWN_KEYS = {
    "name", "run_name", "run_type", "family_index", "per_family_instance_index", "repetitions", "repetition_index",
    "threads", "iterations", "real_time", "cpu_time", "time_unit", "aggregate_name", "aggregate_unit", "label",
    "error_occurred", "error_message", "skipped", "skip_message", "complexity_n", "big_o", "cpu_coefficient",
    "real_coefficient", "rms",
}  # fmt: skip
_MEMORY = {"max_bytes_used", "total_allocated_bytes", "net_heap_growth"}
_CENTRES = {"mean", "median", ""}
_AGGREGATE = re.compile(r"^(.+)_(mean|median|stddev|cv|BigO|RMS)$")
"""Before version 1.5 an aggregate was told by its name only."""
_DERIVED = {"stddev", "cv", "BigO", "RMS"}
_FILE_DATE = re.compile(r"(\d{4}-\d\d-\d\d_T\d\d-\d\d-\d\d)")


def sniff(head: str) -> bool:
    return '"benchmarks"' in head and ('"real_time"' in head or '"cpu_time"' in head or '"run_type"' in head or
                                       ('"context"' in head and '"mhz_per_cpu"' in head))  # fmt: skip


def parse(document: Document) -> Iterator[Item]:
    text = document.text()
    doc = loads(text, document)
    if not isinstance(doc, dict) or not isinstance(doc.get("benchmarks"), list):
        document.refuse('is no Google Benchmark file: "benchmarks" is missing.', 1)
    origin, lines = _origin(document, dict_of(doc.get("context"))), Lines(text)
    pending: list[Record] = []
    entries = [dict_of(entry) for entry in doc["benchmarks"]]
    names = {text_of(entry.get("name")) for entry in entries}
    for i, entry in enumerate(entries):
        one = _told(entry, names)
        name = text_of(one.get("run_name") or one.get("name"))
        where = document.where(lines.find(text_of(one.get("name"))), f"/benchmarks/{i}")
        items = list(_entry(origin, one, name, where))
        if pending and not (items and all(isinstance(x, Record) for x in items) and _same(pending, items)):
            yield from pending
            pending = []
        records = [x for x in items if isinstance(x, Record)]
        yield from (x for x in items if not isinstance(x, Record))
        pending = _merged(pending, records) if pending else records
    yield from pending


def _told(entry: Mapping[str, Any], names: set[str]) -> Mapping[str, Any]:
    """The entry, with run_type where an old version left it out: repetitions or another aggregate stand beside it."""
    match = _AGGREGATE.match(text_of(entry.get("name"))) if "run_type" not in entry else None
    if match is None or not (
        {match[1], *(f"{match[1]}_{kind}" for kind in ("mean", "BigO") if kind != match[2])} & names
    ):
        return entry
    return {**entry, "run_type": "aggregate", "run_name": match[1], "aggregate_name": match[2]}


def _same(pending: list[Record], items: list[Any]) -> bool:
    """Whether ``items`` are another repetition of the run that ``pending`` holds."""
    keys = [(r.benchmark, r.params, r.metric, r.outcome) for r in pending]
    return keys == [(r.benchmark, r.params, r.metric, r.outcome) for r in items] and pending[0].outcome == "ok"


def _merged(pending: list[Record], more: list[Record]) -> list[Record]:
    merged = []
    for old, new in zip(pending, more, strict=True):
        samples = old.samples + new.samples
        middle = sorted(samples)[(len(samples) - 1) // 2 : len(samples) // 2 + 1]
        value = sum(middle) / len(middle)
        merged.append(replace(old, samples=samples, value=value, spread=spread_of(samples), count=len(samples)))
    return merged


def _entry(origin: Origin, entry: Mapping[str, Any], name: str, where: Where) -> Iterator[Item]:
    if not name:
        yield Skipped("has no name", where)
        return
    benchmark, params = _name(name, entry)
    metric = Metric("real_time", "s", -1, "time", "wall")
    if entry.get("error_occurred") or entry.get("skipped"):
        reason = text_of(entry.get("error_message") or entry.get("skip_message")) or "no message"
        outcome: Outcome = "failed" if entry.get("error_occurred") else "skipped"
        yield Record(origin, benchmark, metric, where, params=params, outcome=outcome, reason=reason)
        return
    aggregate = text_of(entry.get("aggregate_name")) if entry.get("run_type") == "aggregate" else ""
    if entry.get("run_type") == "aggregate":
        if aggregate in _DERIVED:
            yield Skipped(f'aggregate "{aggregate}" of repetitions is derived, not measured', where)
            return
        params = {**params, "aggregate": aggregate or "unnamed"}
    records = list(_metrics(origin, entry, benchmark, params, where))
    if aggregate not in _CENTRES:
        records = [_neutral(record, entry.get("aggregate_unit") == "percentage") for record in records]
    if not records:
        yield Skipped("has no real_time, no cpu_time and no counter", where)
    yield from records


def _neutral(record: Record, is_ratio: bool) -> Record:
    """A user's own aggregate: neither a time to compare nor known to be better when lower."""
    if not is_ratio:
        return replace(record, metric=replace(record.metric, direction=0, gate=False))
    # written as if it were nanoseconds
    value = None if record.value is None else record.value * 1e9
    metric = Metric(record.metric.name, "1", 0, "ratio", gate=False)
    return replace(record, metric=metric, value=value, samples=() if value is None else (value,))


def _metrics(
    origin: Origin, entry: Mapping[str, Any], benchmark: str, params: dict[str, Scalar], where: Where
) -> Iterator[Record]:
    unit = parse_unit(text_of(entry.get("time_unit")) or "ns")
    clocks: tuple[tuple[str, Clock], ...] = (("real_time", "wall"), ("cpu_time", "cpu"))
    for key, clock in clocks:
        value = finite(entry.get(key))
        if value is not None:
            metric = Metric(key, "s" if unit.kind == "time" else unit.unit, -1, "time", clock)
            number = value * unit.factor
            yield Record(origin, benchmark, metric, where, number, params, (number,), count=1)
    for key, raw in entry.items():
        counter = finite(raw)
        if key not in _OWN_KEYS and counter is not None:
            yield Record(origin, benchmark, _counter(key), where, counter, params, (counter,))


def _counter(key: str) -> Metric:
    if key == "bytes_per_second":
        return Metric(key, "B/s", 1, "rate", gate=False)
    if key in _MEMORY:
        return Metric(key, "B", -1, "bytes", gate=False)
    if key == "allocs_per_iter":
        return Metric(key, "1", -1, "counter", gate=False)
    if key.endswith("_per_second"):
        return Metric(key[:200], "1/s", 1, "rate", gate=False)
    # A user's counter: what it means and which way is better is not in the file.
    return Metric(key[:200], "1", 0, "counter", gate=False)


def _name(name: str, entry: Mapping[str, Any]) -> tuple[str, dict[str, Scalar]]:
    """A name such as "BM_Foo/64/threads:2" is BM_Foo with arguments 64 and threads 2."""
    head, *parts = name.split("/")
    params: dict[str, Scalar] = {}
    kept = [head]
    for part in parts:
        key, colon, value = part.rpartition(":")
        if colon and key and not key.endswith(":"):
            params[key] = _scalar(value)
        elif re.fullmatch(r"-?\d+", part) and len(part) < 19:
            params[f"arg{sum(k.startswith('arg') for k in params)}"] = int(part)
        else:
            kept.append(part)
    if entry.get("label"):
        params["label"] = text_of(entry["label"])
    return "/".join(kept), params


def _scalar(text: str) -> Scalar:
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else text


def _origin(document: Document, context: Mapping[str, Any]) -> Origin:
    by_key = {k.upper(): v for k, v in context.items()}
    commit = text_of(
        by_key.get("GIT_COMMIT_HASH") or by_key.get("COMMIT") or by_key.get("GIT_SHA") or by_key.get("GIT_HASH")
    )
    dated = _FILE_DATE.search(document.path.name)
    cpus = finite(context.get("num_cpus"))
    known = {"date", "host_name", "executable", "num_cpus", "mhz_per_cpu", "cpu_scaling_enabled", "caches", "load_avg",
             "library_build_type", "library_version", "json_schema_version"}  # fmt: skip
    # What a project adds to the context describes its build (compiler, options, its own version): a change there is a
    # change of the code, not of the machine.
    facts = [
        Fact("build", k, text_of(v)) for k, v in context.items() if k not in known and not k.upper().startswith("GIT_")
    ]
    if "mhz_per_cpu" in context:
        facts.append(Fact("node", "mhz_per_cpu", text_of(context["mhz_per_cpu"]), tracked=False))
    if context.get("library_build_type"):
        facts.append(Fact("build", "library_build_type", text_of(context["library_build_type"]), tracked=False))
    return Origin(
        tool=NAME,
        tool_version=text_of(context.get("library_version")),
        commit=commit if re.fullmatch(r"[0-9a-fA-F]{7,64}", commit) else "",
        committed_at=parse_time(by_key.get("GIT_COMMIT_DATE")),
        measured_at=parse_time(context.get("date")) or (parse_time(dated[1]) if dated else None),
        branch=text_of(by_key.get("GIT_BRANCH")),
        title=text_of(by_key.get("GIT_COMMIT_DESCRIPTION")),
        machine=Machine(
            name=text_of(context.get("host_name")),
            cpu_count=int(cpus) if cpus and 0 < cpus < 1e6 else 0,
        ),
        environment=tuple(sorted((f for f in facts if f.value), key=lambda f: (f.layer, f.name))),
        label=text_of(context.get("executable")).rpartition("/")[2],
    )
