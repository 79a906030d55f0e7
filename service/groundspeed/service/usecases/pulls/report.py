"""The facts that a pull request is told, read from requests, jobs, runs and stored verdicts; nothing is compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import func, select
from sqlmodel import Session, col

from groundspeed.service.db.forge_tables import PullRequest
from groundspeed.service.db.tables import (
    Attempt,
    Environment,
    Hardware,
    Job,
    Project,
    Request,
    Run,
    Series,
    Verdict,
)
from groundspeed.service.domain.pulls.report import Report, Row, RowKind, State
from groundspeed.service.usecases.kernels.verdicts import of_verdict

_ENDED = ("done", "failed", "cancelled", "poison")
_OUTCOMES: Mapping[str, State] = {
    "approval": "approval",
    "nothing": "nothing-to-measure",
    "draft": "draft",
    "unlabelled": "unlabelled",
    "cancelled": "cancelled",
    "error": "error",
}
_ANSWERS: Mapping[str, RowKind] = {
    "regressed": "regressed",
    "improved": "improved",
    "changed": "changed",
    "unchanged": "unchanged",
    "inconclusive": "inconclusive",
}
_BLAMELESS: Mapping[str, RowKind] = {"failing": "never-compared"}
_NEVER: Mapping[str, RowKind] = {"missing-baseline": "new", "failing-head": "failing"}


def page_url(base_url: str, project: str, pull: PullRequest) -> str:
    return f"{base_url}/projects/{project}/pulls/{pull.number}"


def finished(session: Session, pull: PullRequest) -> str:
    """Identity of the end of the pull request's request; empty while it goes on."""
    request = session.get(Request, pull.request_id) if pull.request_id else None
    return f"{request.id}:{request.finished_at}" if request is not None and request.finished_at is not None else ""


def build(session: Session, project: Project, pull: PullRequest, base_url: str) -> Report:
    """What holds now for the pull request's head."""
    url = page_url(base_url, project.slug, pull)
    blank = Report("waiting", pull.compared_sha or pull.base_sha, pull.head_sha, url)
    current = pull.outcome_sha == pull.head_sha
    request = session.get(Request, pull.request_id) if pull.request_id and pull.measured_sha == pull.head_sha else None
    outcome = pull.outcome if current else ""
    accepted = f"{pull.accepted_reason} ({pull.accepted_by})" if pull.accepted_sha == pull.head_sha else ""
    if outcome in _OUTCOMES:
        label = str(pull.told.get("approve_label") or "")
        return replace(blank, state=_OUTCOMES[outcome], note=pull.note, approve_label=label)
    if request is None:
        closed = pull.state == "closed"
        return replace(blank, state="cancelled" if closed else "waiting", note=pull.note if not closed else "")
    return _measured(session, project, request, replace(blank, accepted=accepted), base_url)


def _measured(session: Session, project: Project, request: Request, blank: Report, base_url: str) -> Report:
    """How far a request is, or what came of it."""
    jobs = session.scalars(select(Job).where(col(Job.request_id) == request.id).order_by(col(Job.id))).all()
    state, note = _state(request, jobs)
    lines = tuple((str(name), int(line)) for name, line in request.payload.get("lines", ()))
    report = replace(blank, state=state, note=note, lines=lines)
    if state == "running":
        done, total = _progress(session, jobs)
        return replace(report, done=done, total=total)
    if state == "done":
        rows = tuple(_rows(session, project, jobs, base_url))
        return replace(report, rows=rows, where=_where(session, jobs))
    return report


def _state(request: Request, jobs: Sequence[Job]) -> tuple[State, str]:
    if request.state == "cancelled":
        return "cancelled", request.error
    if request.state == "failed" and not jobs:
        return "error", request.error
    if request.finished_at is not None:
        if any(job.state == "done" for job in jobs):
            return "done", ""
        errors = list(dict.fromkeys(job.error for job in jobs if job.error))
        return "error", " ".join(errors)[:900] or request.error
    if request.state == "running" or any(job.state in {"running", *_ENDED} for job in jobs):
        return "running", ""
    return "waiting", request.error


def _progress(session: Session, jobs: Sequence[Job]) -> tuple[int, int]:
    """Benchmark processes done, and expected as far as the workers have said."""
    newest = (
        select(col(Attempt.job_id), func.max(col(Attempt.number)).label("number"))
        .where(col(Attempt.job_id).in_([job.id for job in jobs]))
        .group_by(col(Attempt.job_id))
        .subquery()
    )
    query = select(col(Attempt.job_id), col(Attempt.done), col(Attempt.total)).join(
        newest, (newest.c.job_id == col(Attempt.job_id)) & (newest.c.number == col(Attempt.number))
    )
    said = {job_id: (done, total) for job_id, done, total in session.execute(query).tuples()}
    done = total = 0
    for job in jobs:
        ran, of = said.get(job.id or 0, (0, 0))
        of = max(of, ran, 1)
        total += of
        done += of if job.state in _ENDED else ran
    return done, total


# --- rows ------------------------------------------------------------------------------------------------------------


def _rows(session: Session, project: Project, jobs: Sequence[Job], base_url: str) -> Iterable[Row]:
    for job in jobs:
        if job.state == "done":
            ran = _ran(session, job)
            broken = {name for name, sides in ran.items() if sides.get(0) and "ok" not in sides[0]}
            found = [
                _row(verdict, series, job, project, base_url)
                for verdict, series in _verdicts(session, job)
                if _counts(verdict, series)
            ]
            # What fails in the base as well is no fault of the head.
            found = [replace(r, kind=_BLAMELESS.get(r.kind, r.kind)) if r.benchmark in broken else r for r in found]
            yield from found
            yield from _without_numbers(job, ran, {row.benchmark for row in found})
        else:
            reason = job.error or f"the job was {job.state}"
            yield Row("never-compared", job.suite, "", reason=reason, suite=job.suite, repeat=_repeat(job.suite))


def _verdicts(session: Session, job: Job) -> Sequence[tuple[Verdict, Series]]:
    query = (
        select(Verdict, Series)
        .join(Series, col(Series.id) == col(Verdict.series_id))
        .where(col(Verdict.job_id) == job.id)
        .order_by(col(Verdict.id))
    )
    return session.execute(query).tuples().all()


def _counts(verdict: Verdict, series: Series) -> bool:
    """Metrics that are only looked at have no say in a gate."""
    return series.gate or bool(verdict.detail.get("gated"))


def _row(verdict: Verdict, series: Series, job: Job, project: Project, base_url: str) -> Row:
    kind = _ANSWERS.get(verdict.answer) or _NEVER.get(str(verdict.detail.get("why")), "never-compared")
    compared = verdict.ratio is not None and verdict.answer in _ANSWERS
    return Row(
        kind,
        label(job.suite, _key(job, series)),
        series.metric,
        effect=_less_one(verdict.ratio) if compared else None,
        low=_less_one(verdict.ratio_low) if compared else None,
        high=_less_one(verdict.ratio_high) if compared else None,
        mde=verdict.mde if compared else None,
        reason=verdict.reason,
        url=f"{base_url}/projects/{project.slug}/series/{series.id}",
        repeat=_repeat(job.suite),
        suite=job.suite,
        series_id=series.id,
        kernels=of_verdict(verdict.detail),
    )


def _less_one(ratio: float | None) -> float | None:
    return None if ratio is None else ratio - 1


def label(suite: str, key: str) -> str:
    """A benchmark's name as it is shown: ``train[batch_size=8]``."""
    return f"{suite}[{key}]" if key and key != "default" else suite


def _key(job: Job, series: Series) -> str:
    """The benchmark of the job that a series is a metric of: the one whose parameters it has."""
    for benchmark in job.spec.get("benchmarks", ()):
        if all(series.params.get(name, value) == value for name, value in benchmark.get("params", {}).items()):
            return str(benchmark["key"])
    return ""


def _repeat(suite: str) -> str:
    return f"/groundspeed run {suite}"


def _ran(session: Session, job: Job) -> dict[str, dict[int, dict[str, int]]]:
    """Processes by outcome, by side, by the name of their benchmark; all benchmarks of the job are there."""
    query = (
        select(col(Run.benchmark_key), col(Run.side), col(Run.outcome), func.count())
        .where(col(Run.job_id) == job.id)
        .group_by(col(Run.benchmark_key), col(Run.side), col(Run.outcome))
    )
    seen: dict[str, dict[int, dict[str, int]]] = {}
    for key, side, outcome, count in session.execute(query).tuples():
        seen.setdefault(key, {}).setdefault(side, {})[outcome] = count
    return {label(job.suite, b["key"]): seen.get(b["key"], {}) for b in job.spec.get("benchmarks", ())}


def _without_numbers(job: Job, ran: Mapping[str, Mapping[int, Mapping[str, int]]], told: set[str]) -> Iterable[Row]:
    """Benchmarks that no verdict speaks of, because a side never gave a number: what became of their processes."""
    for name, sides in ran.items():
        if name in told or all("ok" in sides.get(side, {}) for side in (0, 1)):
            continue
        failing = {side: [o for o in sides.get(side, {}) if o != "ok"] for side in (0, 1)}
        kind: RowKind = "failing" if failing[1] and not failing[0] else "never-compared"
        reason = _what_became(sides, failing)
        yield Row(kind, name, "", reason=reason, suite=job.suite, repeat=_repeat(job.suite))


def _what_became(sides: Mapping[int, Mapping[str, int]], failing: Mapping[int, Sequence[str]]) -> str:
    if failing[0] and failing[1]:
        return f"fails on both sides ({', '.join(sorted({*failing[0], *failing[1]}))})"
    for side, name in ((1, "head"), (0, "base")):
        if failing[side]:
            return f"the processes of the {name} ended as {', '.join(sorted(failing[side]))}"
    missing = [name for side, name in ((0, "base"), (1, "head")) if not sides.get(side)]
    return f"no process ran for the {' and the '.join(missing)}" if missing else "no number was reported"


def _where(session: Session, jobs: Sequence[Job]) -> str:
    """The hardware and environments that it was measured on."""
    query = (
        select(col(Hardware.label), col(Environment.label))
        .join(Run, col(Run.hardware_id) == col(Hardware.id))
        .join(Environment, col(Environment.id) == col(Run.environment_id))
        .where(col(Run.job_id).in_([job.id for job in jobs]))
        .distinct()
    )
    names = sorted({part for row in session.execute(query).tuples() for part in row if part})
    return ", ".join(names)[:280]
