"""Conbench results: posted payloads (benchadapt), replies of its API (one, a page, an export), one or one a line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from groundspeed.service.formats.records import (
    Fact,
    Item,
    Machine,
    Origin,
    Record,
    Scalar,
    Skipped,
    Where,
    finite,
    spread_of,
)
from groundspeed.service.formats.source import Document, dict_of, list_of, loads, text_of
from groundspeed.service.formats.times import parse_time
from groundspeed.service.formats.units import metric as metric_of
from groundspeed.service.formats.units import parse_unit

NAME = "conbench"
_UNITS = {"i/s": "items/s", "b/s": "B/s", "B/s": "B/s", "s": "s", "ns": "ns", "B": "B"}


def sniff(head: str) -> bool:
    return ('"stats"' in head and ('"batch_id"' in head or '"run_id"' in head)
        and '"machine_info"' not in head.partition('"stats"')[0]) or (
        '"tags"' in head and '"stats"' in head and ('"github"' in head or '"batch_id"' in head or '"run_id"' in head)
    )  # fmt: skip


def parse(document: Document) -> Iterator[Item]:
    text = document.text()
    rows = [(i + 1, row) for i, row in enumerate(text.split("\n")) if row.strip()]
    by_line = len(rows) > 1 and all(row.strip().startswith("{") and row.strip().endswith("}") for _, row in rows[:100])
    for line, row in rows if by_line else [(1, text)]:
        doc = loads(row, document, line)
        for pointer, entry in _results(doc, "", 0):
            yield from _result(entry, document.where(line, pointer))


def _results(doc: Any, pointer: str, depth: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Results in a page ({"data": […], "metadata": …}), a list, or alone."""
    if depth > 4:
        return
    if isinstance(doc, list):
        for i, entry in enumerate(doc):
            yield from _results(entry, f"{pointer}/{i}", depth + 1)
    elif isinstance(doc, dict) and isinstance(doc.get("data"), list | dict) and "stats" not in doc:
        yield from _results(doc["data"], f"{pointer}/data", depth + 1)
    else:
        yield pointer, dict_of(doc)


def _result(entry: Mapping[str, Any], where: Where) -> Iterator[Item]:
    tags = {str(k): v for k, v in dict_of(entry.get("tags")).items() if k != "id"}
    stats = dict_of(entry.get("stats"))
    name = text_of(tags.pop("name", None))
    if not name:
        yield Skipped('has no "name" among its tags', where)
        return
    params: dict[str, Scalar] = {
        k: v if isinstance(v, bool | int | float | str) else text_of(v)
        for k, v in sorted(tags.items())
        if v is not None
    }
    origin = _origin(entry)
    unit = parse_unit(_UNITS.get(text_of(stats.get("unit")), text_of(stats.get("unit"))))
    metric = metric_of(
        "value" if unit.kind == "counter" else unit.kind, unit, clock="wall" if unit.kind == "time" else "none"
    )
    error = entry.get("error")
    data = list_of(stats.get("data"))
    values = [v * unit.factor for v in map(finite, data) if v is not None]
    if error or (data and not values):
        yield Record(
            origin, name, metric, where, params=params, outcome="failed", reason=text_of(error, 2000) or "no number"
        )
        return
    if len(values) < len(data):
        # Conbench calls a result with a missing repetition failed; what was measured is still shown
        yield Skipped(f"{len(data) - len(values)} of {len(data)} repetitions have no number", where)
    middle = sorted(values)[(len(values) - 1) // 2 : len(values) // 2 + 1]
    centre = sum(middle) / len(middle) if middle else finite(stats.get("mean"))
    if centre is None:
        yield Skipped("has neither data nor a mean", where)
        return
    value = centre if middle else centre * unit.factor
    count = finite(stats.get("iterations"))
    yield Record(
        origin, name, metric, where, value, params, tuple(values), spread_of(values),
        len(values) or (int(count) if count and 1 <= count < 1e9 else 1),
    )  # fmt: skip
    yield from _times(origin, name, params, stats, unit.kind, where)


def _times(
    origin: Origin, name: str, params: dict[str, Scalar], stats: Mapping[str, Any], kind: str, where: Where
) -> Iterator[Item]:
    """Beside a rate or a size the times of the repetitions are kept."""
    unit = parse_unit(text_of(stats.get("time_unit")) or "s")
    times = [v * unit.factor for v in map(finite, list_of(stats.get("times"))) if v is not None]
    if kind == "time" or not times or unit.kind != "time":
        return
    middle = sorted(times)[(len(times) - 1) // 2 : len(times) // 2 + 1]
    metric = metric_of("time", unit, clock="wall", gate=False)
    yield Record(
        origin, name, metric, where, sum(middle) / len(middle), params, tuple(times), spread_of(times), len(times)
    )


def _origin(entry: Mapping[str, Any]) -> Origin:
    git = dict_of(entry.get("github")) or dict_of(entry.get("commit"))
    commit = text_of(git.get("commit") or git.get("sha") or git.get("hash"))
    machine = dict_of(entry.get("machine_info")) or dict_of(entry.get("hardware"))
    machine = {**machine, **dict_of(machine.get("info"))}
    facts = [Fact("build", f"{k}", text_of(v)) for k, v in sorted(dict_of(entry.get("context")).items()) if k != "id"]
    facts += [
        Fact("build", f"info {k}", text_of(v), tracked=False)
        for k, v in sorted(dict_of(entry.get("info")).items())
        if k != "id"
    ]
    if machine.get("os_name"):
        facts.append(
            Fact(
                "node",
                "os",
                f"{text_of(machine.get('os_name'))} {text_of(machine.get('os_version'))}".strip(),
                tracked=False,
            )
        )
    if machine.get("kernel_name"):
        facts.append(Fact("node", "kernel", text_of(machine["kernel_name"]), tracked=False))
    return Origin(
        tool=NAME,
        commit=commit.lower() if re.fullmatch(r"[0-9a-fA-F]{7,64}", commit) else commit[:64],
        committed_at=parse_time(git.get("timestamp")),
        measured_at=parse_time(entry.get("timestamp")),
        branch=text_of(git.get("branch")),
        title=text_of(git.get("message")).partition("\n")[0],
        author=text_of(git.get("author_name")),
        project=text_of(git.get("repository")),
        machine=Machine(
            name=text_of(machine.get("name")),
            identity=bool(machine.get("name")),
            cpu_model=text_of(machine.get("cpu_model_name")),
            cpu_count=_whole(machine.get("cpu_thread_count")),
            memory_bytes=_whole(machine.get("memory_bytes")),
            gpu_model=", ".join(map(text_of, list_of(machine.get("gpu_product_names"))))[:200],
            gpu_count=_whole(machine.get("gpu_count")),
        ),
        environment=tuple(f for f in facts if f.value),
        label=text_of(entry.get("run_id")),
    )


def _whole(value: object) -> int:
    text = text_of(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 18 else 0
