"""The interface to a forge: what is asked of it and told to it. GitHub stands behind it; docs sketch GitLab.

Texts cross it as facts (:class:`~groundspeed.service.domain.pulls.report.Report`) or as our own words with strangers'
texts beside them (:class:`Reply`): only the forge knows how its pages must be written so that nothing is executed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from groundspeed.service.domain.pulls.events import Commented, PullRequest, Repository
from groundspeed.service.domain.pulls.report import Conclusion, Report

Permission = Literal["none", "read", "triage", "write", "maintain", "admin"]
Reaction = Literal["eyes", "rocket", "confused", "+1", "-1"]


@dataclass(frozen=True, slots=True)
class Button:
    """A button on a check. Texts are short (20, 40 and 20 characters at most on GitHub)."""

    label: str
    description: str
    identifier: str


RERUN = Button("Run again", "Measure this commit once more", "rerun")
APPROVE = Button("Approve and run", "Let this very commit of a stranger run", "approve")
ACCEPT = Button("Accept as intended", "The regression is wanted", "accept")


@dataclass(frozen=True, slots=True)
class Check:
    """A check of one head commit. ``conclusion`` None: still going."""

    head_sha: str
    report: Report
    external_id: str
    conclusion: Conclusion | None = None
    buttons: tuple[Button, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer to somebody. ``words`` are ours; each ``{}`` in them is filled with one of ``quoted``, which are not.

    ``help``: the list of commands follows.
    """

    words: str
    quoted: tuple[str, ...] = ()
    help: bool = False


@dataclass(frozen=True, slots=True)
class Cause:
    """A regression found on the branch, for an issue. ``members``: (benchmark, metric, relative change or None)."""

    regression_id: int
    title: str
    url: str
    members: tuple[tuple[str, str, float | None], ...]
    before_sha: str = ""
    after_sha: str = ""
    suspects: tuple[tuple[str, str], ...] = ()
    """Commits (sha, title) that it may have come with, oldest first."""
    suspects_total: int = 0
    pulls: tuple[int, ...] = ()
    """Pull requests that brought those commits."""
    closed_because: str = ""


class ForgeUnavailable(Exception):
    """The forge did not answer, or asked for patience; try again after ``retry_after_s``."""

    def __init__(self, reason: str, retry_after_s: float) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after_s = retry_after_s


class ForgeRefused(Exception):
    """The forge said no for good: missing permission, gone, or invalid. ``status`` is its HTTP status."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status

    @property
    def gone(self) -> bool:
        """What was named is not there (any more)."""
        return self.status in {404, 410}


class Forge(Protocol):
    """Calls on one repository, by its full name. Each raises :class:`ForgeUnavailable` or :class:`ForgeRefused`."""

    def know(self, repository: str, installation_id: int | None) -> None:
        """Note through which installation the repository is reached, as an event told."""

    def repository(self, repository: str) -> Repository:
        """The repository as it is now."""

    def permission(self, repository: str, user: str) -> Permission:
        """What a user may do now, asked afresh each time: the answer decides whether a stranger's code runs."""

    def pull(self, repository: str, number: int) -> PullRequest:
        """The pull request as it is now."""

    def open_pulls(self, repository: str) -> Iterator[PullRequest]:
        """All open pull requests, over all pages."""

    def comments_since(self, repository: str, since: str) -> Iterator[Commented]:
        """Comments, on pull requests and on plain issues, written or changed since a time; the oldest change first."""

    def create_check(self, repository: str, check: Check) -> int:
        """Returns the check's id; 0 where the forge has checks without one."""

    def update_check(self, repository: str, check_id: int, check: Check) -> None: ...

    def find_check(self, repository: str, head_sha: str, external_id: str) -> int | None:
        """Our own check, if there is one already (a reply to a lost answer)."""

    def create_comment(self, repository: str, number: int, text: Report | Reply) -> int:
        """Returns the comment's id."""

    def update_comment(self, repository: str, comment_id: int, report: Report) -> None: ...

    def retire_comment(self, repository: str, comment_id: int, report: Report) -> None:
        """Say in an old comment that a newer one holds: a newer verdict, ``report``'s, stands below."""

    def find_comment(self, repository: str, number: int) -> int | None:
        """Our own newest comment with a verdict, if there is one already (a reply to a lost answer)."""

    def react(self, repository: str, comment_id: int, reaction: Reaction) -> None: ...

    def open_issue(self, repository: str, cause: Cause, labels: tuple[str, ...]) -> int: ...

    def update_issue(self, repository: str, number: int, cause: Cause) -> None: ...

    def find_issue(self, repository: str, cause: Cause) -> int | None:
        """Our own issue about this cause, if there is one already (a reply to a lost answer)."""
