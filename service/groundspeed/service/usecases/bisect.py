"""Bisection by hand: a person names a series and two commits, and the commits between are measured until one is left.

The same as a follow-up does by itself for what detection has found, but for any two ends. Where it stands is worked out
from the results each time; the request keeps only what was asked and, at the end, the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import AuditEntry, Benchmark, ChangePoint, Job, JobSide, Request, Result, Revision
from groundspeed.service.domain.bisect import Search, search
from groundspeed.service.errors import Conflict, Invalid, NotFound
from groundspeed.service.usecases import naming, planning, remeasure, requests
from groundspeed.service.usecases.import_tables import PLUGIN_PREFIX
from groundspeed.service.usecases.remeasure import Wish
from groundspeed.service.usecases.series import LoadedSeries, latest_config, load_series

KIND = "bisect"
_OPEN = ("queued", "running")
_TRIES = 2
"""A commit that so many jobs could not give a number for is passed over."""
_NEWEST = 100
LONGEST = timedelta(days=14)
"""A bisection is taken further for so long after it was asked for."""
REPLICATES = 3


@dataclass(frozen=True, slots=True)
class Asked:
    """``series`` as a person names it. ``good`` and ``bad`` empty: the ends of the series' newest change point."""

    series: str
    good: str = ""
    bad: str = ""
    replicates: int = REPLICATES


@dataclass(frozen=True, slots=True)
class State:
    """Where a bisection stands. ``good`` and ``bad`` are the nearest commits known to be so; ``left``: commits between.

    ``outcome``: open, found (``bad`` made the difference), no-difference, stuck, budget or cancelled.
    """

    request_id: int
    project: str
    series_id: int
    series: str
    outcome: str
    good: str
    bad: str
    bad_title: str
    left: int
    effect: float | None
    words: str
    created: bool = False


def start(db: Database, asked: Asked, now: datetime, *, project: str | None = None, actor: str = "local") -> State:
    """Begin a bisection, or look at the one that was asked for before. Measuring goes on by itself.

    Raises ``NotFound``, ``Conflict`` and ``Invalid`` for names and ends that can't be.
    """
    if not 1 <= asked.replicates <= 50:
        raise Invalid(f"{asked.replicates} processes an end are not possible.", "Give 1 to 50.")
    with db.transaction() as session:
        named = naming.find_series(session, asked.series, project)
        loaded = load_series(session, named.id)
        good, bad = _ends(session, named, asked)
        key = f"{KIND}:{named.id}:{good.sha[:16]}:{bad.sha[:16]}:{asked.replicates}"
        if remeasure.benchmark_key(session, named.id) is None or _foreign(session, loaded):
            raise Invalid(
                f"Series {named.label} was imported: no worker can measure it.",
                "Bisect a series that this Groundspeed measures.",
            )
        payload = {
            "bisect": {"series": named.id, "good": good.id, "bad": bad.id, "replicates": asked.replicates},
            "range": f"{good.sha[:12]}..{bad.sha[:12]}",
        }
        ref = requests.add(session, named.project_id, requests.New(KIND, key, bad.sha, payload), now)
        request = session.get_one(Request, ref.id)
        if ref.created:
            config: dict[str, Any] = dict(latest_config(session, named.project_id))
            request.state, request.config = "planned", config
            request.budget_s = _minutes(config) * 60
            session.add(request)
            data = {"series": named.id, "range": payload["range"]}
            session.add(
                AuditEntry(actor=actor, action="request.create", subject_type="request", subject_id=str(ref.id),
                           data=data, at=now)
            )  # fmt: skip
        _step(session, request, now)
        return _state(session, request, created=ref.created)


def _minutes(config: Mapping[str, Any]) -> float:
    section: Mapping[str, Any] = config.get("project") or {}
    return float(section.get("budget_minutes") or 60.0)


def look(db: Database, request_id: int) -> State:
    """Where a bisection stands. Raises ``NotFound``."""
    with db.read() as session:
        request = session.get(Request, request_id)
        if request is None or request.kind != KIND or "bisect" not in request.payload:
            raise NotFound(f"There is no bisection {request_id}.", "`groundspeed bisect SERIES` begins one.")
        return _state(session, request, created=False)


def advance(session: Session, project_id: int, now: datetime) -> int:
    """Take every open bisection of the project a step further; returns how many jobs are new."""
    query = (
        select(Request)
        .where(col(Request.project_id) == project_id, col(Request.kind) == KIND)
        .order_by(col(Request.id).desc())
        .limit(_NEWEST)
    )
    return sum(_step(session, one, now) for one in session.scalars(query).all() if _is_open(one))


def waiting(session: Session, now: datetime) -> set[int]:
    """Projects with an open bisection that no job of it holds up: a message about its last job's end may be lost."""
    busy = select(col(Job.request_id)).where(col(Job.state).in_(_OPEN))
    query = select(Request).where(
        col(Request.created_at) > now - LONGEST,
        col(Request.kind) == KIND,
        col(Request.state) != "cancelled",
        col(Request.id).not_in(busy),
    )
    return {one.project_id for one in session.scalars(query) if _is_open(one)}


def _is_open(request: Request) -> bool:
    asked: dict[str, Any] = request.payload.get("bisect") or {}
    return bool(asked) and not asked.get("outcome") and request.state != "cancelled"


def _ends(session: Session, named: naming.Named, asked: Asked) -> tuple[Revision, Revision]:
    if bool(asked.good) != bool(asked.bad):
        raise Invalid("Only one end was given.", "Give both a good and a bad commit, or neither.")
    if asked.good:
        good, bad = (naming.find_commit(session, named.project_id, text) for text in (asked.good, asked.bad))
    else:
        query = (
            select(ChangePoint)
            .where(col(ChangePoint.series_id) == named.id, col(ChangePoint.state) != "withdrawn")
            .order_by(col(ChangePoint.id).desc())
            .limit(1)
        )
        change = session.scalars(query).one_or_none()
        if change is None:
            raise NotFound(
                f"Series {named.label} has no change point.", "Say between which commits to look, a good and a bad one."
            )
        good, bad = (session.get_one(Revision, one) for one in (change.before_revision_id, change.after_revision_id))
    for one in (good, bad):
        if one.position is None:
            raise Invalid(f"Commit {one.sha[:12]} is not on the branch.", "Bisect between two commits of the branch.")
    if (good.position or 0) >= (bad.position or 0):
        raise Invalid(
            f"{good.sha[:12]} does not come before {bad.sha[:12]} on the branch.", "Give the older commit as good."
        )
    return good, bad


def _foreign(session: Session, loaded: LoadedSeries) -> bool:
    return session.get_one(Benchmark, loaded.series.benchmark_id).plugin.startswith(PLUGIN_PREFIX)


@dataclass(frozen=True, slots=True)
class _Known:
    """What the database says about one bisection. ``commits``: revision by position, ends included."""

    loaded: LoadedSeries
    commits: Mapping[int, Revision]
    found: Search


def _known(session: Session, request: Request) -> _Known:
    asked = request.payload["bisect"]
    loaded = load_series(session, asked["series"])
    good, bad = (session.get_one(Revision, asked[end]) for end in ("good", "bad"))
    if good.position is None or bad.position is None:
        raise Conflict("An end of the bisection has left the branch.", "Ask again between commits that are on it.")
    query = select(Revision).where(
        col(Revision.project_id) == request.project_id, col(Revision.position).between(good.position, bad.position)
    )
    commits = {row.position or 0: row for row in session.scalars(query)}
    values = _values(session, loaded)
    found = search(
        values,
        good.position,
        bad.position,
        floor=loaded.data.threshold(),
        commits=commits.keys(),
        useless=_useless(session, request, loaded, commits, values),
        replicates=asked["replicates"],
    )
    return _Known(loaded, commits, found)


def _values(session: Session, loaded: LoadedSeries) -> dict[int, tuple[float, ...]]:
    """Processes by position, in the environment that was measured in last: no other is comparable to what will come."""
    newest = (
        select(col(Result.environment_id))
        .where(col(Result.series_id) == loaded.series.id)
        .order_by(col(Result.id).desc())
        .limit(1)
    )
    environment = str(session.scalars(newest).one_or_none())
    return {point.x: point.finite() for point in loaded.data.points if point.environment == environment}


def _useless(
    session: Session,
    request: Request,
    loaded: LoadedSeries,
    commits: Mapping[int, Revision],
    values: Mapping[int, tuple[float, ...]],
) -> frozenset[int]:
    """Commits that ran and gave nothing, or for which jobs of this bisection ended without a result."""
    failed = {point.x for point in loaded.data.points if not point.values}
    query = (
        select(col(JobSide.revision_id))
        .join(Job, col(Job.id) == col(JobSide.job_id))
        .where(col(Job.request_id) == request.id, col(Job.state).not_in(_OPEN))
    )
    tries: dict[int, int] = {}
    for revision_id in session.scalars(query):
        tries[revision_id] = tries.get(revision_id, 0) + 1
    least = request.payload["bisect"]["replicates"]
    vain = {x for x, row in commits.items() if tries.get(row.id or 0, 0) >= _TRIES and len(values.get(x, ())) < least}
    return frozenset(failed | vain)


def _step(session: Session, request: Request, now: datetime) -> int:
    """Make the jobs that are needed next, or note the answer; nothing while jobs are open."""
    if not _is_open(request) or _waits(session, request):
        return 0
    try:
        known = _known(session, request)
    except Conflict as gone:
        _end(session, request, "stuck", str(gone), now)
        return 0
    if known.found.outcome != "open":
        _end(session, request, known.found.outcome, known.found.words, now)
        return 0
    jobs = _jobs(session, request, known, now)
    left = remeasure.budget(request) - remeasure.spent(session, request)
    if not jobs or sum(remeasure.cost_s(session, job) for job, _ in jobs) > left:
        words = "The time that a request may take is spent." if jobs else "No job of ours has measured this suite."
        _end(session, request, "budget" if jobs else "stuck", f"{words} {known.found.words}", now)
        return 0
    request.state, request.finished_at = "running", None
    session.add(request)
    for job, revision_id in jobs:
        planning.add_job(session, job, [("point", revision_id)], now)
    return len(jobs)


def _waits(session: Session, request: Request) -> bool:
    query = select(col(Job.id)).where(col(Job.request_id) == request.id, col(Job.state).in_(_OPEN)).limit(1)
    return session.execute(query).first() is not None


def _jobs(session: Session, request: Request, known: _Known, now: datetime) -> list[tuple[Job, int]]:
    key = remeasure.benchmark_key(session, known.loaded.series.id or 0) or ""
    number = len(session.scalars(select(col(Job.id)).where(col(Job.request_id) == request.id)).all())
    out: list[tuple[Job, int]] = []
    for x, count in known.found.measure:
        revision = known.commits[x].id or 0
        made = remeasure.draft(session, request.project_id, [Wish(known.loaded.suite, revision, key, count, "bisect")])
        if made is None:
            return []
        job = made[0]
        job.request_id, job.created_at = request.id or 0, now
        job.key = f"bisect:{number + len(out)}:{job.suite}@{revision}"[:200]
        out.append((job, revision))
    return out


def _end(session: Session, request: Request, outcome: str, words: str, now: datetime) -> None:
    answer = request.payload["bisect"] | {"outcome": outcome, "words": words}
    request.payload = request.payload | {"bisect": answer}
    request.state, request.finished_at = "done", now
    session.add(request)


def _state(session: Session, request: Request, *, created: bool) -> State:
    asked: dict[str, Any] = request.payload["bisect"]
    named = naming.find_series(session, str(asked["series"]))
    ended = asked.get("outcome") or ("cancelled" if request.state == "cancelled" else "open")
    try:
        known = _known(session, request)
    except Conflict as gone:
        good, bad = (session.get_one(Revision, asked[end]) for end in ("good", "bad"))
        return State(
            request.id or 0,
            named.project,
            named.id,
            named.label,
            ended,
            good.sha,
            bad.sha,
            bad.title,
            0,
            None,
            str(gone),
        )
    good, bad = known.commits[known.found.good], known.commits[known.found.bad]
    effect = known.found.effect
    return State(
        request_id=request.id or 0,
        project=named.project,
        series_id=named.id,
        series=named.label,
        outcome=ended,
        good=good.sha,
        bad=bad.sha,
        bad_title=bad.title,
        left=sum(known.found.good < x < known.found.bad for x in known.commits),
        effect=effect if effect == effect else None,  # noqa: PLR0124 - NaN
        words=asked.get("words") or known.found.words,
        created=created,
    )
