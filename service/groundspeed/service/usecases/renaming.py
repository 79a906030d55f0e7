"""Benchmarks that were renamed: seen where one went and one came with its numbers, and said; and, once a project's
``groundspeed.toml`` says so, the series of the old name go on as those of the new.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, select, update
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.sets import among, one_of
from groundspeed.service.db.tables import (
    AuditEntry,
    Benchmark,
    ChangePoint,
    Request,
    Result,
    Series,
    SeriesMark,
    Verdict,
)
from groundspeed.service.domain.renames import Line, renames
from groundspeed.service.usecases import outbox
from groundspeed.service.usecases.gate_sides import Compared, Never
from groundspeed.service.usecases.locking import held, hold_project
from groundspeed.service.usecases.series import latest_config
from groundspeed.service.usecases.topics import ANALYSE

_NAME = "benchmark"
"""The parameter that names a benchmark inside a suite, where there is one of this name."""
_ABSENT = {"lost", "missing-baseline"}
"""Nothing went wrong on the side that has no number."""


def proposed(never: Sequence[tuple[Compared, Never]]) -> list[tuple[Compared, Never]]:
    """What a job of two sides could not compare, with a word where base and head name one benchmark differently."""
    absent = [one for one, why in never if why.why in _ABSENT]
    gone = [_line(one, one.base) for one in absent if one.base]
    come = [_line(one, one.head) for one in absent if one.head]
    words: dict[int, str] = {}
    for found in renames(gone, come):
        for old, new, ratio in found.pairs:
            same = f"its numbers go on ({100 * (ratio - 1):+.1f} %)"
            words[new] = f"it looks like {found.old} renamed: {same}"
            words[old] = f"it looks renamed to {found.new}: {same}"
    return [
        (one, replace(why, words=f"{why.words}; {words[id_]}") if (id_ := one.series.id or 0) in words else why)
        for one, why in never
    ]


def _line(one: Compared, values: dict[int, float]) -> Line:
    series = one.series
    return Line(
        series.id or 0, one.suite, series.metric, series.unit, series.direction, series.hardware_id, series.params,
        list(values.values()),
    )  # fmt: skip


# --- as groundspeed.toml says ----------------------------------------------------------------------------------------


def carry_over(db: Database, request_id: int, now: datetime) -> int:
    """Let series go on under the names that the branch's configuration gives them; returns how many had news.

    Called whenever a request was planned, and a no-op for one that says nothing new: what comes in under an old name
    later (an older commit is measured) is carried over then. A series has the same plugin and version, metric, unit,
    hardware and parameters as the one it goes on as. What holds is what the branch says now, whatever an older request
    or one of a pull request was planned with.
    """
    with db.read() as session:
        request = session.get(Request, request_id)
        rules = latest_config(session, request.project_id).get("rename") if request is not None else None
    if request is None or request.kind == "pull_request" or not rules:
        return 0
    with db.transaction() as session:
        pairs = {
            (old.id or 0, new.id or 0): (old, new)
            for rule in rules
            for old, new in _pairs(session, request.project_id, rule)
        }
        concerned = sorted({one for pair in pairs for one in pair})
        _hold(session, concerned)
        hold_project(session, request.project_id)
        for key in sorted(pairs):
            _move(session, *pairs[key], now)
        if concerned:
            outbox.enqueue(session, ANALYSE, {"series_ids": concerned})
        return len(pairs)


def _pairs(session: Session, project_id: int, rule: Mapping[str, Any]) -> list[tuple[Series, Series]]:
    """Old and new series of one rename, those of the old name that have results."""
    before, after, within = str(rule["before"]), str(rule["after"]), str(rule.get("suite") or "")
    query = (
        select(Series, Benchmark)
        .join(Benchmark, col(Benchmark.id) == col(Series.benchmark_id))
        .where(col(Series.project_id) == project_id, col(Benchmark.suite).in_([within] if within else [before, after]))
        .order_by(col(Series.id))
    )
    rows = session.execute(query).tuples().all()
    now = {_meaning(series, benchmark): series for series, benchmark in rows if within or benchmark.suite == after}
    out = []
    for series, benchmark in rows:
        if not within and benchmark.suite != before:
            continue
        new = now.get(_meaning(series, benchmark, after if not within else "", (before, after) if within else None))
        if new is None or new.id == series.id:
            continue
        if session.execute(select(col(Result.id)).where(_of_old(series, new)).limit(1)).first() is not None:
            out.append((series, new))
    return out


def _meaning(
    series: Series, benchmark: Benchmark, suite: str = "", renamed: tuple[str, str] | None = None
) -> tuple[object, ...]:
    """What a series is one of; with another suite, or another value for the one parameter that names its benchmark."""
    params = dict(series.params)
    naming = [_NAME] if _NAME in params else [name for name, value in params.items() if renamed and value == renamed[0]]
    if renamed is not None and len(naming) == 1 and params[naming[0]] == renamed[0]:
        params[naming[0]] = renamed[1]
    return (
        suite or benchmark.suite, benchmark.plugin, benchmark.version, series.hardware_id, series.metric, series.unit,
        series.direction, repr(sorted((name, type(value).__name__, value) for name, value in params.items())),
    )  # fmt: skip


def _of_old(old: Series, new: Series) -> ColumnElement[bool]:
    """Results under the old name of processes that have none under the new: a process that reports both keeps both."""
    there = select(col(Result.run_id)).where(col(Result.series_id) == new.id)
    return and_(col(Result.series_id) == old.id, col(Result.run_id).not_in(there))


def _hold(session: Session, ids: Collection[int]) -> None:
    """So that no analysis of them runs beside it: all in one order, or the two might wait for one another."""
    query = held(select(col(Series.id)).where(one_of(col(Series.id), among("ids"))).order_by(col(Series.id)))
    session.execute(query, {"ids": list(ids)}).all()


def _move(session: Session, old: Series, new: Series, now: datetime) -> None:
    """Results, changes and verdicts, with their identities. Both series are held. What a process has reported under
    both names stays where it is.
    """
    session.execute(update(Result).where(_of_old(old, new)).values(series_id=new.id))
    session.execute(update(ChangePoint).where(col(ChangePoint.series_id) == old.id).values(series_id=new.id))
    judged = select(col(Verdict.job_id)).where(col(Verdict.series_id) == new.id)
    own = col(Verdict.series_id) == old.id
    session.execute(update(Verdict).where(own, col(Verdict.job_id).not_in(judged)).values(series_id=new.id))
    stays = session.execute(select(col(Result.id)).where(col(Result.series_id) == old.id).limit(1)).first() is not None
    session.execute(delete(SeriesMark).where(col(SeriesMark.series_id) == old.id))
    if old.continued_by_id != new.id:
        data = {"before": old.id, "params": old.params, "metric": old.metric}
        session.add(AuditEntry(actor="groundspeed.toml", action="series.renamed", subject_type="series",
                               subject_id=str(new.id), data=data, at=now))  # fmt: skip
    old.continued_by_id, old.state, old.last_result_at = new.id, None, None
    if new.continued_by_id is not None:  # it has its former name again
        new.continued_by_id = None
        session.add(new)
    session.add(old)
    for one in (old, new) if stays else (new,):
        session.add(SeriesMark(series_id=one.id or 0, created_at=now))
    session.flush()
