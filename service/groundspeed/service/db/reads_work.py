"""Queries about work: requests, jobs, attempts, runs, nodes. They only read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Row, and_, func, or_, select
from sqlalchemy.orm import aliased
from sqlmodel import Session, col

from groundspeed.service.db import tables as t

UNFINISHED = ("pending", "planned", "running")


def requests(
    session: Session, project_id: int | None, *, states: Sequence[str] = (), below: int | None = None, limit: int = 30
) -> Sequence[t.Request]:
    """Newest first, ids below ``below``."""
    query = select(t.Request)
    if project_id is not None:
        query = query.where(col(t.Request.project_id) == project_id)
    if states:
        query = query.where(col(t.Request.state).in_(states))
    if below is not None:
        query = query.where(col(t.Request.id) < below)
    return session.execute(query.order_by(col(t.Request.id).desc()).limit(limit)).scalars().all()


def troubled(session: Session, project_ids: Collection[int] | None = None, limit: int = 100) -> Sequence[t.Request]:
    """Requests that could not be planned, newest first: they wait, or failed and no later of their kind did better."""
    later = aliased(t.Request)
    better = select(col(later.id)).where(
        col(later.project_id) == col(t.Request.project_id),
        col(later.kind) == col(t.Request.kind),
        col(later.id) > col(t.Request.id),
        col(later.state).in_(("planned", "running", "done")),
    )
    query = select(t.Request).where(col(t.Request.error) != "")
    if project_ids is not None:
        query = query.where(col(t.Request.project_id).in_(project_ids))
    waits = col(t.Request.state) == "pending"
    query = query.where(or_(waits, and_(col(t.Request.state) == "failed", ~better.exists())))
    return session.execute(query.order_by(col(t.Request.id).desc()).limit(limit)).scalars().all()


def request(session: Session, id_: int) -> t.Request | None:
    return session.get(t.Request, id_)


def children_of(session: Session, request_id: int) -> list[int]:
    """Follow-ups of a request."""
    query = select(col(t.Request.id)).where(col(t.Request.parent_id) == request_id).order_by(col(t.Request.id))
    return [id_ or 0 for id_ in session.execute(query).scalars()]


def job_states_by_request(session: Session, request_ids: Collection[int]) -> dict[int, dict[str, int]]:
    """Jobs by state of each request that has any."""
    out: dict[int, dict[str, int]] = {}
    rows = session.execute(
        select(col(t.Job.request_id), col(t.Job.state), func.count())
        .where(col(t.Job.request_id).in_(request_ids))
        .group_by(col(t.Job.request_id), col(t.Job.state))
    )
    for request_id, state, count in rows:
        out.setdefault(request_id, {})[state] = count
    return out


def jobs_of_request(session: Session, request_id: int, limit: int = 500) -> Sequence[t.Job]:
    query = select(t.Job).where(col(t.Job.request_id) == request_id).order_by(col(t.Job.id)).limit(limit)
    return session.execute(query).scalars().all()


def jobs_in_state(session: Session, project_id: int | None, state: str, limit: int = 50) -> Sequence[t.Job]:
    """In the order in which they run."""
    query = select(t.Job).where(col(t.Job.state) == state)
    if project_id is not None:
        query = query.where(col(t.Job.project_id) == project_id)
    return session.execute(query.order_by(col(t.Job.priority), col(t.Job.id)).limit(limit)).scalars().all()


def count_jobs(session: Session, project_id: int | None, state: str) -> int:
    query = select(func.count()).select_from(t.Job).where(col(t.Job.state) == state)
    if project_id is not None:
        query = query.where(col(t.Job.project_id) == project_id)
    return int(session.execute(query).scalar_one())


def queue_order(session: Session, limit: int = 5000) -> list[int]:
    """Ids of waiting jobs in the order in which they run."""
    query = select(col(t.Job.id)).where(col(t.Job.state) == "queued")
    return [
        id_ or 0 for id_ in session.execute(query.order_by(col(t.Job.priority), col(t.Job.id)).limit(limit)).scalars()
    ]


def job(session: Session, id_: int) -> t.Job | None:
    return session.get(t.Job, id_)


def sides_of_jobs(session: Session, job_ids: Collection[int]) -> Sequence[t.JobSide]:
    query = select(t.JobSide).where(col(t.JobSide.job_id).in_(job_ids))
    return session.execute(query.order_by(col(t.JobSide.job_id), col(t.JobSide.index))).scalars().all()


def attempts_of_jobs(session: Session, job_ids: Collection[int]) -> Sequence[t.Attempt]:
    query = select(t.Attempt).where(col(t.Attempt.job_id).in_(job_ids))
    return session.execute(query.order_by(col(t.Attempt.job_id), col(t.Attempt.number))).scalars().all()


def running_attempts(session: Session) -> Sequence[t.Attempt]:
    return session.execute(select(t.Attempt).where(t.RUNS)).scalars().all()


def attempt(session: Session, id_: str) -> t.Attempt | None:
    return session.get(t.Attempt, id_)


def log_tail(session: Session, attempt_id: str, limit: int) -> list[t.LogEntry]:
    """The newest lines, oldest first."""
    query = select(t.LogEntry).where(col(t.LogEntry.attempt_id) == attempt_id)
    rows = session.execute(query.order_by(col(t.LogEntry.seq).desc()).limit(limit)).scalars().all()
    return list(reversed(rows))


def log_after(session: Session, attempt_id: str, seq: int, limit: int) -> Sequence[t.LogEntry]:
    """Lines after ``seq``, oldest first."""
    query = select(t.LogEntry).where(col(t.LogEntry.attempt_id) == attempt_id, col(t.LogEntry.seq) > seq)
    return session.execute(query.order_by(col(t.LogEntry.seq)).limit(limit)).scalars().all()


def count_log(session: Session, attempt_id: str) -> int:
    query = select(func.count()).select_from(t.LogEntry).where(col(t.LogEntry.attempt_id) == attempt_id)
    return int(session.execute(query).scalar_one())


def verdicts_of_job(session: Session, job_id: int) -> Sequence[t.Verdict]:
    query = select(t.Verdict).where(col(t.Verdict.job_id) == job_id).order_by(col(t.Verdict.id))
    return session.execute(query).scalars().all()


def artefacts_of_attempts(session: Session, attempt_ids: Collection[str]) -> Sequence[t.Artefact]:
    query = select(t.Artefact).where(col(t.Artefact.attempt_id).in_(attempt_ids)).order_by(col(t.Artefact.id))
    return session.execute(query.limit(200)).scalars().all()


# --- runs -----------------------------------------------------------------------------------------------------------

RunWithNames = tuple[t.Run, str, str]
"""A run, the suite of its benchmark, the name of its node."""


def _runs_join() -> Any:
    return (
        select(t.Run, col(t.Benchmark.suite), col(t.Node.name))
        .join(t.Benchmark, col(t.Benchmark.id) == col(t.Run.benchmark_id))
        .join(t.Node, col(t.Node.id) == col(t.Run.node_id))
    )


def runs_of_job(session: Session, job_id: int, limit: int = 500) -> list[RunWithNames]:
    query = _runs_join().where(col(t.Run.job_id) == job_id).order_by(col(t.Run.id)).limit(limit)
    return [(run, suite, node) for run, suite, node in session.execute(query)]


def failed_runs_of_revision(session: Session, revision_id: int, limit: int = 100) -> list[RunWithNames]:
    query = _runs_join().where(col(t.Run.revision_id) == revision_id, col(t.Run.outcome) != "ok")
    return [(run, suite, node) for run, suite, node in session.execute(query.order_by(col(t.Run.id)).limit(limit))]


def newest_runs_of_project(session: Session, project_id: int, limit: int) -> list[RunWithNames]:
    query = _runs_join().join(t.Job, col(t.Job.id) == col(t.Run.job_id)).where(col(t.Job.project_id) == project_id)
    query = query.where(col(t.Run.outcome) == "ok").order_by(col(t.Run.id).desc()).limit(limit)
    return [(run, suite, node) for run, suite, node in session.execute(query)]


def newest_places(session: Session, project_id: int, runs: int) -> list[tuple[int, int]]:
    """(environment, node) pairs of the newest ``runs`` runs of a project, each once."""
    newest = (
        select(col(t.Run.environment_id), col(t.Run.node_id))
        .join(t.Job, col(t.Job.id) == col(t.Run.job_id))
        .where(col(t.Job.project_id) == project_id, col(t.Run.outcome) == "ok")
        .order_by(col(t.Run.id).desc())
        .limit(runs)
        .subquery()
    )
    return [(row[0], row[1]) for row in session.execute(select(newest.c.environment_id, newest.c.node_id).distinct())]


def newest_runs_of_node(session: Session, node_id: int, limit: int = 30) -> list[RunWithNames]:
    query = _runs_join().where(col(t.Run.node_id) == node_id).order_by(col(t.Run.id).desc()).limit(limit)
    return [(run, suite, node) for run, suite, node in session.execute(query)]


def run(session: Session, id_: int) -> RunWithNames | None:
    row = session.execute(_runs_join().where(col(t.Run.id) == id_)).first()
    return None if row is None else (row[0], row[1], row[2])


def results_of_run(session: Session, run_id: int) -> Sequence[t.Result]:
    query = select(t.Result).where(col(t.Result.run_id) == run_id).order_by(col(t.Result.id))
    return session.execute(query).scalars().all()


def results_of_revisions(session: Session, project_id: int, revision_ids: Collection[int]) -> Sequence[Row[Any]]:
    """(series, revision, environment, value, spread, run, node) of every result of some commits."""
    query = _results().join(t.Revision, col(t.Revision.id) == col(t.Run.revision_id))
    query = query.where(col(t.Revision.id).in_(revision_ids), col(t.Revision.project_id) == project_id)
    return session.execute(query.order_by(col(t.Result.series_id), col(t.Result.run_id))).all()


def _results() -> Any:
    r = t.Result
    columns: Any = (
        col(r.series_id), col(r.revision_id), col(r.environment_id), col(r.value), col(r.spread), col(r.run_id),
        col(t.Run.node_id),
    )  # fmt: skip
    return select(*columns).join(t.Run, col(t.Run.id) == col(r.run_id))


def builds_of_runs(session: Session, run_ids: Collection[int]) -> list[int]:
    query = select(col(t.Run.build_id)).where(col(t.Run.id).in_(run_ids), col(t.Run.build_id).is_not(None)).distinct()
    return [one for one in session.scalars(query) if one is not None]


def build_snapshots(session: Session, ids: Collection[int]) -> dict[int, t.BuildSnapshot]:
    rows = session.scalars(select(t.BuildSnapshot).where(col(t.BuildSnapshot.id).in_(ids)))
    return {row.id or 0: row for row in rows}


def build_snapshot(session: Session, id_: int | None) -> t.BuildSnapshot | None:
    return None if id_ is None else session.get(t.BuildSnapshot, id_)


# --- nodes ----------------------------------------------------------------------------------------------------------


def nodes(session: Session) -> Sequence[t.Node]:
    return session.execute(select(t.Node).order_by(col(t.Node.name))).scalars().all()


def node_by_name(session: Session, name: str) -> t.Node | None:
    return session.execute(select(t.Node).where(col(t.Node.name) == name)).scalars().first()


def hardware_by_id(session: Session, ids: Collection[int]) -> dict[int, t.Hardware]:
    rows = session.execute(select(t.Hardware).where(col(t.Hardware.id).in_(ids))).scalars()
    return {row.id or 0: row for row in rows}


def devices_of(session: Session, node_id: int) -> Sequence[t.Device]:
    query = select(t.Device).where(col(t.Device.node_id) == node_id).order_by(col(t.Device.index))
    return session.execute(query).scalars().all()


def plugins_of(session: Session, node_id: int) -> Sequence[t.CatalogueEntry]:
    query = select(t.CatalogueEntry).where(col(t.CatalogueEntry.node_id) == node_id)
    return session.execute(query.order_by(col(t.CatalogueEntry.plugin))).scalars().all()


def events_of_node(session: Session, node_id: int) -> Sequence[t.Event]:
    query = select(t.Event).where(col(t.Event.node_id) == node_id).order_by(col(t.Event.at).desc()).limit(100)
    return session.execute(query).scalars().all()


def environments_of_node(session: Session, node_id: int) -> dict[int, datetime]:
    """The environments that a node has had, in the order of their first run, each with when that began."""
    first = func.min(col(t.Run.id))
    query = select(col(t.Run.environment_id), func.min(col(t.Run.started_at))).where(col(t.Run.node_id) == node_id)
    return dict(session.execute(query.group_by(col(t.Run.environment_id)).order_by(first)).tuples().all())


def newest_values_of_node(session: Session, node_id: int, runs: int) -> Sequence[Row[Any]]:
    """(series, value) of the results of the newest ``runs`` runs of a node."""
    newest = (
        select(col(t.Run.id)).where(col(t.Run.node_id) == node_id).order_by(col(t.Run.id).desc()).limit(runs).subquery()
    )
    query = select(col(t.Result.series_id), col(t.Result.value)).join(newest, newest.c.id == col(t.Result.run_id))
    return session.execute(query.where(col(t.Result.state) != "rejected")).all()


def benchmark(session: Session, id_: int) -> t.Benchmark:
    return session.get_one(t.Benchmark, id_)


def newest_results(
    session: Session, project_id: int, runs: int, *, node_id: int | None = None, environment_id: int | None = None
) -> Sequence[Row[Any]]:
    """(series, revision, environment, value, spread, run, node) of the newest ``runs`` runs of either."""
    newest = select(col(t.Run.id)).join(t.Job, col(t.Job.id) == col(t.Run.job_id))
    newest = newest.where(col(t.Job.project_id) == project_id, col(t.Run.outcome) == "ok")
    if node_id is not None:
        newest = newest.where(col(t.Run.node_id) == node_id)
    if environment_id is not None:
        newest = newest.where(col(t.Run.environment_id) == environment_id)
    chosen = newest.order_by(col(t.Run.id).desc()).limit(runs).subquery()
    query = _results().join(chosen, chosen.c.id == col(t.Run.id)).where(col(t.Result.state) != "rejected")
    return session.execute(query.order_by(col(t.Result.series_id), col(t.Result.run_id))).all()


def conditions_of_runs(session: Session, run_ids: Collection[int]) -> list[dict[str, Any]]:
    return list(session.execute(select(col(t.Run.conditions)).where(col(t.Run.id).in_(run_ids))).scalars())
