"""``groundspeed gate``: is head slower than base? For samples that come from anywhere, one answer a line."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from groundspeed.cli.lines import BadLineError, direction_of, field, name_of, number, plain, read

if TYPE_CHECKING:
    from groundspeed.service.domain.compare import GateConfig, Verdict


@dataclass(frozen=True, slots=True)
class _Case:
    name: str
    base: list[list[float]]
    head: list[list[float]]
    config: GateConfig


def gate(
    file: Annotated[
        Path | None,
        typer.Argument(help="Comparisons as JSON lines; - or nothing reads standard input.", metavar="FILE"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line a comparison, for programs.")] = False,
    check: Annotated[bool, typer.Option("--check", help="End with status 1 when something regressed.")] = False,
) -> None:
    """Compare head with base, process by process.

    A line is {"base": [[samples of process 1], …], "head": [[…], …], "pairs": true, "threshold": 0.01}. With "pairs"
    process k of base and of head ran next to each other. Optional: "direction" (-1: lower is better), "alpha",
    "min_pairs", "peeks" (how often the pairs are looked at in all) and "name".
    """
    from groundspeed.service.domain.compare import compare

    refused = regressed = False
    for _, case in read(file, _case):
        if case is None:
            refused = True
            continue
        verdict = compare(case.base, case.head, case.config)
        regressed = regressed or verdict.answer == "regressed"
        sys.stdout.write(json.dumps(_row(case, verdict)) + "\n" if as_json else _text(case, verdict))
    if refused or (check and regressed):
        raise typer.Exit(2 if refused else 1)


def _case(row: dict[str, Any]) -> _Case:
    from groundspeed.service.domain.compare import GateConfig

    config = GateConfig(
        threshold=_between(row, "threshold", 0.01, 0.0, 100.0),
        alpha=_between(row, "alpha", 0.05, 1e-9, 0.5),
        direction=direction_of(row),
        paired=field(row, "pairs", bool, True),
        min_pairs=int(_between(row, "min_pairs", 3, 2, 1e6)),
        peeks=int(_between(row, "peeks", 1, 1, 1e6)),
    )
    return _Case(name_of(row, "name"), _side(row, "base"), _side(row, "head"), config)


def _side(row: dict[str, Any], name: str) -> list[list[float]]:
    processes = field(row, name, list)
    out = []
    for k, samples in enumerate(processes, 1):
        if not isinstance(samples, list):
            raise BadLineError(f"has no list of samples for process {k} of {name!r}")
        out.append([number(v, f"process {k} of {name!r}") for v in samples])
    return out


def _between(row: dict[str, Any], name: str, default: float, low: float, high: float) -> float:
    value = number(field(row, name, (int, float), default), repr(name))
    if not low <= value <= high:
        raise BadLineError(f"has {value:g} for {name!r}; it lies between {low:g} and {high:g}")
    return value


def _row(case: _Case, verdict: Verdict) -> dict[str, Any]:
    return {
        "name": case.name,
        "answer": verdict.answer,
        "effect": plain(verdict.effect),
        "interval": [plain(verdict.low), plain(verdict.high)],
        "mde": plain(verdict.mde),
        "threshold": case.config.threshold,
        "pairs": verdict.pairs,
        "p_value": plain(verdict.p_value, 4),
        "method": verdict.method,
        "reason": verdict.reason,
    }


def _text(case: _Case, verdict: Verdict) -> str:
    name = f"{case.name}: " if case.name else ""
    if verdict.method == "none":
        return f"{name}{verdict.answer}: {verdict.reason}\n"
    within = f" within {case.config.threshold:.3g}" if verdict.answer == "unchanged" else ""
    return (
        f"{name}{verdict.answer}{within}: {verdict.effect:+.3%} [{verdict.low:+.3%}, {verdict.high:+.3%}] over "
        f"{verdict.pairs} pairs ({verdict.method}); the smallest change this could have seen is {verdict.mde:.3%}. "
        f"{verdict.reason}".rstrip()
        + "\n"
    )
