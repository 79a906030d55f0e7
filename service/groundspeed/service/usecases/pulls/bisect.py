"""Which commit of a pull request made it slower: the base against ever closer commits, one gate after the other.

Not for strangers' pull requests: a maintainer approved their head, and not the commits on the way to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.forge_tables import ForgeRepository, PullRequest
from groundspeed.service.db.tables import Job, Project, Request, Verdict
from groundspeed.service.domain.pulls.forge import Reply
from groundspeed.service.domain.pulls.report import Row
from groundspeed.service.errors import GroundspeedError
from groundspeed.service.usecases import requests
from groundspeed.service.usecases.pulls import apply, outgoing
from groundspeed.service.usecases.pulls.outgoing import Claim, Desk

_OPEN = ("pending", "planned", "running")


@dataclass(frozen=True, slots=True)
class _Range:
    """Commits of the pull request after the base, oldest first, of which one is the first bad one."""

    shas: tuple[str, ...]

    @property
    def middle(self) -> str:
        """The commit to be measured next: the last of the first half."""
        return self.shas[(len(self.shas) - 1) // 2]

    def after(self, *, bad: bool) -> _Range:
        half = (len(self.shas) + 1) // 2
        return _Range(self.shas[:half] if bad else self.shas[half:])


def begin(
    session: Session, repository: ForgeRepository, pull: PullRequest, worst: Row, key: str, now: datetime
) -> None:
    """Note a bisection for the worst regressed row of this head."""
    payload = {
        "head": pull.head_sha, "base": pull.compared_sha, "suite": worst.suite, "series": worst.series_id,
        "name": f"{worst.benchmark} {worst.metric}"[:300], "range": None, "request": None,
    }  # fmt: skip
    outgoing.want(session, repository, "bisect", f"bisect:{key}", payload, now, pull_id=pull.id)


def step(desk: Desk, claimed: Claim, now: datetime) -> bool:
    """Ask for the next commit, or say what was found; False: the request of the last step is still going on."""
    state = claimed.payload
    with desk.database.read() as session:
        pull = session.get_one(PullRequest, claimed.pull_id)
        project = session.get_one(Project, session.get_one(ForgeRepository, claimed.repository_id).project_id)
        request = session.get(Request, state["request"]) if state["request"] else None
        if request is not None and request.state in _OPEN:
            return False
        answer = _answer(session, request, state["series"]) if request is not None else None
    if pull.head_sha != state["head"] or pull.state == "closed":
        return True
    try:
        left = _left(desk, project, state, answer)
    except (GroundspeedError, _Undecided) as error:
        _say(desk, claimed, pull, Reply("The bisection of {} ended without an answer: {}", (state["name"], str(error))))
        return True
    if len(left.shas) == 1:
        words = "The commit that made {} slower is {}."
        _say(desk, claimed, pull, Reply(words, (state["name"], left.shas[0][:12])))
        return True
    _ask(desk, claimed, pull, left, now)
    return False


class _Undecided(Exception):
    """A step whose gate could not tell."""


def _left(desk: Desk, project: Project, state: dict[str, Any], answer: str | None) -> _Range:
    if state["range"] is None:
        repo = desk.mirrors.open(project.repo_url, project.credential, fetch=False)
        return _Range(tuple(commit.sha for commit in repo.since(state["base"], state["head"])))
    before = _Range(tuple(state["range"]))
    if answer not in {"regressed", "unchanged", "improved"}:
        raise _Undecided(f"{before.middle[:12]} compared as {answer or 'nothing'}")
    return before.after(bad=answer == "regressed")


def _answer(session: Session, request: Request, series_id: int | None) -> str | None:
    query = (
        select(col(Verdict.answer))
        .join(Job, col(Job.id) == col(Verdict.job_id))
        .where(col(Job.request_id) == request.id, col(Verdict.series_id) == series_id)
    )
    found: str | None = session.execute(query).scalar()
    return found


def _ask(desk: Desk, claimed: Claim, pull: PullRequest, left: _Range, now: datetime) -> None:
    state, middle = claimed.payload, left.middle
    with desk.database.transaction() as session:
        repository = session.get_one(ForgeRepository, claimed.repository_id)
        planned = session.get_one(Request, pull.request_id).payload
        payload = {
            "base": state["base"], "head": middle, "config_sha": planned["config_sha"], "suites": [state["suite"]],
            "pool": planned.get("pool") or "", "trust": "trusted",
            "subject": apply.subject(pull),
        }  # fmt: skip
        key = f"{claimed.key[:120]}:{middle}"
        ref = requests.add(session, repository.project_id or 0, requests.New("bisect", key, middle, payload), now)
        action = outgoing.held_action(session, claimed.id)
        action.payload = {**state, "range": list(left.shas), "request": ref.id}
        session.add(action)


def _say(desk: Desk, claimed: Claim, pull: PullRequest, reply: Reply) -> None:
    desk.forge.create_comment(claimed.repository, pull.number, reply)
