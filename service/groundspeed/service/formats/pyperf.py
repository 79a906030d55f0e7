"""pyperf and pyperformance JSON: runs with values and warm-ups, metadata common, per benchmark and per run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from groundspeed.service.formats.records import (
    Fact,
    Item,
    Machine,
    Metric,
    Origin,
    Record,
    Skipped,
    finite,
    spread_of,
)
from groundspeed.service.formats.source import Document, Lines, dict_of, list_of, loads, text_of
from groundspeed.service.formats.times import parse_time

NAME = "pyperf"
_METRICS = {
    "second": Metric("time", "s", -1, "time", "wall"),
    "byte": Metric("memory", "B", -1, "bytes"),
    "integer": Metric("value", "1", 0, "counter"),
}
_STACK = ("python_version", "python_implementation", "perf_version", "performance_version", "python_hash_seed", "timer",
          "python_compiler", "python_cflags", "aslr", "python_unicode", "gil", "jit")  # fmt: skip
_NODE = ("platform", "cpu_config", "cpu_affinity")


def sniff(head: str) -> bool:
    return (
        '"benchmarks"' in head
        and '"runs"' in head
        and ('"values"' in head or '"warmups"' in head or '"samples"' in head)
    )


def parse(document: Document) -> Iterator[Item]:
    text = document.text()
    doc = loads(text, document)
    if not isinstance(doc, dict) or not isinstance(doc.get("benchmarks"), list):
        document.refuse('is no pyperf file: "benchmarks" is missing.', 1)
    version = text_of(doc.get("version"))
    if version and not re.match(r"^[01](\.|$)|^[0-9]$", version):
        document.refuse(f"is of pyperf format {version}; 1.0 is the newest that is known.", 1)
    common, lines = dict_of(doc.get("metadata") or doc.get("common_metadata")), Lines(text)
    for i, entry in enumerate(doc["benchmarks"]):
        one = dict_of(entry)
        metadata = {**common, **dict_of(one.get("metadata") or one.get("common_metadata"))}
        runs = [r for r in list_of(one.get("runs")) if isinstance(r, dict)]
        name = text_of(metadata.get("name")) or _name_in_runs(runs)
        where = document.where(lines.find(name) if name else 0, f"/benchmarks/{i}")
        yield _record(metadata, name or document.path.name.partition(".")[0], runs, where)


def _name_in_runs(runs: list[dict[str, Any]]) -> str:
    return next((text_of(n) for r in runs if (n := dict_of(r.get("metadata")).get("name"))), "")


def _record(metadata: Mapping[str, Any], name: str, runs: list[dict[str, Any]], where: Any) -> Item:
    values = [v for run in runs for v in map(finite, list_of(run.get("values") or run.get("samples"))) if v is not None]
    if not values:
        return Skipped("has no values (calibration only)", where)
    measured = ([x for x in map(finite, list_of(run.get("values"))) if x is not None] for run in runs)
    medians = [median(of_run) for of_run in measured if of_run]
    return Record(
        origin=_origin({**dict_of(runs[-1].get("metadata")), **metadata}, runs),
        benchmark=name,
        metric=_METRICS.get(text_of(metadata.get("unit")) or "second", _METRICS["integer"]),
        where=where,
        value=median(values),
        samples=tuple(values),
        spread=spread_of(values),
        count=len(values),
        summary={"processes": float(len(medians)), "between_processes": spread_of(medians)},
    )


def _origin(metadata: Mapping[str, Any], runs: list[dict[str, Any]]) -> Origin:
    dates = [d for run in runs if (d := parse_time(dict_of(run.get("metadata")).get("date")))]
    commit = text_of(metadata.get("commit_id"))
    cpus = finite(metadata.get("cpu_count"))
    facts = [Fact("stack", k, text_of(metadata[k])) for k in _STACK if metadata.get(k)]
    facts += [Fact("node", k, text_of(metadata[k])) for k in _NODE if metadata.get(k)]
    return Origin(
        tool=NAME,
        tool_version=text_of(metadata.get("perf_version")),
        commit=commit if re.fullmatch(r"[0-9a-f]{7,64}", commit) else "",
        committed_at=parse_time(metadata.get("commit_date")),
        measured_at=min(dates, default=None),
        branch=text_of(metadata.get("commit_branch")),
        machine=Machine(
            name=text_of(metadata.get("hostname")),
            cpu_model=text_of(metadata.get("cpu_model_name") or metadata.get("cpu_machine")),
            cpu_count=int(cpus) if cpus and 0 < cpus < 1e6 else 0,
        ),
        environment=tuple(facts),
    )
