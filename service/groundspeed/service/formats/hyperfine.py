"""hyperfine ``--export-json``, with parameters, failed runs, and without times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from groundspeed.service.formats.records import (
    Item,
    Metric,
    Origin,
    Record,
    Scalar,
    Skipped,
    Where,
    finite,
    number_of,
    spread_of,
)
from groundspeed.service.formats.source import Document, Lines, dict_of, list_of, loads, text_of

NAME = "hyperfine"
_TIME = Metric("time", "s", -1, "time", "wall")
_CPU = {
    "user": Metric("user_time", "s", -1, "time", "cpu"),
    "system": Metric("system_time", "s", -1, "time", "cpu", gate=False),
}
_MEMORY = Metric("peak_memory", "B", -1, "bytes", gate=False)


def sniff(head: str) -> bool:
    return '"results"' in head and '"command"' in head and ('"mean"' in head or '"times"' in head)


def parse(document: Document) -> Iterator[Item]:
    text = document.text()
    doc = loads(text, document)
    if not isinstance(doc, dict) or not isinstance(doc.get("results"), list):
        document.refuse('is no hyperfine file: "results" is missing.', 1)
    origin, lines = Origin(tool=NAME), Lines(text)
    for i, entry in enumerate(doc["results"]):
        one = dict_of(entry)
        command = text_of(one.get("command"), 2000)
        where = document.where(lines.find(command), f"/results/{i}")
        if not command:
            yield Skipped("has no command", where)
        else:
            yield from _result(origin, command, one, where)


def _result(origin: Origin, command: str, entry: Mapping[str, Any], where: Where) -> Iterator[Item]:
    params = {str(k): _scalar(v) for k, v in dict_of(entry.get("parameters")).items()}
    if not params and entry.get("parameter") is not None:  # before version 1.8 there was one, without its name
        params = {"parameter": _scalar(entry["parameter"])}
    times = [v for v in map(finite, list_of(entry.get("times"))) if v is not None]
    codes = list_of(entry.get("exit_codes"))
    bad = sorted({f"exit status {text_of(c)}" if text_of(c) else "a signal" for c in codes if c != 0})
    if bad:
        # hyperfine goes on after failures only when told to (--ignore-failure); the time of a failed run is no result
        if len(times) == len(codes):
            times = [t for t, c in zip(times, codes, strict=True) if c == 0]
        yield Skipped(f"runs that ended with {', '.join(bad)} do not count", where)
    value = median(times) if times else None if bad else _first(entry, "median", "mean")
    if value is None:
        reason = ", ".join(bad) or "no time"
        yield Record(origin, command, _TIME, where, params=params, outcome="failed", reason=reason)
        return
    deviation = finite(entry.get("stddev"))
    yield Record(
        origin, command, _TIME, where, value, params, tuple(times), spread_of(times), len(times) or 1,
        summary={} if deviation is None else {"stddev": deviation},
    )  # fmt: skip
    for key, metric in _CPU.items():
        cpu = finite(entry.get(key))
        if cpu is not None and not bad:
            yield Record(origin, command, metric, where, cpu, params, count=len(times) or 1)
    memory = [v for v in map(finite, list_of(entry.get("memory_usage_byte"))) if v is not None]
    if memory and not bad:
        yield Record(
            origin, command, _MEMORY, where, median(memory), params, tuple(memory), spread_of(memory), len(memory)
        )


def _first(entry: Mapping[str, Any], *keys: str) -> float | None:
    return next((v for k in keys if (v := finite(entry.get(k))) is not None), None)


def _scalar(value: object) -> Scalar:
    text = text_of(value)
    number = number_of(text) if text and text[0] in "-0123456789" else None
    if number is None or "," in text:
        return text
    return int(number) if number.is_integer() and abs(number) < 2**53 and "." not in text else number
