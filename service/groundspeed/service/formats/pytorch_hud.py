"""PyTorch HUD records, versions 3 and 2 (a list, one object, or one a line), and TorchBench's userbenchmarks."""

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
from groundspeed.service.formats.source import Document, dict_of, list_of, loads, text_of
from groundspeed.service.formats.superbench import metric_for
from groundspeed.service.formats.times import parse_time
from groundspeed.service.formats.units import metric as metric_of
from groundspeed.service.formats.units import parse_unit

NAME = "pytorch-hud"
_SUFFIX = re.compile(r"_(ms|us|ns|per_second|per_sec|tokens_per_s|requests_per_s)$")
_WORDS = {"per_second": "1/s", "per_sec": "1/s", "tokens_per_s": "tokens/s", "requests_per_s": "requests/s"}
_UNIT = re.compile(r"^(.*?)\s*\(([^()]+)\)$")


def sniff(head: str) -> bool:
    return '"benchmark_values"' in head or ('"metric"' in head and '"benchmark"' in head and '"model"' in head) or (
        '"workflow_id"' in head and '"repo"' in head
    ) or _is_userbenchmark(head)  # fmt: skip


def _is_userbenchmark(head: str) -> bool:
    return '"environ"' in head and '"metrics"' in head and '"pytorch_git_version"' in head


def parse(document: Document) -> Iterator[Item]:
    text = document.text()
    if _is_userbenchmark(document.head()):
        yield from _userbenchmark(document, dict_of(loads(text, document)))
        return
    for line, pointer, entry in _entries(document, text):
        yield _record(document, entry, line, pointer)


def _userbenchmark(document: Document, doc: Mapping[str, Any]) -> Iterator[Item]:
    """Numbers by name; their units are in no file, so they are charted and not gated."""
    environ = dict_of(doc.get("environ"))
    commit = text_of(environ.get("pytorch_git_version"))
    facts = tuple(
        Fact("stack", str(k), text_of(v)) for k, v in sorted(environ.items()) if isinstance(v, str | int) and text_of(v)
    )
    origin = Origin(
        tool="torchbench",
        commit=commit if re.fullmatch(r"[0-9a-f]{7,64}", commit) else "",
        machine=Machine(gpu_model=text_of(environ.get("device"))),
        environment=tuple(f for f in facts if f.name not in {"pytorch_git_version", "metrics"}),
    )
    name = text_of(doc.get("name")) or "torchbench"
    for key, raw in dict_of(doc.get("metrics")).items():
        where, value = document.where(pointer=f"/metrics/{key}"[:300]), finite(raw)
        if value is None:
            yield Skipped("is no number", where)
        else:
            metric = Metric("value", "1", 0, "counter", gate=False)
            yield Record(origin, f"{name}/{key}", metric, where, value)


def _entries(document: Document, text: str) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    rows = [(i + 1, row) for i, row in enumerate(text.split("\n")) if row.strip()]
    if len(rows) > 1 and all(row.strip()[0] + row.strip()[-1] in {"{}", "[]"} for _, row in rows[:100]):
        for line, row in rows:
            yield from _flat(loads(row, document, line), line)
    else:
        yield from _flat(loads(text, document), 1)


def _flat(value: Any, line: int) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    if isinstance(value, list):
        for i, entry in enumerate(value):
            yield line, f"/{i}", dict_of(entry)
    else:
        yield line, "", dict_of(value)


def _record(document: Document, entry: Mapping[str, Any], line: int, pointer: str) -> Item:
    where = document.where(line, pointer)
    if isinstance(entry.get("metric"), str):
        entry = _of_version_2(entry)
    benchmark, model, metric = (dict_of(entry.get(k)) for k in ("benchmark", "model", "metric"))
    name, metric_name = text_of(benchmark.get("name")), text_of(metric.get("name"))
    values = [v for v in map(finite, list_of(metric.get("benchmark_values"))) if v is not None]
    if not values and (single := finite(metric.get("value", metric.get("actual")))) is not None:
        values = [single]
    if not name or not metric_name:
        return Skipped("has no benchmark name or no metric name", where)
    if not values:
        return Skipped("has no benchmark_values", where)
    known, factor = _metric(metric_name)
    samples = [v * factor for v in values]
    middle = sorted(samples)[(len(samples) - 1) // 2 : len(samples) // 2 + 1]
    return Record(
        _origin(entry, benchmark), f"{name}/{text_of(model.get('name'))}" if model.get("name") else name, known, where,
        sum(middle) / len(middle), _params(benchmark, model, metric), tuple(samples), spread_of(samples), len(samples),
    )  # fmt: skip


def _of_version_2(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A record of before 2025, whose fields stood side by side, as it is now."""
    told = {key: entry[key] for key in ("device", "arch") if entry.get(key)}
    return {
        **entry,
        "benchmark": {
            "name": entry.get("test_name") or entry.get("filename"),
            "dtype": entry.get("dtype"),
            "extra_info": told,
        },
        "model": {"name": entry.get("name")},
        "metric": {"name": entry["metric"], "value": entry.get("actual")},
    }


def _metric(name: str) -> tuple[Any, float]:
    if match := _UNIT.match(name):
        unit = parse_unit(match[2])
        if unit.kind != "counter":
            return metric_of(match[1], unit), unit.factor
    if (match := _SUFFIX.search(name)) and name != match[0]:
        unit = parse_unit(_WORDS.get(match[1], match[1]))
        return metric_of(name[: match.start()] if unit.kind == "time" else name, unit), unit.factor
    if "instruction_count" in name:
        return metric_of(name, parse_unit("1"), direction=-1), 1.0
    return metric_for(name)[0], metric_for(name)[1]


def _params(benchmark: Mapping[str, Any], model: Mapping[str, Any], metric: Mapping[str, Any]) -> dict[str, Scalar]:
    params: dict[str, Scalar] = {k: text_of(benchmark[k]) for k in ("mode", "dtype") if benchmark.get(k)}
    params |= {k: text_of(model[k]) for k in ("backend", "type") if model.get(k)}
    for source in (benchmark, metric):
        for key, value in sorted(dict_of(source.get("extra_info")).items()):
            if key not in {"description", "benchmark_config"} and isinstance(value, bool | int | float | str):
                params[str(key)] = value if not isinstance(value, float) or finite(value) is not None else str(value)
    return params


def _origin(entry: Mapping[str, Any], benchmark: Mapping[str, Any]) -> Origin:
    runner = dict_of(next(iter(list_of(entry.get("runners"))), {}))
    commit = text_of(entry.get("head_sha") or entry.get("sha"))
    extra = dict_of(benchmark.get("extra_info"))
    memory = finite(runner.get("total_mem_in_gb") or runner.get("avail_mem_in_gb"))
    facts = [Fact("stack", k, text_of(v)) for k, v in sorted(dict_of(runner.get("extra_info")).items())]
    facts += [
        Fact("build", text_of(d.get("name")), text_of(d.get("sha")))
        for d in map(dict_of, dict_of(entry.get("dependencies")).values())
    ]
    return Origin(
        tool=NAME,
        commit=commit if re.fullmatch(r"[0-9a-f]{7,64}", commit) else "",
        measured_at=parse_time(entry.get("timestamp")),
        branch=text_of(entry.get("head_branch")),
        project=text_of(entry.get("repo")),
        machine=Machine(
            name="",
            cpu_model=text_of(runner.get("cpu_info")),
            gpu_model=text_of(runner.get("gpu_info") or runner.get("name")),
            gpu_count=_count(runner.get("gpu_count")),
            memory_bytes=int(memory * 2**30) if memory and 0 < memory < 1e9 else 0,
            facts=(("type", text_of(runner.get("type"))),) if runner.get("type") else (),
        ),
        environment=tuple(f for f in facts if f.name and f.value),
        label=f"job {text_of(entry.get('job_id'))}" if entry.get("job_id") else text_of(extra.get("device")),
    )


def _count(value: object) -> int:
    number = finite(value)
    return int(number) if number and 0 < number < 1e6 else 0
