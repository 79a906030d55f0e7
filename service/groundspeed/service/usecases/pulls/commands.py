"""What people ask by comment, button or label: permission first, asked of the forge at that moment, then the effect.

Every command is answered: with a reaction, and with words when it is refused or when there is something to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.forge_tables import ForgeRepository, PullRequest
from groundspeed.service.db.tables import AuditEntry, Project, Request
from groundspeed.service.domain.pulls.events import PullRequest as Told
from groundspeed.service.domain.pulls.forge import ForgeRefused, Permission, Reaction, Reply
from groundspeed.service.domain.pulls.rules import MAINTAINERS, untrusted
from groundspeed.service.errors import Unavailable
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.pulls import apply, bisect, outgoing
from groundspeed.service.usecases.pulls import report as reports
from groundspeed.service.usecases.pulls.outgoing import Claim, Desk


@dataclass(frozen=True, slots=True)
class Asked:
    """A command with everything that decides about it, read from the forge just now."""

    pull_id: int
    repository_id: int
    said: Mapping[str, Any]
    actor: str
    permission: Permission
    now_at: Told
    at: datetime

    @property
    def maintainer(self) -> bool:
        return self.permission in MAINTAINERS

    @property
    def trusted_author(self) -> bool:
        one = self.now_at
        return self.actor == one.author and not untrusted(from_fork=one.from_fork, association=one.association)


@dataclass(frozen=True, slots=True)
class Outcome:
    """``reply`` None: the reaction (or the check, for a button) says it all."""

    ok: bool
    reply: Reply | None = None


def carry_out(desk: Desk, claimed: Claim, now: datetime) -> None:
    """Do what was asked, once, and answer. Raises ForgeUnavailable to be tried again."""
    said = claimed.payload
    outcome = _outcome(desk, claimed, said, now)
    if outcome is None:
        return
    comment = said.get("comment_id")
    if comment is not None:
        reaction: Reaction = "rocket" if outcome.ok else "confused"
        _unless_gone(lambda: desk.forge.react(claimed.repository, int(comment), reaction))
    if outcome.reply is not None and (number := _number(desk, claimed)) > 0:
        reply = outcome.reply
        _unless_gone(lambda: desk.forge.create_comment(claimed.repository, number, reply))


def _unless_gone(call: Callable[[], object]) -> None:
    """A comment that was deleted meanwhile needs no answer."""
    try:
        call()
    except ForgeRefused as refused:
        if not refused.gone:
            raise


def _number(desk: Desk, claimed: Claim) -> int:
    if "number" in claimed.payload:
        return int(claimed.payload["number"])
    with desk.database.read() as session:
        pull = session.get(PullRequest, claimed.pull_id) if claimed.pull_id else None
        return pull.number if pull is not None else 0


def _outcome(desk: Desk, claimed: Claim, said: Mapping[str, Any], now: datetime) -> Outcome | None:
    """None: nobody is to be answered (a label that means something else)."""
    verb = str(said["verb"])
    if verb == "misunderstood":
        return Outcome(ok=False, reply=Reply(str(said["answer"]).replace("{", "(").replace("}", ")")))
    if verb == "help":
        return Outcome(ok=True, reply=Reply("This is what can be asked here:", help=True))
    done = _done_before(desk, claimed)
    if done is not None:
        return done
    number = _number(desk, claimed)
    if number <= 0:
        return _queue(desk, claimed, verb, now)
    told = desk.forge.pull(claimed.repository, number)
    pull_id = _take(desk, claimed, told, now)
    if "label" in said and not _approves(desk, pull_id, str(said["label"])):
        return None
    actor = str(said.get("actor") or "")
    permission = desk.forge.permission(claimed.repository, actor) if actor else "none"
    asked = Asked(pull_id, claimed.repository_id, said, actor, permission, told, now)
    return _VERBS[verb](desk, claimed, asked)


def _done_before(desk: Desk, claimed: Claim) -> Outcome | None:
    """What a try before this one has done already, when it died before it was answered."""
    with desk.database.read() as session:
        query = select(AuditEntry).where(
            col(AuditEntry.subject_id) == claimed.key[:200], col(AuditEntry.subject_type) == "command"
        )
        entry = session.scalars(query).first()
    if entry is None:
        return None
    words = str(entry.data.get("words") or "")
    return Outcome(ok=True, reply=Reply(words, tuple(entry.data.get("quoted") or ())) if words else None)


def _queue(desk: Desk, claimed: Claim, verb: str, now: datetime) -> Outcome | None:
    """A button on the check of a merge queue's entry: it can be run again, and that is all."""
    if verb == "run" and claimed.pull_id is not None:
        with desk.database.transaction() as session:
            pull = _pull(session, claimed.pull_id)
            pull.round += 1
            apply.due(session, pull, now)
            _audit(session, claimed, str(claimed.payload.get("actor")), "run", pull, now)
    return None


def _take(desk: Desk, claimed: Claim, told: Told, now: datetime) -> int:
    """The row of the pull request, with the state that the forge has now."""
    with desk.database.transaction() as session:
        query = held(select(ForgeRepository).where(col(ForgeRepository.id) == claimed.repository_id))
        repository = session.scalars(query).one()
        row = apply.find(session, repository, told.number)
        if apply.differs(row, told):
            apply.pull(session, repository, told, now, certain=True)
            row = apply.find(session, repository, told.number)
        assert row is not None
        assert row.id is not None
        return row.id


def _approves(desk: Desk, pull_id: int, label: str) -> bool:
    """Whether a label is the one of groundspeed.toml of the base branch that approves."""
    with desk.database.read() as session:
        pull = session.get_one(PullRequest, pull_id)
        strange = untrusted(from_fork=pull.from_fork, association=pull.association)
        wanted = pull.told.get("approve_label")
    if strange and wanted is None:
        raise Unavailable("What the base branch says of labels is not read yet.", "It is looked at again.")
    return strange and bool(wanted) and label == wanted


# --- one function a verb ---------------------------------------------------------------------------------------------


def _approve(desk: Desk, claimed: Claim, asked: Asked) -> Outcome:
    """Let exactly one commit run: the one that was named, and which is the head at this moment."""
    if not asked.maintainer:
        return _refused(asked, "Only somebody who may write to this repository can let a stranger's code run")
    head = asked.now_at.head_sha
    with desk.database.transaction() as session:
        pull = _pull(session, asked.pull_id)
        # Of a word that came late nobody knows which commit it was about.
        meant = "" if "written_at" in asked.said else pull.told.get("asked")
        named = str(asked.said.get("sha") or meant or "")
        if not named:
            words = "Name the commit that you have read: {}."
            return Outcome(ok=False, reply=Reply(words, (f"/groundspeed approve {head[:12]}",)))
        if not head.startswith(named):
            words = "The head is {} by now, and {} was approved: read the newer one, then say {}."
            return Outcome(ok=False, reply=Reply(words, (head[:12], named[:12], f"/groundspeed approve {head[:12]}")))
        pull.approved_sha, pull.approved_by = head, asked.actor
        apply.due(session, pull, asked.at)
        words = "Approved {}: it runs in a sandbox, without network and without secrets. New commits need a new word."
        reply = Reply(words, (head[:12],)) if asked.said.get("comment_id") else None
        _audit(session, claimed, asked.actor, "approve", pull, asked.at, reply)
    return Outcome(ok=True, reply=reply)


def _accept(desk: Desk, claimed: Claim, asked: Asked) -> Outcome:
    """A regression is intended: recorded with its reason, for this head alone."""
    if not asked.maintainer:
        return _refused(asked, "Only somebody who may write to this repository can accept a regression")
    with desk.database.transaction() as session:
        pull = _pull(session, asked.pull_id)
        repository = session.get_one(ForgeRepository, asked.repository_id)
        project = session.get_one(Project, repository.project_id)
        report = reports.build(session, project, pull, desk.base_url)
        if not (report.of("regressed") or report.of("failing")):
            return Outcome(ok=False, reply=Reply("There is no regression to accept at {}.", (pull.head_sha[:12],)))
        if asked.said.get("sha") and asked.said["sha"] != pull.head_sha:
            return Outcome(ok=False, reply=Reply("The head is {} by now: look at its verdict.", (pull.head_sha[:12],)))
        if "written_at" in asked.said and not _seen_by_then(session, pull, str(asked.said["written_at"])):
            words = "The verdict at {} came after this was written: look at it, then say it again."
            return Outcome(ok=False, reply=Reply(words, (pull.head_sha[:12],)))
        pull.accepted_sha, pull.accepted_by = pull.head_sha, asked.actor
        pull.accepted_reason = (str(asked.said.get("reason") or "") or "accepted by the button")[:500]
        session.add(pull)
        _audit(session, claimed, asked.actor, "accept", pull, asked.at)
        outgoing.answer(session, repository, asked.pull_id, asked.at)
    return Outcome(ok=True)


def _seen_by_then(session: Session, pull: PullRequest, written_at: str) -> bool:
    """Whether the verdict of today stood already when the comment was written, by clocks that may differ a little."""
    request = session.get(Request, pull.request_id) if pull.request_id else None
    try:
        written = datetime.fromisoformat(written_at)
    except ValueError:
        return False
    return request is not None and request.finished_at is not None and request.finished_at <= written


def _run(desk: Desk, claimed: Claim, asked: Asked) -> Outcome:
    if not (asked.maintainer or asked.trusted_author):
        return _refused(asked, "Only the author, and whoever may write to this repository, can have it measured again")
    if asked.now_at.state == "closed":
        return Outcome(ok=False, reply=Reply("The pull request is closed."))
    said = asked.said
    with desk.database.transaction() as session:
        pull = _pull(session, asked.pull_id)
        pull.round += 1
        pull.wish = {
            "suites": [said["suite"]] if said.get("suite") else [],
            "pool": said.get("pool") or "",
            "against": said.get("against") or "",
            "lifted": asked.maintainer,
        }
        apply.due(session, pull, asked.at)
        _audit(session, claimed, asked.actor, "run", pull, asked.at)
        strange = untrusted(from_fork=pull.from_fork, association=pull.association)
        if strange and pull.approved_sha != pull.head_sha:
            words = "It runs once this commit is approved: {}."
            return Outcome(ok=True, reply=Reply(words, (f"/groundspeed approve {pull.head_sha[:12]}",)))
    return Outcome(ok=True)


def _cancel(desk: Desk, claimed: Claim, asked: Asked) -> Outcome:
    if not (asked.maintainer or asked.actor == asked.now_at.author):
        return _refused(asked, "Only the author, and whoever may write to this repository, can cancel it")
    with desk.database.transaction() as session:
        pull = _pull(session, asked.pull_id)
        repository = session.get_one(ForgeRepository, asked.repository_id)
        count = apply.cancel(session, repository.project_id or 0, pull, asked.at, f"cancelled by {asked.actor}")
        if not count and pull.due_at is None:
            return Outcome(ok=False, reply=Reply("Nothing runs or waits for this pull request."))
        pull.outcome, pull.outcome_sha, pull.due_at = "cancelled", pull.head_sha, None
        pull.note = f"cancelled by {asked.actor}"
        session.add(pull)
        _audit(session, claimed, asked.actor, "cancel", pull, asked.at)
        outgoing.answer(session, repository, asked.pull_id, asked.at)
    return Outcome(ok=True)


def _bisect(desk: Desk, claimed: Claim, asked: Asked) -> Outcome:
    if not (asked.maintainer or asked.trusted_author):
        return _refused(asked, "Only the author, and whoever may write to this repository, can ask for a bisection")
    if untrusted(from_fork=asked.now_at.from_fork, association=asked.now_at.association):
        words = "Commits on the way to a stranger's head were not approved, and are not run."
        return Outcome(ok=False, reply=Reply(words))
    with desk.database.transaction() as session:
        pull = _pull(session, asked.pull_id)
        repository = session.get_one(ForgeRepository, asked.repository_id)
        project = session.get_one(Project, repository.project_id)
        report = reports.build(session, project, pull, desk.base_url)
        worst = next((row for row in report.of("regressed") if row.suite), None)
        if worst is None:
            words = "There is no regression at {} to be looked for."
            return Outcome(ok=False, reply=Reply(words, (pull.head_sha[:12],)))
        bisect.begin(session, repository, pull, worst, claimed.key, asked.at)
        words = "Looking for the commit that made {} slower; the answer comes as a comment."
        reply = Reply(words, (f"{worst.benchmark} {worst.metric}",))
        _audit(session, claimed, asked.actor, "bisect", pull, asked.at, reply)
    return Outcome(ok=True, reply=reply)


_VERBS: Mapping[str, Callable[[Desk, Claim, Asked], Outcome]] = {
    "approve": _approve,
    "accept": _accept,
    "run": _run,
    "cancel": _cancel,
    "bisect": _bisect,
}


def _refused(asked: Asked, why: str) -> Outcome:
    return Outcome(ok=False, reply=Reply(why + "; {} may not.", (asked.actor or "nobody",)))


def _pull(session: Session, pull_id: int) -> PullRequest:
    return session.scalars(held(select(PullRequest).where(col(PullRequest.id) == pull_id))).one()


def _audit(
    session: Session, claimed: Claim, actor: str, verb: str, pull: PullRequest, now: datetime,
    reply: Reply | None = None,
) -> None:  # fmt: skip
    """Who let what happen; by its key a second try of the same command finds that it was done."""
    data = {
        "pull": pull.id, "number": pull.number, "head": pull.head_sha, "repository": claimed.repository,
        "words": reply.words if reply else "", "quoted": list(reply.quoted) if reply else [],
    }  # fmt: skip
    session.add(
        AuditEntry(actor=actor, action=f"pull.{verb}", subject_type="command", subject_id=claimed.key[:200],
                   data=data, at=now)
    )  # fmt: skip
