"""SuperBench: results (one node a line), baselines, diagnosis summaries, and samples of its GPU monitor.

Metric names are "benchmark/metric:rank"; SuperBench's own documentation gives their units, not the file: a name that
says nothing is kept as a neutral number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from groundspeed.service.formats.records import (
    Direction,
    Item,
    Kind,
    Machine,
    Metric,
    Origin,
    Outcome,
    Record,
    Scalar,
    Skipped,
    finite,
    spread_of,
)
from groundspeed.service.formats.source import Document, dict_of, loads, text_of
from groundspeed.service.formats.times import parse_time

NAME = "superbench"
MAX_KEYS = 10_000
MAX_VALUES = 100_000
_KEY = re.compile(r"^([^/\s]+(?:/[^\s]+)?)/([^/]+?)(?::(\d+))?$")
_MONITOR = re.compile(r"^(?:gpu_(?:usage|temperature|mem_used|power)|cpu_usage)")
_RULES: tuple[tuple[str, str, float, Direction, Kind], ...] = (
    # (pattern of the metric's name, unit, factor to it, direction, kind); units as in SuperBench's table of metrics
    (r"return_code", "1", 1.0, 0, "counter"),
    (r"steptime|step_time", "s", 1e-3, -1, "time"),
    (r"latency_(?:avg|mean|\d+|p\d+)|_lat(?:_\w+)?$|^lat|latency", "s", 1e-3, -1, "time"),
    (r"overhead", "s", 1e-3, -1, "time"),
    (r"_cost|^cost", "s", 1e-3, -1, "time"),
    (r"throughput", "samples/s", 1.0, 1, "rate"),
    (r"_iops$|^iops", "1/s", 1.0, 1, "rate"),
    (r"_bw$|_BW$|busbw|algbw|bandwidth", "B/s", 1e9, 1, "rate"),
    (r"^(?:FP|TF|BF|INT)\d+\w*|flops", "FLOP/s", 1e9, 1, "rate"),
    (r"_time$", "s", 1e-6, -1, "time"),
)
_OF_BENCHMARKS: tuple[tuple[str, str, float, Direction, Kind], ...] = (
    # (pattern of benchmark/metric, …): what SuperBench's table gives in other units than its names suggest
    (r"_us$", "s", 1e-6, -1, "time"),
    (r"^kernel-launch[^/]*/(?:event|wall)_time", "s", 1e-3, -1, "time"),
    (r"_mkps$", "1/s", 1e6, 1, "rate"),
    (r"^(?:tensorrt-inference|ort-inference)[^/]*/.*_time|matmul[^/]*/.*_time$", "s", 1e-3, -1, "time"),
    (r"^(?:gpu-burn|cpu-hpl|gpu-hpcg|cpu-stream)[^/]*/(?:.*_)?time(?:_\w+)?$", "s", 1.0, -1, "time"),
    (r"^cpu-stream[^/]*/.*throughput", "B/s", 1e6, 1, "rate"),
    (r"^cpu-memory-bw-latency[^/]*/.*_bw$", "B/s", 1e6, 1, "rate"),
    (r"^cpu-memory-bw-latency[^/]*/.*_lat$", "s", 1e-9, -1, "time"),
    (r"^cpu-hpl[^/]*/.*throughput", "FLOP/s", 1e9, 1, "rate"),
    (r"^(?:cublaslt|hipblaslt)-gemm[^/]*/.*_flops$", "FLOP/s", 1e12, 1, "rate"),
)
_SPECIFIC = [(re.compile(p), u, f, d, k) for p, u, f, d, k in _OF_BENCHMARKS]
_COMPILED = [(re.compile(p), u, f, d, k) for p, u, f, d, k in _RULES]
_DIAGNOSIS = "diagnosis/"


def sniff(head: str) -> bool:
    text = head.lstrip()
    if not text.startswith(("{", "[")):
        return False
    if '"diagnosis/category"' in head or re.search(
        r'"[\w.-]+(?:/[\w.-]+)*/(?:return_code|[\w.-]+)(?::\d+)?"\s*:\s*-?[\d.]+', head
    ):
        return '"benchmarks"' not in head and '"results"' not in head
    return bool(re.search(r'"gpu_(?:usage|temperature|mem_used)(?::\d+)?"', head)) and '"time"' in head


def parse(document: Document) -> Iterator[Item]:
    head = document.head().lstrip()
    if head.startswith("["):
        doc = document.json()
        for i, entry in enumerate(doc if isinstance(doc, list) else []):
            yield from _node(document, dict_of(entry), 0, f"/{i}")
        return
    if _one_object(head):
        yield from _node(document, dict_of(document.json()), 1, "")
        return
    monitor: dict[str, tuple[int, list[float]]] = {}
    for number, line in document.lines():
        entry = dict_of(loads(line, document, number)) if line.strip() else {}
        if "time" in entry and any(_MONITOR.match(k) for k in entry):
            _sample(monitor, entry, number)
        elif line.strip():
            yield from _node(document, entry, number, "")
    yield from _monitored(document, monitor)


def _one_object(head: str) -> bool:
    """A baseline is one object over many lines; results and monitor samples are one object a line."""
    first = head.split("\n", 1)[0].strip()
    if not first.endswith("}"):
        return len(first) < 60_000
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return True
    return False


def _node(document: Document, entry: Mapping[str, Any], line: int, pointer: str) -> Iterator[Item]:
    name = text_of(entry.get("node") or entry.get("index"))
    diagnosis = text_of(entry.get("diagnosis/issue_details"), 2000)
    origin = Origin(
        tool=NAME,
        machine=Machine(name=name),
        measured_at=parse_time(entry.get("date")),
        label=f"node {name}" if name else "baseline",
    )
    found = False
    for key, raw in entry.items():
        if key in {"node", "index", "date"} or key.startswith(_DIAGNOSIS):
            continue
        where = document.where(line, f"{pointer}/{key}")
        value = finite(raw)
        if value is None:
            yield Skipped("is no number", where)
            continue
        found = True
        yield _record(origin, key, value, where, bool(diagnosis) or "diagnosis/category" in entry)
    if not found:
        yield Skipped("has no metrics", document.where(line, pointer))


def _sample(monitor: dict[str, tuple[int, list[float]]], entry: Mapping[str, Any], number: int) -> None:
    for key, raw in entry.items():
        value = finite(raw)
        if value is not None and key != "time":
            values = monitor.setdefault(key[:200], (number, []))[1] if len(monitor) < MAX_KEYS or key in monitor else []
            if len(values) < MAX_VALUES:
                values.append(value)


def _monitored(document: Document, monitor: dict[str, tuple[int, list[float]]]) -> Iterator[Item]:
    """What the GPU monitor saw: the condition of a machine, one record a quantity, never gated."""
    for key, (line, values) in monitor.items():
        name, _, rank = key.rpartition(":") if re.search(r":\d{1,6}$", key) else (key, "", "")
        params: dict[str, Scalar] = {"gpu": int(rank)} if rank else {}
        middle = sorted(values)[(len(values) - 1) // 2 : len(values) // 2 + 1]
        metric = Metric(name[:200], "1", 0, "counter", gate=False)
        origin = Origin(tool=NAME, label="monitor")
        value = sum(middle) / len(middle)
        yield Record(
            origin,
            "monitor",
            metric,
            document.where(line),
            value,
            params,
            tuple(values),
            spread_of(values),
            len(values),
        )


def _record(origin: Origin, key: str, value: float, where: Any, is_diagnosis: bool) -> Record:
    match = _KEY.match(key)
    benchmark, name, rank = (match[1], match[2], match[3]) if match else ("superbench", key, None)
    params: dict[str, Scalar] = {"rank": int(rank)} if rank and len(rank) < 7 else {}
    if is_diagnosis:
        # a summary holds deviations from the baseline ((value − baseline) / baseline), not values
        return Record(
            origin, benchmark, Metric(f"{name} variance"[:200], "1", 0, "ratio", gate=False), where, value, params
        )
    metric, factor = metric_for(name, benchmark)
    outcome: Outcome = "failed" if name.startswith("return_code") and value != 0 else "ok"
    reason = f"return code {value:g}" if outcome == "failed" else ""
    return Record(origin, benchmark, metric, where, value * factor, params, outcome=outcome, reason=reason)


def metric_for(name: str, benchmark: str = "") -> tuple[Metric, float]:
    """The metric that a SuperBench name stands for, and the factor to its unit."""
    for rules, text in ((_SPECIFIC, f"{benchmark}/{name}"), (_COMPILED, name)):
        for pattern, unit, factor, direction, kind in rules:
            if pattern.search(text):
                return Metric(name[:200], unit, direction, kind, gate=direction != 0), factor
    return Metric(name[:200], "1", 0, "counter", gate=False), 1.0
