"""What has happened since one last looked: lines of a log, progress of an attempt or a request."""

from __future__ import annotations

from sqlmodel import Session

from groundspeed.service.db import reads, reads_work
from groundspeed.service.db.engine import Database
from groundspeed.service.errors import NotFound
from groundspeed.service.usecases.views.work import log_line
from groundspeed.service.wire import views as v

AT_ONCE = 500
"""Lines sent in one go."""


def project_of_attempt(db: Database, id_: str) -> str:
    """The slug of the project that an attempt works for. Raises NotFound."""
    with db.read() as session:
        row = reads_work.attempt(session, id_)
        job = reads_work.job(session, row.job_id) if row is not None else None
        if job is None:
            raise NotFound(f"There is no attempt {id_[:60]!r}.", "Attempts are shown with their job.")
        return _slug(session, job.project_id)


def project_of_job(db: Database, id_: int) -> str:
    """The slug of the project that a job is for. Raises NotFound."""
    with db.read() as session:
        row = reads_work.job(session, id_)
        if row is None:
            raise NotFound(f"There is no job {id_}.", "Jobs are listed with their requests, under Runs.")
        return _slug(session, row.project_id)


def project_of_request(db: Database, id_: int) -> str:
    """The slug of the project that a request is for. Raises NotFound."""
    with db.read() as session:
        row = reads_work.request(session, id_)
        if row is None:
            raise NotFound(f"There is no request {id_}.", "Requests are listed under Runs.")
        return _slug(session, row.project_id)


def _slug(session: Session, project_id: int) -> str:
    row = reads.project_by_id(session, project_id)
    return row.slug if row is not None else ""


def attempt_news(db: Database, id_: str, after: int) -> v.AttemptNews:
    """Lines after ``after`` and where the attempt stands. Raises NotFound for an unknown attempt."""
    with db.read() as session:
        row = reads_work.attempt(session, id_)
        if row is None:
            raise NotFound(f"There is no attempt {id_[:60]!r}.", "Attempts are shown with their job.")
        lines = reads_work.log_after(session, id_, after, AT_ONCE)
        return v.AttemptNews(
            state=row.state,
            phase=row.phase,
            message=row.message,
            done=row.done,
            total=row.total,
            lines=tuple(log_line(entry) for entry in lines),
        )


def request_news(db: Database, id_: int) -> v.RequestNews:
    """Where a request and its jobs stand. Raises NotFound for an unknown request."""
    with db.read() as session:
        row = reads_work.request(session, id_)
        if row is None:
            raise NotFound(f"There is no request {id_}.", "Requests are listed under Runs.")
        jobs = reads_work.jobs_of_request(session, id_, limit=10_000)
        attempts = reads_work.attempts_of_jobs(session, [job.id or 0 for job in jobs if job.state == "running"])
        return v.RequestNews(
            state=row.state,
            jobs={str(job.id): job.state for job in jobs},
            done=sum(attempt.done for attempt in attempts if attempt.state == "running"),
            total=sum(attempt.total for attempt in attempts if attempt.state == "running"),
        )
