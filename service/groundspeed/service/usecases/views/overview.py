"""The first pages: all projects, and one project at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlmodel import Session

from groundspeed.service.db import reads, reads_series, reads_work
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases.import_places import NODE_PREFIX
from groundspeed.service.usecases.views import findings, refs, work
from groundspeed.service.usecases.views.grid import SILENT_AFTER
from groundspeed.service.wire import views as v

REVISIONS = 20
FRESH = timedelta(seconds=300)
"""A node that was heard of so lately is there."""


def workers(strips: Sequence[v.NodeStrip]) -> tuple[v.NodeStrip, ...]:
    """Without the machines of which only imported results are known."""
    return tuple(strip for strip in strips if not strip.name.startswith(NODE_PREFIX))


def node_strips(session: Session, now: datetime) -> list[v.NodeStrip]:
    """Every node in one line."""
    nodes = reads_work.nodes(session)
    hardware = reads_work.hardware_by_id(session, [n.hardware_id for n in nodes if n.hardware_id])
    names = refs.Names(session, (), [n.environment_id for n in nodes])
    running: dict[int, list[int]] = {}
    for attempt in reads_work.running_attempts(session):
        running.setdefault(attempt.node_id, []).append(attempt.job_id)
    return [
        v.NodeStrip(
            id=n.id or 0,
            name=n.name,
            state=n.state,
            reason=n.state_reason,
            hardware=hardware[n.hardware_id].label if n.hardware_id in hardware else "",
            environment=names.environment(n.environment_id),
            seen_at=n.seen_at,
            fresh=n.seen_at is not None and now - n.seen_at < FRESH,
            running=tuple(running.get(n.id or 0, ())),
        )
        for n in nodes
    ]


def _cards(session: Session, projects: Sequence[Any]) -> list[v.ProjectCard]:
    open_, jobs, series = (
        reads.open_regressions_by_project(session),
        reads.jobs_by_project(session),
        reads.series_by_project(session, [p.id for p in projects]),
    )
    said: dict[int, str] = {}
    for request in reads_work.troubled(session, [p.id for p in projects]):
        if request.kind in {"push", "schedule", "manual"}:
            said.setdefault(request.project_id, request.error)
    out = []
    for p in projects:
        tip = reads.revision_by_sha(session, p.id, p.tip_sha) if p.tip_sha else None
        if tip is None:  # imported, and not watched
            tip = next(iter(reads.newest_revisions(session, p.id, 1)), None)
        count, last = series.get(p.id, (0, None))
        out.append(
            v.ProjectCard(
                project=refs.project_ref(p),
                branch=p.branch,
                repo_url=p.repo_url,
                tip=refs.revision_ref(tip) if tip is not None else None,
                open_regressions=open_.get(p.id, 0),
                series=count,
                queued=jobs.get((p.id, "queued"), 0),
                running=jobs.get((p.id, "running"), 0),
                last_result_at=last,
                config_error=p.config_error or said.get(p.id, ""),
            )
        )
    return out


def project_list(db: Database, now: datetime) -> v.ProjectList:
    """All projects, and the machines that serve them."""
    with db.read() as session:
        return v.ProjectList(
            projects=tuple(_cards(session, reads.projects(session))), nodes=workers(node_strips(session, now))
        )


def revision_states(session: Session, revisions: Sequence[Any]) -> list[v.RevisionState]:
    """What is known of each commit."""
    ids = [r.id for r in revisions]
    outcomes = reads.outcomes_by_revision(session, ids)
    jobs = reads.jobs_by_revision(session, ids)
    kinds = reads.change_kinds_by_revision(session, ids)
    return [
        v.RevisionState(
            revision=refs.revision_ref(r),
            ok=outcomes.get(r.id, {}).get("ok", 0),
            failed=sum(n for name, n in outcomes.get(r.id, {}).items() if name not in {"ok", "unsupported", "skipped"})
            + jobs.get(r.id, {}).get("failed", 0)
            + jobs.get(r.id, {}).get("poison", 0),
            queued=jobs.get(r.id, {}).get("queued", 0),
            running=jobs.get(r.id, {}).get("running", 0),
            regressions=kinds.get(r.id, {}).get("regression", 0),
            improvements=kinds.get(r.id, {}).get("improvement", 0),
        )
        for r in revisions
    ]


def overview(db: Database, slug: str, now: datetime) -> v.Overview:
    """One project: its newest commits, what is open, what runs, which series went silent."""
    with db.read() as session:
        project = refs.project_row(session, slug)
        newest = reads.newest_revisions(session, project.id, REVISIONS)

        def found(kind: str) -> tuple[v.RegressionRow, ...]:
            states = reads.OPEN_STATES
            every = reads.regressions(session, project.id, kinds=(kind,), states=states, limit=8)
            return tuple(findings.rows(session, project, every))

        return v.Overview(
            card=_cards(session, [project])[0],
            revisions=tuple(revision_states(session, newest)),
            regressions=found("regression"),
            improvements=found("improvement"),
            activity=tuple(
                work.request_rows(
                    session, reads_work.requests(session, project.id, states=reads_work.UNFINISHED, limit=8)
                )
            ),
            nodes=workers(node_strips(session, now)),
            silent=tuple(_silent(session, project)),
        )


def _silent(session: Session, project: Any) -> list[v.SilentSeries]:
    """Series without a result of the last ``SILENT_AFTER`` commits, the longest silent first."""
    tip = reads.tip_position(session, project.id)
    boundary = reads.revisions_at(session, project.id, [tip - SILENT_AFTER]).get(tip - SILENT_AFTER)
    if boundary is None:
        return []
    quiet = reads_series.series_silent_since(session, project.id, boundary.committed_at, 200)
    last = reads_series.last_position(session, [row.id for row in quiet])
    late = sorted((last.get(row.id, -1), i) for i, row in enumerate(quiet) if tip - last.get(row.id, -1) > SILENT_AFTER)
    at = reads.revisions_at(session, project.id, {position for position, _ in late[:8]})
    return [
        v.SilentSeries(
            series=refs.series_ref(quiet[i]),
            last=refs.revision_ref(at[position]) if position in at else None,
            last_result_at=quiet[i].last_result_at,
            behind=tip - position,
        )
        for position, i in late[:8]
    ]
