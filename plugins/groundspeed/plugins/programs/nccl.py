"""Output of nccl-tests and rccl-tests: one table or several, of any version. Columns are found by the header."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from groundspeed.plugins.programs.values import Reading, number
from groundspeed.plugins.spi import ParamValue

_LAUNCHER = re.compile(r"^(?:\[\d+,\d+\]<\w+>:\s?|\s*\d+:\s(?=[#\s]))")
"""What `mpirun --tag-output` and `srun --label` put before a line."""
_HEADER = re.compile(r"^#?\s*size\s+count\s+type\b")
_STARTING = re.compile(r"Collective test starting: (\S+)")
_RANK = re.compile(r"^#?\s*Rank\s+\d+\s.*\bPid\s+\d+ on\s")
_OPTIONS = re.compile(r"^#?\s*nThread (\d+) nGpus (\d+) minBytes")
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
        "Collective test starting:" in text
        or "nccl-tests version" in text
        or "rccl-tests version" in text
        or "Avg bus bandwidth" in text
        or ("busbw" in text and re.search(r"^#?\s*size\s+count\s+type\b", text, re.MULTILINE) is not None)
    )


def parse(text: str) -> Reading:
    """Times, bandwidths and the average; wrong values and a table without end make the reading wrong or failed."""
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
