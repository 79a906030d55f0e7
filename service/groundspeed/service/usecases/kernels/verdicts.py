"""Kernels beside the verdicts of a gate: found once, when the verdicts are, and stored with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from sqlmodel import Session

from groundspeed.service.domain.kernels.told import Told, from_json
from groundspeed.service.usecases.gate_sides import BASE, HEAD, Compared
from groundspeed.service.usecases.kernels.sides import concerns, of_runs, slowness, smallest

CALLED = ("regressed", "improved", "changed")
_KEY = "kernels"


def annotate(session: Session, rows: Iterable[tuple[Compared, dict[str, Any]]]) -> None:
    """Add to the details of rows of verdicts which kernels make the difference; one look a benchmark."""
    called = [(one, row) for one, row in rows if row["answer"] in CALLED and concerns(one.series)]
    by_runs: dict[tuple[tuple[int, ...], ...], list[tuple[Compared, dict[str, Any]]]] = {}
    for one, row in called:
        sides = tuple(tuple(sorted({run.id for run in one.runs.get(side, ())})) for side in (BASE, HEAD))
        by_runs.setdefault(sides, []).append((one, row))
    for (base, head), explained in by_runs.items():
        effect = smallest(slowness(one.series, row["ratio"]) for one, row in explained)
        found = of_runs(session, base, head, effect)
        if found is not None:
            for _, row in explained:
                row["detail"][_KEY] = asdict(found)


def of_verdict(detail: Mapping[str, Any]) -> Told | None:
    """What was stored."""
    kept = detail.get(_KEY)
    return from_json(kept) if isinstance(kept, dict) else None
