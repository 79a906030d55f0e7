"""What a forge can tell us, in our own words; nothing here knows GitHub's field names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


class Malformed(ValueError):
    """A signed delivery that does not hold what its event needs; it is kept and shown, and never retried blindly."""


@dataclass(frozen=True, slots=True)
class Repository:
    """``id`` stays the same when a repository is renamed or transferred; the name does not."""

    id: int
    full_name: str
    default_branch: str = ""
    private: bool = False
    clone_url: str = ""
    installation_id: int | None = None
    """The App's installation that the event came through, where it says so."""


@dataclass(frozen=True, slots=True)
class Pushed:
    """A branch or tag moved. ``after`` None: deleted; ``before`` None: created.

    Commits are not listed on purpose: a payload names at most 20 of them, the repository knows all.
    """

    repository: Repository
    ref: str
    before: str | None
    after: str | None
    forced: bool
    sender: str

    @property
    def branch(self) -> str | None:
        return self.ref.removeprefix("refs/heads/") if self.ref.startswith("refs/heads/") else None


PullAction = Literal["opened", "updated", "closed", "reopened", "ready", "drafted", "retargeted", "labelled"]


@dataclass(frozen=True, slots=True)
class PullRequest:
    """The state of a pull request as of ``updated_at``; of two, the later one holds, whatever order they came in.

    ``head_repository`` None: the fork was deleted. ``association``: the author's relation to the repository as the
    forge said it then (it is checked again through the API before anything of a stranger is run).
    """

    repository: Repository
    number: int
    action: PullAction
    title: str
    author: str
    association: str
    state: Literal["open", "closed"]
    merged: bool
    draft: bool
    head_sha: str
    head_ref: str
    head_repository: Repository | None
    base_ref: str
    base_sha: str
    labels: tuple[str, ...]
    updated_at: str
    sender: str = ""
    """Who did what the event tells of; empty where the state was read and not told."""
    added_label: str = ""
    """The label that was just put on, when that is what happened."""

    @property
    def from_fork(self) -> bool:
        return self.head_repository is None or self.head_repository.id != self.repository.id


@dataclass(frozen=True, slots=True)
class Commented:
    """A comment on a pull request. Comments on plain issues never become one of these."""

    repository: Repository
    number: int
    comment_id: int
    author: str
    author_is_bot: bool
    association: str
    body: str
    created_at: str = ""
    """By the forge's clock."""
    updated_at: str = ""
    """Later than ``created_at``: somebody has changed its words."""


@dataclass(frozen=True, slots=True)
class CheckAsked:
    """Somebody pressed a button of a check: run again, or one of our own actions. ``action`` "rerun" or identifier."""

    repository: Repository
    head_sha: str
    action: str
    sender: str
    external_id: str = ""
    numbers: tuple[int, ...] = ()
    """Pull requests the forge says belong to it; empty for those from forks."""


@dataclass(frozen=True, slots=True)
class MergeGroup:
    """A merge queue wants to know about a commit that is no branch's head yet, or does no longer (``gone``)."""

    repository: Repository
    head_sha: str
    base_sha: str
    base_ref: str
    gone: bool = False


@dataclass(frozen=True, slots=True)
class RepositoryChanged:
    """Renamed, transferred, made private or public, archived, deleted, or another default branch."""

    repository: Repository
    action: str


@dataclass(frozen=True, slots=True)
class InstallationChanged:
    """The App came to, or went from, an account or some of its repositories."""

    installation_id: int
    action: str
    account: str
    added: tuple[Repository, ...] = ()
    removed: tuple[Repository, ...] = ()


@dataclass(frozen=True, slots=True)
class Pinged:
    """The forge tries whether we are there."""

    zen: str = ""


@dataclass(frozen=True, slots=True)
class Ignored:
    """Nothing for us, and why; counted by ``reason``."""

    reason: str
    detail: dict[str, str] = field(default_factory=dict)


Event = (
    Pushed
    | PullRequest
    | Commented
    | CheckAsked
    | MergeGroup
    | RepositoryChanged
    | InstallationChanged
    | Pinged
    | Ignored
)
