"""NVBench JSON, versions 1.x and what came before (summary data as an object instead of a list)."""

from __future__ import annotations

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
    Where,
    finite,
)
from groundspeed.service.formats.source import Document, Lines, dict_of, list_of, loads, text_of

NAME = "nvbench"
NEWEST_MAJOR = 1
METRICS = {
    "nv/cold/time/gpu/mean": Metric("gpu_time", "s", -1, "time", "device"),
    "nv/cold/time/cpu/mean": Metric("cpu_time", "s", -1, "time", "wall", gate=False),
    "nv/batch/time/gpu/mean": Metric("batch_gpu_time", "s", -1, "time", "device"),
    "nv/cold/bw/item_rate": Metric("item_rate", "1/s", 1, "rate", "device", gate=False),
    "nv/cold/bw/global/bytes_per_second": Metric("memory_bandwidth", "B/s", 1, "rate", "device", gate=False),
    "nv/cold/bw/global/utilization": Metric("memory_bandwidth_utilization", "1", 1, "ratio", "device", gate=False),
    "nv/cpu_only/time/cpu/mean": Metric("cpu_time", "s", -1, "time", "wall"),
    "nv/cpu_only/bw/item_rate": Metric("item_rate", "1/s", 1, "rate", "wall", gate=False),
    "nv/cpu_only/bw/global/bytes_per_second": Metric("memory_bandwidth", "B/s", 1, "rate", "wall", gate=False),
    "nv/cold/sm_clock_rate/mean": Metric("sm_clock", "Hz", 0, "counter", gate=False),
}
_DISPERSION = {
    "nv/cold/time/gpu/mean": ("nv/cold/time/gpu/stdev/relative", "nv/cold/sample_size"),
    "nv/cold/time/cpu/mean": ("nv/cold/time/cpu/stdev/relative", "nv/cold/sample_size"),
    "nv/batch/time/gpu/mean": ("", "nv/batch/sample_size"),
    "nv/cpu_only/time/cpu/mean": ("nv/cpu_only/time/cpu/stdev/relative", "nv/cpu_only/sample_size"),
}
_TOLD = ("min", "q1", "median", "q3", "max")
_BOOKKEEPING = {"nv/cupti/sample_size", "nv/cupti/walltime"}
NORMAL_MAD = 0.6744897501960817
"""Median absolute deviation over standard deviation, of a normal distribution."""


def sniff(head: str) -> bool:
    return '"nvbench"' in head and '"meta"' in head


def parse(document: Document) -> Iterator[Item]:
    text = document.text()
    doc = loads(text, document)
    if not isinstance(doc, dict) or not isinstance(doc.get("benchmarks"), list):
        document.refuse('is no NVBench file: "benchmarks" is missing.', 1)
    versions = dict_of(dict_of(doc.get("meta")).get("version"))
    major = dict_of(versions.get("json")).get("major", NEWEST_MAJOR)
    if isinstance(major, int) and major > NEWEST_MAJOR:
        document.refuse(f"is of NVBench JSON version {major}; {NEWEST_MAJOR} is the newest that is known.", 1)
    devices = {d["id"]: d for d in list_of(doc.get("devices")) if isinstance(d, dict) and isinstance(d.get("id"), int)}
    origins = {key: _origin(versions, device) for key, device in devices.items()}
    nowhere = _origin(versions, {})
    lines = Lines(text)
    for i, benchmark in enumerate(doc["benchmarks"]):
        one = dict_of(benchmark)
        name = text_of(one.get("name"))
        for j, state in enumerate(list_of(one.get("states"))):
            where = document.where(lines.find(text_of(dict_of(state).get("name"))), f"/benchmarks/{i}/states/{j}")
            device = dict_of(state).get("device")
            origin = origins.get(device, nowhere) if isinstance(device, int) else nowhere
            yield from _state(origin, name, dict_of(state), where)


def _state(origin: Origin, name: str, state: Mapping[str, Any], where: Where) -> Iterator[Item]:
    if not name:
        yield Skipped("belongs to a benchmark without a name", where)
        return
    params = _params(state)
    if state.get("is_skipped"):
        reason = text_of(state.get("skip_reason")) or "no reason given"
        metric = METRICS["nv/cold/time/gpu/mean"]
        yield Record(origin, name, metric, where, params=params, outcome="skipped", reason=reason)
        return
    tags = {tag: value for tag, value in map(_summary, list_of(state.get("summaries"))) if tag}
    found = False
    for tag, metric in METRICS.items():
        value = tags.get(tag)
        if value is None:
            continue
        found = True
        relative, size = (tags.get(t) for t in _DISPERSION.get(tag, ("", "")))
        told = {"relative_stdev": relative} | {n: tags.get(f"{tag.removesuffix('/mean')}/{n}") for n in _TOLD}
        yield Record(
            origin, name, metric, where, value, params,
            spread=NORMAL_MAD * max(relative or 0.0, 0.0) * abs(value),
            count=int(size) if size and 1 <= size < 1e15 else 1,
            summary={n: v for n, v in told.items() if v is not None},
        )  # fmt: skip
    for tag, value in tags.items():
        own = not tag.startswith("nv/") or (tag.startswith("nv/cupti/") and tag not in _BOOKKEEPING)
        if own and value is not None:  # the benchmark's own, or a profiler's: their meaning is not in the file
            found = True
            yield Record(origin, name, Metric(tag[:200], "1", 0, "counter", gate=False), where, value, params)
    if not found:
        yield Skipped("has no time, no rate and no reason for being skipped", where)


def _summary(summary: object) -> tuple[str, float | None]:
    one = dict_of(summary)
    tag, data = text_of(one.get("tag")), one.get("data")
    if isinstance(data, dict):
        data = [{"name": k, **dict_of(v)} for k, v in data.items()]
    for entry in list_of(data):
        if dict_of(entry).get("name") == "value":
            return tag, _number(dict_of(entry).get("value"))
    return tag, None


def _number(value: object) -> float | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return finite(value)


def _params(state: Mapping[str, Any]) -> dict[str, Scalar]:
    params: dict[str, Scalar] = {}
    for axis in list_of(state.get("axis_values")):
        one = dict_of(axis)
        value, kind = one.get("value"), text_of(one.get("type"))
        number = _number(value) if kind in {"int64", "float64"} else None
        if number is not None and kind == "int64" and abs(number) < 2**53:
            params[text_of(one.get("name"))] = int(number)
        elif number is not None:
            params[text_of(one.get("name"))] = number
        else:
            params[text_of(one.get("name"))] = text_of(value)
    return params


def _origin(versions: Mapping[str, Any], device: Mapping[str, Any]) -> Origin:
    tool = dict_of(versions.get("nvbench"))
    memory = finite(device.get("global_memory_size"))
    facts = [Fact("node", k, text_of(device[k])) for k in ("ecc_state",) if k in device]
    return Origin(
        tool=NAME,
        tool_version=text_of(tool.get("string")),
        # git_sha is NVBench's own commit, not that of what was measured
        machine=Machine(
            gpu_model=text_of(device.get("name")),
            gpu_count=1 if device else 0,
            facts=tuple((k, text_of(device[k])) for k in ("sm_version", "number_of_sms") if k in device)
            + ((("gpu_memory_bytes", str(int(memory))),) if memory and 0 < memory < 1e18 else ()),
        ),
        environment=tuple(facts),
        label=f"device {device['id']}" if device else "",
    )
