"""What is done about the head of a pull request: nothing, wait for a maintainer, or measure it against its base.

Everything that decides is read from the base branch, never from the head: a stranger's groundspeed.toml says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.config.locate import locate
from groundspeed.service.config.model import ProjectConfig
from groundspeed.service.db.engine import Database
from groundspeed.service.db.forge_tables import ForgeRepository, PullRequest
from groundspeed.service.db.tables import Project
from groundspeed.service.domain.pulls.forge import ForgeRefused, ForgeUnavailable
from groundspeed.service.domain.pulls.rules import Candidate, Rules, decide, untrusted
from groundspeed.service.errors import GroundspeedError, Invalid, NotFound, Unavailable
from groundspeed.service.repo import Repository
from groundspeed.service.usecases import configuration, requests
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.pulls import apply, outgoing
from groundspeed.service.usecases.pulls.outgoing import Desk
from groundspeed.service.usecases.pulls.topics import LEFT_BEHIND


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was found out about one head. ``decision`` "error": ``note`` says why nothing can be measured."""

    decision: str
    base_sha: str = ""
    config_sha: str = ""
    note: str = ""
    lines: tuple[tuple[str, int], ...] = ()
    approve_label: str = ""


def waiting(database: Database, now: datetime, limit: int = 100) -> list[int]:
    """Pull requests that should have been looked at by now, the longest waiting first."""
    with database.read() as session:
        quiet = col(ForgeRepository.quiet_until)
        query = (
            select(col(PullRequest.id))
            .join(ForgeRepository, col(ForgeRepository.id) == col(PullRequest.repository_id))
            .where(col(PullRequest.due_at) <= now - LEFT_BEHIND)
            .where(~col(PullRequest.refresh) | quiet.is_(None) | (quiet <= now))
        )
        found = session.scalars(query.order_by(col(PullRequest.due_at)).limit(limit))
        return [one for one in found if one is not None]


def evaluate(desk: Desk, pull_id: int, now: datetime) -> str:
    """Decide about a pull request that is due; returns the outcome. A no-op for one that is not.

    A forge or repository that cannot be reached now leaves it due: the tick comes back to it.
    """
    with desk.database.read() as session:
        pull = session.get(PullRequest, pull_id)
        if pull is None or pull.due_at is None:
            return ""
        repository = session.get_one(ForgeRepository, pull.repository_id)
        project = session.get(Project, repository.project_id) if repository.project_id else None
    if project is None or repository.state != "active":
        _settled(desk.database, pull)
        return ""
    if pull.refresh:
        pull = _refreshed(desk, repository, pull, now)
        if pull is None:
            return ""
    try:
        wanted = Wanted("closed") if pull.state == "closed" else _look(desk, project, pull)
    except Unavailable as error:
        _postponed(desk.database, pull_id, str(error), now)
        return ""
    except GroundspeedError as error:
        wanted = Wanted("error", note=str(error))
    with desk.database.transaction() as session:
        return _decided(session, repository.id or 0, pull, wanted, now)


def _refreshed(desk: Desk, repository: ForgeRepository, pull: PullRequest, now: datetime) -> PullRequest | None:
    """The state that the forge has now; None: it cannot be asked at the moment."""
    desk.forge.know(repository.full_name, repository.installation_id)
    try:
        event = desk.forge.pull(repository.full_name, pull.number)
    except ForgeUnavailable as error:
        pause = max(desk.patience.backoff_s, error.retry_after_s)
        outgoing.hush(desk.database, repository.id or 0, now + timedelta(seconds=pause))
        return None
    except ForgeRefused as error:
        _postponed(desk.database, pull.id or 0, error.reason, now)
        return None
    with desk.database.transaction() as session:
        row = session.get_one(ForgeRepository, repository.id)
        apply.pull(session, row, event, now, certain=True)
        return session.get_one(PullRequest, pull.id)


# --- looking ---------------------------------------------------------------------------------------------------------


def _look(desk: Desk, project: Project, pull: PullRequest) -> Wanted:
    """Raises Unavailable when the repository cannot be read now, other errors of ours when it never can be."""
    repo = _fetched(desk, project, pull)
    tip = pull.base_sha if pull.kind == "queue" else repo.branch_tip(pull.base_ref)
    base = _base(repo, pull, tip)
    config = configuration.at(repo, tip)
    section = config.pull_request
    candidate = Candidate(
        from_fork=pull.from_fork,
        association=pull.association,
        draft=pull.draft,
        labels=pull.labels,
        changed=repo.changed(base, pull.head_sha),
        approved=pull.approved_sha == pull.head_sha,
    )
    rules = Rules(section.paths_ignore, section.drafts, None if pull.kind == "queue" else section.label)
    decision = decide(candidate, rules, lifted=bool(pull.wish.get("lifted")))
    if decision == "run" and base == pull.head_sha:
        decision = "nothing"
    return Wanted(decision, base, tip, lines=_lines(repo, pull, tip, config), approve_label=section.approve_label)


def _fetched(desk: Desk, project: Project, pull: PullRequest) -> Repository:
    """The mirror with the head in it."""
    url, credential = project.repo_url, project.credential
    repo = desk.mirrors.open(url, credential, fetch=False)
    if repo.has(pull.head_sha) and repo.has(pull.base_sha):
        return repo
    repo = desk.mirrors.open(url, credential)
    if not repo.has(pull.head_sha):
        desk.mirrors.bring(url, credential, f"refs/pull/{pull.number}/head:refs/groundspeed/pull/{pull.number}")
    if not repo.has(pull.head_sha) and not desk.mirrors.bring(
        url, credential, f"{pull.head_sha}:refs/groundspeed/pull/{pull.number}-head"
    ):
        raise Unavailable(f"The head {pull.head_sha[:12]} is not in the repository yet.", "It is looked for again.")
    return repo


def _base(repo: Repository, pull: PullRequest, tip: str) -> str:
    """What the head is compared with: the merge base, or what the command named."""
    if against := pull.wish.get("against"):
        sha = repo.resolve(str(against))
        if not repo.on_a_branch(sha):
            # The mirror also holds heads of other pull requests, which nobody may have let run.
            raise Invalid(f"{str(against)!r} is on no branch of the repository.", "Name a branch, a tag or a commit.")
        return sha
    base = repo.merge_base(tip, pull.head_sha)
    if base is None:
        raise Invalid(
            f"The head has no commit in common with {pull.base_ref}.", "Rebase it onto the branch it is to go into."
        )
    return base


def _lines(repo: Repository, pull: PullRequest, tip: str, config: ProjectConfig) -> tuple[tuple[str, int], ...]:
    """Where the head's groundspeed.toml names each suite, if it is the base's."""
    try:
        text = repo.read(pull.head_sha, configuration.FILE_NAME)
        if text != repo.read(tip, configuration.FILE_NAME):
            return ()
    except NotFound:
        return ()
    places = ((suite.name, locate(text, ("suite", i, "name"))) for i, suite in enumerate(config.suite))
    return tuple((name, place.line) for name, place in places if place is not None)


# --- deciding --------------------------------------------------------------------------------------------------------


def _decided(session: Session, repository_id: int, seen: PullRequest, wanted: Wanted, now: datetime) -> str:
    """Note what was decided, unless something has happened since it was looked at: then it stays due."""
    pull = session.scalars(held(select(PullRequest).where(col(PullRequest.id) == seen.id))).one()
    repository = session.get_one(ForgeRepository, repository_id)
    if _key(pull) != _key(seen):
        apply.due(session, pull, now)
        return ""
    project_id = repository.project_id or 0
    measured = wanted.decision in {"run", "closed"}
    if not measured:
        apply.cancel(session, project_id, pull, now, "it is not to be measured any more")
    pull.outcome = "asked" if wanted.decision == "run" else wanted.decision
    pull.outcome_sha, pull.note, pull.due_at = pull.head_sha, wanted.note, None
    pull.compared_sha = wanted.base_sha or pull.compared_sha
    pull.told = {**pull.told, "approve_label": wanted.approve_label, "misses": 0}
    if wanted.decision == "run":
        ref = requests.add(session, project_id, _request(pull, wanted), now)
        pull.request_id, pull.measured_sha = ref.id, pull.head_sha
    session.add(pull)
    session.flush()
    outgoing.answer(session, repository, pull.id or 0, now)
    return pull.outcome


def _key(pull: PullRequest) -> tuple[object, ...]:
    return (
        pull.head_sha, pull.base_ref, pull.base_sha, pull.state, pull.draft, tuple(pull.labels), pull.approved_sha,
        pull.round, pull.refresh, pull.updated_at,
    )  # fmt: skip


def _request(pull: PullRequest, wanted: Wanted) -> requests.New:
    strange = untrusted(from_fork=pull.from_fork, association=pull.association)
    payload = {
        "base": wanted.base_sha,
        "head": pull.head_sha,
        "config_sha": wanted.config_sha,
        "suites": list(pull.wish.get("suites", ())),
        "pool": pull.wish.get("pool") or "",
        "trust": "untrusted" if strange else "trusted",
        "lines": [list(line) for line in wanted.lines],
    }
    key = f"{apply.subject(pull)}:{wanted.base_sha[:20]}:{pull.head_sha}:{pull.round}"
    return requests.New("pull_request", key, pull.head_sha, payload, subject=apply.subject(pull))


def _settled(database: Database, pull: PullRequest) -> None:
    with database.transaction() as session:
        row = session.get_one(PullRequest, pull.id)
        row.due_at = None
        session.add(row)


def _postponed(database: Database, pull_id: int, note: str, now: datetime) -> None:
    """Look again after a pause that grows; from the second time on the forge is asked what the head is now."""
    with database.transaction() as session:
        row = session.get_one(PullRequest, pull_id)
        misses = int(row.told.get("misses", 0)) + 1
        row.told = {**row.told, "misses": misses}
        row.note, row.due_at = note, now + timedelta(seconds=min(2.0**misses, 300.0))
        row.refresh = row.refresh or (misses > 1 and row.kind == "pull")
        session.add(row)
