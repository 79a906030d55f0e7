"""Which tool wrote this? By content, never by a file's name alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, cast

from groundspeed.service.formats import (
    asv,
    benchmark_dotnet,
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
from groundspeed.service.formats.records import Item, sound
from groundspeed.service.formats.source import Document


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
    own, mlperf, nccl_json, nccl_summary, nccl, nvbench, asv, jmh, benchmark_dotnet, pytest_benchmark, codespeed,
    github_action, pytorch_hud, pyperf, google_benchmark, tables_of_tools, hyperfine, llm_serving, conbench, criterion,
    console, go_bench, superbench_logs, superbench, csv_table,
)  # fmt: skip


def _format(module: _Module) -> Format:
    description = (module.__doc__ or "").split("\n\n")[0].replace("\n", " ").strip().rstrip(".")
    return Format(module.NAME, module.sniff, module.parse, description)


FORMATS: tuple[Format, ...] = tuple(_format(cast("_Module", module)) for module in _MODULES)
BY_NAME = {entry.name: entry for entry in FORMATS}


def detect(document: Document) -> Format:  # noqa: RET503 - refuse never returns
    """The format of a document. Raises :class:`Refused` when no format knows it, naming the first line."""
    head = document.head()
    for entry in FORMATS:
        if entry.sniff(head):
            return entry
    first = next((line.strip() for line in head.splitlines() if line.strip()), "")
    shown = f'its first line is "{first[:80]}"' if first else "it is empty"
    document.refuse(
        f"no known format ({shown}).", 1, f"Known are {', '.join(sorted(BY_NAME))}; for a table give --map."
    )


def parse(document: Document, name: str = "") -> Iterator[Item]:
    """Everything in a document; ``name`` forces a format. Raises :class:`Refused`, ``KeyError`` for an unknown name."""
    chosen = BY_NAME[name] if name else detect(document)
    return sound(chosen.parse(document))
