"""GitHub behind the forge's interface: githubkit does authentication, throttling, ETags and paging.

With an App each repository's installation gives short-lived tokens; with a plain token everything is done as its
owner, and checks (which only Apps may write) become commit statuses.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar
from urllib.parse import quote

import httpx
import jwt
from githubkit import AppAuthStrategy, GitHub, TokenAuthStrategy
from githubkit.cache import MemCacheStrategy
from githubkit.exception import (
    AuthCredentialError,
    AuthExpiredError,
    GitHubException,
    RateLimitExceeded,
    RequestFailed,
)

from groundspeed.service.domain.pulls.events import Commented, Malformed, PullRequest, Repository
from groundspeed.service.domain.pulls.forge import (
    Cause,
    Check,
    ForgeRefused,
    ForgeUnavailable,
    Permission,
    Reaction,
    Reply,
)
from groundspeed.service.domain.pulls.report import Report
from groundspeed.service.forge import render
from groundspeed.service.forge.escape import visible
from groundspeed.service.forge.events import read_comment, read_pull, read_repository
from groundspeed.service.forge.fields import Fields

P = ParamSpec("P")
T = TypeVar("T")
_ISSUE = re.compile(r"/issues/(\d{1,12})$")
_API_VERSION = "2022-11-28"
_TIMEOUT_S = 20.0
_PAGE = 100
_MAX_PAGES = 100
_MAX_BUTTONS = 3
_AWAY_S = 0.0
"""The one who asks knows how long to wait."""
CHECK_NAME = "Groundspeed"
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
        that is not in it is asked for. Raises ValueError when the App's private key is none.
        """
        self._access = access
        if access.app_id:
            _try_key(access.private_key)
        self._installations = dict(installations or {})
        self._clients: dict[int, GitHub[Any]] = {}
        self._trusted = ssl.create_default_context()  # once: the library makes a client a call
        self._root: GitHub[Any] = GitHub(self._strategy(), **self._options())

    @property
    def is_app(self) -> bool:
        return bool(self._access.app_id)

    def know(self, repository: str, installation_id: int | None) -> None:
        if installation_id is not None:
            self._installations[repository] = installation_id

    def repository(self, repository: str) -> Repository:
        return read_repository(Fields(self._call(repository, "GET", f"/repos/{repository}"), "repository"))

    def permission(self, repository: str, user: str) -> Permission:
        name = quote(user, safe="")
        try:
            answer = self._call(repository, "GET", f"/repos/{repository}/collaborators/{name}/permission")
        except ForgeRefused as refused:
            if refused.status == httpx.codes.NOT_FOUND:
                return "none"
            raise
        role = str(answer.get("role_name") or answer.get("permission") or "none")
        return _PERMISSIONS.get(role, _PERMISSIONS.get(str(answer.get("permission")), "none"))

    def pull(self, repository: str, number: int) -> PullRequest:
        return _pull(self._call(repository, "GET", f"/repos/{repository}/pulls/{number}"))

    def open_pulls(self, repository: str) -> Iterator[PullRequest]:
        for pull in self._pages(repository, f"/repos/{repository}/pulls", {"state": "open", "sort": "created"}):
            yield _pull(pull)

    def comments_since(self, repository: str, since: str) -> Iterator[Commented]:
        query = {"since": since, "sort": "updated", "direction": "asc"}
        own: Repository | None = None
        for row in self._pages(repository, f"/repos/{repository}/issues/comments", query):
            own = own or self.repository(repository)
            number = _ISSUE.search(str(row.get("issue_url") or ""))
            if number is not None:
                yield _understood(read_comment, Fields(row, "comment"), own, int(number[1]))

    def create_check(self, repository: str, check: Check) -> int:
        if not self.is_app:
            return self._status(repository, check)
        body = _check_body(check) | {"name": CHECK_NAME, "head_sha": check.head_sha}
        return int(self._call(repository, "POST", f"/repos/{repository}/check-runs", body)["id"])

    def update_check(self, repository: str, check_id: int, check: Check) -> None:
        if not self.is_app:
            self._status(repository, check)
            return
        self._call(repository, "PATCH", f"/repos/{repository}/check-runs/{check_id}", _check_body(check))

    def find_check(self, repository: str, head_sha: str, external_id: str) -> int | None:
        if not self.is_app:
            return None
        query = {"check_name": CHECK_NAME, "filter": "all", "app_id": self._access.app_id}
        path = f"/repos/{repository}/commits/{head_sha}/check-runs"
        for check in self._call(repository, "GET", path, query=query).get("check_runs", ()):
            if check.get("external_id") == external_id:
                return int(check["id"])
        return None

    def create_comment(self, repository: str, number: int, text: Report | Reply) -> int:
        body = render.reply(text) if isinstance(text, Reply) else render.comment(text)
        answer = self._call(repository, "POST", f"/repos/{repository}/issues/{number}/comments", {"body": body})
        return int(answer["id"])

    def update_comment(self, repository: str, comment_id: int, report: Report) -> None:
        self._edit_comment(repository, comment_id, render.comment(report))

    def retire_comment(self, repository: str, comment_id: int, report: Report) -> None:
        self._edit_comment(repository, comment_id, render.retired(report))

    def _edit_comment(self, repository: str, comment_id: int, body: str) -> None:
        self._call(repository, "PATCH", f"/repos/{repository}/issues/comments/{comment_id}", {"body": body})

    def find_comment(self, repository: str, number: int) -> int | None:
        found = None
        for comment in self._pages(repository, f"/repos/{repository}/issues/{number}/comments", {}):
            if str(comment.get("body") or "").startswith(render.MARKER) and self._ours(comment):
                found = int(comment["id"])
        return found

    def react(self, repository: str, comment_id: int, reaction: Reaction) -> None:
        path = f"/repos/{repository}/issues/comments/{comment_id}/reactions"
        self._call(repository, "POST", path, {"content": reaction})

    def open_issue(self, repository: str, cause: Cause, labels: tuple[str, ...]) -> int:
        title, body = render.issue(cause)
        sent = {"title": title, "body": body, "labels": list(labels)}
        return int(self._call(repository, "POST", f"/repos/{repository}/issues", sent)["number"])

    def update_issue(self, repository: str, number: int, cause: Cause) -> None:
        _, body = render.issue(cause)
        closed = {"state": "closed", "state_reason": "completed"}
        state = closed if cause.closed_because else {"state": "open"}
        self._call(repository, "PATCH", f"/repos/{repository}/issues/{number}", {"body": body} | state)

    def find_issue(self, repository: str, cause: Cause) -> int | None:
        marker = render.issue_marker(cause)
        for issue in self._pages(repository, f"/repos/{repository}/issues", {"state": "all", "sort": "created"}, 5):
            if str(issue.get("body") or "").startswith(marker) and self._ours(issue):
                return int(issue["number"])
        return None

    def installation(self) -> Mapping[str, Any]:
        """The App as GitHub knows it: name, permissions, events. Only with an App."""
        return dict(self._root_call("GET", "/app"))

    def hook(self) -> Mapping[str, Any]:
        """The App's webhook: its address and content type. Only with an App."""
        return dict(self._root_call("GET", "/app/hook/config"))

    def hook_deliveries(self) -> list[Mapping[str, Any]]:
        """The newest deliveries of the App's webhook, with how they were answered. Only with an App."""
        return list(self._root_call("GET", "/app/hook/deliveries?per_page=30"))

    def installation_of(self, repository: str) -> Mapping[str, Any]:
        """The App's installation on a repository, with the permissions that it was given."""
        return dict(self._root_call("GET", f"/repos/{repository}/installation"))

    def hooks_of(self, repository: str) -> list[Mapping[str, Any]]:
        """Webhooks of a repository, which a token of its administrator may read."""
        return list(self._pages(repository, f"/repos/{repository}/hooks", {}))

    def _status(self, repository: str, check: Check) -> int:
        """A commit status, which a plain token may write; it has no id to update, the newest of a context holds."""
        states = {None: "pending", "success": "success", "neutral": "success", "action_required": "pending"}
        body = {
            "state": states.get(check.conclusion, "failure"),
            "target_url": check.report.url,
            "description": visible(render.headline(check.report), 140),
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

    def _pages(
        self, repository: str, path: str, query: Mapping[str, str], most: int = _MAX_PAGES
    ) -> Iterator[Mapping[str, Any]]:
        for page in range(1, most + 1):
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
        client = self._client(repository)
        try:
            return _sent(client, method, path, body, query)
        except _TokenRefused:
            # Revoked before its time, or another App key: the token in hand is dropped, and one new one is tried.
            self._forget(repository)
        try:
            return _sent(self._client(repository), method, path, body, query)
        except _TokenRefused as refused:
            raise ForgeUnavailable(str(refused), _AWAY_S) from None

    def _root_call(self, method: str, path: str) -> Any:
        """A call as the App itself (or as the token's owner)."""
        try:
            return _sent(self._root, method, path, None, None)
        except _TokenRefused as refused:
            raise ForgeRefused(str(refused), httpx.codes.UNAUTHORIZED) from None

    def _client(self, repository: str) -> GitHub[Any]:
        if not self.is_app:
            return self._root
        installation = self._installations.get(repository)
        if installation is None:
            answer = self._root_call("GET", f"/repos/{repository}/installation")
            installation = self._installations[repository] = int(answer["id"])
        client = self._clients.get(installation)
        if client is None:
            options = self._options() | {"cache_strategy": MemCacheStrategy()}
            client = self._clients[installation] = GitHub(self._app().as_installation(installation), **options)
        return client

    def _forget(self, repository: str) -> None:
        """Drop the token and, since the App may have been installed anew, which installation it was."""
        installation = self._installations.pop(repository, None)
        if installation is not None:
            self._clients.pop(installation, None)

    def _app(self) -> AppAuthStrategy:
        return AppAuthStrategy(self._access.app_id, self._access.private_key)

    def _strategy(self) -> AppAuthStrategy | TokenAuthStrategy:
        if self._access.app_id:
            return self._app()
        return TokenAuthStrategy(self._access.token)

    def _options(self) -> dict[str, Any]:
        # Retrying is the outbox's: it survives a restart, a sleeping thread does not.
        return {
            "base_url": self._access.base_url,
            "timeout": _TIMEOUT_S,
            "auto_retry": False,
            "ssl_verify": self._trusted,
        }


def _try_key(key: str) -> None:
    """Sign something once: what is wrong with a key is said at the start, and not with every call."""
    try:
        jwt.encode({}, key, algorithm="RS256")
    except (jwt.PyJWTError, ValueError, TypeError):
        raise ValueError("the GitHub App's private key is no RSA key in PEM") from None


class _TokenRefused(Exception):
    """401: the token is no longer good."""


def _sent(
    client: GitHub[Any],
    method: str,
    path: str,
    body: Mapping[str, Any] | None,
    query: Mapping[str, str] | None,
) -> Any:
    try:
        response = client.request(
            method, path, json=body, params=dict(query or {}), headers={"X-GitHub-Api-Version": _API_VERSION}
        )
        return response.raw_response.json() if response.raw_response.content else {}
    except GitHubException as error:
        raise _translated(error) from error
    except httpx.HTTPError as error:
        raise ForgeUnavailable(f"GitHub cannot be reached: {error}", _AWAY_S) from error
    except ValueError as error:
        raise ForgeUnavailable("GitHub's answer is no JSON", _AWAY_S) from error


def _pull(row: Mapping[str, Any]) -> PullRequest:
    """A pull request of the API, whose base holds the repository. Raises :class:`ForgeRefused` when it cannot be."""
    return _understood(lambda pull: read_pull(pull, read_repository(pull.inner("base").inner("repo")), "updated"),
                       Fields(row, "pull_request"))  # fmt: skip


def _understood(read: Callable[P, T], *parts: P.args, **more: P.kwargs) -> T:
    try:
        return read(*parts, **more)
    except Malformed as error:
        raise ForgeRefused(f"GitHub's answer is not understood: {error}", httpx.codes.OK) from error


def _check_body(check: Check) -> dict[str, Any]:
    body: dict[str, Any] = {
        "details_url": check.report.url,
        "external_id": check.external_id,
        "status": "completed" if check.conclusion else "in_progress",
        "output": {"title": render.headline(check.report)[:250], "summary": render.body(check.report)},
        "actions": [
            {"label": b.label[:20], "description": b.description[:40], "identifier": b.identifier[:20]}
            for b in check.buttons[:_MAX_BUTTONS]
        ],
    }
    if check.conclusion:
        body["output"]["annotations"] = render.marks(check.report)
        body |= {"conclusion": check.conclusion, "completed_at": datetime.now(UTC).isoformat(timespec="seconds")}
    return body


def _translated(error: GitHubException) -> Exception:
    """What the caller can act on: wait, give up with words, or ask for another token."""
    if isinstance(error, RateLimitExceeded):
        return ForgeUnavailable("GitHub's rate limit is used up", max(1.0, error.retry_after.total_seconds()))
    if isinstance(error, RequestFailed):
        return _failed(error)
    if isinstance(error, AuthCredentialError | AuthExpiredError):
        return ForgeRefused(f"the GitHub credentials do not work: {error}", httpx.codes.UNAUTHORIZED)
    return ForgeUnavailable(f"GitHub cannot be reached: {error}", _AWAY_S)


def _failed(error: RequestFailed) -> Exception:
    status = error.response.status_code
    if status >= httpx.codes.INTERNAL_SERVER_ERROR:
        return ForgeUnavailable(f"GitHub answered {status}", _AWAY_S)
    if status == httpx.codes.UNAUTHORIZED:
        return _TokenRefused("GitHub does not accept our credentials")
    if status == httpx.codes.TOO_MANY_REQUESTS or "retry-after" in error.response.headers:
        return ForgeUnavailable(f"GitHub asks for patience ({status})", _seconds(error.response.headers))
    return ForgeRefused(f"GitHub refused with {status}: {_message(error)}", status)


def _seconds(headers: Mapping[str, str]) -> float:
    text = headers.get("retry-after", "")
    return float(min(max(int(text), 1), 3600)) if text.isdigit() else 60.0


def _message(error: RequestFailed) -> str:
    try:
        return str(error.response.raw_response.json().get("message", ""))[:300]
    except ValueError:
        return ""
