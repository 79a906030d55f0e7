"""Groundspeed's own JSON lines: what ``groundspeed export --format jsonl`` writes and ``groundspeed report`` takes.

One result a line; ``"format": "groundspeed.result.v1"`` on each. A newer version is refused with advice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any, cast, get_args

from groundspeed.service.formats.records import (
    Clock,
    Direction,
    Fact,
    Item,
    Kind,
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
from groundspeed.service.formats.source import Document, dict_of, list_of, loads, text_of
from groundspeed.service.formats.times import parse_time

NAME = "groundspeed"
FORMAT = "groundspeed.result.v1"


def sniff(head: str) -> bool:
    return '"groundspeed.result.v' in head


def dump(record: Record) -> str:
    """One line, without its end."""
    origin = record.origin
    machine = {k: v for k, v in asdict(origin.machine).items() if v and k != "facts"} | (
        {"facts": dict(origin.machine.facts)} if origin.machine.facts else {}
    )
    doc: dict[str, Any] = {
        "format": FORMAT,
        "benchmark": record.benchmark,
        "version": record.version,
        "params": dict(record.params),
        "metric": {
            k: v
            for k, v in asdict(record.metric).items()
            if not (k == "gate" and v) and not (k == "clock" and v == "none")
        },
        "value": record.value,
        "outcome": record.outcome,
        "tool": origin.tool,
    }
    optional: dict[str, Any] = {
        "samples": list(record.samples), "spread": record.spread, "count": record.count if record.count != 1 else 0,
        "reason": record.reason, "summary": dict(record.summary), "commit": origin.commit, "branch": origin.branch,
        "committed_at": _time(origin.committed_at), "measured_at": _time(origin.measured_at), "title": origin.title,
        "author": origin.author, "label": origin.label, "tool_version": origin.tool_version, "machine": machine,
        "environment": [asdict(f) for f in origin.environment],
    }  # fmt: skip
    doc |= {key: value for key, value in optional.items() if value}
    return json.dumps(doc, ensure_ascii=False, allow_nan=False)


def _time(moment: datetime | None) -> str:
    return "" if moment is None else moment.isoformat()


def parse(document: Document) -> Iterator[Item]:
    for number, line in document.lines():
        if line.strip():
            yield _record(document, dict_of(loads(line, document, number)), document.where(number))


def _record(document: Document, doc: Mapping[str, Any], where: Where) -> Item:
    match = re.fullmatch(r"groundspeed\.result\.v(\d{1,6})", text_of(doc.get("format")))
    if match is None:
        return Skipped(f'has no "format": "{FORMAT}"', where)
    if match[1] != "1":
        document.refuse(
            f"is of version {match[1]} of this format; 1 is the newest that is known.",
            where.line,
            "Upgrade Groundspeed.",
        )
    name = text_of(doc.get("benchmark"), 2000)
    metric = _metric(dict_of(doc.get("metric")))
    outcome = text_of(doc.get("outcome")) or "ok"
    samples = tuple(v for v in map(finite, list_of(doc.get("samples"))) if v is not None)
    value = finite(doc.get("value"))
    if value is None and samples:
        middle = sorted(samples)[(len(samples) - 1) // 2 : len(samples) // 2 + 1]
        value = sum(middle) / len(middle)
    if not name or metric is None or outcome not in get_args(Outcome) or (value is None and outcome == "ok"):
        return Skipped("has no benchmark, no metric with a unit, no value, or an outcome that is none", where)
    count, spread = finite(doc.get("count")), finite(doc.get("spread"))
    params: dict[str, Scalar] = {
        str(k): v for k, v in dict_of(doc.get("params")).items() if isinstance(v, bool | int | float | str)
    }
    return Record(
        _origin(doc), name, metric, where, value, params, samples,
        spread_of(samples) if spread is None else max(spread, 0.0),
        int(count) if count and 1 <= count < 2**31 else len(samples) or 1, text_of(doc.get("version")) or "1",
        cast("Outcome", outcome), text_of(doc.get("reason"), 2000),
        {str(k): v for k, raw in dict_of(doc.get("summary")).items() if (v := finite(raw)) is not None},
    )  # fmt: skip


def _metric(doc: Mapping[str, Any]) -> Metric | None:
    kind, direction, clock = text_of(doc.get("kind")), doc.get("direction", 0), text_of(doc.get("clock")) or "none"
    if (
        not doc.get("name")
        or kind not in get_args(Kind)
        or not isinstance(direction, int)
        or direction not in {-1, 0, 1}
    ):
        return None
    if clock not in {"wall", "device", "cycles", "cpu", "none"}:
        return None
    return Metric(
        text_of(doc["name"]),
        text_of(doc.get("unit"), 40),
        cast("Direction", int(direction)),
        cast("Kind", kind),
        cast("Clock", clock),
        doc.get("gate") is not False,
    )


def _origin(doc: Mapping[str, Any]) -> Origin:
    machine = dict_of(doc.get("machine"))
    facts = [
        Fact(f["layer"], text_of(f.get("name")), text_of(f.get("value")), f.get("tracked") is not False)
        for f in map(dict_of, list_of(doc.get("environment")))
        if f.get("layer") in {"node", "stack", "build"} and f.get("name")
    ]
    return Origin(
        tool=text_of(doc.get("tool")) or NAME, tool_version=text_of(doc.get("tool_version")),
        commit=text_of(doc.get("commit"))[:64],
        committed_at=parse_time(doc.get("committed_at")), measured_at=parse_time(doc.get("measured_at")),
        branch=text_of(doc.get("branch")), title=text_of(doc.get("title")), author=text_of(doc.get("author")),
        machine=Machine(
            name=text_of(machine.get("name")), identity=machine.get("identity") is True,
            cpu_model=text_of(machine.get("cpu_model")), cpu_count=_whole(machine.get("cpu_count")),
            memory_bytes=_whole(machine.get("memory_bytes")), gpu_model=text_of(machine.get("gpu_model")),
            gpu_count=_whole(machine.get("gpu_count")), topology=text_of(machine.get("topology")),
            facts=tuple((str(k), text_of(v)) for k, v in sorted(dict_of(machine.get("facts")).items())),
        ),
        environment=tuple(facts), label=text_of(doc.get("label")),
    )  # fmt: skip


def _whole(value: object) -> int:
    number = finite(value)
    return int(number) if number and 0 < number < 2**62 else 0
