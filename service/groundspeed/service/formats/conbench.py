"""Conbench results: posted payloads (benchadapt), replies of its API (one, pages, histories), history downloads."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from groundspeed.service.formats.records import (
    Clock,
    Fact,
    Item,
    Machine,
    Origin,
    Record,
    Scalar,
    Skipped,
    Where,
    finite,
    number_of,
    spread_of,
)
from groundspeed.service.formats.source import Document, dict_of, list_of, loads, text_of
from groundspeed.service.formats.times import parse_time
from groundspeed.service.formats.units import metric as metric_of
from groundspeed.service.formats.units import parse_unit

NAME = "conbench"
_UNITS = {"i/s": "items/s", "b/s": "B/s", "B/s": "B/s", "s": "s", "ns": "ns", "B": "B"}


def sniff(head: str) -> bool:
    if head.startswith("# original URL:") or ('"commit_hash"' in head and '"single_value_summary"' in head):
        return True
    return ('"stats"' in head and ('"batch_id"' in head or '"run_id"' in head)
        and '"machine_info"' not in head.partition('"stats"')[0]) or (
        '"tags"' in head and '"stats"' in head and ('"github"' in head or '"batch_id"' in head or '"run_id"' in head)
    )  # fmt: skip


def parse(document: Document) -> Iterator[Item]:
    text = document.text()
    if text.startswith("#"):
        yield from _download(text, document)
        return
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
    elif isinstance(doc, dict) and (page := _page(doc)):
        yield from _results(doc[page], f"{pointer}/{page}", depth + 1)
    else:
        yield pointer, dict_of(doc)


def _page(doc: Mapping[str, Any]) -> str:
    """The key under which a page of replies holds them: "data", in newer servers "results"."""
    if "tags" in doc or "commit_hash" in doc:  # a result of its own, whose data are its values
        return ""
    return next((key for key in ("data", "results") if isinstance(doc.get(key), list | dict)), "")


def _result(entry: Mapping[str, Any], where: Where) -> Iterator[Item]:
    tags = {str(k): v for k, v in dict_of(entry.get("tags")).items() if k != "id"}
    # Newer servers keep aggregates under "stats", and values, times and units beside it.
    beside = {k: entry[k] for k in ("data", "times", "unit", "time_unit", "iterations") if entry.get(k) is not None}
    stats = {**beside, **{k: v for k, v in dict_of(entry.get("stats")).items() if v is not None}}
    name = text_of(tags.pop("name", None))
    if not name and "tags" not in entry and "has_error" in entry:
        yield Skipped("is a line of a list, which has no name: save what the server gives for each id", where)
        return
    if not name and "commit_hash" in entry and "case_id" in entry:
        yield from _history(entry, where)
        return
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
    clock: Clock = "wall" if unit.kind == "time" else "none"
    metric = metric_of("value" if unit.kind == "counter" else unit.kind, unit, clock=clock)
    if isinstance(entry.get("less_is_better"), bool):
        metric = replace(metric, direction=-1 if entry["less_is_better"] else 1)
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


def _download(text: str, document: Document) -> Iterator[Item]:
    """The CSV of "download history": its comments say what all rows share; a unit they do not say."""
    lines = text.splitlines()
    comments = [line for line in lines if line.startswith("#")]
    said = dict(line[1:].strip().partition(": ")[::2] for line in comments)
    rows = csv.reader(line for line in lines if not line.startswith("#"))
    columns = next(rows, [])
    if not said.get("benchmark name") or not {"commit_hash", "svs"} <= set(columns):
        document.refuse("is no history of Conbench: its columns are not known.", len(comments) + 1)
    metric = metric_of("value", parse_unit("no unit"), gate=False)
    params: dict[str, Scalar] = {"case": said["case permutation"]} if said.get("case permutation") else {}
    for number, row in enumerate(rows, len(comments) + 2):
        cells, where = dict(zip(columns, row, strict=False)), document.where(number)
        value = number_of(cells.get("svs", ""))
        if value is None:
            yield Skipped("has no number", where)
            continue
        yield Record(
            _of_history(cells, said.get("hardware hash", "")), said["benchmark name"], metric, where, value, params
        )


def _history(entry: Mapping[str, Any], where: Where) -> Iterator[Item]:
    """One point of a series. It knows its benchmark by the identity of the case only, its hardware by a hash."""
    raw = text_of(entry.get("unit"))
    unit = parse_unit(_UNITS.get(raw, raw))
    data = list_of(entry.get("data"))
    values = tuple(v * unit.factor for v in map(finite, data) if v is not None)
    centre = finite(entry.get("single_value_summary", entry.get("mean")))
    if centre is None:
        yield Skipped("has no number", where)
        return
    name = text_of(entry.get("benchmark_name")) or f"case {text_of(entry.get('case_id'))}"
    metric = metric_of("value" if unit.kind == "counter" else unit.kind, unit)
    yield Record(
        _of_history(entry, text_of(entry.get("hardware_hash"))), name, metric, where, centre * unit.factor,
        samples=values if entry.get("single_value_summary_type") in {None, "mean"} else (),
        spread=spread_of(values), count=max(len(values), 1),
    )  # fmt: skip


def _of_history(entry: Mapping[str, Any], machine: str) -> Origin:
    return Origin(
        tool=NAME,
        commit=text_of(entry.get("commit_hash"))[:64].lower(),
        committed_at=parse_time(entry.get("commit_timestamp") or entry.get("commit_time")),
        measured_at=parse_time(entry.get("result_timestamp")),
        title=text_of(entry.get("commit_msg")).partition("\n")[0],
        project=text_of(entry.get("repository")),
        machine=Machine(name=machine, identity=bool(machine)),
        label=text_of(entry.get("result_id") or entry.get("benchmark_result_id")),
    )


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
        project=text_of(git.get("repository") or entry.get("commit_repo_url")),
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
