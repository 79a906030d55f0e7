"""Regressions and improvements as rows, and one of them in full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlmodel import Session

from groundspeed.service.db import reads, reads_series
from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import Project
from groundspeed.service.errors import NotFound
from groundspeed.service.usecases import environment_changes, triage
from groundspeed.service.usecases.kernels import views as kernel_views
from groundspeed.service.usecases.views import grid, refs
from groundspeed.service.wire import views as v

MAX_SUSPECTS = 200
MAX_ENVIRONMENTS = 4
MAX_SPARKS = 24
"""Of a regression, so many series are drawn in miniature, the strongest first."""


def rows(session: Session, project: Any, found: Sequence[Any]) -> list[v.RegressionRow]:
    """Regressions with the strongest of their change points."""
    by_regression: dict[int, list[Any]] = {}
    for change in reads.changes_of_regressions(session, [r.id for r in found]):
        by_regression.setdefault(change.regression_id or 0, []).append(change)
    worst = {id_: changes[0] for id_, changes in by_regression.items()}
    series = {row.id: row for row in reads_series.series_rows(session, [c.series_id for c in worst.values()])}
    names = refs.Names(session, [id_ for r in found for id_ in (r.before_revision_id, r.after_revision_id)])
    return [_row(project, r, by_regression.get(r.id, []), series, names) for r in found]


def _row(project: Any, row: Any, changes: Sequence[Any], series: dict[int, Any], names: refs.Names) -> v.RegressionRow:
    before, after = names.revision(row.before_revision_id), names.revision(row.after_revision_id)
    known = before is not None and after is not None and before.position is not None and after.position is not None
    worst = changes[0] if changes else None
    return v.RegressionRow(
        id=row.id,
        project=project.slug,
        kind=row.kind,
        state=row.state,
        cause=row.cause,
        title=row.title,
        before=before,
        after=after,
        commits=after.position - before.position if known and before and after else None,  # type: ignore[operator]
        worst=refs.effect(worst) if worst is not None else None,
        worst_series=refs.series_ref(series[worst.series_id]) if worst is not None else None,
        series_count=len({c.series_id for c in changes}),
        provisional=bool(changes) and all(c.state == "provisional" for c in changes),
        assignee=row.assignee,
        note=row.note,
        link=row.link,
        ignore_until=row.ignore_until,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def regression_list(
    db: Database, slug: str, *, kind: str = "regression", state: str = "open", below: int | None = None, limit: int = 50
) -> v.RegressionList:
    """Newest first. ``state`` is "open" (still to be looked at), "ignored" (until something comes), "all", or one
    state.
    """
    states = {"open": reads.OPEN_STATES, "all": (), "ignored": ()}.get(state, (state,))
    ignored = None if state == "all" else state == "ignored"
    with db.read() as session:
        project = refs.project_row(session, slug)
        kinds = () if kind == "all" else (kind,)
        found = reads.regressions(
            session, project.id, kinds=kinds, states=states, ignored=ignored, below=below, limit=limit + 1
        )
        page = found[:limit]
        return v.RegressionList(
            project=refs.project_ref(project),
            rows=tuple(rows(session, project, page)),
            counts=reads.regression_counts(session, project.id, "" if kind == "all" else kind),
            kind=kind,
            state=state,
            next_cursor=str(page[-1].id) if len(found) > limit else None,
        )


def project_of(db: Database, id_: int) -> str | None:
    """The project of a regression, which has its number among all; None for an unknown one."""
    with db.read() as session:
        found = reads.regression(session, id_)
        return session.get_one(Project, found.project_id).slug if found is not None else None


def regression_detail(db: Database, slug: str, id_: int) -> v.RegressionDetail:
    """Raises NotFound when the project has no such regression."""
    with db.read() as session:
        project = refs.project_row(session, slug)
        found = reads.regression(session, id_)
        if found is None or found.project_id != project.id:
            raise NotFound(f"There is no regression {id_} in {project.name}.", "The list is under Regressions.")
        changes = reads.changes_of_regressions(session, [id_])
        series = {row.id: row for row in reads_series.series_rows(session, [c.series_id for c in changes])}
        row = rows(session, project, [found])[0]
        sparks = _sparks(session, project.id, [c.series_id for c in changes], row)
        return v.RegressionDetail(
            project=refs.project_ref(project),
            row=row,
            affected=tuple(
                v.AffectedSeries(series=refs.series_ref(series[c.series]), change=c, spark=sparks.get(c.series))
                for c in refs.changes(session, changes)
            ),
            suspects=tuple(refs.revision_ref(r) for r in _suspects(session, project.id, row)),
            similar=tuple(rows(session, project, _similar(session, project.id, found, set(series)))),
            history=tuple(
                v.HistoryEntry(actor=a.actor, action=a.action, data=a.data, at=a.at)
                for a in reads.audit_of(session, "regression", str(id_))
            ),
            moves=tuple(s for s in triage.TRANSITIONS.get(found.state, ()) if s in triage.PEOPLE),
            environments=_environments(session, changes, series),
            kernels=kernel_views.of_changes(session, changes),
        )


def _environments(session: Session, changes: Sequence[Any], series: dict[int, Any]) -> tuple[v.EnvironmentStep, ...]:
    pairs = {
        (one.environment_from_id, one.environment_to_id): one
        for one in reversed(changes)
        if one.environment_from_id != one.environment_to_id
    }
    names = set(v.EnvironmentStep.model_fields) - {"series"}
    return tuple(
        v.EnvironmentStep(
            series=refs.series_ref(series[one.series_id]),
            **{name: value for name, value in environment_changes.explained(session, one).items() if name in names},
        )
        for one in list(reversed(pairs.values()))[:MAX_ENVIRONMENTS]
    )


def _sparks(session: Session, project_id: int, ids: Sequence[int], row: v.RegressionRow) -> dict[int, v.Spark]:
    """The strongest changes in miniature, with as many commits behind the step as before it."""
    tip, at = reads.tip_position(session, project_id), row.after.position if row.after is not None else None
    until = min(tip, at + grid.SPARK_COMMITS // 2) if at is not None else tip
    return grid.sparklines(session, list(dict.fromkeys(ids))[:MAX_SPARKS], tip, until=until)


def _suspects(session: Session, project_id: int, row: v.RegressionRow) -> Sequence[Any]:
    before, after = row.before, row.after
    if before is None or after is None or before.position is None or after.position is None:
        return ()
    return reads.revisions_between(session, project_id, before.position, after.position, MAX_SUSPECTS)


def _similar(session: Session, project_id: int, found: Any, series: set[int]) -> list[Any]:
    """Earlier ones that touch some of the same series, newest first."""
    earlier = [r for r in reads.regressions(session, project_id, below=found.id, limit=200) if r.id != found.id]
    touched: dict[int, set[int]] = {}
    for change in reads.changes_of_regressions(session, [r.id or 0 for r in earlier]):
        touched.setdefault(change.regression_id or 0, set()).add(change.series_id)
    return [r for r in earlier if touched.get(r.id or 0, set()) & series][:8]
