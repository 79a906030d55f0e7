"""CSV: with a mapping that says what the columns are, or by columns whose names are known."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from groundspeed.service.formats.records import (
    Clock,
    Direction,
    Fact,
    Item,
    Machine,
    Metric,
    Origin,
    Record,
    Refused,
    Scalar,
    Skipped,
    Where,
    number_of,
)
from groundspeed.service.formats.source import Document
from groundspeed.service.formats.times import parse_time
from groundspeed.service.formats.units import metric as metric_of
from groundspeed.service.formats.units import parse_unit

NAME = "csv"
MAX_COLUMNS = 2000
_DIRECTIONS: dict[str, Direction] = {"lower": -1, "higher": 1, "neutral": 0}


@dataclass(frozen=True, slots=True)
class ColumnMetric:
    """A column that holds values. ``unit`` and ``direction`` empty: guessed from its name."""

    column: str
    unit: str = ""
    direction: str = ""


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """What the columns of a table are. Wide: ``metrics`` are columns. Long: ``value`` with ``metric`` and ``unit``."""

    benchmark: tuple[str, ...] = ()
    metrics: tuple[ColumnMetric, ...] = ()
    value: str = ""
    metric: str = ""
    unit: str = ""
    params: tuple[str, ...] = ()
    commit: str = ""
    time: str = ""
    machine: str = ""
    environment: tuple[str, ...] = ()
    outcome: str = ""
    comment: str = "#"
    constant: str = ""
    """The benchmark's name when no column has it."""


MAPPING_HELP = (
    "benchmark=COLUMN[+COLUMN], metric=COLUMN[:UNIT[:lower|higher]] (once for each), "
    "value=COLUMN, name=COLUMN, unit=COLUMN, "
    "param=COLUMN, commit=COLUMN, time=COLUMN, machine=COLUMN, environment=COLUMN, outcome=COLUMN, constant=NAME"
)


def parse_mapping(entries: Iterable[str]) -> ColumnMap:
    """A mapping from ``role=column`` entries. Raises ``ValueError`` with what is allowed."""
    single: dict[str, str] = {}
    metrics: list[ColumnMetric] = []
    lists: dict[str, list[str]] = {"param": [], "environment": []}
    for entry in entries:
        role, equals, text = entry.partition("=")
        role, text = role.strip(), text.strip()
        if not equals or not text:
            raise ValueError(f'"{entry}" is no role=column. Allowed: {MAPPING_HELP}.')
        if role == "metric":
            column, _, rest = text.partition(":")
            unit, _, direction = rest.partition(":")
            if direction and direction not in _DIRECTIONS:
                raise ValueError(f'"{direction}" is no direction: lower, higher or neutral.')
            metrics.append(ColumnMetric(column, unit, direction))
        elif role in lists:
            lists[role].append(text)
        elif role in {
            "benchmark",
            "value",
            "name",
            "unit",
            "commit",
            "time",
            "machine",
            "outcome",
            "constant",
            "comment",
        }:
            single[role] = text
        else:
            raise ValueError(f'"{role}" is no role of a column. Allowed: {MAPPING_HELP}.')
    if not metrics and "value" not in single:
        raise ValueError("no column holds values: give metric=COLUMN or value=COLUMN.")
    return ColumnMap(
        benchmark=tuple(single.get("benchmark", "").split("+")) if single.get("benchmark") else (),
        metrics=tuple(metrics), value=single.get("value", ""), metric=single.get("name", ""), unit=single.get("unit",
        ""),
        params=tuple(lists["param"]), commit=single.get("commit", ""), time=single.get("time", ""),
        machine=single.get("machine", ""), environment=tuple(lists["environment"]), outcome=single.get("outcome", ""),
        comment=single.get("comment", "#"), constant=single.get("constant", ""),
    )  # fmt: skip


def sniff(head: str) -> bool:
    first = next((line for line in head.splitlines() if line.strip()), "").lstrip("#")
    columns = [c.strip().strip('"') for c in first.split(",")]
    return len(columns) > 1 and guess(columns) is not None


def guess(columns: list[str]) -> ColumnMap | None:
    """The mapping of a header whose names are known; None when they are not."""
    low = {c.lower(): c for c in columns}
    if {"file", "test", "avg_bus_bw_gbs"} <= set(low):
        return ColumnMap(
            benchmark=(low["test"],),
            metrics=tuple(ColumnMetric(low[c], "GB/s") for c in ("avg_bus_bw_gbs", "peak_busbw_gbs") if c in low),
            params=tuple(low[c] for c in ("n", "g", "nodes", "minbytes", "maxbytes") if c in low),
        )
    torchbench = [c for c in low if c in _TORCHBENCH or c.startswith("perf_speedup_target")]
    if "name" in low and torchbench:
        columns_of = [low[c] for c in ("dev", "batch_size", "data_type", "shape", "wrapper", "mode", "tag") if c in low]
        return ColumnMap(
            benchmark=(low["name"],),
            metrics=tuple(ColumnMetric(low[c], *_TORCHBENCH.get(c, ("x", "higher"))) for c in torchbench),
            params=tuple(columns_of),
        )
    if {"command", "mean", "stddev"} <= set(low):  # hyperfine --export-csv
        params = tuple(c for key, c in low.items() if key.startswith("parameter_"))
        return ColumnMap(
            benchmark=(low["command"],),
            metrics=(ColumnMetric(low.get("median", low["mean"]), "s", "lower"),),
            params=params,
        )
    if {"benchmark", "mode", "score", "unit"} <= set(low):  # jmh -rf csv
        params = (low["mode"], *(c for key, c in low.items() if key.startswith("param: ")))
        return ColumnMap(benchmark=(low["benchmark"],), value=low["score"], unit=low["unit"], params=params)
    if {"name", "real_time", "cpu_time", "time_unit"} <= set(low):  # Google Benchmark's CSV
        times = tuple(ColumnMetric(low[c]) for c in ("real_time", "cpu_time"))
        return ColumnMap(benchmark=(low["name"],), metrics=times, unit=low["time_unit"])
    return _guess_by_name(low)


_TORCHBENCH = {
    "speedup": ("x", "higher"), "abs_latency": ("ms", "lower"), "compilation_latency": ("s", "lower"),
    "compression_ratio": ("x", "higher"), "eager_peak_mem": ("GB", "lower"), "dynamo_peak_mem": ("GB", "lower"),
}  # fmt: skip
_ROLES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("benchmark", ("benchmark", "benchmark_name", "bench", "name", "test", "case")),
    ("value", ("value", "result_value", "result", "median", "mean", "measurement")),
    ("metric", ("metric", "metric_name", "measure")),
    ("unit", ("unit", "units")),
    ("commit", ("commit", "sha", "commit_hash", "commitid", "revision", "git_sha")),
    ("time", ("time", "timestamp", "date", "datetime", "measured_at", "revision_date", "committed_at")),
    ("machine", ("machine", "host", "hostname", "node", "environment")),
    ("outcome", ("outcome", "status")),
)


def _guess_by_name(low: Mapping[str, str]) -> ColumnMap | None:
    found = {role: next((low[name] for name in names if name in low), "") for role, names in _ROLES}
    if not found["benchmark"] or not found["value"]:
        return None
    params = tuple(c for key, c in low.items() if key.startswith(("param.", "param_", "param:")))
    return ColumnMap(
        benchmark=(found["benchmark"],), value=found["value"], metric=found["metric"], unit=found["unit"],
        params=params,
        commit=found["commit"], time=found["time"], machine=found["machine"], outcome=found["outcome"],
    )  # fmt: skip


@dataclass(slots=True)
class _Reader:
    """Lines for the csv module, with the number of the line that it has come to."""

    lines: Iterator[tuple[int, str]]
    number: int = 0

    def __iter__(self) -> Iterator[str]:
        for number, text in self.lines:
            self.number = number
            yield text.replace("\0", "") + "\n"


def parse(document: Document, mapping: ColumnMap | None = None) -> Iterator[Item]:
    """The values of all rows. Raises :class:`Refused` when the columns are not known and no mapping was given."""
    reader = _Reader(document.lines())
    rows = csv.reader(iter(reader))
    columns: list[str] | None = None
    origins: dict[tuple[str, ...], Origin] = {}
    try:
        for row in rows:
            if not any(cell.strip() for cell in row):
                continue
            if columns is None:
                columns = _header(document, row, reader.number)
                mapping = _checked(document, mapping, columns, reader.number)
                continue
            assert mapping is not None
            where = document.where(reader.number)
            if mapping.comment and row[0].lstrip().startswith(mapping.comment):
                yield Skipped(f"is switched off with {mapping.comment}", where)
            elif len(row) != len(columns):
                yield Skipped(f"has {len(row)} cells where the header has {len(columns)}", where)
            else:
                yield from _row(dict(zip(columns, row, strict=True)), mapping, where, origins)
    except csv.Error as error:
        raise Refused(f"is no CSV ({error}).", document.where(reader.number)) from error
    if columns is None:
        document.refuse("is empty.", 1)


def _header(document: Document, row: list[str], number: int) -> list[str]:
    columns = [cell.strip() for cell in row]
    columns[0] = columns[0].lstrip("#").strip()
    if len(columns) > MAX_COLUMNS:
        document.refuse(f"has {len(columns)} columns; {MAX_COLUMNS} are read.", number)
    if len(set(columns)) != len(columns):
        document.refuse("has two columns of one name.", number)
    return columns


def _checked(document: Document, mapping: ColumnMap | None, columns: list[str], number: int) -> ColumnMap:
    known = mapping or guess(columns)
    if known is None:
        advice = f"Give a mapping: {MAPPING_HELP}."
        document.refuse(f"the columns are not known ({', '.join(columns)[:300]}).", number, advice)
    used = [
        *known.benchmark,
        *(m.column for m in known.metrics),
        *known.params,
        *known.environment,
        known.value,
        known.metric,
    ]
    used += [known.unit, known.commit, known.time, known.machine, known.outcome]
    missing = sorted({c for c in used if c and c not in columns})
    if missing:
        document.refuse(f"has no column {', '.join(missing)}.", number, f"Its columns are {', '.join(columns)[:300]}.")
    return known


def _row(
    cells: Mapping[str, str], mapping: ColumnMap, where: Where, origins: dict[tuple[str, ...], Origin]
) -> Iterator[Item]:
    benchmark = "/".join(cells[c].strip() for c in mapping.benchmark) or mapping.constant or "table"
    params = {_param_name(c): _scalar(cells[c].strip()) for c in mapping.params if cells[c].strip()}
    origin = _origin(cells, mapping, origins)
    status = cells[mapping.outcome].strip().lower() if mapping.outcome else "ok"
    if mapping.value:
        name = cells[mapping.metric].strip() if mapping.metric else "value"
        unit = cells[mapping.unit].strip() if mapping.unit else ""
        pairs = [(cells[mapping.value], name, unit, "")]
    else:
        shared = cells[mapping.unit].strip() if mapping.unit else ""
        pairs = [(cells[m.column], m.column, m.unit or shared, m.direction) for m in mapping.metrics]
    for text, name, unit, direction in pairs:
        yield _value(origin, benchmark, params, where, status, (text.strip(), name, unit, direction))


def _value(
    origin: Origin,
    benchmark: str,
    params: dict[str, Scalar],
    where: Where,
    status: str,
    cell: tuple[str, str, str, str],
) -> Item:
    text, name, unit_text, direction = cell
    metric, factor = _metric(name, unit_text, direction)
    value = number_of(text)
    if status not in {"", "ok", "pass", "passed", "success"}:
        return Record(
            origin, benchmark, metric, where, params=params, outcome="failed", reason=f'its row says "{status[:60]}"'
        )
    if text == "":
        return Record(origin, benchmark, metric, where, params=params, outcome="failed", reason=f"{name} is empty")
    if value is None:
        return Skipped(f'{name} "{text[:60]}" is no number', where)
    return Record(origin, benchmark, metric, where, value * factor, params)


_SUFFIX = re.compile(
    r"^(.*?)[_ (\[]+(ns|us|ms|s|sec|seconds|kb|mb|gb|bytes|b|kib|mib|gib|gb/s|gbs|mb/s|mbs|%)[)\]]?$", re.IGNORECASE
)
_GLUED = {"gbs": "GB/s", "mbs": "MB/s"}


def _metric(name: str, unit_text: str, direction: str) -> tuple[Metric, float]:
    if not unit_text and (match := _SUFFIX.match(name)):
        unit_text = _GLUED.get(match[2].lower(), match[2])
    unit = parse_unit(unit_text)
    better = _DIRECTIONS.get(direction)
    clock: Clock = "wall" if unit.kind in {"time", "rate"} else "none"
    return metric_of(
        name, unit, clock=clock, direction=better, gate=(unit.direction if better is None else better) != 0
    ), unit.factor


def _param_name(column: str) -> str:
    return re.sub(r"^(?:param[._:]|parameter_)\s*", "", column, flags=re.IGNORECASE) or column


def _scalar(text: str) -> Scalar:
    return int(text) if re.fullmatch(r"-?(0|[1-9]\d{0,17})", text) else text[:200]


def _origin(cells: Mapping[str, str], mapping: ColumnMap, origins: dict[tuple[str, ...], Origin]) -> Origin:
    used = [mapping.commit, mapping.time, mapping.machine, *mapping.environment]
    key = tuple(cells[c].strip() if c else "" for c in used)
    if key not in origins:
        if len(origins) > 10_000:
            origins.clear()
        commit, moment, machine = key[:3]
        origins[key] = Origin(
            tool=NAME,
            commit=commit.lower() if re.fullmatch(r"[0-9a-fA-F]{7,64}", commit) else commit[:64],
            measured_at=parse_time(number_of(moment) if re.fullmatch(r"\d{9,19}(\.\d+)?", moment) else moment),
            machine=Machine(name=machine, identity=bool(machine)),
            environment=tuple(Fact("stack", c, v) for c, v in zip(mapping.environment, key[3:], strict=True) if v),
        )
    return origins[key]
