"""What a job of two sides has measured, read once: values by pair, what each side ran under, and what failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.tables import Benchmark, Environment, Hardware, Node, Result, Run, Series
from groundspeed.service.domain.evidence import WHY_NEVER, Conditions, NeverCompared

BASE, HEAD = 0, 1
_POWER_CAP = "power cap"
_OPEN_ENDED = "ok"


@dataclass(frozen=True, slots=True)
class SideRun:
    """One process of one side, whatever came of it."""

    id: int
    side: int
    replicate: int
    key: str
    benchmark_id: int
    hardware_id: int
    environment_id: int
    node_id: int
    device: str | None
    outcome: str
    params: Mapping[str, Any]
    conditions: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Compared:
    """One series of the job: values by replicate for base and head, and the runs that they come from."""

    series: Series
    suite: str
    version: str
    base: dict[int, float] = field(default_factory=dict)
    head: dict[int, float] = field(default_factory=dict)
    runs: dict[int, list[SideRun]] = field(default_factory=dict)

    def pairs(self) -> tuple[list[list[float]], list[list[float]]]:
        """Only what both sides have, in the order in which it ran."""
        both = sorted(self.base.keys() & self.head.keys())
        return [[self.base[i]] for i in both], [[self.head[i]] for i in both]

    def environment(self, side: int) -> int | None:
        """The one environment of a side; the first where there were several."""
        return self.runs[side][0].environment_id if self.runs.get(side) else None


@dataclass(frozen=True, slots=True)
class Sides:
    """A job's series and runs; ``names`` has nodes, hardware and environments by (kind, id)."""

    compared: tuple[Compared, ...]
    runs: tuple[SideRun, ...]
    names: Mapping[tuple[str, int], str]


def load(session: Session, job_id: int) -> Sides:
    """Everything that the runs of a job say; samples that were rejected do not count."""
    runs = _runs(session, job_id)
    by_id = {run.id: run for run in runs}
    query = (
        select(Series, col(Benchmark.suite), col(Benchmark.version), col(Run.id), col(Result.value))
        .join(Result, col(Result.series_id) == col(Series.id))
        .join(Run, col(Run.id) == col(Result.run_id))
        .join(Benchmark, col(Benchmark.id) == col(Series.benchmark_id))
        .where(col(Run.job_id) == job_id, col(Run.outcome) == _OPEN_ENDED, col(Result.state) != "rejected")
        .order_by(col(Series.id), col(Run.replicate))
    )
    found: dict[int, Compared] = {}
    for series, suite, version, run_id, value in session.execute(query).tuples():
        run = by_id[run_id or 0]
        one = found.setdefault(series.id or 0, Compared(series, suite, version))
        (one.base if run.side == BASE else one.head)[run.replicate] = value
        one.runs.setdefault(run.side, []).append(run)
    return Sides(tuple(found.values()), tuple(runs), _names(session, runs))


def _runs(session: Session, job_id: int) -> list[SideRun]:
    columns = (
        col(Run.id),
        col(Run.side),
        col(Run.replicate),
        col(Run.benchmark_key),
        col(Run.benchmark_id),
        col(Run.hardware_id),
        col(Run.environment_id),
        col(Run.node_id),
        col(Run.device_uuid),
        col(Run.outcome),
        col(Run.params),
        col(Run.conditions),
    )
    query = select(*columns).where(col(Run.job_id) == job_id).order_by(col(Run.id))
    return [SideRun(*row) for row in session.execute(query)]


def _names(session: Session, runs: Sequence[SideRun]) -> dict[tuple[str, int], str]:
    """Names of what differs; nothing is read where all is the same."""
    out: dict[tuple[str, int], str] = {}
    for kind, table, label, ids in (
        ("node", Node, Node.name, {run.node_id for run in runs}),
        ("hardware", Hardware, Hardware.label, {run.hardware_id for run in runs}),
        ("environment", Environment, Environment.fingerprint, {run.environment_id for run in runs}),
    ):
        if len(ids) > 1:
            rows = session.execute(select(col(table.id), col(label)).where(col(table.id).in_(ids))).tuples()
            out |= {(kind, id_): str(text or id_) for id_, text in rows}
    return out


def conditions(one: Compared, side: int, names: Mapping[tuple[str, int], str]) -> Conditions:
    """What one side of a series ran under, over all its processes."""
    runs = one.runs.get(side, [])
    return Conditions(
        hardware=_single("hardware", (run.hardware_id for run in runs), names),
        node=_single("node", (run.node_id for run in runs), names),
        device=", ".join(sorted({run.device for run in runs if run.device})) or None,
        environment=_single("environment", (run.environment_id for run in runs), names),
        benchmark_version=one.version,
        clock_mhz=_middle(_clock(run.conditions) for run in runs),
        capped=_mean(_capped(run.conditions) for run in runs),
    )


def _single(kind: str, ids: Iterable[int], names: Mapping[tuple[str, int], str]) -> str | None:
    return " and ".join(names.get((kind, id_), str(id_)) for id_ in sorted(set(ids))) or None


def _clock(found: Mapping[str, Any]) -> float | None:
    device = found.get("device")
    reading = device.get("sm_mhz") if isinstance(device, dict) else None
    value = reading.get("median") if isinstance(reading, dict) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _capped(found: Mapping[str, Any]) -> float | None:
    device = found.get("device")
    events = device.get("clock_events") if isinstance(device, dict) else None
    share = events.get(_POWER_CAP, 0.0) if isinstance(events, dict) and "unavailable" not in events else None
    return float(share) if isinstance(share, int | float) else None


def _middle(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return median(known) if known else None


def _mean(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None


@dataclass(frozen=True, slots=True)
class Never:
    """Why a series was not compared: one of ``domain.evidence.WHY_NEVER``, and the words for this case."""

    why: NeverCompared
    words: str


def why_never(one: Compared, sides: Sides) -> Never:
    """Why a series with numbers on one side only has none on the other."""
    missing = BASE if not one.base else HEAD
    for other in sides.compared:
        if other.suite == one.suite and other.series.metric == one.series.metric and other is not one:
            has = other.base if missing == BASE else other.head
            if has and _same_place(other, one) and other.series.hardware_id != one.series.hardware_id:
                return Never("wrong-hardware", WHY_NEVER["wrong-hardware"])
            if has and _same_place(other, one) and other.version != one.version:
                return Never("other-version", WHY_NEVER["other-version"])
    there = [run for run in sides.runs if run.side == missing and _belongs(run, one.series, version=False)]
    if there:
        return failing(there, missing)
    if missing == BASE:
        return Never("missing-baseline", "new: the base has no such benchmark")
    return Never("lost", "lost: the head has no result")


def failing(runs: Sequence[SideRun], side: int) -> Never:
    """Processes ran on this side, and none gave this number."""
    bad = [run.outcome for run in runs if run.outcome != _OPEN_ENDED]
    name = "base" if side == BASE else "head"
    outcome = max(set(bad), key=bad.count) if bad else ""
    if not bad:
        return Never("lost", f"lost: {len(runs)} processes of the {name} ended well and did not report this metric")
    why: NeverCompared = "failing-base" if side == BASE else "failing-head"
    return Never(why, f"failing: {len(bad)} of {len(runs)} processes of the {name} ended as {outcome!r}")


def _same_place(a: Compared, b: Compared) -> bool:
    return a.series.params == b.series.params


def _belongs(run: SideRun, series: Series, *, version: bool = True) -> bool:
    """The run could have given this series: its parameters do not say otherwise."""
    if version and (run.benchmark_id, run.hardware_id) != (series.benchmark_id, series.hardware_id):
        return False
    return all(series.params.get(name, value) == value for name, value in run.params.items())


def unmeasured(session: Session, sides: Sides) -> list[tuple[Compared, Never]]:
    """Known series whose benchmark ran and gave nothing on either side: *failing* is not *no change*."""
    seen = {one.series.id for one in sides.compared}
    bad = [run for run in sides.runs if run.outcome != _OPEN_ENDED]
    wanted = {(run.benchmark_id, run.hardware_id) for run in bad}
    if not wanted:
        return []
    query = (
        select(Series, col(Benchmark.suite), col(Benchmark.version))
        .join(Benchmark, col(Benchmark.id) == col(Series.benchmark_id))
        .where(col(Series.benchmark_id).in_({benchmark for benchmark, _ in wanted}))
        .order_by(col(Series.id))
    )
    out = []
    for series, suite, version in session.execute(query).tuples():
        mine = [run for run in sides.runs if _belongs(run, series)]
        if series.id in seen or not any(run in bad for run in mine):
            continue
        side = HEAD if any(run.side == HEAD and run.outcome != _OPEN_ENDED for run in mine) else BASE
        both = all(any(run.side == s and run.outcome != _OPEN_ENDED for run in mine) for s in (BASE, HEAD))
        found = failing([run for run in mine if run.side == side], side)
        words = f"{found.words}, and those of the base do too" if both else found.words
        out.append((Compared(series, suite, version), Never(found.why, words)))
    return out
