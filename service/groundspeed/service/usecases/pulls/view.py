"""Pull requests as the pages show them: the same facts as in check and comment."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.forge_tables import ForgeAction, ForgeRepository, PullRequest
from groundspeed.service.db.tables import Project
from groundspeed.service.domain.pulls.report import Report, Row, conclusion, verdict
from groundspeed.service.errors import NotFound
from groundspeed.service.usecases.kernels.views import view
from groundspeed.service.usecases.pulls import report as reports
from groundspeed.service.usecases.views import refs
from groundspeed.service.wire import pulls as p
from groundspeed.service.wire import views as v

_SHOWN = ("regressed", "failing", "improved", "changed", "new", "never-compared", "inconclusive", "unchanged")
MOST = 100


def pulls(db: Database, slug: str, web_url: str) -> p.PullList:
    """The newest pull requests of a project, open ones first. Raises NotFound for an unknown project."""
    with db.read() as session:
        project: Project = refs.project_row(session, slug)
        repository = _repository(session, project)
        query = (
            select(PullRequest)
            .where(col(PullRequest.repository_id) == (repository.id if repository else None))
            .order_by(col(PullRequest.state).desc(), col(PullRequest.id).desc())
            .limit(MOST)
        )
        rows = [
            _row(one, reports.build(session, project, one, ""), repository, web_url)
            for one in (session.scalars(query) if repository else ())
        ]
        name = repository.full_name if repository else ""
        return p.PullList(project=refs.project_ref(project), repository=name, rows=tuple(rows))


def pull(db: Database, slug: str, number: int, web_url: str) -> p.PullPage:
    """One pull request with its verdict. Raises NotFound."""
    with db.read() as session:
        project: Project = refs.project_row(session, slug)
        repository = _repository(session, project)
        query = select(PullRequest).where(
            col(PullRequest.repository_id) == (repository.id if repository else None),
            col(PullRequest.number) == number,
        )
        found: PullRequest | None = session.scalars(query).one_or_none()
        if found is None:
            raise NotFound(f"{slug} has no pull request {number}.", "Its pull requests are listed under Pull requests.")
        report = reports.build(session, project, found, "")
        rows = sorted(report.rows, key=_order)
        told = found.told.get("at")
        return p.PullPage(
            project=refs.project_ref(project),
            row=_row(found, report, repository, web_url),
            base_sha=report.base_sha,
            base_ref=found.base_ref,
            where=report.where,
            accepted=report.accepted,
            approved=found.approved_by if found.approved_sha == found.head_sha else "",
            note=report.note,
            done=report.done,
            total=report.total,
            metrics=tuple(_metric(one) for one in rows),
            kernels=_kernels(report),
            request=found.request_id if found.measured_sha == found.head_sha else None,
            told_at=datetime.fromisoformat(str(told)) if told else None,
            trouble=_trouble(session, found),
        )


def _repository(session: Session, project: Project) -> ForgeRepository | None:
    query = select(ForgeRepository).where(col(ForgeRepository.project_id) == project.id)
    found: ForgeRepository | None = session.scalars(query).first()
    return found


def _row(pull: PullRequest, report: Report, repository: ForgeRepository | None, web_url: str) -> p.PullRow:
    place = f"{web_url}/{repository.full_name}/pull/{pull.number}" if repository and pull.number > 0 else ""
    return p.PullRow(
        number=pull.number,
        title=pull.title,
        author=pull.author,
        state="merged" if pull.merged else pull.state,
        draft=pull.draft,
        from_fork=pull.from_fork,
        head_sha=pull.head_sha,
        answer=report.state,
        headline=verdict(report).replace("+", ", ").replace("-", " "),
        conclusion=conclusion(report) or "",
        url=place,
    )


def _order(row: Row) -> tuple[int, float, str, str]:
    return _SHOWN.index(row.kind), -abs(row.effect or 0.0), row.benchmark, row.metric


def _metric(row: Row) -> p.PullMetric:
    return p.PullMetric(
        kind=row.kind,
        benchmark=row.benchmark,
        metric=row.metric,
        ratio=_plus_one(row.effect),
        low=_plus_one(row.low),
        high=_plus_one(row.high),
        mde=row.mde,
        reason=row.reason,
        series=row.series_id,
        repeat=row.repeat,
    )


def _kernels(report: Report) -> tuple[v.Kernels, ...]:
    series = {row.benchmark: row.series_id for row in reversed(report.rows) if row.kernels is not None}
    explained = report.explained("regressed", "improved", "changed")
    return tuple(view(told, name, series.get(name)) for name, told in explained)


def _plus_one(effect: float | None) -> float | None:
    return None if effect is None else 1 + effect


def _trouble(session: Session, pull: PullRequest) -> str:
    query = select(col(ForgeAction.error)).where(
        col(ForgeAction.pull_id) == pull.id, col(ForgeAction.state) != "sent", col(ForgeAction.error) != ""
    )
    return str(session.scalars(query.order_by(col(ForgeAction.id).desc())).first() or "")
