"""``groundspeed compare A B``: two commits, environments, nodes or runs of the store, or two files of results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from groundspeed.cli import kernels
from groundspeed.cli.answer import quantity
from groundspeed.cli.context import (
    BenchOption,
    DataOption,
    JsonOption,
    MapOption,
    database,
    pattern_of,
    project_of,
    settings_for,
)
from groundspeed.cli.output import console, show_json, table

if TYPE_CHECKING:
    from groundspeed.service.usecases.compare_files import Line
    from groundspeed.service.wire.views import CompareRow, Kernels

MARKS = {"regressed": "+", "improved": "-", "changed": "*", "unchanged": "", "inconclusive": "~", "never-compared": "!"}
_ORDER = ("regressed", "never-compared", "changed", "improved", "inconclusive", "unchanged")
_STYLES = {"regressed": "red", "improved": "green", "changed": "yellow", "never-compared": "yellow"}
LEGEND = (
    "+ regressed  - improved  * changed  ! on one side only  ~ not decided; "
    "(+) and (-): by more than the threshold, but within what noise can do"
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A row of either kind of comparison."""

    name: str
    unit: str
    base: float | None
    head: float | None
    ratio: float | None
    low: float | None
    high: float | None
    answer: str
    direction: int
    reason: str

    @property
    def mark(self) -> str:
        """As ``asv compare`` marks: + is worse, - is better."""
        if self.answer != "inconclusive" or self.ratio is None or not self.direction:
            return MARKS.get(self.answer, "~")
        if abs(math.log(self.ratio)) < _LEAST:
            return "~"
        return "(-)" if (self.ratio > 1) == (self.direction > 0) else "(+)"


_LEAST = math.log(1.03)


def compare(
    base: Annotated[str, typer.Argument(help="Commit, environment, node or run; or a file or folder of results.")],
    head: Annotated[str, typer.Argument(help="The same kind of thing.")],
    project: Annotated[str | None, typer.Option("--project", "-p", help="Needed when there are several.")] = None,
    by: Annotated[
        Literal["revision", "environment", "node", "run"] | None, typer.Option(help="What the two name.")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="For files: force a format.")] = "",
    mapping: MapOption = None,
    threshold: Annotated[
        float | None, typer.Option(help="For files: smallest relative change that matters; 0.05 is 5 %.")
    ] = None,
    bench: BenchOption = "",
    only_changed: Annotated[bool, typer.Option("--only-changed", help="Leave out what did not change.")] = False,
    split: Annotated[bool, typer.Option("--split", "-s", help="A table for each answer.")] = False,
    sort: Annotated[Literal["name", "ratio"], typer.Option(help="Order of rows.")] = "name",
    check: Annotated[bool, typer.Option("--check", help="End with status 1 when something regressed.")] = False,
    as_json: JsonOption = False,
    data: DataOption = None,
) -> None:
    """Compare two sides, benchmark by benchmark: before, after, ratio with its interval, and an answer.

    Two paths that exist are compared as files of any format that `import` reads, without a store; else both name
    commits (hash, tag or tip), or what --by says. Exit status: 0, with --check 1 when something regressed, 2 when it
    could not be done.
    """
    files = by is None and _are_files(base, head)
    pattern = pattern_of(bench)
    moved: tuple[Kernels, ...] = ()
    if files:
        found, raw, notes = _files(Path(base), Path(head), form, mapping or (), threshold)
    else:
        found, raw, notes, moved = _stored(base, head, project, by or "revision", data)
    chosen = [(row, one) for row, one in zip(found, raw, strict=True) if pattern.search(row.name)]
    if only_changed:
        chosen = [(row, one) for row, one in chosen if row.answer in {"regressed", "improved", "changed"}]
    if sort == "ratio":
        chosen.sort(key=lambda pair: -(pair[0].ratio or 0.0))
    rows = [row for row, _ in chosen]
    regressed = any(row.answer == "regressed" for row in rows)
    if as_json:
        show_json({"base": base, "head": head, "rows": [one for _, one in chosen], "notes": notes, "kernels": moved})
    else:
        sides = (Path(base).name, Path(head).name) if files else (base, head)
        _tell(rows, sides if sides[0] != sides[1] else ("base", "head"), notes, list(kernels.lines(moved)), split=split)
    if check and regressed:
        raise typer.Exit(1)


def _are_files(base: str, head: str) -> bool:
    """Whether both are paths of results. Raises Invalid for a path that is not there: it is no commit either."""
    from groundspeed.service.errors import Invalid

    there = [Path(text).exists() for text in (base, head)]
    missing = [text for text, found in zip((base, head), there, strict=True) if not found]
    if missing and (any(there) or any("/" in text or Path(text).suffix == ".json" for text in missing)):
        if any(there) and "/" not in missing[0] and not Path(missing[0]).suffix:
            return False  # a folder may be called like a commit or a tag
        raise Invalid(f"There is no file {missing[0]}.", "Give two files (or folders) of results, or two commits.")
    return not missing


def _files(
    base: Path, head: Path, form: str, mapping: Sequence[str], threshold: float | None
) -> tuple[list[Shown], list[Any], list[str]]:
    from groundspeed.service.usecases import compare_files

    compared = compare_files.compare(base, head, form=form, mapping=mapping, threshold=threshold)
    notes = [f"left out: {text}" for text in compared.skipped[:10]]
    if len(compared.skipped) > 10:
        notes.append(f"and {len(compared.skipped) - 10} more")
    if any(line.basis in {"samples", "spreads"} for line in compared.lines):
        notes.append(
            "Each side is one process: what differs between processes of the same code is not in the intervals."
        )
    return [_of_line(line) for line in compared.lines], [asdict(line) for line in compared.lines], notes


def _of_line(line: Line) -> Shown:
    name = _name(line.benchmark, line.metric, line.params)
    return Shown(name, line.unit, line.base, line.head, line.ratio, line.low, line.high, line.answer, line.direction,
                 line.reason)  # fmt: skip


def _stored(
    base: str, head: str, project: str | None, by: Literal["revision", "environment", "node", "run"], data: Path | None
) -> tuple[list[Shown], list[Any], list[str], tuple[Kernels, ...]]:
    from groundspeed.service.errors import NotFound
    from groundspeed.service.usecases import lookup
    from groundspeed.service.usecases.views import compare as view

    with database(settings_for(data)) as db:
        slug = project_of(db, project)
        sides = [lookup.side(db, slug, by, text) for text in (base, head)]
        found = view.compare(db, slug, view.CompareQuery(sides[0], sides[1], by))
    if found.problem:
        raise NotFound(found.problem, "`groundspeed show` lists commits that were measured.")
    notes = [f"{d.layer} {d.name}: {d.base or 'absent'} → {d.head or 'absent'}" for d in found.environment[:20]]
    rows = [_by_known_noise(row) for row in found.rows]
    return [_of_row(row) for row in rows], rows, notes, found.kernels


def _by_known_noise(row: CompareRow) -> CompareRow:
    """One process a side shows no noise of its own; the noise that its series is known to have decides then."""
    e, noise = row.effect, row.series.noise
    if row.answer != "inconclusive" or not e.ratio or e.low is not None or not noise:
        return row
    centre, half = math.log(e.ratio), 1.96 * math.sqrt(1 / row.base_count + 1 / row.head_count) * noise
    low, high = centre - half, centre + half
    answer = row.answer
    if (low > 0 or high < 0) and abs(centre) >= _LEAST:
        better = (centre > 0) == (row.series.direction > 0)
        answer = "changed" if not row.series.direction else "improved" if better else "regressed"
    elif low >= -_LEAST and high <= _LEAST:
        answer = "unchanged"
    effect = e.model_copy(update={"low": math.exp(low), "high": math.exp(high)})
    reason = "The interval rests on the noise that the series is known to have between commits."
    return row.model_copy(update={"answer": answer, "effect": effect, "reason": reason})


def _of_row(row: CompareRow) -> Shown:
    name = _name(row.series.suite, row.series.metric, row.series.params)
    e = row.effect
    return Shown(name, row.series.unit, row.base, row.head, e.ratio, e.low, e.high, row.answer, row.series.direction,
                 row.reason)  # fmt: skip


def _name(benchmark: str, metric: str, params: Any) -> str:
    from groundspeed.service.usecases import written

    inside = written.params(params)
    return f"{benchmark}{f' ({inside})' if inside else ''}: {metric}"


def _tell(rows: list[Shown], sides: tuple[str, str], notes: list[str], moved: list[str], *, split: bool) -> None:
    out = console()
    counts = {answer: sum(row.answer == answer for row in rows) for answer in _ORDER}
    groups = [[row for row in rows if row.answer == answer] for answer in _ORDER] if split else [rows]
    for group in groups:
        if not group:
            continue
        if split:
            out.print(f"{group[0].answer} ({len(group)})", style=_STYLES.get(group[0].answer, ""), markup=False)
        out.print(table(("", sides[0][:20], sides[1][:20], "ratio", "95 % interval", "benchmark"), map(_cells, group),
                        right=(sides[0][:20], sides[1][:20], "ratio", "95 % interval")))  # fmt: skip
    for note in notes:
        out.print(note, markup=False)
    for line in moved:
        out.print(line, markup=False, soft_wrap=True, highlight=False)
    out.print(", ".join(f"{n} {answer}" for answer, n in counts.items() if n) or "Nothing to compare.", markup=False)
    if rows:
        out.print(LEGEND, style="dim", markup=False)


def _cells(row: Shown) -> tuple[str, ...]:
    interval = f"{row.low:.3f} … {row.high:.3f}" if row.low is not None and row.high is not None else ""
    values = [quantity(value, row.unit) if value is not None else "n/a" for value in (row.base, row.head)]
    style = _STYLES.get(row.answer)
    mark = f"[{style}]{row.mark}[/]" if style else row.mark
    from rich.markup import escape

    return (mark, *values, f"{row.ratio:.3f}" if row.ratio is not None else "", interval, escape(row.name))
