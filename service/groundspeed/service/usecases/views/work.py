"""Requests, jobs and attempts: what was asked for, what runs, what waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlmodel import Session

from groundspeed.service.db import reads, reads_series, reads_work
from groundspeed.service.db.engine import Database
from groundspeed.service.errors import NotFound
from groundspeed.service.usecases.views import refs
from groundspeed.service.usecases.views.runs import artefact, run_row
from groundspeed.service.wire import views as v

LOG_LINES = 400
"""Lines of a log that a page holds; the rest is had from the log's own route."""


def request_rows(session: Session, found: Sequence[Any]) -> list[v.RequestRow]:
    """Requests with the count of their jobs by state and of the runs done."""
    ids = [r.id for r in found]
    states = reads_work.job_states_by_request(session, ids)
    projects = {p.id: p for p in reads.projects(session)}
    tips = {
        (r.project_id, r.tip_sha): reads.revision_by_sha(session, r.project_id, r.tip_sha) for r in found if r.tip_sha
    }
    out = []
    for r in found:
        jobs = states.get(r.id, {})
        tip = tips.get((r.project_id, r.tip_sha))
        total = sum(jobs.values())
        out.append(
            v.RequestRow(
                id=r.id,
                project=refs.project_ref(projects[r.project_id]),
                kind=r.kind,
                state=r.state,
                tip=refs.revision_ref(tip) if tip is not None else None,
                tip_sha=r.tip_sha,
                jobs=jobs,
                runs_done=total - jobs.get("queued", 0) - jobs.get("running", 0),
                runs_total=total,
                priority=r.priority,
                error=r.error,
                created_at=r.created_at,
                finished_at=r.finished_at,
            )
        )
    return out


def job_rows(session: Session, found: Sequence[Any]) -> list[v.JobRow]:
    """Jobs with their commits and the state of their newest attempt."""
    ids = [job.id for job in found]
    sides: dict[int, list[int]] = {}
    for side in reads_work.sides_of_jobs(session, ids):
        sides.setdefault(side.job_id, []).append(side.revision_id)
    newest = {attempt.job_id: attempt for attempt in reads_work.attempts_of_jobs(session, ids)}
    nodes = {node.id: node.name for node in reads_work.nodes(session)}
    names = refs.Names(session, [id_ for revisions in sides.values() for id_ in revisions])
    projects = {p.id: p for p in reads.projects(session)}
    waits = any(job.state == "queued" for job in found)
    place = {id_: i + 1 for i, id_ in enumerate(reads_work.queue_order(session))} if waits else {}
    out = []
    for job in found:
        attempt = newest.get(job.id)
        out.append(
            v.JobRow(
                id=job.id,
                request=job.request_id,
                project=refs.project_ref(projects[job.project_id]),
                suite=job.suite,
                reason=job.reason,
                state=job.state,
                revisions=tuple(names.known_revision(id_) for id_ in sides.get(job.id, ())),
                attempts=job.attempts,
                max_attempts=job.max_attempts,
                phase=attempt.phase if attempt is not None else "",
                message=attempt.message if attempt is not None else "",
                done=attempt.done if attempt is not None else 0,
                total=attempt.total if attempt is not None else 0,
                node=nodes.get(attempt.node_id, "") if attempt is not None else "",
                position=place.get(job.id),
                error=job.error,
                created_at=job.created_at,
                finished_at=job.finished_at,
            )
        )
    return out


def activity(db: Database, slug: str | None, below: int | None = None, limit: int = 30) -> v.Activity:
    """What runs, what waits, and what was asked for lately; ``slug`` None: of all projects."""
    with db.read() as session:
        project = refs.project_row(session, slug) if slug is not None else None
        id_ = project.id if project is not None else None
        found = reads_work.requests(session, id_, below=below, limit=limit + 1)
        page = found[:limit]
        return v.Activity(
            project=refs.project_ref(project) if project is not None else None,
            requests=tuple(request_rows(session, page)),
            running=tuple(job_rows(session, reads_work.jobs_in_state(session, id_, "running"))),
            queued=tuple(job_rows(session, reads_work.jobs_in_state(session, id_, "queued", 20))),
            queued_total=reads_work.count_jobs(session, id_, "queued"),
            next_cursor=str(page[-1].id) if len(found) > limit else None,
        )


def request_page(db: Database, id_: int) -> v.RequestPage:
    """Raises NotFound for an unknown request."""
    with db.read() as session:
        found = reads_work.request(session, id_)
        if found is None:
            raise NotFound(f"There is no request {id_}.", "Requests are listed under Runs.")
        row = request_rows(session, [found])[0]
        return v.RequestPage(
            row=row,
            jobs=tuple(job_rows(session, reads_work.jobs_of_request(session, id_))),
            jobs_total=sum(row.jobs.values()),
            parent=found.parent_id,
            children=tuple(reads_work.children_of(session, id_)),
            why=found.payload,
        )


def job_page(db: Database, id_: int) -> v.JobPage:
    """Raises NotFound for an unknown job."""
    with db.read() as session:
        found = reads_work.job(session, id_)
        if found is None:
            raise NotFound(f"There is no job {id_}.", "Jobs are listed with their requests, under Runs.")
        attempts = reads_work.attempts_of_jobs(session, [id_])
        nodes = {node.id: node.name for node in reads_work.nodes(session)}
        runs = reads_work.runs_of_job(session, id_)
        names = refs.Names(session, [run.revision_id for run, _, _ in runs])
        artefacts = reads_work.artefacts_of_attempts(session, [a.id for a in attempts])
        benchmarks = found.spec.get("benchmarks") or ()
        return v.JobPage(
            row=job_rows(session, [found])[0],
            benchmarks=tuple(str(b.get("key", "")) for b in benchmarks if isinstance(b, dict)),
            attempts=tuple(_attempt(session, a, nodes.get(a.node_id, "")) for a in reversed(attempts)),
            runs=tuple(run_row(run, suite, node, names) for run, suite, node in runs),
            verdicts=tuple(_verdicts(session, id_)),
            artefacts=tuple(artefact(a) for a in artefacts),
            spec=found.spec,
        )


def _attempt(session: Session, row: Any, node: str) -> v.AttemptView:
    return v.AttemptView(
        id=row.id,
        number=row.number,
        node=node,
        state=row.state,
        phase=row.phase,
        message=row.message,
        done=row.done,
        total=row.total,
        error_kind=row.error_kind,
        error=row.error,
        claimed_at=row.claimed_at,
        finished_at=row.finished_at,
        log=tuple(log_line(entry) for entry in reads_work.log_tail(session, row.id, LOG_LINES)),
        log_total=reads_work.count_log(session, row.id),
    )


def log_line(row: Any) -> v.LogLineView:
    return v.LogLineView(seq=row.seq, at=row.at, stream=row.stream, text=row.text)


def _verdicts(session: Session, job_id: int) -> list[v.VerdictView]:
    found = reads_work.verdicts_of_job(session, job_id)
    series = {row.id: row for row in reads_series.series_rows(session, [verdict.series_id for verdict in found])}
    return [
        v.VerdictView(
            series=refs.series_ref(series[one.series_id]),
            answer=one.answer,
            reason=one.reason,
            effect=v.Effect(
                ratio=refs.finite(one.ratio),
                low=refs.finite(one.ratio_low),
                high=refs.finite(one.ratio_high),
                difference=None,
            ),
            mde=refs.finite(one.mde),
            pairs=one.pairs,
        )
        for one in found
    ]
