"""Queries about series and their points. They only read, and none of them analyses anything."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Row, bindparam, func, not_, or_, select
from sqlmodel import Session, col

from groundspeed.service.db import tables as t
from groundspeed.service.db.reads import fetch, fetch_plain, in_parts
from groundspeed.service.db.sets import among, one_of


def series_rows(session: Session, ids: Collection[int]) -> list[Row[Any]]:
    """Series with benchmark and hardware (see ``series_select``) in the order of ``ids``; unknown ids are left out."""
    found = {row.id: row for row in fetch(session, _named(), ids=list(ids))}
    return [found[id_] for id_ in ids if id_ in found]


def series_of_project(session: Session, project_id: int) -> Sequence[Row[Any]]:
    return fetch(session, _of_project(), project=project_id)


def series_of_benchmark(session: Session, benchmark_id: int) -> Sequence[Row[Any]]:
    return fetch(session, _of_benchmark(), benchmark=benchmark_id)


def series_silent_since(session: Session, project_id: int, since: datetime, limit: int) -> Sequence[Row[Any]]:
    """Series whose newest result came before ``since``, the longest silent first."""
    last = col(t.Series.last_result_at)
    query = series_select().add_columns(last).where(col(t.Series.project_id) == project_id, last < since)
    return session.execute(query.order_by(last).limit(limit)).all()


_OWN = or_(col(t.Series.continued_by_id).is_(None), col(t.Series.last_result_at).is_not(None))
"""A series that goes on under another name is listed no more, unless something came under the old one since."""
_FURTHER = select(col(t.Series.id), col(t.Series.continued_by_id)).where(
    one_of(col(t.Series.id), among("ids")), not_(_OWN)
)
_RENAMED_OFTEN = 50


def followed(session: Session, ids: Collection[int]) -> list[int]:
    """The series that those go on as which have another name now, in order, each once."""
    now = list(ids)
    for _ in range(_RENAMED_OFTEN):
        further = dict(session.execute(_FURTHER, {"ids": list(set(now))}).tuples().all()) if now else {}
        if not further:
            break
        now = [further.get(one) or one for one in now]
    return list(dict.fromkeys(now))


@cache
def _named() -> Any:
    return series_select().where(one_of(col(t.Series.id), among("ids")))


@cache
def _of_project() -> Any:
    own = series_select().where(col(t.Series.project_id) == bindparam("project"))
    return own.where(_OWN)


@cache
def _of_benchmark() -> Any:
    mine = series_select().where(col(t.Series.benchmark_id) == bindparam("benchmark"))
    return mine.where(_OWN).order_by(col(t.Series.id)).limit(400)


def series_select() -> Any:
    """What names a series, as columns: of its noise that from point to point, of the detector's large state nothing."""
    s, b, h = t.Series, t.Benchmark, t.Hardware
    columns: Any = (
        col(s.id), col(s.project_id), col(s.benchmark_id), col(s.hardware_id), col(s.metric), col(s.unit),
        col(s.direction),
        col(s.kind), col(s.gate), col(s.params), col(s.noise)["point"].as_float().label("noise"), col(s.threshold),
        col(b.suite), col(b.plugin), col(b.version), col(b.target), col(h.label).label("hardware"),
    )  # fmt: skip
    return select(*columns).join(b, col(b.id) == col(s.benchmark_id)).join(h, col(h.id) == col(s.hardware_id))


SERIES_COLUMNS: tuple[str, ...] = tuple(series_select().selected_columns.keys())
"""What a row of ``series_select`` begins with, by name; queries may add columns behind them."""


_r = t.Result
_OF_SERIES = one_of(col(_r.series_id), among("ids"))
_POINTS = select(
    col(_r.series_id), col(_r.revision_id), col(_r.environment_id), col(_r.value), col(_r.spread), col(_r.state),
    col(_r.run_id),
).where(_OF_SERIES, col(_r.revision_id).between(bindparam("first"), bindparam("last")))  # fmt: skip


def points(session: Session, series_ids: Collection[int], first: int, last: int) -> Sequence[tuple[Any, ...]]:
    """(series, revision, environment, value, spread, state, run) of each result of revisions with ids in a range, in
    no order: what the index holds, without a look at any row.
    """
    return fetch_plain(session, _POINTS, ids=list(series_ids), first=first, last=last)


def sample_blobs(session: Session, series_id: int, low: int, high: int, limit: int) -> list[tuple[str, int, bytes]]:
    """(sha, run, packed samples) of results that keep theirs, between two positions, newest first."""
    r = t.Result
    rows = session.execute(
        select(col(t.Revision.sha), col(r.run_id), col(r.samples))
        .join(t.Revision, col(t.Revision.id) == col(r.revision_id))
        .where(
            col(r.series_id) == series_id,
            col(r.samples).is_not(None),
            col(t.Revision.position) >= low,
            col(t.Revision.position) <= high,
        )
        .order_by(col(t.Revision.position).desc(), col(r.run_id))
        .limit(limit)
    )
    return [(row[0], row[1], row[2]) for row in rows]


_RECENT = (
    select(col(_r.series_id), col(t.Revision.position), col(_r.value))
    .join(t.Revision, col(t.Revision.id) == col(_r.revision_id))
    .where(_OF_SERIES, col(t.Revision.position).between(bindparam("low"), bindparam("high")))
)


def recent_values(session: Session, series_ids: Collection[int], low: int, high: int) -> Sequence[tuple[Any, ...]]:
    """(series, position, value) between two positions, in no order: what a sparkline needs."""
    return fetch_plain(session, _RECENT, ids=list(series_ids), low=low, high=high)


_VALUES = select(col(_r.series_id), col(_r.revision_id), col(_r.value)).where(
    _OF_SERIES, one_of(col(_r.revision_id), among("revisions"))
)


def values_at(
    session: Session, series_ids: Collection[int], revision_ids: Collection[int]
) -> Sequence[tuple[Any, ...]]:
    """(series, revision, value) of results of those series on those commits, in no order."""
    return fetch_plain(session, _VALUES, ids=list(series_ids), revisions=list(revision_ids))


def last_position(session: Session, series_ids: Collection[int]) -> dict[int, int]:
    """Position of the newest commit that has a result, by series."""
    out: dict[int, int] = {}
    for part in in_parts(series_ids):
        rows = session.execute(
            select(col(t.Result.series_id), func.max(col(t.Revision.position)))
            .join(t.Revision, col(t.Revision.id) == col(t.Result.revision_id))
            .where(col(t.Result.series_id).in_(part))
            .group_by(col(t.Result.series_id))
        )
        out.update({series: position for series, position in rows if position is not None})
    return out


_FAILURES = (
    select(
        col(t.Run.id), col(t.Run.benchmark_id), col(t.Run.hardware_id), col(t.Revision.position), col(t.Run.outcome),
        col(t.Run.params),
    )
    .join(t.Revision, col(t.Revision.id) == col(t.Run.revision_id))
    .where(
        one_of(col(t.Run.benchmark_id), among("benchmarks")), one_of(col(t.Run.hardware_id), among("hardware")),
        t.FAILED, col(t.Revision.position).between(bindparam("low"), bindparam("high")),
    )
    .order_by(col(t.Revision.position), col(t.Run.id))
    .limit(2000)
)  # fmt: skip


def failures(
    session: Session, benchmarks: Collection[int], hardware: Collection[int], low: int, high: int
) -> Sequence[Row[Any]]:
    """(id, benchmark_id, hardware_id, position, outcome, params) of runs that gave no value, between two positions."""
    given = {"benchmarks": list(benchmarks), "hardware": list(hardware)}
    return fetch(session, _FAILURES, **given, low=low, high=high)
