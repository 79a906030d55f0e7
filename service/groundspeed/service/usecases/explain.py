"""Why a point was flagged, or another was not: the words of ``domain.explain`` for a stored series and commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import nan

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import ChangePoint, Job, JobSide, Regression, Request, Revision, Series, Verdict
from groundspeed.service.domain.compare import GateConfig
from groundspeed.service.domain.compare import Verdict as Answer
from groundspeed.service.domain.detect import Detection, detect
from groundspeed.service.domain.explain import explain_point, explain_verdict
from groundspeed.service.domain.series import MIN_EFFECT
from groundspeed.service.errors import NotFound
from groundspeed.service.usecases import naming
from groundspeed.service.usecases.kernels.views import of_changes, of_gates
from groundspeed.service.usecases.series import LoadedSeries, load_series, threshold
from groundspeed.service.wire import views as v

_OPEN = ("queued", "running")


@dataclass(frozen=True, slots=True)
class Explanation:
    """``flagged``: a change point begins here. ``sentences`` are for people, in the order in which they read well."""

    project: str
    series_id: int
    series: str
    hardware: str
    sha: str
    title: str
    position: int | None
    flagged: bool
    series_class: str
    sentences: tuple[str, ...]
    kernels: tuple[v.Kernels, ...] = ()


def explain(db: Database, series: str, commit: str, project: str | None = None) -> Explanation:
    """Say what is known of one point. Raises ``NotFound`` and ``Conflict`` for names that name nothing, or several."""
    with db.read() as session:
        named = naming.find_series(session, series, project)
        revision = naming.find_commit(session, named.project_id, commit)
        loaded = load_series(session, named.id)
        verdicts = _verdicts(session, loaded, revision)
        if revision.position is None and not verdicts:
            raise NotFound(
                f"Commit {revision.sha[:12]} is not on the branch, and no gate has compared it in this series.",
                "Name a commit of the branch, or the head of a pull request that was measured.",
            )
        detection = detect(loaded.data, loaded.config)
        detection = _as_followed(session, loaded, detection)
        words: list[str] = []
        flagged = False
        if revision.position is not None:
            flagged = any(change.x_after == revision.position for change in detection.change_points)
            words += explain_point(
                loaded.data, detection, revision.position, loaded.config, _names(session, revision, detection)
            )
            words += _triage(session, named.id, revision)
            words += _coming(session, loaded, revision)
        return Explanation(
            project=named.project,
            series_id=named.id,
            series=named.label,
            hardware=named.hardware,
            sha=revision.sha,
            title=revision.title,
            position=revision.position,
            flagged=flagged,
            series_class=detection.series_class,
            sentences=(*verdicts, *words),
            kernels=_kernels(session, named.id, revision),
        )


def _names(session: Session, revision: Revision, detection: Detection) -> dict[int, str]:
    """What to call the points that the words may name."""
    places = {x for change in detection.change_points for x in (change.x_before, change.x_after)}
    rows = session.execute(
        select(col(Revision.position), col(Revision.sha)).where(
            col(Revision.project_id) == revision.project_id, col(Revision.position).in_(places)
        )
    ).tuples()
    found = {x: f"commit {sha[:10]}" for x, sha in rows if x is not None}
    return found | {revision.position or 0: f"commit {revision.sha[:10]}"}


def _as_followed(session: Session, loaded: LoadedSeries, detection: Detection) -> Detection:
    """What was confirmed once is no longer provisional, whatever a fresh look at all points would say."""
    query = (
        select(col(Revision.position))
        .join(ChangePoint, col(ChangePoint.after_revision_id) == col(Revision.id))
        .where(col(ChangePoint.series_id) == loaded.series.id, col(ChangePoint.state) == "confirmed")
    )
    firm = set(session.scalars(query))
    changes = tuple(
        replace(change, provisional=False) if change.x_after in firm else change for change in detection.change_points
    )
    return replace(detection, change_points=changes)


def _triage(session: Session, series_id: int, revision: Revision) -> list[str]:
    """What people, or the machine, have made of the change point that begins here."""
    query = (
        select(ChangePoint, Regression)
        .outerjoin(Regression, col(Regression.id) == col(ChangePoint.regression_id))
        .where(col(ChangePoint.series_id) == series_id, col(ChangePoint.after_revision_id) == revision.id)
        .order_by(col(ChangePoint.id))
    )
    words = []
    for change, regression in session.execute(query).tuples():
        if change.state == "withdrawn":
            words.append("A step was suspected here and withdrawn: more measurements did not bear it out.")
        elif regression is not None:
            note = f": {regression.note}" if regression.note else ""
            words.append(f"It belongs to regression {regression.id} ({regression.title}), {regression.state}{note}.")
        if change.state != "withdrawn" and change.detail.get("foretold"):
            words.append(f"{change.detail['foretold']['words']}")
    return words


def _kernels(session: Session, series_id: int, revision: Revision) -> tuple[v.Kernels, ...]:
    """Of gates on the commit, and of the change that begins here."""
    changes = session.scalars(
        select(ChangePoint).where(
            col(ChangePoint.series_id) == series_id,
            col(ChangePoint.after_revision_id) == revision.id,
            col(ChangePoint.state) != "withdrawn",
        )
    ).all()
    return of_gates(session, revision.id or 0, series_id) + of_changes(session, changes)


def _coming(session: Session, loaded: LoadedSeries, revision: Revision) -> list[str]:
    query = (
        select(col(Job.id), col(Job.state))
        .join(JobSide, col(JobSide.job_id) == col(Job.id))
        .where(col(JobSide.revision_id) == revision.id, col(Job.suite) == loaded.suite, col(Job.state).in_(_OPEN))
        .order_by(col(Job.id))
    )
    return [f"Job {id_} ({state}) will measure it (again)." for id_, state in session.execute(query).tuples()]


def _verdicts(session: Session, loaded: LoadedSeries, revision: Revision) -> list[str]:
    """What gates said of this commit as their head."""
    query = (
        select(Verdict, col(Revision.sha), Request)
        .join(Revision, col(Revision.id) == col(Verdict.base_revision_id))
        .join(Job, col(Job.id) == col(Verdict.job_id))
        .join(Request, col(Request.id) == col(Job.request_id))
        .where(col(Verdict.series_id) == loaded.series.id, col(Verdict.head_revision_id) == revision.id)
        .order_by(col(Verdict.id))
    )
    out = []
    for verdict, base, request in session.execute(query).tuples():
        least = threshold(request.config, loaded.suite, loaded.series.metric, loaded.series.kind)
        config = GateConfig(threshold=least or _default(loaded.series))
        words = explain_verdict(stored_answer(verdict), config)
        out.append(f"Gate against {base[:12]} (job {verdict.job_id}): {words}")
    return out


def _default(series: Series) -> float:
    return next((effect for kind, effect in MIN_EFFECT.items() if kind == series.kind), 0.01)


def stored_answer(row: Verdict) -> Answer:
    """A stored verdict as the domain has it."""
    effect, low, high = (nan if value is None else value - 1.0 for value in (row.ratio, row.ratio_low, row.ratio_high))
    mde = nan if row.mde is None else row.mde
    p_value = row.detail.get("p_value")
    p = float(p_value) if isinstance(p_value, int | float) else 1.0
    method = str(row.detail.get("method", "none"))
    return Answer(row.answer, effect, low, high, mde, row.pairs, p, method, row.reason)  # type: ignore[arg-type]


def paragraphs(found: Explanation) -> Sequence[str]:
    """The whole as text: a heading, then the sentences."""
    commit = f"{found.sha[:12]} {found.title}".strip()
    where = f"{found.series} (series {found.series_id}, {found.hardware or 'any hardware'}) in {found.project}"
    return (f"{where}, commit {commit}", *found.sentences)
