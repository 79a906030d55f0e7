"""JMH JSON (``-rf json``): modes thrpt, avgt, sample, ss; secondary metrics of profilers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from groundspeed.service.formats.records import Fact, Item, Origin, Record, Scalar, Skipped, Where, finite, spread_of
from groundspeed.service.formats.source import Document, Lines, dict_of, list_of, loads, text_of
from groundspeed.service.formats.units import metric as metric_of
from groundspeed.service.formats.units import parse_unit

NAME = "jmh"
_STACK = ("jdkVersion", "vmName", "vmVersion", "jvmArgs")
MAX_HISTOGRAM_SAMPLES = 10_000


def sniff(head: str) -> bool:
    return '"jmhVersion"' in head or ('"primaryMetric"' in head and '"benchmark"' in head)


def parse(document: Document) -> Iterator[Item]:
    text = document.text()
    doc = loads(text, document)
    if not isinstance(doc, list):
        document.refuse("is no JMH file: a list of results is expected.", 1)
    lines = Lines(text)
    for i, entry in enumerate(doc):
        one = dict_of(entry)
        name = text_of(one.get("benchmark"))
        where = document.where(lines.find(name), f"/{i}")
        if not name or not isinstance(one.get("primaryMetric"), dict):
            yield Skipped("has no benchmark name or no primaryMetric", where)
            continue
        yield from _result(name, one, where)


def _result(name: str, entry: Mapping[str, Any], where: Where) -> Iterator[Item]:
    params: dict[str, Scalar] = {str(k): text_of(v) for k, v in dict_of(entry.get("params")).items()}
    if entry.get("mode"):
        params["mode"] = text_of(entry["mode"])
    if isinstance(entry.get("threads"), int) and not isinstance(entry["threads"], bool):
        params["threads"] = entry["threads"] if abs(entry["threads"]) < 2**31 else 0
    facts = tuple(Fact("stack", k, text_of(entry[k])) for k in _STACK if entry.get(k))
    origin = Origin(tool=NAME, tool_version=text_of(entry.get("jmhVersion")), environment=facts)
    metrics = {"score": entry["primaryMetric"], **dict_of(entry.get("secondaryMetrics"))}
    for key, value in metrics.items():
        # gc.alloc.rate was ·gc.alloc.rate until JMH 1.34
        yield _metric(origin, name, key.lstrip("·"), dict_of(value), params, where)
    if entry.get("mode") == "sample":
        yield from _percentiles(origin, name, dict_of(entry["primaryMetric"]), params, where)


_PERCENTILES = ("50.0", "90.0", "95.0", "99.0", "99.9", "99.99")


def _percentiles(
    origin: Origin, name: str, data: Mapping[str, Any], params: dict[str, Scalar], where: Where
) -> Iterator[Item]:
    """Of mode "sample" the percentiles are what is asked for; of other modes they only say the few scores again."""
    unit = parse_unit(text_of(data.get("scoreUnit")))
    percentiles = dict_of(data.get("scorePercentiles"))
    for key in _PERCENTILES:
        value = finite(percentiles.get(key))
        if value is not None:
            metric = metric_of(f"score p{key.removesuffix('.0')}", unit, clock="wall", gate=False)
            yield Record(origin, name, metric, where, value * unit.factor, params)


def _metric(
    origin: Origin, name: str, key: str, data: Mapping[str, Any], params: dict[str, Scalar], where: Where
) -> Item:
    score = finite(data.get("score"))
    if score is None:
        return Skipped(f"{key} has no score (NaN: too few iterations)", where)
    unit = parse_unit(text_of(data.get("scoreUnit")))
    raw = [v for fork in list_of(data.get("rawData")) for v in map(finite, list_of(fork)) if v is not None]
    samples = [v * unit.factor for v in raw or _histogram(data)]
    middle = sorted(samples)[(len(samples) - 1) // 2 : len(samples) // 2 + 1]
    error = finite(data.get("scoreError"))
    return Record(
        origin, name, metric_of(key, unit, clock="wall" if unit.kind in {"time", "rate"} else "none",
        gate=key == "score"),
        where, sum(middle) / len(middle) if middle else score * unit.factor, params, tuple(samples), spread_of(samples),
        len(samples) or 1,
        summary={"score": score * unit.factor} | ({} if error is None else {"error": error * unit.factor}),
    )  # fmt: skip


def _histogram(data: Mapping[str, Any]) -> list[float]:
    """The samples of mode "sample": forks × iterations × [value, how often]; none when there are too many."""
    pairs = [
        (value, int(times))
        for fork in list_of(data.get("rawDataHistogram"))
        for iteration in list_of(fork)
        for pair in list_of(iteration)
        if len(list_of(pair)) == 2
        and (value := finite(pair[0])) is not None
        and (times := finite(pair[1]))
        and times >= 1
    ]
    if sum(times for _, times in pairs) > MAX_HISTOGRAM_SAMPLES:
        return []
    return [value for value, times in pairs for _ in range(times)]
