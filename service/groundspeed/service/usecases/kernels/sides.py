"""The kernels of two sides, from the runs of each: what a verdict, a comparison or a change of history rests on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
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
_CLOCKS = {"wall", "device", "none"}


def concerns(series: Series | Any) -> bool:
    """Whether kernels can explain a change of this metric: it follows what the device does."""
    return (series.kind in _FOLLOWS and series.clock in _CLOCKS) or series.metric == "launches"


def slowness(series: Series | Any, ratio: float | None) -> float | None:
    """How much slower a step became, relative, from head over base of a metric; None where that is not known."""
    if not ratio or ratio <= 0:
        return None
    return 1 / ratio - 1 if series.kind == "rate" else ratio - 1


def smallest(effects: Iterable[float | None]) -> float | None:
    """Of several metrics the smallest slowing, else the smallest gain: what there is to explain at least."""
    known = [one for one in effects if one]
    return min((one for one in known if one > 0), default=max(known, default=None))


def of_runs(session: Session, base: Collection[int], head: Collection[int], effect: float | None = None) -> Told | None:
    """Compare two sides, each the runs of one benchmark; None where there is nothing to say, as on a CPU.

    ``effect``: how much slower the step became, relative.
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
    lacking = [name for name, side in (("base", sides[0]), ("head", sides[1])) if not side]
    words = "neither side has a kernel table" if len(lacking) == 2 else f"the {lacking[0]} has no kernel table"
    return missing(f"{words} ({reason})" if reason else words)


def _reason(session: Session, run_ids: Sequence[int]) -> str:
    """Why processes on a device have recorded none, as they say themselves; what runs on a CPU has none to record."""
    query = select(col(Run.conditions)).where(col(Run.id).in_(run_ids[:MOST_RUNS]), col(Run.device_uuid).is_not(None))
    for conditions in session.scalars(query):
        trace = conditions.get("device_trace")
        said = trace.get("unavailable") if isinstance(trace, dict) else None
        if isinstance(said, str) and said:
            return tables.clean(said)[:200]
    return ""
