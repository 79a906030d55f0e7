"""Kernels for pages: of stored verdicts as they are, of a comparison or a change of history from the runs beside it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import func, select
from sqlmodel import Session, col

from groundspeed.service.db.tables import Benchmark, ChangePoint, JobSide, Result, Revision, Series, Verdict
from groundspeed.service.domain.kernels.told import Told
from groundspeed.service.usecases.import_tables import PLUGIN_PREFIX
from groundspeed.service.usecases.kernels.sides import concerns, of_runs, slowness, smallest
from groundspeed.service.usecases.kernels.verdicts import CALLED, of_verdict
from groundspeed.service.wire import views as v

MOST = 6
"""Benchmarks of one page."""
LOOKED_AT = 30
"""Series of one page."""
BESIDE = 4
"""Measured commits on each side of a change, from none of which another change lies between."""
_RESULTS = 60


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sides of one series: the runs of each, and head over base."""

    series_id: int
    base: Collection[int]
    head: Collection[int]
    ratio: float | None
    doubtful: bool = False
    """Whether there is a difference at all is not known: only what is sure is said."""


def view(told: Told, benchmark: str, series: int | None) -> v.Kernels:
    return v.Kernels.model_validate({**asdict(told), "benchmark": benchmark, "series": series})


def of_pairs(session: Session, pairs: Sequence[Pair]) -> tuple[v.Kernels, ...]:
    """What there is to say of the first few benchmarks; metrics of the same processes are one."""
    shown = pairs[:LOOKED_AT]
    series = _series(session, [pair.series_id for pair in shown])
    by_runs: dict[tuple[tuple[int, ...], tuple[int, ...]], list[Pair]] = {}
    for pair in shown:
        if pair.series_id in series and concerns(series[pair.series_id]):
            by_runs.setdefault((tuple(sorted(pair.base)), tuple(sorted(pair.head))), []).append(pair)
    out: list[v.Kernels] = []
    for (base, head), same in by_runs.items():
        first = series[same[0].series_id]
        told = of_runs(session, base, head, smallest(slowness(series[p.series_id], p.ratio) for p in same))
        if told is not None and (told.state == "told" or not all(one.doubtful for one in same)):
            out.append(view(told, named(first.suite, first.params), same[0].series_id))
        if len(out) == MOST:
            break
    return tuple(out)


def of_gates(session: Session, revision_id: int, series_id: int | None = None) -> tuple[v.Kernels, ...]:
    """What was stored with the verdicts on a commit as the head of a gate, newest first; of one series, or of all."""
    query = (
        select(Verdict, col(Benchmark.suite), col(Series.params))
        .join(JobSide, (col(JobSide.job_id) == col(Verdict.job_id)) & (col(JobSide.role) == "head"))
        .join(Series, col(Series.id) == col(Verdict.series_id))
        .join(Benchmark, col(Benchmark.id) == col(Series.benchmark_id))
        .where(col(JobSide.revision_id) == revision_id, col(Verdict.answer).in_(CALLED))
        .order_by(col(Verdict.id).desc())
    )
    if series_id is not None:
        query = query.where(col(Verdict.series_id) == series_id)
    found: dict[Told, v.Kernels] = {}
    for verdict, suite, params in session.execute(query.limit(LOOKED_AT)).tuples():
        told = of_verdict(verdict.detail)
        if told is not None:
            found.setdefault(told, view(told, named(suite, params), verdict.series_id))
    return tuple(found.values())[:MOST]


def of_changes(session: Session, changes: Iterable[ChangePoint]) -> tuple[v.Kernels, ...]:
    """Of change points, the strongest first: the processes of the nearest commits on both sides.

    What was imported comes from no process that could have recorded kernels.
    """
    chosen = list(changes)[:LOOKED_AT]
    found = _series(session, [c.series_id for c in chosen])
    relevant = {id_ for id_, one in found.items() if concerns(one) and not one.plugin.startswith(PLUGIN_PREFIX)}
    return of_pairs(session, [_beside(session, one) for one in chosen if one.series_id in relevant])


def named(suite: str, params: Mapping[str, Any]) -> str:
    """``train[batch_size=8]``."""
    inside = ",".join(f"{name}={value}" for name, value in params.items())
    return f"{suite}[{inside}]" if inside else suite


def _series(session: Session, ids: Collection[int]) -> dict[int, Any]:
    query = select(
        col(Series.id),
        col(Series.kind),
        col(Series.clock),
        col(Series.metric),
        col(Series.params),
        col(Benchmark.suite),
        col(Benchmark.plugin),
    ).join(Benchmark, col(Benchmark.id) == col(Series.benchmark_id))
    return {row.id: row for row in session.execute(query.where(col(Series.id).in_(ids)))}


def _beside(session: Session, change: ChangePoint) -> Pair:
    """The runs of a few commits before and after, up to the next change of the series."""
    at = dict(
        session.execute(
            select(col(Revision.id), col(Revision.position)).where(
                col(Revision.id).in_([change.before_revision_id, change.after_revision_id])
            )
        )
        .tuples()
        .all()
    )
    before, after = at.get(change.before_revision_id), at.get(change.after_revision_id)
    if before is None or after is None:
        return Pair(change.series_id, (), (), change.ratio)
    others = (
        select(func.max(col(Revision.position)))
        .join(ChangePoint, col(ChangePoint.after_revision_id) == col(Revision.id))
        .where(_another(change), col(Revision.position) <= before)
    )
    later = (
        select(func.min(col(Revision.position)))
        .join(ChangePoint, col(ChangePoint.before_revision_id) == col(Revision.id))
        .where(_another(change), col(Revision.position) >= after)
    )
    position = col(Revision.position)
    begin, end = session.scalar(others), session.scalar(later)
    left = _runs(session, change.series_id, (position <= before, position >= (begin or 0)), descending=True)
    right = _runs(session, change.series_id, (position >= after, position <= (end if end is not None else 2**31 - 1)))
    return Pair(change.series_id, left, right, change.ratio)


def _another(change: ChangePoint) -> Any:
    return (
        (col(ChangePoint.series_id) == change.series_id)
        & (col(ChangePoint.id) != change.id)
        & (col(ChangePoint.state) != "withdrawn")
    )


def _runs(session: Session, series_id: int, where: Sequence[Any], *, descending: bool = False) -> list[int]:
    position = col(Revision.position)
    query = (
        select(position, col(Result.run_id))
        .join(Revision, col(Revision.id) == col(Result.revision_id))
        .where(col(Result.series_id) == series_id, col(Result.state) != "rejected", *where)
        .order_by(position.desc() if descending else position)
        .limit(_RESULTS)
    )
    rows = session.execute(query).tuples().all()
    near = set(list(dict.fromkeys(place for place, _ in rows))[:BESIDE])
    return [run for place, run in rows if place in near]
