"""Which tool wrote this? By content, never by a file's name alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, cast

from groundspeed.service.formats import (
    asv,
    benchmark_dotnet,
    benchmark_tools,
    codespeed,
    conbench,
    console,
    criterion,
    csv_table,
    github_action,
    go_bench,
    google_benchmark,
    hyperfine,
    jmh,
    llm_serving,
    mlperf,
    nccl,
    nccl_json,
    nccl_summary,
    nvbench,
    own,
    pyperf,
    pytest_benchmark,
    pytorch_hud,
    superbench,
    superbench_logs,
    tables_of_tools,
)
from groundspeed.service.formats.csv_columns import ColumnMap
from groundspeed.service.formats.records import Item, Refused, sound
from groundspeed.service.formats.source import HEAD_BYTES, Document


@dataclass(frozen=True, slots=True)
class Format:
    """A tool's format: its name as people give it, whether a text looks like it, and its parser."""

    name: str
    sniff: Callable[[str], bool]
    parse: Callable[[Document], Iterator[Item]]
    description: str


class _Module(Protocol):
    NAME: str
    __doc__: str | None

    def sniff(self, head: str) -> bool: ...

    def parse(self, document: Document) -> Iterator[Item]: ...


# In this order: what is certain by a word of its own first, what only looks like something last.
_MODULES = (
    own, mlperf, nccl_json, nccl_summary, nccl, nvbench, asv, jmh, benchmark_dotnet, benchmark_tools, pytest_benchmark,
    codespeed, github_action, pytorch_hud, pyperf, google_benchmark, tables_of_tools, hyperfine, llm_serving, conbench,
    criterion, console, go_bench, superbench_logs, superbench, csv_table,
)  # fmt: skip


def _format(module: _Module) -> Format:
    description = (module.__doc__ or "").split("\n\n")[0].replace("\n", " ").strip().rstrip(".")
    return Format(module.NAME, module.sniff, module.parse, description)


FORMATS: tuple[Format, ...] = tuple(_format(cast("_Module", module)) for module in _MODULES)
BY_NAME = {entry.name: entry for entry in FORMATS}


_AMONG_TEXT = frozenset({
    mlperf.NAME, nccl.NAME, go_bench.NAME, criterion.NAME, console.NAME, tables_of_tools.NAME, llm_serving.NAME,
    superbench_logs.NAME,
})  # fmt: skip
"""Formats of lines that may stand anywhere in a log: behind thousands of ranks, or what a launcher said first."""
SEARCHED_CHARS = 32 * 1024 * 1024
_OVERLAP_LINES = 20


def detect(document: Document) -> Format:
    """The format of a document. Raises :class:`Refused` when no format knows it, naming what it begins with."""
    head = document.head()
    for entry in FORMATS:
        if entry.sniff(head):
            return entry
    if len(head) >= HEAD_BYTES // 4:
        among = _AMONG_TEXT if not _is_json(head) else BY_NAME.keys()
        for text in _windows(document) if not _is_json(head) else _outlines(document):
            for entry in FORMATS:
                if entry.name in among and entry.sniff(text):
                    return entry
    raise Refused(
        f"no known format ({_beginning(head)}).",
        document.where(1),
        _advice(head) or f"Known are {', '.join(sorted(BY_NAME))}; for a table give --map.",
    )


def is_table(document: Document, mapping: ColumnMap | None, form: str) -> bool:
    """Whether a mapping of columns is about this document: when it has them, and when no other format knows it.

    Files of several tools can so be brought with one mapping. Raises :class:`Refused` when it cannot be unpacked.
    """
    if mapping is None or form not in {"", csv_table.NAME}:
        return False
    if form or csv_table.has(document.head(), mapping):
        return True
    try:
        return detect(document).name == csv_table.NAME
    except Refused:
        return True  # which says what columns it has


def _windows(document: Document) -> Iterator[str]:
    """A long text in pieces of a head's length, each with the last lines of the one before."""
    lines, size, searched = list[str](), 0, 0
    for _, line in document.lines():
        lines.append(line)
        size += len(line) + 1
        if size >= HEAD_BYTES:
            yield "\n".join(lines)
            searched += size
            lines, size = lines[-_OVERLAP_LINES:], 0
            if searched >= SEARCHED_CHARS:
                return
    yield "\n".join(lines)


def _is_json(head: str) -> bool:
    return head.lstrip().startswith(("{", "["))


def _outlines(document: Document) -> Iterator[str]:
    """Of JSON whose telling names come late, those names, with the beginnings of what they name."""
    try:
        yield json.dumps(_outline(document.json(), 8), indent=1)[:HEAD_BYTES]
    except Refused:
        return


def _outline(value: Any, depth: int) -> Any:
    if isinstance(value, dict) and depth:
        return {str(k)[:80]: _outline(v, depth - 1) for k, v in islice(value.items(), 200)}
    if isinstance(value, list) and depth:
        return [_outline(v, depth - 1) for v in value[:2]]
    return value[:80] if isinstance(value, str) else 0 if isinstance(value, int | float | dict | list) else value


def _beginning(head: str) -> str:
    """What a person recognises a file by: its first line, or of JSON its first names."""
    if _is_json(head):
        names = list(dict.fromkeys(re.findall(r'"([^"\\\n]{1,40})"\s*:', head[:4000])))[:6]
        return f"it is JSON with {', '.join(names)}" if names else "it is JSON without names"
    first = next((line.strip() for line in head.splitlines() if line.strip()), "")
    return f'its first line is "{first[:80]}"' if first else "it is empty"


def _advice(head: str) -> str:
    """What to do with files of tools that are known and yet not read."""
    return next((advice for pattern, advice in _NOT_READ if pattern.search(head)), "")


_NOT_READ = (
    (
        re.compile(r"│[ \t]+(?:sec/op|B/op|allocs/op|B/s)\b|^,[^,\s]+,CI,", re.MULTILINE),
        "It is a comparison of benchstat: import the two files that benchstat compared.",
    ),
    (
        re.compile(r'^\s*\{\s*"[^"]+"\s*:\s*\{\s*"[^"]+"\s*:\s*\{\s*"value"\s*:\s*[-\d.]'),
        "It looks like Bencher's own JSON: write name, value and unit as github-action-benchmark's custom JSON does.",
    ),
    (
        re.compile(r"^[ \t]*Instructions:[ \t]+\d", re.MULTILINE),
        "It looks like a count of instructions by Callgrind: write what is to be kept as a table with --map.",
    ),
)
"""A pattern of their heads, and the advice."""


def parse(document: Document, name: str = "") -> Iterator[Item]:
    """Everything in a document; ``name`` forces a format. Raises :class:`Refused`, ``KeyError`` for an unknown name."""
    chosen = BY_NAME[name] if name else detect(document)
    return sound(chosen.parse(document))
