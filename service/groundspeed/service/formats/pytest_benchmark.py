"""pytest-benchmark JSON (``--benchmark-json``, ``--benchmark-save``, ``.benchmarks`` storage), versions 2.5 to 5."""

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
    finite,
    spread_of,
)
from groundspeed.service.formats.source import Document, Lines, dict_of, list_of, loads, text_of
from groundspeed.service.formats.times import parse_time

NAME = "pytest-benchmark"
_TIME = Metric("time", "s", -1, "time", "wall")
_STORED = re.compile(r"^\d+_([0-9a-f]{40})_(\d{8}_\d{6})")


def sniff(head: str) -> bool:
    return '"machine_info"' in head and ('"commit_info"' in head or '"benchmarks"' in head) and '"stats"' in head


def parse(document: Document) -> Iterator[Item]:
    text = document.text()
    doc = loads(text, document)
    if not isinstance(doc, dict) or not isinstance(doc.get("benchmarks"), list):
        document.refuse('is no pytest-benchmark file: "benchmarks" is missing.', 1)
    origin, lines = _origin(document, doc), Lines(text)
    for i, entry in enumerate(doc["benchmarks"]):
        one = dict_of(entry)
        name = text_of(one.get("fullname") or one.get("name"))
        where = document.where(lines.find(name), f"/benchmarks/{i}")
        yield _record(origin, one, name, where)


def _record(origin: Origin, entry: Mapping[str, Any], name: str, where: Any) -> Item:
    stats = dict_of(entry.get("stats"))
    value = finite(stats.get("median"))
    value = finite(stats.get("mean")) if value is None else value
    if not name or value is None:
        return Skipped("has no name or neither median nor mean", where)
    data = [v for v in map(finite, list_of(stats.get("data"))) if v is not None]
    complete = len(data) == len(list_of(stats.get("data")))
    iqr = finite(stats.get("iqr"))
    rounds = finite(stats.get("rounds"))
    return Record(
        origin=origin,
        benchmark=name.partition("[")[0],
        metric=_TIME,
        where=where,
        value=value,
        params=_params(entry, name),
        samples=tuple(data) if complete else (),
        spread=spread_of(data) if data and complete else 0.5 * iqr if iqr and iqr > 0 else 0.0,
        count=int(rounds) if rounds and rounds >= 1 else 1,
        summary={
            k: v
            for k in ("min", "max", "mean", "stddev", "median", "iterations")
            if (v := finite(stats.get(k))) is not None
        },
    )


def _params(entry: Mapping[str, Any], name: str) -> dict[str, Scalar]:
    given = entry.get("params")
    if isinstance(given, dict) and given:
        return {str(k): v if isinstance(v, bool | int | float | str) else text_of(v) for k, v in given.items()}
    text = entry.get("param") or (name.partition("[")[2].removesuffix("]") if name.endswith("]") else "")
    return {"param": text_of(text)} if text else {}


def _origin(document: Document, doc: Mapping[str, Any]) -> Origin:
    info, commit = dict_of(doc.get("machine_info")), dict_of(doc.get("commit_info"))
    cpu = dict_of(info.get("cpu"))
    stored = _STORED.match(document.path.name)
    measured = parse_time(doc.get("datetime")) or (parse_time(stored[2].replace("_", "-")) if stored else None)
    identity = text_of(commit.get("id"))
    if not re.fullmatch(r"[0-9a-f]{7,64}", identity):
        identity = stored[1] if stored else ""
    facts = [Fact("node", "os", f"{text_of(info.get('system'))} {text_of(info.get('release'))}".strip(), tracked=False)]
    facts += [
        Fact("stack", key, text_of(info[key])) for key in ("python_implementation", "python_version") if info.get(key)
    ]
    if commit.get("dirty"):
        facts.append(Fact("build", "uncommitted changes", "yes", tracked=False))
    count = finite(cpu.get("count"))
    return Origin(
        tool=NAME,
        tool_version=text_of(doc.get("version")),
        commit=identity,
        committed_at=parse_time(commit.get("time")),
        measured_at=measured,
        branch=text_of(commit.get("branch")),
        project=text_of(commit.get("project")),
        machine=Machine(
            name=text_of(info.get("node")),
            cpu_model=text_of(cpu.get("brand_raw") or cpu.get("brand") or info.get("processor")),
            cpu_count=int(count) if count and 0 < count < 1e6 else 0,
            facts=tuple((k, text_of(info[k])) for k in ("machine", "system") if info.get(k)),
        ),
        environment=tuple(f for f in facts if f.value),
    )
