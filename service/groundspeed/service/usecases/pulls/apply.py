"""What one event changes: the state of a repository or a pull request as last heard of, whatever order they come in.

Nothing here asks the forge or git; what is to be done about the new state is decided afterwards (``evaluate``).
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlmodel import Session, col

from groundspeed.service.db.forge_tables import ForgeRepository, PullRequest
from groundspeed.service.db.tables import Project, Request
from groundspeed.service.db.unique import ensure
from groundspeed.service.domain.pulls import events as e
from groundspeed.service.domain.pulls.commands import Misunderstood, read_command
from groundspeed.service.domain.pulls.rules import untrusted
from groundspeed.service.usecases import jobs, outbox
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.pulls import outgoing, places
from groundspeed.service.usecases.pulls.topics import PULL
from groundspeed.service.usecases.topics import WATCH

Effect = tuple[str, str]
"""State of the delivery (done, ignored) and, in words, why."""
OPEN_REQUESTS = ("pending", "planned", "running")
_BUTTONS = {"rerun": "run", "approve": "approve", "accept": "accept"}


def apply(session: Session, event: e.Event, guid: str, now: datetime) -> Effect:
    """Let an event have its effect in this transaction. ``guid``: the delivery that brought it."""
    if isinstance(event, e.Ignored):
        return "ignored", event.reason
    if isinstance(event, e.Pinged):
        return "done", "ping"
    if isinstance(event, e.InstallationChanged):
        return _installation(session, event)
    repository = places.known(session, event.repository)
    if isinstance(event, e.RepositoryChanged):
        return _repository(session, repository, event)
    if repository.project_id is None:
        return "ignored", "the repository belongs to no project"
    return _of_project(session, repository, event, guid, now)


def _of_project(
    session: Session,
    repository: ForgeRepository,
    event: e.Pushed | e.PullRequest | e.Commented | e.CheckAsked | e.MergeGroup,
    guid: str,
    now: datetime,
) -> Effect:
    match event:
        case e.Pushed():
            effect = _pushed(session, repository, event)
        case e.PullRequest():
            effect = pull(session, repository, event, now, guid)
        case e.Commented():
            effect = commented(session, repository, event, now)
        case e.MergeGroup():
            effect = _queued(session, repository, event, now)
        case e.CheckAsked():
            effect = _check_asked(session, repository, event, now, guid)
    return effect


def subject(pull: PullRequest) -> str:
    """What the requests of a pull request are about; a new one supersedes the one before."""
    return f"pull:{pull.id}"


def due(session: Session, pull: PullRequest, now: datetime) -> None:
    """Let the pull request be looked at."""
    pull.due_at = pull.due_at or now
    session.add(pull)
    session.flush()
    outbox.enqueue(session, PULL, {"pull_id": pull.id})


def cancel(session: Session, project_id: int, pull: PullRequest, now: datetime, reason: str, keep: str = "") -> int:
    """Stop what is open for a pull request, but for requests about the head ``keep``; returns how many were."""
    query = select(Request).where(col(Request.project_id) == project_id, col(Request.state).in_(OPEN_REQUESTS))
    count = 0
    for request in session.scalars(query.where(col(Request.kind).in_(("pull_request", "bisect")))).all():
        if request.payload.get("subject") != subject(pull) or (keep and request.tip_sha == keep):
            continue
        jobs.cancel_all(session, request.id or 0, now, reason)
        request.state, request.error, request.finished_at = "cancelled", reason, now
        session.add(request)
        count += 1
    return count


# --- pull requests ---------------------------------------------------------------------------------------------------


def pull(
    session: Session, repository: ForgeRepository, event: e.PullRequest, now: datetime, guid: str = "", *,
    certain: bool = False,
) -> Effect:  # fmt: skip
    """The state of a pull request. Of two events the later one holds; of two in the same second with different
    content nobody can tell, and the forge is asked. ``certain``: the state was read from the forge just now.
    """
    row = _row(session, repository, event.number)
    if event.added_label and guid and _may_approve(row, event):
        payload = {"verb": "approve", "actor": event.sender, "sha": event.head_sha, "label": event.added_label}
        outgoing.want(session, repository, "command", f"label:{guid}", payload, now, pull_id=row.id)
    if event.updated_at < row.updated_at and not certain:
        return "done", "older than what is known"
    if event.updated_at == row.updated_at and row.head_sha and not certain:
        if _state_of(row) == _facts(event):
            return "done", "known"
        row.refresh = True
    else:
        _take(session, repository, row, event, now)
    due(session, row, now)
    return "done", event.action


def _may_approve(row: PullRequest, event: e.PullRequest) -> bool:
    """Whether the label could be the one that lets a stranger's head run; who put it on is asked afterwards."""
    wanted = row.told.get("approve_label")
    strange = untrusted(from_fork=event.from_fork, association=event.association)
    return strange and wanted in {None, event.added_label}


def _row(session: Session, repository: ForgeRepository, number: int, kind: str = "pull") -> PullRequest:
    fresh = PullRequest(repository_id=repository.id or 0, number=number, kind=kind)
    ensure(session, PullRequest, [fresh.model_dump(exclude={"id"})], key=("repository_id", "number"))
    query = select(PullRequest).where(
        col(PullRequest.repository_id) == repository.id, col(PullRequest.number) == number
    )
    return session.scalars(held(query)).one()


def _facts(event: e.PullRequest) -> dict[str, Any]:
    """What of an event is kept, by column."""
    return {
        "title": event.title,
        "author": event.author,
        "association": event.association,
        "state": event.state,
        "merged": event.merged,
        "draft": event.draft,
        "from_fork": event.from_fork,
        "head_sha": event.head_sha,
        "head_ref": event.head_ref,
        "base_ref": event.base_ref,
        "base_sha": event.base_sha,
        "labels": list(event.labels),
    }


def _state_of(row: PullRequest) -> dict[str, Any]:
    return row.model_dump(include=set(PullRequest.model_fields) & _COLUMNS)


_COLUMNS = {
    "title", "author", "association", "state", "merged", "draft", "from_fork", "head_sha", "head_ref", "base_ref",
    "base_sha", "labels",
}  # fmt: skip


def _take(session: Session, repository: ForgeRepository, row: PullRequest, event: e.PullRequest, now: datetime) -> None:
    """Write the event's facts, and stop at once what they have made pointless."""
    moved = row.head_sha not in {"", event.head_sha}
    opened_again = row.state == "closed" and event.state == "open"
    for name, value in _facts(event).items():
        setattr(row, name, value)
    row.updated_at, row.refresh = event.updated_at, False
    if moved:
        row.wish = {}
        cancel(session, repository.project_id or 0, row, now, "superseded by a newer head", keep=row.head_sha)
    if row.state == "closed":
        cancel(session, repository.project_id or 0, row, now, "the pull request was closed")
    if opened_again:
        row.round += 1
    session.add(row)


def differs(row: PullRequest | None, event: e.PullRequest) -> bool:
    """Whether the forge's own description says something that no event has told."""
    return row is None or row.updated_at != event.updated_at or _state_of(row) != _facts(event)


# --- what people ask -------------------------------------------------------------------------------------------------


def commented(
    session: Session, repository: ForgeRepository, event: e.Commented, now: datetime, *, late: bool = False
) -> Effect:
    """A comment's command, once. ``late``: no delivery told of it, and what it means may have changed since."""
    if event.author_is_bot:
        return "ignored", "comment of a program"
    command = read_command(event.body)
    if command is None:
        return "ignored", "comment without a command"
    said: dict[str, Any] = {"actor": event.author, "comment_id": event.comment_id, "number": event.number}
    if isinstance(command, Misunderstood):
        said |= {"verb": "misunderstood", "answer": command.answer}
    else:
        fields = ("verb", "suite", "pool", "against", "reason", "sha")
        said |= {name: getattr(command, name) for name in fields}
    if late:
        said["written_at"] = event.created_at
    found, key = find(session, repository, event.number), comment_key(repository, event)
    outgoing.want(session, repository, "command", key, said, now, pull_id=found.id if found else None)
    return "done", f"command {said['verb']}"


def comment_key(repository: ForgeRepository, event: e.Commented) -> str:
    """By which a comment's command is done once, however it became known."""
    return f"comment:{repository.forge_id}:{event.comment_id}"


def _check_asked(
    session: Session, repository: ForgeRepository, event: e.CheckAsked, now: datetime, guid: str
) -> Effect:
    verb = _BUTTONS.get(event.action)
    if verb is None:
        return "ignored", "another program's button"
    query = select(PullRequest).where(
        col(PullRequest.repository_id) == repository.id, col(PullRequest.head_sha) == event.head_sha
    )
    found = session.scalars(query.order_by(col(PullRequest.id))).all()
    if not found:
        return "ignored", "check of a commit that is no pull request's head"
    for row in found:
        said = {"verb": verb, "actor": event.sender, "sha": event.head_sha, "button": True}
        outgoing.want(session, repository, "command", f"check:{guid}:{row.id}", said, now, pull_id=row.id)
    return "done", f"button {verb}"


def find(session: Session, repository: ForgeRepository, number: int) -> PullRequest | None:
    query = select(PullRequest).where(
        col(PullRequest.repository_id) == repository.id, col(PullRequest.number) == number
    )
    found: PullRequest | None = session.scalars(query).one_or_none()
    return found


# --- branches, merge queues, repositories ----------------------------------------------------------------------------


def _pushed(session: Session, repository: ForgeRepository, event: e.Pushed) -> Effect:
    """The branch is looked at by git, which knows all commits, however it moved."""
    project = session.get_one(Project, repository.project_id)
    if event.branch is None:
        return "ignored", "push of a tag"
    if event.branch != project.branch:
        return "ignored", "push of another branch"
    if event.after is None:
        return "ignored", "the branch was deleted"
    project.polled_at = None
    session.add(project)
    outbox.enqueue(session, WATCH, {"project_id": project.id})
    return "done", "push"


def _queued(session: Session, repository: ForgeRepository, event: e.MergeGroup, now: datetime) -> Effect:
    """An entry of a merge queue is measured like a pull request of somebody trusted: a maintainer queued it."""
    query = select(PullRequest).where(
        col(PullRequest.repository_id) == repository.id, col(PullRequest.head_sha) == event.head_sha
    )
    row: PullRequest | None = session.scalars(query.where(col(PullRequest.kind) == "queue")).first()
    if row is None:
        if event.gone:
            return "ignored", "merge group that was not heard of"
        lowest = select(func.min(col(PullRequest.number))).where(col(PullRequest.repository_id) == repository.id)
        number = min(session.execute(lowest).scalar() or 0, 0) - 1
        row = _row(session, repository, number, "queue")
        row.title, row.association = "Merge queue", "MEMBER"
        row.head_sha, row.base_sha, row.base_ref = event.head_sha, event.base_sha, event.base_ref
    if event.gone:
        row.state = "closed"
        cancel(session, repository.project_id or 0, row, now, "the merge queue no longer wants it")
    due(session, row, now)
    return "done", "merge group gone" if event.gone else "merge group"


def _repository(session: Session, repository: ForgeRepository, event: e.RepositoryChanged) -> Effect:
    """Renamed and transferred ones have their new name already; what is gone is not asked about any more."""
    if event.action in {"deleted", "archived"}:
        repository.state = "removed"
    elif event.action == "unarchived":
        repository.state = "active"
    if event.action in {"renamed", "transferred"} and repository.project_id is not None:
        _follow(session, repository, event)
    session.add(repository)
    return "done", event.action


def _follow(session: Session, repository: ForgeRepository, event: e.RepositoryChanged) -> None:
    """A project that was added by the repository's address follows it to its new one."""
    project = session.get_one(Project, repository.project_id)
    place, url = places.address(project.repo_url), event.repository.clone_url
    new = places.address(url)
    if place is None or new is None or place.split("/")[0] != new.split("/")[0] or place == new:
        return
    if re.match(r"https?://", project.repo_url):
        project.repo_url = url
        session.add(project)


def _installation(session: Session, event: e.InstallationChanged) -> Effect:
    states = {"deleted": "removed", "suspend": "suspended", "unsuspend": "active"}
    if event.action in states:
        query = select(ForgeRepository).where(col(ForgeRepository.installation_id) == event.installation_id)
        for row in session.scalars(held(query.order_by(col(ForgeRepository.id)))):
            row.state = states[event.action]
            session.add(row)
    for repository in sorted(event.added, key=lambda one: one.id):
        row = places.known(session, repository)
        row.installation_id, row.state = event.installation_id, "active"
        session.add(row)
    for repository in sorted(event.removed, key=lambda one: one.id):
        row = places.known(session, repository)
        row.state = "removed"
        session.add(row)
    return "done", f"installation {event.action}"[:100]
