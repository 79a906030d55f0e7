"""Check and comment of a pull request: what holds now, told once, edited in place, and again only when it differs.

Each call that made something is noted before the next is made; what a lost answer made is found again by its marks.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.forge_tables import ForgeRepository, PullRequest
from groundspeed.service.db.tables import Attempt, Job, Project
from groundspeed.service.domain.pulls.forge import ACCEPT, APPROVE, RERUN, Button, Check, ForgeRefused
from groundspeed.service.domain.pulls.report import Report, conclusion, verdict
from groundspeed.service.usecases import gate
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.pulls import report as reports
from groundspeed.service.usecases.pulls.outgoing import Claim, Desk

_COMMENTED = ("done", "approval", "error")
"""States that are worth a comment; the others only change one that is there."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """What is to be said (``report``, ``check``), and what was (``told``)."""

    pull: PullRequest
    report: Report
    check: Check
    told: dict[str, Any]
    finished: str
    """The request that ``report`` is the end of, if it is one."""


def give(desk: Desk, claimed: Claim, now: datetime) -> None:
    """Bring check and comment up to date. Raises ForgeUnavailable and ForgeRefused."""
    if claimed.pull_id is None:
        return
    _conclude(desk.database, claimed.pull_id, now)
    with desk.database.read() as session:
        found = _load(session, claimed.pull_id, desk.base_url)
    if found is None:
        return
    told = {"seen": seen(found.report), "finished": found.finished, "at": now.isoformat(), "refused": ""}
    try:
        _check(desk, claimed, found)
        if found.pull.kind == "pull":
            _comment(desk, claimed, found)
    except ForgeRefused as refused:
        # Not said again and again: the next change of state is the next try.
        _note(desk.database, claimed.pull_id, told | {"refused": refused.reason})
        raise
    if found.report.state == "approval":
        told["asked"] = found.pull.head_sha
    _note(desk.database, claimed.pull_id, told)


def _load(session: Session, pull_id: int, base_url: str) -> _Answer | None:
    pull = session.get_one(PullRequest, pull_id)
    repository = session.get_one(ForgeRepository, pull.repository_id)
    project = session.get(Project, repository.project_id) if repository.project_id else None
    if project is None or not pull.head_sha:
        return None
    report = reports.build(session, project, pull, base_url)
    external = f"{pull.id}:{pull.head_sha[:20]}:{pull.round}"
    check = Check(pull.head_sha, report, external, conclusion(report), _buttons(report))
    return _Answer(pull, report, check, dict(pull.told), reports.finished(session, pull))


def _buttons(report: Report) -> tuple[Button, ...]:
    if report.state in {"waiting", "running"}:
        return ()
    if report.state == "approval":
        return (APPROVE,)
    wanted = (report.of("regressed") or report.of("failing")) and not report.accepted
    return (RERUN, ACCEPT) if wanted else (RERUN,)


def _conclude(database: Database, pull_id: int, now: datetime) -> None:
    """Verdicts are computed when a job ends; where the process died in between, here."""
    with database.read() as session:
        query = (
            select(col(Attempt.id))
            .join(Job, col(Job.id) == col(Attempt.job_id))
            .join(PullRequest, col(PullRequest.request_id) == col(Job.request_id))
            .where(col(PullRequest.id) == pull_id, col(Job.state) == "done", col(Attempt.state) == "succeeded")
        )
        ended = session.scalars(query).all()
    for attempt_id in ended:
        gate.conclude(database, attempt_id, now)


# --- the check -------------------------------------------------------------------------------------------------------


def _check(desk: Desk, claimed: Claim, found: _Answer) -> None:
    told, check = found.told, found.check
    digest = _digest(check)
    key = check.external_id
    if told.get("check") == digest and told.get("check_key") == key:
        return
    if found.pull.state == "closed" and told.get("check_key") != key:
        _end_former(desk, claimed, found)
        return  # a head that nobody waits for gets no check of its own
    made: dict[str, Any] = {"check": digest, "check_key": key, "concluded": check.conclusion is not None}
    if told.get("check_key") == key and found.pull.check_id is not None:
        try:
            desk.forge.update_check(claimed.repository, found.pull.check_id, check)
        except ForgeRefused as refused:
            if not refused.gone:
                raise
            _note(desk.database, found.pull.id, {"check_key": ""}, check_id=None)
            raise
        _note(desk.database, found.pull.id, made)
        return
    _end_former(desk, claimed, found)
    known = desk.forge.find_check(claimed.repository, check.head_sha, key) if claimed.tries > 1 else None
    if known is not None:
        desk.forge.update_check(claimed.repository, known, check)
    else:
        known = desk.forge.create_check(claimed.repository, check)
    _note(desk.database, found.pull.id, made, check_id=known, check_sha=check.head_sha)


def _end_former(desk: Desk, claimed: Claim, found: _Answer) -> None:
    """A check of a head or round that is superseded does not stay open for ever."""
    pull, told = found.pull, found.told
    if pull.check_id is None or not told.get("check_key") or told.get("concluded", True):
        return
    report = Report("cancelled", pull.compared_sha, pull.check_sha, found.report.url, note="Superseded.")
    former = Check(pull.check_sha, report, str(told["check_key"]), conclusion(report), (RERUN,))
    try:
        desk.forge.update_check(claimed.repository, pull.check_id, former)
    except ForgeRefused as refused:
        if not refused.gone:
            raise
    _note(desk.database, pull.id, {"concluded": True})


# --- the comment -----------------------------------------------------------------------------------------------------


def _comment(desk: Desk, claimed: Claim, found: _Answer) -> None:
    pull, told, report = found.pull, found.told, found.report
    worth_one = report.state in _COMMENTED
    digest = _digest(report if worth_one else replace(report, done=0, total=0, note=""))
    if told.get("comment") == digest or pull.state == "closed":
        return
    said = {"comment": digest} | ({"verdict": verdict(report)} if report.state == "done" else {})
    anew = report.state == "done" and told.get("verdict") not in {None, verdict(report)}
    if pull.comment_id is not None and not anew and _edited(desk, claimed, found, said):
        return
    if worth_one:
        _commented(desk, claimed, found, said, anew=anew)


def _edited(desk: Desk, claimed: Claim, found: _Answer, said: dict[str, Any]) -> bool:
    """Edit the comment that is there; False: somebody has deleted it."""
    try:
        desk.forge.update_comment(claimed.repository, found.pull.comment_id or 0, found.report)
    except ForgeRefused as refused:
        if not refused.gone:
            raise
        _note(desk.database, found.pull.id, {"comment": ""}, comment_id=None)
        return False
    _note(desk.database, found.pull.id, said)
    return True


def _commented(desk: Desk, claimed: Claim, found: _Answer, said: dict[str, Any], *, anew: bool) -> None:
    """Write a comment. ``anew``: the verdict is another than before, which people are told by a new one."""
    pull, report = found.pull, found.report
    known = desk.forge.find_comment(claimed.repository, pull.number) if claimed.tries > 1 else None
    if known is not None and not (anew and known == pull.comment_id):
        desk.forge.update_comment(claimed.repository, known, report)
    else:
        known = desk.forge.create_comment(claimed.repository, pull.number, report)
    _note(desk.database, pull.id, said, comment_id=known)
    if anew and pull.comment_id is not None:
        try:
            desk.forge.retire_comment(claimed.repository, pull.comment_id, report)
        except ForgeRefused as refused:
            if not refused.gone:
                raise


def seen(report: Report) -> str:
    """What tells whether there is something new to say."""
    return _digest(report)


def _digest(facts: Check | Report) -> str:
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


def _note(database: Database, pull_id: int | None, told: dict[str, Any], **columns: Any) -> None:
    with database.transaction() as session:
        pull = session.scalars(held(select(PullRequest).where(col(PullRequest.id) == pull_id))).one()
        pull.told = {**pull.told, **told}
        for name, value in columns.items():
            setattr(pull, name, value)
        session.add(pull)
