"""A job of two sides: after each pair of processes, is another one worth its time; and at the end, the verdicts.

The comparison itself lives in ``domain.compare`` and what may be compared in ``domain.evidence``; a verdict is computed
once, when the job is done, and stored with everything that it rests on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.identities import insert_new
from groundspeed.service.db.tables import Attempt, Job, JobSide, Request, Run, Verdict
from groundspeed.service.domain import evidence
from groundspeed.service.domain.compare import GateConfig, compare, next_step
from groundspeed.service.domain.compare import Verdict as Answer
from groundspeed.service.domain.multiplicity import adjusted, expected_false_alarms
from groundspeed.service.domain.noise import may_gate
from groundspeed.service.domain.series import MIN_EFFECT
from groundspeed.service.errors import NotFound
from groundspeed.service.usecases import gate_sides as sides_
from groundspeed.service.usecases import renaming
from groundspeed.service.usecases.gate_sides import BASE, HEAD, Compared, Never, Sides
from groundspeed.service.usecases.kernels.verdicts import annotate
from groundspeed.service.usecases.series import threshold
from groundspeed.service.wire import v1

FALSE_DISCOVERIES = 0.05
"""Of the differences that a run reports, at most this share is expected to be none."""
DEVICE_TIME_EFFECT = 0.005
_CALLED = ("regressed", "improved", "changed")
_TIMES = ("time", "rate")
_CLOCKED = ("wall", "device")
"""Clocks whose readings follow the device's: a process's own CPU time does not."""


def next_pair(database: Database, attempt_id: str, message: v1.NextPairRequest, now: datetime) -> v1.NextPairReply:
    """Whether the worker goes on with another pair. ``now`` is part of the use cases' form and not needed here."""
    del now
    with database.read() as session:
        attempt = session.get(Attempt, attempt_id)
        if attempt is None:
            raise NotFound(f"There is no attempt {attempt_id}.", "The job must be claimed first.")
        job = session.get_one(Job, attempt.job_id)
        if attempt.state != "running":
            return v1.NextPairReply(verdict="superseded", reason=f"The attempt is {attempt.state}. {attempt.error}")
        low, high = int(job.spec.get("min_pairs") or 0), int(job.spec.get("max_pairs") or 0)
        if message.pairs_done >= high:
            return v1.NextPairReply(verdict="enough", reason=f"All {high} pairs are done.")
        if message.pairs_done < low:
            return v1.NextPairReply(verdict="continue", reason=f"{low} pairs are the least.")
        request = session.get_one(Request, job.request_id)
        spent = _spent(session, request)
        if request.budget_s and spent >= request.budget_s:
            words = f"The request's {request.budget_s / 60:.0f} minutes of measuring are spent."
            return v1.NextPairReply(verdict="enough", reason=words)
        gated = [one for one in sides_.load(session, job.id or 0).compared if _gates(one)]
        open_ones = [one for one in gated if _open(one, job, request.config)]
    if gated and not open_ones:
        return v1.NextPairReply(verdict="enough", reason=f"All {len(gated)} gated metrics are decided.")
    return v1.NextPairReply(verdict="continue", reason=f"{len(open_ones)} of {len(gated)} metrics are undecided.")


def _spent(session: Session, request: Request) -> float:
    query = select(func.coalesce(func.sum(col(Run.duration_s)), 0.0)).join(Job, col(Job.id) == col(Run.job_id))
    return float(session.execute(query.where(col(Job.request_id) == request.id)).scalar_one())


def _open(one: Compared, job: Job, config: Mapping[str, Any]) -> bool:
    return next_step(*one.pairs(), _settings(one, job, config)) == "continue"


def _gates(one: Compared) -> bool:
    """A series that is known to be too noisy, to have modes or to measure the host is charted and decides nothing."""
    return one.series.gate and may_gate(one.series.series_class or "unknown")  # type: ignore[arg-type]


def conclude(database: Database, attempt_id: str, now: datetime) -> int:
    """Store the verdicts of a finished job of two sides; returns how many. A no-op for others, and the second time."""
    with database.transaction() as session:
        attempt = session.get(Attempt, attempt_id)
        job = session.get(Job, attempt.job_id) if attempt is not None else None
        if job is None or job.state != "done":
            return 0
        query = select(JobSide).where(col(JobSide.job_id) == job.id).order_by(col(JobSide.index))
        both = session.scalars(query).all()
        if [side.role for side in both] != ["base", "head"]:
            return 0
        config = session.get_one(Request, job.request_id).config
        rows = _rows(session, job, config, both, now)
        if rows:
            session.execute(insert_new(session, Verdict), rows)
        return len(rows)


def _rows(
    session: Session, job: Job, config: Mapping[str, Any], both: Sequence[JobSide], now: datetime
) -> list[dict[str, Any]]:
    sides = sides_.load(session, job.id or 0)
    never: list[tuple[Compared, Never]] = []
    judged: list[tuple[Compared, Answer, tuple[str, ...]]] = []
    for one in sides.compared:
        if not one.base or not one.head:
            never.append((one, sides_.why_never(one, sides)))
            continue
        found = _evidence(one, sides)
        if found.decision == "refuse":
            never.append((one, Never("refused", f"refused: {' '.join(found.words)}")))
        else:
            judged.append((one, _answer(one, found, _settings(one, job, config)), found.words))
    never = renaming.proposed(never) + sides_.unmeasured(session, sides)
    blank = {"job_id": job.id, "base_revision_id": both[0].revision_id, "head_revision_id": both[1].revision_id}
    rows = [_never(one, why, blank, now) for one, why in never]
    found_rows = [
        _row(one, answer, words, detail, blank, now)
        for (one, _, words), (answer, detail) in zip(judged, _weighed(judged), strict=True)
    ]
    annotate(session, zip((one for one, _, _ in judged), found_rows, strict=True))
    return rows + found_rows


def _evidence(one: Compared, sides: Sides) -> evidence.Evidence:
    """Only times and rates follow the device's clock; bytes, counts and CPU time are compared at any."""
    base, head = (sides_.conditions(one, side, sides.names) for side in (BASE, HEAD))
    if one.series.kind not in _TIMES or one.series.clock not in _CLOCKED:
        base, head = (replace(c, clock_mhz=None, capped=None) for c in (base, head))
    return evidence.assess(base, head)


def _answer(one: Compared, found: evidence.Evidence, settings: GateConfig) -> Answer:
    base, head = one.pairs()
    if found.decision == "adjust":
        scale = 1.0 / found.scale if one.series.kind == "rate" else found.scale
        head = evidence.adjusted(head, replace(found, scale=scale))
    return compare(base, head, settings)


def _settings(one: Compared, job: Job, config: Mapping[str, Any]) -> GateConfig:
    """The gate for this series; looks are taken after every pair, and the error rate holds over all of them."""
    least = threshold(config, one.suite, one.series.metric, one.series.kind)
    known = one.series.noise.get("between_process") if one.series.noise else None
    return GateConfig(
        threshold=least or _smallest(one.series.kind, one.series.clock),
        direction=one.series.direction,  # type: ignore[arg-type]
        min_pairs=int(job.spec.get("min_pairs") or 1),
        max_pairs=int(job.spec.get("max_pairs") or 1),
        peeks=None,
        noise_sd=float(known) if isinstance(known, int | float) and math.isfinite(known) else None,
    )


def _smallest(kind: str, clock: str) -> float:
    """The change that matters where the configuration names none: the device's own clock is steadier than any other."""
    if kind == "time" and clock == "device":
        return DEVICE_TIME_EFFECT
    return next((effect for name, effect in MIN_EFFECT.items() if name == kind), 0.01)


def _weighed(judged: Sequence[tuple[Compared, Answer, tuple[str, ...]]]) -> list[tuple[Answer, dict[str, Any]]]:
    """The answers after what is known beyond each pair of columns: cycles, the series' class, and how many were asked.

    What changes an answer is told in its reason, and the answer it would have had stands in ``detail``.
    """
    cycles = {_cycle_key(one): answer for one, answer, _ in judged if one.series.clock == "cycles"}
    agreed = [
        evidence.agreed(answer, cycles.get(_cycle_key(one)) if _clocked(one) else None) for one, answer, _ in judged
    ]
    gated = [_gates(one) for one, _, _ in judged]
    shares = adjusted([a.p_student if g else math.nan for a, g in zip(agreed, gated, strict=True)])
    expected = expected_false_alarms(sum(gated), GateConfig().alpha)
    out = []
    for (one, found, _), answer, gates, share in zip(judged, agreed, gated, shares, strict=True):
        detail: dict[str, Any] = {
            "method": answer.method,
            "p_value": _finite(answer.p_value),
            "false_discovery_share": _finite(float(share)),
            "compared": sum(gated),
            "expected_false_alarms": round(expected, 3),
            "gated": gates,
            "class": one.series.series_class,
            "found": found.answer,
        }
        if answer.answer == "never-compared":
            detail["why"] = "lost"
        out.append((_kept(answer, gates, float(share), one.series.series_class, sum(gated)), detail))
    return out


def _kept(answer: Answer, gates: bool, share: float, series_class: str, count: int) -> Answer:
    if answer.answer not in _CALLED:
        return answer
    if not gates:
        why = f"its series is {series_class}" if series_class else "its metric is not for gating"
        return replace(answer, answer="inconclusive", reason=f"Charted, not gated: {why}. {answer.reason}".strip())
    if share > FALSE_DISCOVERIES:
        words = f"Among {count} comparisons chance alone does as much too often to be told (share {share:.0%})."
        return replace(answer, answer="inconclusive", reason=f"{words} {answer.reason}".strip())
    return answer


def _clocked(one: Compared) -> bool:
    return one.series.kind == "time" and one.series.clock in _CLOCKED


def _cycle_key(one: Compared) -> tuple[int, int, str]:
    return one.series.benchmark_id, one.series.hardware_id, repr(sorted(one.series.params.items()))


def _never(one: Compared, why: Never, blank: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    return {
        **_common(one, blank, now),
        "answer": "never-compared",
        "reason": why.words,
        "ratio": None,
        "ratio_low": None,
        "ratio_high": None,
        "mde": None,
        "pairs": 0,
        "detail": {"why": why.why, "words": evidence.WHY_NEVER[why.why]},
    }


def _row(
    one: Compared,
    answer: Answer,
    words: Sequence[str],
    detail: Mapping[str, Any],
    blank: Mapping[str, Any],
    now: datetime,
) -> dict[str, Any]:
    return {
        **_common(one, blank, now),
        "answer": answer.answer,
        "reason": " ".join(w for w in (*words, answer.reason) if w),
        "ratio": _finite(1 + answer.effect),
        "ratio_low": _finite(1 + answer.low),
        "ratio_high": _finite(1 + answer.high),
        "mde": _finite(answer.mde),
        "pairs": answer.pairs,
        "detail": dict(detail),
    }


def _common(one: Compared, blank: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    return {
        **blank,
        "series_id": one.series.id,
        "base_environment_id": one.environment(BASE),
        "head_environment_id": one.environment(HEAD),
        "created_at": now,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
