"""A commit: what was measured on it, beside the measured commit before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlmodel import Session

from groundspeed.service.db import reads, reads_series, reads_work
from groundspeed.service.db.engine import Database
from groundspeed.service.errors import NotFound
from groundspeed.service.usecases.kernels import views as kernel_views
from groundspeed.service.usecases.views import refs, renamed
from groundspeed.service.usecases.views.overview import revision_states
from groundspeed.service.usecases.views.runs import run_row
from groundspeed.service.wire import views as v

LOOK_BACK = (1, 5, 30)
"""How many commits back a value to stand beside is looked for, each time for the series that still have none."""


def head(db: Database, slug: str, sha: str) -> v.RevisionHead:
    """What the page begins with; raises as :func:`revision_page` does."""
    with db.read() as session:
        project, found = _named(session, slug, sha)
        before, after = _neighbours(session, project.id, found)
        revision = refs.revision_ref(found)
        return v.RevisionHead(project=refs.project_ref(project), revision=revision, previous=before, next=after)


def _named(session: Session, slug: str, sha: str) -> tuple[Any, Any]:
    project = refs.project_row(session, slug)
    found = reads.revision_by_sha(session, project.id, sha)
    if found is None:
        raise NotFound(f"There is no single commit {sha!r} in {project.name}.", "Give more of its hash.")
    return project, found


def revision_page(db: Database, slug: str, sha: str) -> v.RevisionPage:
    """Raises NotFound when ``sha`` names no commit, or more than one."""
    with db.read() as session:
        project, found = _named(session, slug, sha)
        near = _neighbours(session, project.id, found)
        changes = reads.changes_at_revision(session, found.id or 0)
        series = {row.id: row for row in reads_series.series_rows(session, [c.series_id for c in changes])}
        failed = reads_work.failed_runs_of_revision(session, found.id or 0)
        names = refs.Names(session, [found.id])
        results = tuple(_results(session, project.id, found))
        return v.RevisionPage(
            project=refs.project_ref(project),
            revision=refs.revision_ref(found),
            parents=tuple(found.parents),
            previous=near[0],
            next=near[1],
            state=revision_states(session, [found])[0],
            results=results,
            changes=tuple(
                v.AffectedSeries(series=refs.series_ref(series[c.series]), change=c)
                for c in refs.changes(session, changes)
            ),
            failures=tuple(run_row(run, suite, node, names) for run, suite, node in failed),
            kernels=_kernels(session, found, changes),
            renamed=renamed.hints(session, project.id, found, results),
            notes=tuple(event.title for event in reads.annotations_at(session, found.id or 0)),
        )


def _kernels(session: Session, found: Any, changes: Sequence[Any]) -> tuple[v.Kernels, ...]:
    """Of the changes that begin here, else of gates that had the commit as their head."""
    return kernel_views.of_changes(session, changes) or kernel_views.of_gates(session, found.id)


def _neighbours(session: Session, project_id: int, found: Any) -> tuple[v.RevisionRef | None, v.RevisionRef | None]:
    if found.position is None:
        return None, None
    at = reads.revisions_at(session, project_id, [found.position - 1, found.position + 1])
    before, after = at.get(found.position - 1), at.get(found.position + 1)
    return (
        refs.revision_ref(before) if before is not None else None,
        refs.revision_ref(after) if after is not None else None,
    )


def _results(session: Session, project_id: int, found: Any) -> list[v.RevisionResult]:
    rows: dict[int, list[Any]] = {}
    for row in reads_work.results_of_revisions(session, project_id, [found.id]):
        rows.setdefault(row.series_id, []).append(row)
    earlier = _earlier(session, project_id, found.position, rows) if found.position is not None else {}
    out = []
    for series in reads_series.series_rows(session, rows):
        mine, before = rows[series.id], earlier.get(series.id)
        out.append(
            v.RevisionResult(
                series=refs.series_ref(series),
                value=refs.middle([row.value for row in mine]),
                spread=mine[-1].spread,
                count=len(mine),
                run=mine[-1].run_id,
                previous=before[1] if before is not None else None,
                previous_at=before[0] if before is not None else None,
            )
        )
    return out


def _earlier(
    session: Session, project_id: int, position: int, series: Iterable[int]
) -> dict[int, tuple[v.RevisionRef, float]]:
    """By series: the nearest commit before ``position`` that has a value, and the median of its values."""
    out: dict[int, tuple[v.RevisionRef, float]] = {}
    wanted, begin = set(series), position
    for back in LOOK_BACK:
        end, begin = begin, max(0, position - back)
        if not wanted or begin == end:
            break
        at = reads.revisions_at(session, project_id, range(begin, end))
        ids = {row.id or 0: row.position or 0 for row in at.values()}
        commits = {position: refs.revision_ref(row) for position, row in at.items()}
        values: dict[int, dict[int, list[float]]] = {}
        for series_id, revision_id, value in reads_series.values_at(session, wanted, ids):
            values.setdefault(series_id, {}).setdefault(ids[revision_id], []).append(value)
        for id_, by_position in values.items():
            nearest = max(by_position)
            out[id_] = commits[nearest], refs.middle(by_position[nearest])
        wanted -= set(values)
    return out
