"""airspeed velocity result trees, all result versions (1 and 2), also of benchmarks that benchmarks.json forgot.

A tree is a folder with ``benchmarks.json`` and a folder for each machine with its ``machine.json`` and one file for
each
commit and environment. :func:`read_benchmarks` and :func:`read_machine` read the descriptions, :func:`parse` a file.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from groundspeed.service.formats import quick_json
from groundspeed.service.formats.records import (
    Fact,
    Grid,
    Item,
    Machine,
    Metric,
    Origin,
    Record,
    Scalar,
    Skipped,
    finite,
)
from groundspeed.service.formats.source import Document, dict_of, list_of, text_of
from groundspeed.service.formats.times import parse_time
from groundspeed.service.formats.units import metric as metric_of
from groundspeed.service.formats.units import parse_unit

NAME = "asv"
NEWEST_VERSION = 2
STATISTICS = ("ci_99_a", "ci_99_b", "q_25", "q_75", "number", "repeat")
_STATISTICS_V2 = tuple((key, f"stats_{key}") for key in STATISTICS)
MAX_POINTS = 1_000_000
MAX_AXES = 100
_COLUMNS_V1 = ("ci_99_a", "ci_99_b", "q_25", "q_75", "number", "repeat")
_BY_PREFIX = {"time_": ("time", "seconds"), "timeraw_": ("time", "seconds"), "mem_": ("memory", "bytes")}
_BY_PREFIX |= {"peakmem_": ("peakmemory", "bytes"), "track_": ("track", "unit")}
_NUMBER_OR_NONE = {float, type(None)}
_STATISTIC = {float, int, type(None)}
_FLOATS = {float}
_MARKED = {float, int, type(None), bool}
_HEAD = ("commit_hash", "date", "env_name", "params", "python", "requirements", "env_vars", "durations")
_LARGE = 2.0**63
_FACT_KEYS = {"arch", "cpu", "machine", "os", "ram", "num_cpu", "python", "version"}


@dataclass(frozen=True, slots=True)
class Tree:
    """What a results tree says of its benchmarks (by name) and machines (by name)."""

    benchmarks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    machines: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    metrics: dict[str, Metric] = field(default_factory=dict)
    axes: dict[tuple[str, str], tuple[tuple[str, tuple[Scalar, ...]], ...]] = field(default_factory=dict)


def sniff(head: str) -> bool:
    return ('"commit_hash"' in head and '"results"' in head and '"requirements"' in head) or _is_description(head)


def _is_description(head: str) -> bool:
    text = head.lstrip()
    return text.startswith("{") and '"param_names"' in head and '"code"' in head


def read_benchmarks(document: Document) -> dict[str, Mapping[str, Any]]:
    """The benchmarks that ``benchmarks.json`` describes, by name."""
    doc = document.json()
    if not isinstance(doc, dict):
        document.refuse("is no list of asv benchmarks.", 1)
    return {str(name): value for name, value in doc.items() if isinstance(value, dict)}


def read_machine(document: Document) -> Mapping[str, Any]:
    """What a ``machine.json`` says."""
    doc = document.json()
    if not isinstance(doc, dict) or not isinstance(doc.get("machine"), str):
        document.refuse('is no asv machine description: "machine" is missing.', 1)
    return doc


class Collecting(Protocol):
    """Takes entries of a file for itself."""

    def take(self, results: Mapping[str, Any], columns: Sequence[str], origin: Origin) -> Mapping[str, Any]:
        """Returns what is left for :func:`parse`."""


def parse(document: Document, tree: Tree | None = None, others: Collecting | None = None) -> Iterator[Item]:
    """All results of one file: a grid for each benchmark, a record for one that failed as a whole."""
    doc, marked = _read(document)
    tree = tree or Tree()
    if isinstance(doc, dict) and "results" not in doc and _is_benchmarks(doc):
        yield Skipped("describes asv benchmarks and holds no results", document.where())
        return
    origin = _origin(document, doc, tree)
    version = doc.get("version", 1)
    if isinstance(version, int) and version > NEWEST_VERSION:
        document.refuse(f"is of asv results version {version}; {NEWEST_VERSION} is the newest that is known.", 1)
    results: Mapping[str, Any] = doc["results"]
    columns = doc.get("result_columns")
    if columns is None:
        yield from _parse_v1(document, doc, results, origin, tree)
    else:
        names = [str(c) for c in list_of(columns)]
        if others is not None:
            results = others.take(results, names, origin)
        yield from _parse_v2(document, results, names, origin, tree, marked=marked)


def _read(document: Document) -> tuple[Any, bool]:
    """The document, and whether a ``False`` among its results stands for a NaN."""
    try:
        doc, marked = quick_json.loads(document.data())
        known = isinstance(doc, dict) and (not marked or doc.get("result_columns") is not None)
        # Runs are told apart by the head, so that it has to come out as the usual reader gives it.
        if known and all(_is_same(value, marked=marked) for name, value in doc.items() if name != "results"):
            return doc, marked
    except (quick_json.NotQuick, RecursionError):
        pass
    return document.json(), False


def _is_same(value: Any, *, marked: bool) -> bool:
    """Whether the quick reader reads this as the usual one does: no marks, no integers too large for it."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return all(_is_same(v, marked=marked) for v in value)
    return not (marked and value is False) and not (isinstance(value, float) and abs(value) >= _LARGE)


def _is_benchmarks(doc: Mapping[str, Any]) -> bool:
    return any(isinstance(v, dict) and "code" in v for v in doc.values())


def _origin(document: Document, doc: Any, tree: Tree) -> Origin:
    if not isinstance(doc, dict) or not isinstance(doc.get("results"), dict):
        document.refuse('is no asv results file: "results" is missing.', 1)
    if not isinstance(doc.get("commit_hash"), str) or not doc["commit_hash"]:
        document.refuse('is no asv results file: "commit_hash" is missing.', 1)
    params = dict_of(doc.get("params"))
    name = text_of(params.get("machine"))
    folder = document.path.parent.name
    if folder and folder in tree.machines and name and name != tree.machines[folder].get("machine"):
        document.refuse(f'names machine "{name}", but lies among the results of "{folder}".', 1, "asv ignores it too.")
    described = {**params, **tree.machines.get(folder, tree.machines.get(name, {}))}
    return Origin(
        tool=NAME,
        commit=doc["commit_hash"],
        committed_at=parse_time(doc.get("date")),
        machine=_machine(described, name or folder),
        environment=_environment(doc, params),
        label=text_of(doc.get("env_name")),
        raw=json.dumps({k: doc[k] for k in _HEAD if k in doc}, sort_keys=True),
    )


def _machine(params: Mapping[str, Any], name: str) -> Machine:
    cpus = text_of(params.get("num_cpu"))
    ram = text_of(params.get("ram"))
    return Machine(
        name=name,
        identity=True,
        cpu_model=text_of(params.get("cpu")),
        cpu_count=int(cpus) if cpus.isascii() and cpus.isdigit() and len(cpus) < 7 else 0,
        # asv writes /proc/meminfo's kibibytes; people write "7GB" by hand, which stays a fact
        memory_bytes=int(ram) * 1024 if ram.isascii() and ram.isdigit() and len(ram) < 16 else 0,
        facts=tuple((k, text_of(params.get(k))) for k in ("arch", "os", "ram", "num_cpu") if k in params),
    )


def _environment(doc: Mapping[str, Any], params: Mapping[str, Any]) -> tuple[Fact, ...]:
    facts = [Fact("node", "os", text_of(params.get("os")), tracked=False)] if "os" in params else []
    python = text_of(doc.get("python") or params.get("python"))
    if python:
        facts.append(Fact("stack", "python", python))
    requirements = dict_of(doc.get("requirements"))
    facts += [Fact("stack", f"requirement {k}", text_of(requirements[k])) for k in sorted(requirements)]
    env_vars = dict_of(doc.get("env_vars"))
    facts += [Fact("stack", f"variable {k}", text_of(env_vars[k])) for k in sorted(env_vars)]
    extra = sorted(set(params) - _FACT_KEYS - set(requirements))
    facts += [Fact("stack", f"asv {k}", text_of(params[k])) for k in extra]
    if doc.get("env_name"):
        facts.append(Fact("stack", "asv env_name", text_of(doc["env_name"])))
    return tuple(facts)


def _parse_v2(
    document: Document, results: Mapping[str, Any], columns: Sequence[str], origin: Origin, tree: Tree, *, marked: bool
) -> Iterator[Item]:
    for name, row in results.items():
        if not isinstance(row, list):
            yield Skipped("its entry is no list", document.where(pointer=name))
            continue
        entry = dict(zip(columns, row, strict=False))
        statistics = {key: col for key, name_ in _STATISTICS_V2 if (col := entry.get(name_)) is not None}
        yield from _entry(document, name, entry, statistics, origin, tree, marked=marked)


def _parse_v1(
    document: Document, doc: Mapping[str, Any], results: Mapping[str, Any], origin: Origin, tree: Tree
) -> Iterator[Item]:
    versions, started, duration = (dict_of(doc.get(k)) for k in ("benchmark_version", "started_at", "duration"))
    for name, value in results.items():
        entry = dict(value) if isinstance(value, dict) else {"result": value}
        result, stats = entry.get("result"), entry.get("stats")
        if not isinstance(result, list):
            entry["result"] = None if result is None and not isinstance(value, dict) else [result]
        if stats is not None and not isinstance(stats, list):
            stats = [stats]
        entry |= {"version": versions.get(name), "started_at": started.get(name), "duration": duration.get(name)}
        yield from _entry(document, name, entry, _statistics_v1(stats), origin, tree)


def _statistics_v1(stats: list[Any] | None) -> dict[str, list[float | None]]:
    if not stats:
        return {}
    columns: dict[str, list[float | None]] = {}
    for key in _COLUMNS_V1:
        column: list[float | None] = []
        for entry in stats:
            one = dict_of(entry)
            low_high = list_of(one.get("ci_99"))
            value = (low_high[key == "ci_99_b"] if len(low_high) == 2 else None) if key[:2] == "ci" else one.get(key)
            column.append(value if isinstance(value, int | float) else None)
        if any(v is not None for v in column):
            columns[key] = column
    return columns


def _entry(
    document: Document, name: str, entry: Mapping[str, Any], statistics: Mapping[str, Any], origin: Origin, tree: Tree,
    *, marked: bool = False,
) -> Iterator[Item]:  # fmt: skip
    described = tree.benchmarks.get(name, {})
    metric = tree.metrics.get(name) or tree.metrics.setdefault(name, metric_for(name, described))
    version = entry.get("version")
    if not isinstance(version, str) or not version:
        version = text_of(described.get("version")) or "1"
    result = entry.get("result")
    if result is None:
        where = document.where(pointer=name)
        yield Record(origin, name, metric, where, version=version[:200], outcome="failed", reason="failed as a whole")
        return
    params = entry.get("params") or []
    axes = _axes(name, params, described, tree)
    if not isinstance(result, list) or axes is None or len(result) > MAX_POINTS:
        yield Skipped("its result is no list, or its parameters are no lists of text", document.where(pointer=name))
        return
    # Checked by the set of types: histories have millions of values, and this runs at the speed of C.
    values = result if set(map(type, result)) <= _NUMBER_OR_NONE else [None if v is None else _value(v) for v in result]
    size = math.prod([len(a) for _, a in axes])
    if len(values) != size:
        if not any(v is not None for v in values):
            where = document.where(pointer=name)
            yield Record(
                origin, name, metric, where, version=version[:200], outcome="failed", reason="failed as a whole"
            )
            return
        if size != 1 or len(values) < 1:
            yield Skipped(f"has {len(values)} values for {size} points of its parameters", document.where(pointer=name))
            return
        yield Skipped(f"{len(values) - 1} values beyond the first have no parameters", document.where(pointer=name))
        values = values[:1]
    columns: dict[str, list[float | None]] = {}
    for key, given in statistics.items():
        if (column := _column(given, len(values), marked=marked)) is not None:
            columns[key] = column
    started = entry.get("started_at")
    duration = entry.get("duration")
    yield Grid(
        origin=origin,
        benchmark=name,
        metric=metric,
        where=document.where(pointer=name),
        axes=axes,
        values=values,
        version=version[:200],
        axis_reprs=tuple(tuple(a) for a in params),
        columns=columns,
        samples=_samples(entry.get("samples"), len(values)),
        started_at=parse_time(started) if isinstance(started, int | float) else None,
        duration_s=float(duration) if isinstance(duration, int | float) and 0 <= duration < 1e9 else 0.0,
    )


def _value(value: object) -> float | None:
    """A number; NaN for what is neither a number nor null (asv's own "not available")."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return math.nan
    return math.nan


def _column(column: object, length: int, *, marked: bool = False) -> list[float | None] | None:
    """A column of statistics; None when it is none. Integers beyond what is written of them are unknown."""
    if not isinstance(column, list) or len(column) != length:
        return None
    kinds = set(map(type, column))
    if kinds == _FLOATS:
        return column
    if not kinds <= _STATISTIC:
        if not marked or not kinds <= _MARKED:
            return None
        column = [math.nan if v is False else v for v in column]
        kinds = set(map(type, column))
        if not kinds <= _STATISTIC:
            return None
    if int in kinds and not _short_integers(column, kinds):
        return [finite(v) for v in column]
    return column


def _short_integers(column: list[Any], kinds: set[type]) -> bool:
    if kinds == {int}:
        least, most = int(min(column)), int(max(column))
        return least >= -(2**63) and most < 2**63
    return all(v is None or -(2**63) <= v < 2**63 for v in column)


def _samples(samples: object, length: int) -> tuple[Sequence[float] | None, ...]:
    if not isinstance(samples, list) or len(samples) != length:
        return ()
    return tuple(_sample(one) for one in samples)


def _sample(one: object) -> tuple[float, ...] | None:
    """The raw values of one point; None when one of them is no finite number."""
    if not isinstance(one, list) or not one:
        return None
    values = [finite(v) for v in one]
    kept = [v for v in values if v is not None]
    return tuple(kept) if len(kept) == len(values) else None


def _axes(
    name: str, params: list[list[str]], described: Mapping[str, Any], tree: Tree
) -> tuple[tuple[str, tuple[Scalar, ...]], ...] | None:
    """Names and values of the parameters; None when they are no lists of text."""
    if not params:
        return ()
    try:
        key = (name, "\0".join(map("\1".join, params)))
    except TypeError:
        return None
    known = tree.axes.get(key)
    if known is None:
        if not all(isinstance(a, list) for a in params) or len(params) > MAX_AXES:
            return None
        names = [str(n) for n in list_of(described.get("param_names"))]
        if len(names) != len(params) or len(set(names)) != len(names):
            names = [f"param{i + 1}" for i in range(len(params))]
        known = tuple((n, tuple(param_value(v) for v in a)) for n, a in zip(names, params, strict=True))
        if any(len({(type(v), v) for v in a}) != len(a) for _, a in known):
            known = tuple((n, tuple(a)) for n, a in zip(names, params, strict=True))
        tree.axes[key] = known
    return known


def param_value(text: str) -> Scalar:
    """The value whose Python repr ``text`` is, when it is plain text, a number or a truth value; else the text."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
    return value if isinstance(value, bool | int | float | str) and repr(value) == text else text


def metric_for(name: str, described: Mapping[str, Any]) -> Metric:
    """The metric of a benchmark: as described, else as the prefix of its name says (asv's own rule)."""
    kind, unit = "track", "unit"
    for prefix, guess in _BY_PREFIX.items():
        if name.rpartition(".")[2].startswith(prefix):
            kind, unit = guess
    kind = text_of(described.get("type")) or kind
    unit = text_of(described.get("unit")) or unit
    if kind == "time":
        return Metric("time", "s", -1, "time", "wall")
    if kind in {"memory", "peakmemory"}:
        return Metric("memory" if kind == "memory" else "peak_memory", "B", -1, "bytes")
    known = parse_unit(unit)
    if known.factor != 1.0:
        # The number stays as the benchmark returned it, so that asv's own graphs and ours show the same.
        return Metric("track", unit[:40], known.direction, known.kind)
    return metric_of("track", known, direction=known.direction or -1)
