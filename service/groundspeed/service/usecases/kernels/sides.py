"""The kernels of two sides, from the runs of each: what a verdict, a comparison or a change of history rests on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.tables import Run, Series
from groundspeed.service.domain.kernels.difference import difference
from groundspeed.service.domain.kernels.told import Told, missing, tell
from groundspeed.service.usecases.kernels import tables

MOST_RUNS = 30
"""Of a side; the newest."""
_FOLLOWS = {"time", "rate"}
_CLOCKS = {"wall", "device"}


def concerns(series: Series | Any) -> bool:
    """Whether kernels can explain a change of this metric: it follows what the device does."""
    return (series.kind in _FOLLOWS and series.clock in _CLOCKS) or series.metric == "launches"


def of_runs(session: Session, base: Collection[int], head: Collection[int], effect: float | None = None) -> Told | None:
    """Compare two sides, each the runs of one benchmark; None where there is nothing to say, as on a CPU.

    ``effect``: how much the metric changed, relative.
    """
    left, right = (sorted(side)[-MOST_RUNS:] for side in (base, head))
    found, why = tables.load(session, [*left, *right])
    sides = [[found[run] for run in side if run in found] for side in (left, right)]
    compared = difference(sides[0], sides[1], effect)
    if compared is not None:
        return tell(compared)
    reason = why[0] if why else _reason(session, [run for run in (*left, *right) if run not in found])
    if not reason and not found:
        return None
    lacking = " and ".join(name for name, side in (("base", sides[0]), ("head", sides[1])) if not side)
    return missing(f"the {lacking} has no kernel table" + (f" ({reason})" if reason else ""))


def _reason(session: Session, run_ids: Sequence[int]) -> str:
    """Why processes on a device have recorded none, as they say themselves; what runs on a CPU has none to record."""
    query = select(col(Run.conditions)).where(col(Run.id).in_(run_ids[:MOST_RUNS]), col(Run.device_uuid).is_not(None))
    for conditions in session.scalars(query):
        trace = conditions.get("device_trace")
        said = trace.get("unavailable") if isinstance(trace, dict) else None
        if isinstance(said, str) and said:
            return tables.clean(said)[:200]
    return ""
