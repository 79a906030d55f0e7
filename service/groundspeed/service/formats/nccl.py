"""nccl-tests (and rccl-tests) text output: one table or several in a file, single node or many, any column set.

The columns are found in the header line that starts with "size", because they differ between versions and collectives
(``redop``, ``root``, ``error`` or ``#wrong``, ``cputime``, per-iteration columns, a timestamp).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from groundspeed.service.formats.records import (
    Fact,
    Item,
    Machine,
    Metric,
    Origin,
    Outcome,
    Record,
    Scalar,
    Skipped,
    Where,
    number_of,
)
from groundspeed.service.formats.source import Document

NAME = "nccl-tests"
MAX_HELD = 30_000
TIME = Metric("time", "s", -1, "time", "device")
ALGBW = Metric("algbw", "B/s", 1, "rate", "device", gate=False)
BUSBW = Metric("busbw", "B/s", 1, "rate", "device", gate=False)
AVERAGE = Metric("average_busbw", "B/s", 1, "rate", "device")
_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "alltoallv", "alltoall", "broadcast", "reduce",
"sendrecv",
                "scatter", "gather", "hypercube", "bisection")  # fmt: skip
_RANK = re.compile(r"^#?\s*Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+ on\s+(\S+) device\s+\d+ \[\S+\]\s+(.+?)\s*$")
_VERSION = re.compile(r"(nccl|rccl)-tests version (\S+)(?:.*?library[=:]\s*(\S+))?")
_STARTING = re.compile(r"Collective test starting: (\S+)")
_CONCLUDED = re.compile(r"Collective test concluded: (\S+)")
_OPTIONS = re.compile(r"^#?\s*nThread (\d+) nGpus (\d+) minBytes")
_OUT_OF_BOUNDS = re.compile(r"^#?\s*Out of bounds values\s*:\s*(\d+)\s*(\S*)")
_AVERAGE = re.compile(r"^#?\s*Avg bus bandwidth\s*:\s*(\S+)")
_PLACES = re.compile(r"^#?\s*(out-of-place|in-place)\s*$")
"""The line over a table that has one side only."""
_HEADER = re.compile(r"^#?\s*size\s+count\s+type\b")
_ERROR = re.compile(
    r"(Test (?:NCCL|CUDA) failure|Test failure|unhandled \w+ error|launch failed|start failed|NCCL WARN .*error)",
    re.IGNORECASE,
)
_FIRST_DIGIT = re.compile(r"^\s*\d")
_LAUNCHER = re.compile(
    r"^(?:\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)\s)?(?:\[(?:[^\s\]@]+@)?\d+,\d+\]<\w+>:\s?|\s*\d+:\s(?=[#\s]))?"
)
"""What mpirun --tag-output (of Open MPI 4 and 5), srun --label and the logs of a container put before a line."""
_PER_SIDE = {"time", "cputime", "algbw", "busbw", "#wrong", "error", "i_min", "i_max", "i_p99", "i_cv%"}


@dataclass(slots=True)
class _Table:
    """What has been seen of the table that is being read."""

    collective: str = ""
    columns: list[str] = field(default_factory=list)
    start: int = 0
    held: list[Item] = field(default_factory=list)
    """Rows wait for the end of their table, because only that tells whether the old column "error" means wrong."""
    wrong: int = 0
    ranks: int = 0
    hosts: dict[str, int] = field(default_factory=dict)
    models: dict[str, int] = field(default_factory=dict)
    version: str = ""
    library: str = ""
    options: str = ""
    place: str = "out-of-place"
    threads: int = 1
    gpus: int = 1
    closed: bool = True
    origin: Origin | None = None


def sniff(head: str) -> bool:
    if "nccl-tests version" in head or "rccl-tests version" in head or "Collective test starting:" in head:
        return True
    return bool(
        (re.search(r"\bsize[ \t]+count\b", head) and "busbw" in head)
        or "Avg bus bandwidth" in head
        or re.search(r"^#[ \t]+\(B\)[ \t]+\(elements\)|# nThread \d+ nGpus \d+ minBytes \d", head, re.MULTILINE)
    )


def parse(document: Document) -> Iterator[Item]:
    table, found, error = _Table(collective=_from_name(document.path.name)), False, (0, "")
    number = 0
    for number, raw in document.lines():
        line = _LAUNCHER.sub("", raw, count=1)
        if _ERROR.search(line):
            error = (number, line.strip()[:300]) if not error[0] else error
        if _FIRST_DIGIT.match(line) and (items := _row(document, table, line, number)):
            found = True
            table.held += items
            if len(table.held) > MAX_HELD:
                yield from _release(table)
            continue
        before = table.closed, table.columns
        yield from _comment(document, table, line, number)
        if before != (table.closed, table.columns):
            found = True
    found = found or bool(table.held)
    yield from _release(table)
    if not table.closed:
        found = True
        where = document.where(error[0] or number)
        reason = error[1] or "the output ends before the table does"
        yield Record(
            _origin(table),
            table.collective or "nccl-tests",
            AVERAGE,
            where,
            params=_common(table),
            outcome="crashed",
            reason=reason,
        )
    if not found:
        document.refuse(
            f'has no table of nccl-tests: "{error[1]}".' if error[0] else "has no table of nccl-tests.", error[0] or 1
        )


def _comment(document: Document, table: _Table, line: str, number: int) -> Iterator[Item]:  # noqa: C901 - one branch for each line that the tool prints
    if match := _VERSION.search(line):
        yield from _cut(document, table, number)
        table.version, table.library = match[2], match[3] or ""
    elif match := _STARTING.search(line):
        yield from _cut(document, table, number)
        _begin(table, match[1].removesuffix("_perf"))
    elif match := _OPTIONS.match(line):
        if table.closed or table.columns:
            yield from _cut(document, table, number)
            _begin(table, table.collective)
        table.threads, table.gpus = int(match[1][:6]), int(match[2][:6])
        table.options = line.lstrip("# ").strip()
    elif match := _RANK.match(line):
        if table.columns:
            yield from _cut(document, table, number)
            _begin(table, table.collective)
        table.ranks += 1
        table.closed = False
        if len(table.hosts) < 100_000:
            table.hosts[match[2]] = table.hosts.get(match[2], 0) + 1
        table.models[match[3]] = table.models.get(match[3], 0) + 1
    elif match := _PLACES.match(line):
        table.place = match[1]
    elif _HEADER.match(line):
        table.columns, table.closed, table.start = line.lstrip("# ").split(), False, number
    elif match := _OUT_OF_BOUNDS.match(line):
        table.wrong = int(match[1][:15]) if match[2] != "OK" else 0
    elif match := _AVERAGE.match(line):
        yield from _release(table)
        yield _average(document.where(number), table, match[1])
    elif (match := _CONCLUDED.search(line)) and not table.collective:
        table.collective = match[1].removesuffix("_perf")


def _cut(document: Document, table: _Table, number: int) -> Iterator[Item]:
    """A new table begins: the one before must have been closed by its average."""
    yield from _release(table)
    if not table.closed:
        reason = "another table begins before this one has ended"
        yield Record(
            _origin(table),
            table.collective or "nccl-tests",
            AVERAGE,
            document.where(number),
            params=_common(table),
            outcome="crashed",
            reason=reason,
        )
        table.closed = True


def _begin(table: _Table, collective: str) -> None:
    version, library = table.version, table.library
    table.collective, table.columns, table.start, table.wrong, table.ranks = collective, [], 0, 0, 0
    table.hosts, table.models, table.closed, table.origin, table.options = {}, {}, False, None, ""
    table.version, table.library = version, library


def _release(table: _Table) -> Iterator[Item]:
    held, table.held = table.held, []
    for item in held:
        if isinstance(item, Record) and table.wrong and item.summary.get("error"):
            yield replace(item, outcome="wrong", reason=f"largest error {item.summary['error']:g}, called FAILED")
        else:
            yield item


def _average(where: Where, table: _Table, text: str) -> Item:
    value = number_of(text)
    table.closed = True
    if value is None:
        return Skipped(f'average bus bandwidth "{text[:40]}" is no number', where)
    outcome: Outcome = "wrong" if table.wrong else "ok"
    reason = f"{table.wrong} values out of bounds" if table.wrong else ""
    return Record(
        _origin(table), table.collective or "nccl-tests", AVERAGE, where, value * 1e9, _common(table),
        outcome=outcome, reason=reason,
    )  # fmt: skip


def _row(document: Document, table: _Table, line: str, number: int) -> list[Item]:
    words = line.split()
    columns = table.columns or _guess(words)
    if not columns or len(words) < 7:
        return []
    stamp = " ".join(words[-2:]) if columns[-1] == "timestamp" else ""
    if stamp:
        words, columns = words[:-2], columns[:-1]
    shape = [c for c in columns if c not in _PER_SIDE]
    sides = columns[len(shape) :]
    if len(words) != len(columns):
        # redop is blank for collectives without one
        shape = [c for c in shape if c not in {"redop", "root"}] if len(words) < len(columns) else shape
        if len(words) != len(shape) + len(sides):
            return [Skipped(f"has {len(words)} columns where the header has {len(columns)}", document.where(number))]
    table.closed = False
    params = _common(table) | _shape(dict(zip(shape, words, strict=False)))
    half = len(sides) // 2
    both = half > 0 and sides[:half] == sides[half:]
    places = [("out-of-place", 0), ("in-place", half)] if both else [(table.place, 0)]
    half = half if both else len(sides)
    items: list[Item] = []
    for side, offset in places:
        cells = dict(
            zip(sides[offset : offset + half], words[len(shape) + offset : len(shape) + offset + half], strict=False)
        )
        items += _cells(document.where(number), table, params | {"place": side}, cells)
    return items


def _guess(words: list[str]) -> list[str]:
    """The columns of a row whose header was lost, by their number."""
    side = ["time", "algbw", "busbw", "#wrong"]
    head = {
        13: ["size", "count", "type", "redop", "root"],
        12: ["size", "count", "type", "redop"],
        11: ["size", "count", "type"],
    }
    if (
        len(words) in head
        and words[0].isdigit()
        and words[1].isdigit()
        and words[2].isalnum()
        and not words[2].isdigit()
    ):
        return head[len(words)] + side + side
    return []


def _shape(cells: dict[str, str]) -> dict[str, Scalar]:
    params: dict[str, Scalar] = {}
    for name in ("size", "type", "redop", "root"):
        text = cells.get(name, "")
        if text.isascii() and text.lstrip("-").isdigit() and len(text) < 19:
            params[name] = int(text)
        elif text and text != "none":
            params[name] = text
    return params


def _cells(where: Where, table: _Table, params: dict[str, Scalar], cells: dict[str, str]) -> Iterator[Item]:
    time = number_of(cells.get("time") or cells.get("cputime") or "")
    if time is None:
        text = cells.get("time") or cells.get("cputime") or ""
        if text != "N/A":
            yield Skipped(f'time "{text[:40]}" is no number', where)
        return
    wrong = number_of(cells.get("#wrong") or cells.get("error") or "")
    # "error" was the largest difference and "#wrong" counts elements. Zero is right for both; by the old column alone a
    # small difference cannot be told from a large one, so that there only what the program calls FAILED is wrong.
    bad = bool(wrong) and "#wrong" in cells
    bandwidths = ((ALGBW, cells.get("algbw")), (BUSBW, cells.get("busbw")))
    for metric, value in (
        (TIME, time * 1e-6),
        *((m, v * 1e9) for m, text in bandwidths if (v := number_of(text or "")) is not None),
    ):
        yield Record(
            _origin(table), table.collective or "nccl-tests", metric, where, value, params,
            outcome="wrong" if bad else "ok", reason=f"{wrong:g} wrong elements" if bad else "",
            summary={"error": wrong} if wrong and not bad else {},
        )  # fmt: skip


def _common(table: _Table) -> dict[str, Scalar]:
    params: dict[str, Scalar] = {}
    if table.ranks:
        params |= {
            # a line for each rank, whatever process and thread has it; one line alone may stand for a process
            "ranks": table.ranks if table.ranks > 1 else table.threads * table.gpus,
            "nodes": len(table.hosts),
        }
    return params


def _origin(table: _Table) -> Origin:
    if table.origin is None:
        models = sorted(table.models, key=lambda m: -table.models[m])
        hosts = sorted(table.hosts)
        facts = [Fact("stack", "nccl", table.library)] if table.library else []
        if table.options:
            facts.append(Fact("build", "nccl-tests options", table.options[:200], tracked=False))
        if hosts:
            facts.append(Fact("node", "hosts", ", ".join(hosts)[:200], tracked=False))
        per_host = max(table.hosts.values(), default=0)
        table.origin = Origin(
            tool=NAME,
            tool_version=table.version,
            machine=Machine(
                name=hosts[0] if len(hosts) == 1 else "",
                gpu_model=" + ".join(models[:3]),
                gpu_count=table.ranks,
                topology=f"{len(hosts)} nodes x {per_host}" if hosts else "",
            ),
            environment=tuple(facts),
        )
    return table.origin


def _from_name(name: str) -> str:
    plain = name.lower().replace("-", "_")
    for collective in _COLLECTIVES:
        if collective in plain or collective.replace("_", "") in plain:
            return collective
    return ""
