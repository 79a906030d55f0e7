"""A job of two sides: after each pair of processes, is another one worth its time; and at the end, the verdicts.

The comparison itself lives in ``domain.compare``; a verdict is computed once, when the job is done, and stored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.identities import insert_new
from groundspeed.service.db.tables import Attempt, Benchmark, Job, JobSide, Request, Result, Run, Series, Verdict
from groundspeed.service.domain.compare import GateConfig, compare, next_step
from groundspeed.service.domain.compare import Verdict as Answer
from groundspeed.service.domain.series import MIN_EFFECT
from groundspeed.service.errors import NotFound
from groundspeed.service.usecases.series import threshold
from groundspeed.service.wire import v1


@dataclass(frozen=True, slots=True)
class _Compared:
    """One series of the job: values by replicate for side 0 (base) and 1 (head)."""

    series: Series
    suite: str
    base: dict[int, float] = field(default_factory=dict)
    head: dict[int, float] = field(default_factory=dict)
    environments: dict[int, int] = field(default_factory=dict)

    def pairs(self) -> tuple[list[list[float]], list[list[float]]]:
        both = sorted(self.base.keys() & self.head.keys())
        return [[self.base[i]] for i in both], [[self.head[i]] for i in both]


def next_pair(database: Database, attempt_id: str, message: v1.NextPairRequest, now: datetime) -> v1.NextPairReply:
    """Whether the worker goes on with another pair. ``now`` is part of the use cases' form and not needed here."""
    del now
    with database.read() as session:
        attempt = session.get(Attempt, attempt_id)
        if attempt is None:
            raise NotFound(f"There is no attempt {attempt_id}.", "The job must be claimed first.")
        job = session.get_one(Job, attempt.job_id)
        if attempt.state != "running":
            return v1.NextPairReply(verdict="superseded", reason=f"The attempt is {attempt.state}.")
        low, high = int(job.spec.get("min_pairs") or 0), int(job.spec.get("max_pairs") or 0)
        if message.pairs_done >= high:
            return v1.NextPairReply(verdict="enough", reason=f"All {high} pairs are done.")
        if message.pairs_done < low:
            return v1.NextPairReply(verdict="continue", reason=f"{low} pairs are the least.")
        config = session.get_one(Request, job.request_id).config
        gated = [one for one in _compared(session, job.id or 0) if one.series.gate]
        open_ones = [one for one in gated if next_step(*one.pairs(), _settings(one, job, config)) == "continue"]
    if gated and not open_ones:
        return v1.NextPairReply(verdict="enough", reason=f"All {len(gated)} gated metrics are decided.")
    return v1.NextPairReply(verdict="continue", reason=f"{len(open_ones)} of {len(gated)} metrics are undecided.")


def conclude(database: Database, attempt_id: str, now: datetime) -> int:
    """Store the verdicts of a finished job of two sides; returns how many. A no-op for others, and the second time."""
    with database.transaction() as session:
        attempt = session.get(Attempt, attempt_id)
        job = session.get(Job, attempt.job_id) if attempt is not None else None
        if job is None or job.state != "done":
            return 0
        sides = session.scalars(select(JobSide).where(col(JobSide.job_id) == job.id).order_by(col(JobSide.index))).all()
        if [side.role for side in sides] != ["base", "head"]:
            return 0
        config = session.get_one(Request, job.request_id).config
        rows = [_row(one, job, config, sides, now) for one in _compared(session, job.id or 0)]
        if rows:
            session.execute(insert_new(session, Verdict), rows)
        return len(rows)


def _compared(session: Session, job_id: int) -> list[_Compared]:
    query = (
        select(
            Series, col(Benchmark.suite), col(Run.side), col(Run.replicate), col(Run.environment_id), col(Result.value)
        )
        .join(Result, col(Result.series_id) == col(Series.id))
        .join(Run, col(Run.id) == col(Result.run_id))
        .join(Benchmark, col(Benchmark.id) == col(Series.benchmark_id))
        .where(col(Run.job_id) == job_id, col(Run.outcome) == "ok", col(Result.state) != "rejected")
        .order_by(col(Series.id), col(Run.replicate))
    )
    found: dict[int, _Compared] = {}
    for series, suite, side, replicate, environment, value in session.execute(query).tuples():
        one = found.setdefault(series.id or 0, _Compared(series, suite))
        (one.base if side == 0 else one.head)[replicate] = value
        one.environments[side] = environment
    return list(found.values())


def _answer(one: _Compared, job: Job, config: Mapping[str, Any]) -> Answer:
    return compare(*one.pairs(), _settings(one, job, config))


def _settings(one: _Compared, job: Job, config: Mapping[str, Any]) -> GateConfig:
    """The gate for this series; looks are taken after every pair, and the error rate holds over all of them."""
    least = threshold(config, one.suite, one.series.metric, one.series.kind)
    return GateConfig(
        threshold=least or MIN_EFFECT.get(one.series.kind, 0.01),  # type: ignore[call-overload]
        direction=one.series.direction,  # type: ignore[arg-type]
        min_pairs=int(job.spec.get("min_pairs") or 1),
        max_pairs=int(job.spec.get("max_pairs") or 1),
        peeks=None,
    )


def _row(
    one: _Compared, job: Job, config: Mapping[str, Any], sides: Sequence[JobSide], now: datetime
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "job_id": job.id,
        "series_id": one.series.id,
        "base_revision_id": sides[0].revision_id,
        "head_revision_id": sides[1].revision_id,
        "base_environment_id": one.environments.get(0),
        "head_environment_id": one.environments.get(1),
        "answer": "never-compared",
        "reason": "",
        "ratio": None,
        "ratio_low": None,
        "ratio_high": None,
        "mde": None,
        "pairs": 0,
        "detail": {},
        "created_at": now,
    }
    if not one.base or not one.head:
        row["reason"] = "new: the base has no such benchmark" if not one.base else "lost: the head has no result"
        return row
    if one.environments[0] != one.environments[1]:
        row["reason"] = "the environment changed between the sides"
        return row
    answer = _answer(one, job, config)
    return row | {
        "answer": answer.answer,
        "reason": answer.reason,
        "ratio": _finite(1 + answer.effect),
        "ratio_low": _finite(1 + answer.low),
        "ratio_high": _finite(1 + answer.high),
        "mde": _finite(answer.mde),
        "pairs": answer.pairs,
        "detail": {"method": answer.method},
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
