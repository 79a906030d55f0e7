"""Output of nccl-tests and rccl-tests: one table or several, of any version. Columns are found by the header."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from groundspeed.plugins.programs.values import Reading, number
from groundspeed.plugins.spi import ParamValue

_LAUNCHER = re.compile(r"^(?:\[\d+,\d+\]<\w+>:\s?|\s*\d+:\s(?=[#\s]))")
"""What `mpirun --tag-output` and `srun --label` put before a line."""
_HEADER = re.compile(r"^#?\s*size\s+count\s+type\b")
_STARTING = re.compile(r"Collective test starting: (\S+)")
_RANK = re.compile(r"^#?\s*Rank\s+\d+\s.*\bPid\s+\d+ on\s")
_OUT_OF_BOUNDS = re.compile(r"^#?\s*Out of bounds values\s*:\s*(\d+)\s*(\S*)")
_AVERAGE = re.compile(r"^#?\s*Avg bus bandwidth\s*:\s*(\S+)")
_TROUBLE = re.compile(
    r"Test (?:NCCL|CUDA) failure|Test failure|unhandled \w+ error|launch failed|start failed|NCCL WARN .*error",
    re.IGNORECASE,
)
_SIDE = {"time", "cputime", "algbw", "busbw", "#wrong", "error"}


@dataclass(slots=True)
class _Table:
    collective: str = ""
    columns: list[str] = field(default_factory=list)
    ranks: int = 0
    rows: int = 0
    closed: bool = True
    trouble: str = ""
    wrong: list[str] = field(default_factory=list)


def looks_like(text: str) -> bool:
    return (
        '"nccl_version"' in text
        or "Collective test starting:" in text
        or "nccl-tests version" in text
        or "rccl-tests version" in text
        or "Avg bus bandwidth" in text
        or ("busbw" in text and re.search(r"^#?\s*size\s+count\s+type\b", text, re.MULTILINE) is not None)
    )


def parse(text: str) -> Reading:
    """Times, bandwidths and the average; wrong values and a table without end make the reading wrong or failed."""
    if '"nccl_version"' in text:
        return _json(text)
    reading, table = Reading(), _Table()
    for raw in text.splitlines():
        line = _LAUNCHER.sub("", raw[:2000], count=1)
        if _TROUBLE.search(line) and not table.trouble:
            table.trouble = line.strip()[:300]
        words = line.split()
        if words and words[0].isdigit():
            if not table.columns and (columns := _guess(words)):
                table.columns, table.closed = columns, False
            if table.columns:
                _row(reading, table, words)
        else:
            _comment(reading, table, line)
    _close(reading, table)
    if table.wrong:
        reading.wrong = "; ".join(table.wrong[:5])
    if not reading.values and not reading.failed:
        reading.failed = table.trouble or "no table of nccl-tests"
    return reading


def _json(text: str) -> Reading:
    """The file that ``-J`` writes: "results" with "out_of_place" and "in_place", times in µs, bandwidths in GB/s."""
    reading = Reading()
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        reading.failed = "the JSON of nccl-tests cannot be read: it was cut off"
        return reading
    config = document.get("config")
    devices = config.get("devices") if isinstance(config, dict) else None
    common: dict[str, ParamValue] = {"ranks": len(devices)} if isinstance(devices, list) and devices else {}
    rows = [row for row in document.get("results") or () if isinstance(row, dict)]
    wrong = [words for row in rows for words in _json_row(reading, row, common)]
    out_of_bounds, average = document.get("out_of_bounds"), document.get("average_bus_bandwidth")
    count = number(str(out_of_bounds.get("count"))) if isinstance(out_of_bounds, dict) else None
    if count:
        wrong.append(f"{count:g} values out of bounds")
    reading.wrong = "; ".join(wrong[:5])
    if isinstance(average, dict):
        reading.add("average_bus_bandwidth", _scaled(str(average.get("bandwidth")), 1e9), **common)
    else:
        reading.failed = "; ".join(map(str, document.get("errors") or ())) or "the output ends before the average"
    return reading


def _json_row(reading: Reading, row: Mapping[str, Any], common: Mapping[str, ParamValue]) -> Iterator[str]:
    """Adds one size; yields what is wrong with it."""
    size = number(str(row.get("size")))
    if size is None:
        return
    name = str(row.get("experiment_name") or "").removesuffix("_perf")[:60]
    where: dict[str, ParamValue] = {**common, "bytes": int(size), "type": str(row.get("type", ""))[:20]}
    if name:
        where["collective"] = name
    for side in ("out_of_place", "in_place"):
        cells = row.get(side)
        if not isinstance(cells, dict):
            continue
        place = side.replace("_", "-")
        reading.add(
            "collective_time", _scaled(str(cells.get("time", cells.get("cpu_time"))), 1e-6), place=place, **where
        )
        reading.add("algorithm_bandwidth", _scaled(str(cells.get("alg_bw")), 1e9), place=place, **where)
        reading.add("bus_bandwidth", _scaled(str(cells.get("bus_bw")), 1e9), place=place, **where)
        count = number(str(cells.get("nwrong")))
        if count:
            yield f"{name or 'nccl-tests'} of {int(size)} bytes {place}: {count:g} wrong elements"


def _guess(words: list[str]) -> list[str]:
    """The columns of a row whose header was lost, by their number; empty for what is no row."""
    heads = {13: ["size", "count", "type", "redop", "root"], 12: ["size", "count", "type", "redop"],
             11: ["size", "count", "type"]}  # fmt: skip
    if len(words) not in heads or not words[1].isdigit() or words[2].isdigit() or not words[2].isalnum():
        return []
    side = ["time", "algbw", "busbw", "#wrong"]
    return [*heads[len(words)], *side, *side]


def _comment(reading: Reading, table: _Table, line: str) -> None:
    if match := _STARTING.search(line):
        _close(reading, table)
        table.collective, table.columns, table.ranks, table.closed = match[1].removesuffix("_perf"), [], 0, False
    elif _RANK.match(line):
        table.ranks = 1 if table.columns else table.ranks + 1
        if table.columns:
            table.columns = []
        table.closed = False
    elif _HEADER.match(line):
        table.columns, table.closed = line.lstrip("# ").split(), False
    elif match := _OUT_OF_BOUNDS.match(line):
        if match[2] != "OK" and int(match[1][:15]):
            table.wrong.append(f"{table.collective or 'nccl-tests'}: {match[1]} values out of bounds")
    elif match := _AVERAGE.match(line):
        reading.add("average_bus_bandwidth", _scaled(match[1], 1e9), **_common(table))
        table.closed, table.columns = True, []


def _close(reading: Reading, table: _Table) -> None:
    """A table that ends without its average: the program died in it."""
    if not table.closed:
        name = table.collective or "nccl-tests"
        reading.failed = f"{name}: the output ends before the table does" + (
            f": {table.trouble}" if table.trouble else ""
        )
        table.closed = True


def _row(reading: Reading, table: _Table, words: list[str]) -> None:
    columns = [column for column in table.columns if column != "timestamp"]
    shape = [column for column in columns if column not in _SIDE and not column.startswith("i_")]
    sides = columns[len(shape) :]
    extra = len(words) - len(columns)
    if extra < 0:
        # redop and root are blank for collectives without them
        shape = [column for column in shape if column not in {"redop", "root"}]
        extra = len(words) - len(shape) - len(sides)
    if extra < 0 or not sides:
        return
    cells = dict(zip(shape, words, strict=False))
    size = number(cells.get("size"))
    if size is None:
        return
    half = len(sides) // 2 if sides.count("busbw") == 2 else len(sides)
    where: dict[str, ParamValue] = {**_common(table), "bytes": int(size), "type": cells.get("type", "")}
    for name, start in (("out-of-place", 0), ("in-place", half)):
        part = sides[start : start + half]
        values = dict(zip(part, words[len(shape) + start : len(shape) + start + half], strict=False))
        if not values:
            continue
        reading.add("collective_time", _scaled(values.get("time") or values.get("cputime"), 1e-6), place=name, **where)
        reading.add("algorithm_bandwidth", _scaled(values.get("algbw"), 1e9), place=name, **where)
        reading.add("bus_bandwidth", _scaled(values.get("busbw"), 1e9), place=name, **where)
        wrong = number(values.get("#wrong"))
        if wrong:
            table.wrong.append(
                f"{table.collective or 'nccl-tests'} of {int(size)} bytes {name}: {wrong:g} wrong elements"
            )


def _scaled(text: str | None, factor: float) -> float | None:
    value = number(text)
    return None if value is None else value * factor


def _common(table: _Table) -> dict[str, ParamValue]:
    found: dict[str, ParamValue] = {}
    if table.collective:
        found["collective"] = table.collective
    if table.ranks:
        found["ranks"] = table.ranks
    return found
