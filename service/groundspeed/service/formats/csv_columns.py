"""What the columns of a table are: by a mapping that people give, or by columns whose names are known."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from groundspeed.service.formats.records import Direction

DIRECTIONS: dict[str, Direction] = {"lower": -1, "higher": 1, "neutral": 0}


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
    delimiter: str = ""
    """Empty: the one of ``, ; tab |`` that cuts the header into columns."""
    decimal: str = ""
    """Empty: a comma where semicolons are between the cells, as spreadsheets write it; else a point."""
    zeros_fail: bool = False
    """Whether a row with 0 in every column of a metric is of a failure."""


MAPPING_HELP = (
    "benchmark=COLUMN[+COLUMN], metric=COLUMN[:UNIT[:lower|higher]] (once for each), "
    "value=COLUMN, name=COLUMN, unit=COLUMN, "
    "param=COLUMN, commit=COLUMN, time=COLUMN, machine=COLUMN, environment=COLUMN, outcome=COLUMN, constant=NAME, "
    "delimiter=CHARACTER (or tab), decimal=comma|point"
)


def parse_mapping(entries: Iterable[str]) -> ColumnMap:
    """A mapping from ``role=column`` entries. Raises ``ValueError`` with what is allowed."""
    single: dict[str, str] = {}
    metrics: list[ColumnMetric] = []
    lists: dict[str, list[str]] = {"param": [], "environment": []}
    for entry in entries:
        role, equals, text = entry.partition("=")
        role, text = role.strip(), text.strip() or text[:1]
        if not equals or not text:
            raise ValueError(f'"{entry}" is no role=column. Allowed: {MAPPING_HELP}.')
        if role == "metric":
            column, _, rest = text.partition(":")
            unit, _, direction = rest.partition(":")
            if direction and direction not in DIRECTIONS:
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
        elif role in {"delimiter", "decimal"}:
            single[role] = _mark(role, text)
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
        delimiter=single.get("delimiter", ""), decimal=single.get("decimal", ""),
    )  # fmt: skip


def _mark(role: str, text: str) -> str:
    if role == "decimal":
        if text not in _DECIMALS:
            raise ValueError(f'"{text}" is no decimal mark: comma or point.')
        return _DECIMALS[text]
    mark = {"tab": "\t", "\\t": "\t", "space": " "}.get(text, text)
    if len(mark) != 1:
        raise ValueError(f'"{text}" is no delimiter: one character, or tab.')
    return mark


_DECIMALS = {"comma": ",", ",": ",", "point": ".", ".": "."}
SEPARATOR = re.compile(r"sep=(.)", re.IGNORECASE)
"""What spreadsheets write before a header, to say what is between the cells."""


def delimiter_of(line: str) -> str:
    """What cuts a header into the most columns; a comma when others do as well."""
    return max(",;\t|", key=lambda mark: len(next(csv.reader([line], delimiter=mark), [])))


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
            zeros_fail={"speedup", "abs_latency"} <= set(low),
        )
    if {"command", "mean", "stddev"} <= set(low):  # hyperfine --export-csv
        params = tuple(c for key, c in low.items() if key.startswith("parameter_"))
        return ColumnMap(
            benchmark=(low["command"],),
            metrics=(ColumnMetric(low.get("median", low["mean"]), "s", "lower"),),
            params=params,
        )
    return _guess_python_and_cpp(low) or _guess_by_name(low)


def _guess_python_and_cpp(low: Mapping[str, str]) -> ColumnMap | None:
    """The CSV of pytest-benchmark and of Google Benchmark."""
    if {"name", "median", "iqr", "rounds"} <= set(low):  # pytest-benchmark's --benchmark-csv, in seconds
        params = tuple(c for key, c in low.items() if key.startswith(("param:", "param_")))
        return ColumnMap(benchmark=(low["name"],), metrics=(ColumnMetric(low["median"], "s", "lower"),), params=params)
    if {"name", "real_time", "cpu_time", "time_unit"} <= set(low):  # Google Benchmark's CSV
        times = tuple(ColumnMetric(low[c]) for c in ("real_time", "cpu_time"))
        return ColumnMap(benchmark=(low["name"],), metrics=times, unit=low["time_unit"])
    return None


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


def used_by(mapping: ColumnMap) -> Iterator[str]:
    """The columns that a mapping names."""
    several = (*mapping.benchmark, *(m.column for m in mapping.metrics), *mapping.params, *mapping.environment)
    single = (
        mapping.value,
        mapping.metric,
        mapping.unit,
        mapping.commit,
        mapping.time,
        mapping.machine,
        mapping.outcome,
    )
    yield from filter(None, (*several, *single))
