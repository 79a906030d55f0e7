"""GitHub behind the forge's interface: githubkit does authentication, throttling, ETags and paging.

With an App each repository's installation gives short-lived tokens; with a plain token everything is done as its
owner, and checks (which only Apps may write) become commit statuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
from githubkit import AppAuthStrategy, GitHub, TokenAuthStrategy
from githubkit.exception import (
    AuthCredentialError,
    AuthExpiredError,
    GitHubException,
    RateLimitExceeded,
    RequestFailed,
)

from groundspeed.service.domain.pulls.forge import Check, ForgeRefused, ForgeUnavailable, OpenPull, Permission, Reaction

_API_VERSION = "2022-11-28"
_TIMEOUT_S = 20.0
_PAGE = 100
_MAX_PAGES = 100
_MAX_BUTTONS = 3
_PERMISSIONS: Mapping[str, Permission] = {
    "admin": "admin",
    "maintain": "maintain",
    "write": "write",
    "triage": "triage",
    "read": "read",
}


@dataclass(frozen=True, slots=True)
class GitHubAccess:
    """How to reach GitHub: an App (id and private key in PEM) or a token; ``base_url`` for GitHub Enterprise."""

    base_url: str = "https://api.github.com"
    app_id: str = ""
    private_key: str = ""
    token: str = ""


class GitHubForge:
    """See :class:`groundspeed.service.domain.pulls.forge.Forge`. Safe to keep for the life of a process."""

    def __init__(self, access: GitHubAccess, installations: Mapping[str, int] | None = None) -> None:
        """``installations`` maps a repository's full name to its installation, as webhooks told it; a repository
        that is not in it is asked for.
        """
        self._access = access
        self._installations = dict(installations or {})
        self._clients: dict[int, GitHub[Any]] = {}
        self._root: GitHub[Any] = GitHub(self._strategy(), **self._options())

    @property
    def is_app(self) -> bool:
        return bool(self._access.app_id)

    def permission(self, repository: str, user: str) -> Permission:
        try:
            answer = self._call(repository, "GET", f"/repos/{repository}/collaborators/{user}/permission")
        except ForgeRefused as refused:
            if refused.status == httpx.codes.NOT_FOUND:
                return "none"
            raise
        role = str(answer.get("role_name") or answer.get("permission") or "none")
        return _PERMISSIONS.get(role, _PERMISSIONS.get(str(answer.get("permission")), "none"))

    def pull_head(self, repository: str, number: int) -> str:
        return str(self._call(repository, "GET", f"/repos/{repository}/pulls/{number}")["head"]["sha"])

    def open_pulls(self, repository: str) -> Iterator[OpenPull]:
        for pull in self._pages(repository, f"/repos/{repository}/pulls", {"state": "open", "sort": "created"}):
            yield OpenPull(pull["number"], pull["head"]["sha"], pull["base"]["ref"], pull["updated_at"])

    def create_check(self, repository: str, check: Check) -> int:
        if not self.is_app:
            return self._status(repository, check)
        body = _check_body(check) | {"name": "Groundspeed", "head_sha": check.head_sha}
        return int(self._call(repository, "POST", f"/repos/{repository}/check-runs", body)["id"])

    def update_check(self, repository: str, check_id: int, check: Check) -> None:
        if not self.is_app:
            self._status(repository, check)
            return
        self._call(repository, "PATCH", f"/repos/{repository}/check-runs/{check_id}", _check_body(check))

    def create_comment(self, repository: str, number: int, body: str) -> int:
        answer = self._call(repository, "POST", f"/repos/{repository}/issues/{number}/comments", {"body": body})
        return int(answer["id"])

    def update_comment(self, repository: str, comment_id: int, body: str) -> None:
        self._call(repository, "PATCH", f"/repos/{repository}/issues/comments/{comment_id}", {"body": body})

    def find_comment(self, repository: str, number: int, marker: str) -> int | None:
        for comment in self._pages(repository, f"/repos/{repository}/issues/{number}/comments", {}):
            if str(comment.get("body") or "").startswith(marker) and self._ours(comment):
                return int(comment["id"])
        return None

    def react(self, repository: str, comment_id: int, reaction: Reaction) -> None:
        path = f"/repos/{repository}/issues/comments/{comment_id}/reactions"
        self._call(repository, "POST", path, {"content": reaction})

    def open_issue(self, repository: str, title: str, body: str, labels: tuple[str, ...]) -> int:
        answer = self._call(
            repository, "POST", f"/repos/{repository}/issues", {"title": title, "body": body, "labels": list(labels)}
        )
        return int(answer["number"])

    def update_issue(self, repository: str, number: int, body: str, *, closed: bool) -> None:
        state = {"state": "closed", "state_reason": "completed"} if closed else {"state": "open"}
        self._call(repository, "PATCH", f"/repos/{repository}/issues/{number}", {"body": body} | state)

    def _status(self, repository: str, check: Check) -> int:
        """A commit status, which a plain token may write; it has no id to update, the newest of a context holds."""
        states = {None: "pending", "success": "success", "neutral": "success", "action_required": "pending"}
        body = {
            "state": states.get(check.conclusion, "failure"),
            "target_url": check.url,
            "description": check.title[:140],
            "context": "groundspeed",
        }
        self._call(repository, "POST", f"/repos/{repository}/statuses/{check.head_sha}", body)
        return 0

    def _ours(self, comment: Mapping[str, Any]) -> bool:
        """With an App, only what the App wrote; anybody can begin a comment with our marker."""
        if not self.is_app:
            return True
        app = comment.get("performed_via_github_app") or {}
        return str(app.get("id", "")) == self._access.app_id

    def _pages(self, repository: str, path: str, query: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
        for page in range(1, _MAX_PAGES + 1):
            rows = self._call(repository, "GET", path, query={**query, "per_page": str(_PAGE), "page": str(page)})
            yield from rows
            if len(rows) < _PAGE:
                return

    def _call(
        self,
        repository: str,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Any:
        try:
            client = self._client(repository)
            response = client.request(
                method, path, json=body, params=dict(query or {}), headers={"X-GitHub-Api-Version": _API_VERSION}
            )
        except GitHubException as error:
            raise _translated(error, repository) from error
        except httpx.HTTPError as error:
            raise ForgeUnavailable(f"GitHub cannot be reached: {error}", 30.0) from error
        return response.raw_response.json() if response.raw_response.content else {}

    def _client(self, repository: str) -> GitHub[Any]:
        if not self.is_app:
            return self._root
        installation = self._installations.get(repository)
        if installation is None:
            answer = self._root.request("GET", f"/repos/{repository}/installation").raw_response.json()
            installation = self._installations[repository] = int(answer["id"])
        if installation not in self._clients:
            auth = self._root.auth.as_installation(installation)
            self._clients[installation] = GitHub(auth, **self._options())
        return self._clients[installation]

    def _strategy(self) -> AppAuthStrategy | TokenAuthStrategy:
        if self._access.app_id:
            return AppAuthStrategy(self._access.app_id, self._access.private_key)
        return TokenAuthStrategy(self._access.token)

    def _options(self) -> dict[str, Any]:
        # Retrying is the outbox's: it survives a restart, a sleeping thread does not.
        return {"base_url": self._access.base_url, "timeout": _TIMEOUT_S, "auto_retry": False}


def _check_body(check: Check) -> dict[str, Any]:
    body: dict[str, Any] = {
        "details_url": check.url,
        "external_id": check.external_id,
        "status": "completed" if check.conclusion else "in_progress",
        "output": {"title": check.title[:250], "summary": check.summary},
        "actions": [
            {"label": b.label[:20], "description": b.description[:40], "identifier": b.identifier[:20]}
            for b in check.buttons[:_MAX_BUTTONS]
        ],
    }
    if check.conclusion:
        body |= {"conclusion": check.conclusion, "completed_at": datetime.now(UTC).isoformat(timespec="seconds")}
    return body


def _translated(error: GitHubException, repository: str) -> ForgeUnavailable | ForgeRefused:
    """What the caller can act on: wait, or give up with words."""
    if isinstance(error, RateLimitExceeded):
        return ForgeUnavailable("GitHub's rate limit is used up", max(1.0, error.retry_after.total_seconds()))
    if isinstance(error, RequestFailed):
        status = error.response.status_code
        if status >= httpx.codes.INTERNAL_SERVER_ERROR:
            return ForgeUnavailable(f"GitHub answered {status}", 15.0)
        if status == httpx.codes.UNAUTHORIZED:
            return ForgeUnavailable("GitHub did not accept our token; a new one is asked for", 5.0)
        return ForgeRefused(f"GitHub refused with {status} for {repository}: {_message(error)}", status)
    if isinstance(error, AuthCredentialError | AuthExpiredError):
        return ForgeRefused(f"the GitHub credentials do not work: {error}", httpx.codes.UNAUTHORIZED)
    return ForgeUnavailable(f"GitHub cannot be reached: {error}", 30.0)


def _message(error: RequestFailed) -> str:
    try:
        return str(error.response.raw_response.json().get("message", ""))[:300]
    except ValueError:
        return ""
