"""Queries about series and their points. They only read, and none of them analyses anything."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Row, func, select
from sqlmodel import Session, col

from groundspeed.service.db import tables as t
from groundspeed.service.db.reads import fetch, fetch_plain, in_parts


def series_rows(session: Session, ids: Collection[int]) -> list[Row[Any]]:
    """Series with benchmark and hardware (see ``series_select``) in the order of ``ids``; unknown ids are left out."""
    found: dict[int, Row[Any]] = {}
    for part in in_parts(ids):
        for row in fetch(session, series_select().where(col(t.Series.id).in_(part))):
            found[row.id] = row
    return [found[id_] for id_ in ids if id_ in found]


def series_of_project(session: Session, project_id: int) -> Sequence[Row[Any]]:
    return fetch(session, series_select().where(col(t.Series.project_id) == project_id))


def series_of_benchmark(session: Session, benchmark_id: int, limit: int = 400) -> Sequence[Row[Any]]:
    query = series_select().where(col(t.Series.benchmark_id) == benchmark_id)
    return session.execute(query.order_by(col(t.Series.id)).limit(limit)).all()


def series_silent_since(session: Session, project_id: int, since: datetime, limit: int) -> Sequence[Row[Any]]:
    """Series whose newest result came before ``since``, the longest silent first."""
    last = col(t.Series.last_result_at)
    query = series_select().where(col(t.Series.project_id) == project_id, last < since)
    return session.execute(query.order_by(last).limit(limit)).all()


def series_select() -> Any:
    """What names a series, as columns: the detector's state is large and never needed here."""
    s, b, h = t.Series, t.Benchmark, t.Hardware
    columns: Any = (
        col(s.id), col(s.project_id), col(s.benchmark_id), col(s.hardware_id), col(s.metric), col(s.unit),
        col(s.direction),
        col(s.kind), col(s.gate), col(s.params), col(s.noise), col(s.threshold), col(s.last_result_at),
        col(b.suite), col(b.plugin), col(b.version), col(b.target), col(h.label).label("hardware"),
    )  # fmt: skip
    return select(*columns).join(b, col(b.id) == col(s.benchmark_id)).join(h, col(h.id) == col(s.hardware_id))


def points(session: Session, series_ids: Collection[int], first: int, last: int) -> Sequence[tuple[Any, ...]]:
    """(series, revision, environment, value, spread, state, run) of each result of revisions with ids in a range, in
    no order: what the index holds, without a look at any row.
    """
    r = t.Result
    query = select(
        col(r.series_id), col(r.revision_id), col(r.environment_id), col(r.value), col(r.spread), col(r.state),
        col(r.run_id),
    ).where(col(r.series_id).in_(series_ids), col(r.revision_id).between(first, last))  # fmt: skip
    return fetch_plain(session, query)


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


def recent_values(
    session: Session, series_ids: Collection[int], low: int, high: int | None = None
) -> Sequence[Row[Any]]:
    """(series_id, position, value) from position ``low`` (to ``high``), in no order: what a sparkline needs."""
    r = t.Result
    query = (
        select(col(r.series_id), col(t.Revision.position), col(r.value))
        .join(t.Revision, col(t.Revision.id) == col(r.revision_id))
        .where(col(r.series_id).in_(series_ids), col(t.Revision.position) >= low)
    )
    return fetch(session, query if high is None else query.where(col(t.Revision.position) <= high))


def values_at(session: Session, series_ids: Collection[int], revision_ids: Collection[int]) -> Sequence[Row[Any]]:
    """(series_id, revision_id, value) of results of those series on those commits, in no order."""
    r = t.Result
    query = select(col(r.series_id), col(r.revision_id), col(r.value))
    return fetch(session, query.where(col(r.series_id).in_(series_ids), col(r.revision_id).in_(revision_ids)))


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


def failures(
    session: Session, benchmarks: Collection[int], hardware: Collection[int], low: int, high: int
) -> Sequence[Row[Any]]:
    """(id, benchmark_id, hardware_id, position, outcome, params) of runs that gave no value, between two positions."""
    r = t.Run
    query = (
        select(
            col(r.id), col(r.benchmark_id), col(r.hardware_id), col(t.Revision.position), col(r.outcome), col(r.params)
        )
        .join(t.Revision, col(t.Revision.id) == col(r.revision_id))
        .where(
            col(r.benchmark_id).in_(benchmarks),
            col(r.hardware_id).in_(hardware),
            t.FAILED,
            col(t.Revision.position) >= low,
            col(t.Revision.position) <= high,
        )
        .order_by(col(t.Revision.position), col(r.id))
        .limit(2000)
    )
    return fetch(session, query)
