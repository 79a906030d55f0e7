"""The interface to a forge: what is asked of it and told to it. GitHub stands behind it; docs sketch GitLab."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from groundspeed.service.domain.pulls.report import Conclusion

Permission = Literal["none", "read", "triage", "write", "maintain", "admin"]
Reaction = Literal["eyes", "rocket", "confused", "+1", "-1"]


@dataclass(frozen=True, slots=True)
class OpenPull:
    """One open pull request as a list of them shows it."""

    number: int
    head_sha: str
    base_ref: str
    updated_at: str


@dataclass(frozen=True, slots=True)
class Button:
    """A button on a check. Texts are short (20, 40 and 20 characters at most on GitHub)."""

    label: str
    description: str
    identifier: str


@dataclass(frozen=True, slots=True)
class Check:
    """A check of one head commit. ``conclusion`` None: still going."""

    head_sha: str
    title: str
    summary: str
    url: str
    external_id: str
    conclusion: Conclusion | None = None
    buttons: tuple[Button, ...] = ()


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


class Forge(Protocol):
    """Calls on one repository, by its full name. Each raises :class:`ForgeUnavailable` or :class:`ForgeRefused`."""

    def permission(self, repository: str, user: str) -> Permission:
        """What a user may do now, asked afresh each time: the answer decides whether a stranger's code runs."""

    def pull_head(self, repository: str, number: int) -> str:
        """The head commit of a pull request now."""

    def open_pulls(self, repository: str) -> Iterator[OpenPull]:
        """All open pull requests, over all pages."""

    def create_check(self, repository: str, check: Check) -> int:
        """Returns the check's id."""

    def update_check(self, repository: str, check_id: int, check: Check) -> None: ...

    def create_comment(self, repository: str, number: int, body: str) -> int:
        """Returns the comment's id."""

    def update_comment(self, repository: str, comment_id: int, body: str) -> None: ...

    def find_comment(self, repository: str, number: int, marker: str) -> int | None:
        """Our own comment that begins with ``marker``, if there is one already (a reply to a lost answer)."""

    def react(self, repository: str, comment_id: int, reaction: Reaction) -> None: ...

    def open_issue(self, repository: str, title: str, body: str, labels: tuple[str, ...]) -> int: ...

    def update_issue(self, repository: str, number: int, body: str, *, closed: bool) -> None: ...
