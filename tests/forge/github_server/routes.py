"""The endpoints: one function each, given the fake, who asks, and what was matched in the path."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forge.github_server.model import stamp

if TYPE_CHECKING:
    from forge.github_server.server import FakeGitHub

Answer = tuple[int, Any]
NOT_FOUND: Answer = (404, {"message": "Not Found"})
COMMENT_LIMIT = 65_536
ROLES = {"read": "read", "triage": "read", "write": "write", "maintain": "write", "admin": "admin"}


@dataclass(frozen=True)
class Who:
    """Who asks: the App itself (``jwt``), one of its installations, or the owner of a token."""

    app: bool
    jwt: bool = False
    installation: int = 0
    login: str = ""


@dataclass(frozen=True)
class Call:
    github: FakeGitHub
    who: Who
    found: dict[str, str]
    query: dict[str, str]
    body: dict[str, Any]

    @property
    def repo(self) -> Any:
        return self.github.repos.get(f"{self.found['owner']}/{self.found['repo']}")


_TABLE: list[tuple[str, re.Pattern[str], Callable[[Call], Answer]]] = []


def route(method: str, template: str) -> Callable[[Callable[[Call], Answer]], Callable[[Call], Answer]]:
    def add(function: Callable[[Call], Answer]) -> Callable[[Call], Answer]:
        pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", template)
        _TABLE.append((method, re.compile(pattern), function))
        return function

    return add


def dispatch(
    github: FakeGitHub, who: Who, method: str, path: str, query: dict[str, str], body: dict[str, Any]
) -> Answer:
    for known, pattern, function in _TABLE:
        match = pattern.fullmatch(path)
        if known == method and match is not None:
            call = Call(github, who, match.groupdict(), query, body)
            if "owner" in call.found and call.repo is None:
                return NOT_FOUND
            if who.jwt and not path.startswith("/app") and not path.endswith("/installation"):
                return 403, {"message": "A JSON web token could not be used here"}
            return function(call)
    return NOT_FOUND


def paged(rows: list[Any], url: str, query: dict[str, str]) -> tuple[list[Any], str]:
    size, page = int(query.get("per_page", 30)), int(query.get("page", 1))
    more = page * size < len(rows)
    link = f'<{url}?per_page={size}&page={page + 1}>; rel="next"' if more else ""
    return rows[(page - 1) * size : page * size], link


# --- the App ---------------------------------------------------------------------------------------------------------


@route("POST", "/app/installations/{id}/access_tokens")
def access_token(call: Call) -> Answer:
    if not call.who.jwt:
        return 401, {"message": "A JSON web token could not be decoded"}
    known = {repo.installation for repo in call.github.repos.values()}
    return (201, call.github.grant(int(call.found["id"]))) if int(call.found["id"]) in known else NOT_FOUND


@route("GET", "/app")
def app(call: Call) -> Answer:
    if not call.who.jwt:
        return 401, {"message": "A JSON web token could not be decoded"}
    about = {"id": 4711, "slug": "groundspeed", "name": "Groundspeed", "permissions": call.github.permissions}
    return 200, about | {"events": call.github.events, "html_url": "https://github.example/apps/groundspeed"}


@route("GET", "/app/hook/config")
def hook_config(call: Call) -> Answer:
    return 200, {"url": call.github.hook_url, "content_type": "json", "insecure_ssl": "0", "secret": "********"}


@route("GET", "/app/hook/deliveries")
def hook_deliveries(call: Call) -> Answer:
    return 200, call.github.app_deliveries


@route("POST", "/app-manifests/{code}/conversions")
def convert(call: Call) -> Answer:
    from forge.github_server.server import APP_ID, SECRET, key_pair

    if call.found["code"] != "a180b1a3d263c81bc6441d7b990bae27d4c10679":
        return NOT_FOUND
    about = {"id": int(APP_ID), "slug": "groundspeed", "name": "Groundspeed", "webhook_secret": SECRET}
    return 201, about | {"pem": key_pair()[0], "html_url": "https://github.example/apps/groundspeed"}


@route("GET", "/repos/{owner}/{repo}/installation")
def installation(call: Call) -> Answer:
    if not call.who.jwt:
        return 401, {"message": "A JSON web token could not be decoded"}
    about = {"id": call.repo.installation, "app_id": 4711, "permissions": call.github.permissions}
    return 200, about | {"events": call.github.events}


# --- reading ---------------------------------------------------------------------------------------------------------


@route("GET", "/repos/{owner}/{repo}")
def repository(call: Call) -> Answer:
    return 200, call.repo.describe()


@route("GET", "/repos/{owner}/{repo}/collaborators/{user}/permission")
def permission(call: Call) -> Answer:
    role = call.repo.permissions.get(call.found["user"], "read")
    if role == "none":
        return NOT_FOUND
    return 200, {"permission": ROLES.get(role, role), "role_name": role, "user": {"login": call.found["user"]}}


@route("GET", "/repos/{owner}/{repo}/pulls")
def pulls(call: Call) -> Answer:
    wanted = call.query.get("state", "open")
    found = [p for _, p in sorted(call.repo.pulls.items()) if wanted in {"all", p.state}]
    return 200, [call.repo.describe_pull(pull) for pull in found]


@route("GET", "/repos/{owner}/{repo}/pulls/{number}")
def pull(call: Call) -> Answer:
    found = call.repo.pulls.get(int(call.found["number"]))
    return (200, call.repo.describe_pull(found)) if found is not None else NOT_FOUND


@route("GET", "/repos/{owner}/{repo}/hooks")
def hooks(call: Call) -> Answer:
    return 200, call.repo.hooks


# --- checks and statuses ---------------------------------------------------------------------------------------------


def _write_check(call: Call, check: dict[str, Any]) -> Answer:
    if not call.who.app:
        return 403, {"message": "You must authenticate via a GitHub App."}
    if call.github.permissions.get("checks") != "write":
        return 403, {"message": "Resource not accessible by integration"}
    known = list(check.get("output", {}).get("annotations", ()))
    check |= call.body
    check.setdefault("made_at", time.time())
    if call.body.get("conclusion"):
        check.setdefault("concluded_at", time.time())
    if "output" in call.body:
        # GitHub adds annotations to those that are there.
        check["output"] = {**call.body["output"], "annotations": known + call.body["output"].get("annotations", [])}
    call.repo.check_log.append(
        (check["id"], check.get("status", ""), check.get("conclusion"), check.get("output", {}).get("title", ""))
    )
    return (201 if call.body.get("name") else 200), check


@route("POST", "/repos/{owner}/{repo}/check-runs")
def create_check(call: Call) -> Answer:
    check: dict[str, Any] = {"id": call.github.next_id(), "app": {"id": 4711}}
    answer = _write_check(call, check)
    if answer[0] == 201:
        call.repo.checks[check["id"]] = check
    return answer


@route("PATCH", "/repos/{owner}/{repo}/check-runs/{id}")
def update_check(call: Call) -> Answer:
    check = call.repo.checks.get(int(call.found["id"]))
    return _write_check(call, check) if check is not None else NOT_FOUND


@route("GET", "/repos/{owner}/{repo}/commits/{ref}/check-runs")
def checks(call: Call) -> Answer:
    found = [c for c in call.repo.checks.values() if c["head_sha"] == call.found["ref"]]
    return 200, {"total_count": len(found), "check_runs": found}


@route("POST", "/repos/{owner}/{repo}/statuses/{sha}")
def status(call: Call) -> Answer:
    made = {"id": call.github.next_id(), "sha": call.found["sha"], **call.body}
    call.repo.statuses.append(made)
    return 201, made


# --- comments, reactions, issues -------------------------------------------------------------------------------------


def _too_long(call: Call) -> Answer | None:
    if len(call.body.get("body", "")) > COMMENT_LIMIT:
        return 422, {"message": "Validation Failed", "errors": [{"message": "body is too long"}]}
    return None


@route("GET", "/repos/{owner}/{repo}/issues/comments")
def all_comments(call: Call) -> Answer:
    if call.github.hides_comments:
        return 403, {"message": "Resource not accessible by integration"}
    ours = [{"updated_at": one["created_at"], **one} for one in call.repo.comments.values()]
    found = [one for one in (*call.repo.said, *ours) if one["updated_at"] >= call.query.get("since", "")]
    place = f"{call.github.url}/repos/{call.repo.full_name}/issues"
    found.sort(key=lambda one: (one["updated_at"], one["id"]))
    return 200, [one | {"issue_url": f"{place}/{one['number']}"} for one in found]


@route("GET", "/repos/{owner}/{repo}/issues/{number}/comments")
def comments(call: Call) -> Answer:
    number = int(call.found["number"])
    return 200, [c for c in call.repo.comments.values() if c["number"] == number]


@route("POST", "/repos/{owner}/{repo}/issues/{number}/comments")
def create_comment(call: Call) -> Answer:
    if (refused := _too_long(call)) is not None:
        return refused
    login = "groundspeed[bot]" if call.who.app else call.who.login
    made = {"id": call.github.next_id(), "number": int(call.found["number"]), "body": call.body["body"]}
    made |= {
        "user": {"login": login, "type": "Bot" if call.who.app else "User"},
        "created_at": stamp(),
        "edits": 0,
        "at": time.time(),
    }
    made["performed_via_github_app"] = {"id": 4711} if call.who.app else None
    call.repo.comments[made["id"]] = made
    return 201, made


@route("PATCH", "/repos/{owner}/{repo}/issues/comments/{id}")
def update_comment(call: Call) -> Answer:
    found = call.repo.comments.get(int(call.found["id"]))
    if found is None:
        return NOT_FOUND
    if (refused := _too_long(call)) is not None:
        return refused
    found["body"], found["edits"] = call.body["body"], found["edits"] + 1
    return 200, found


@route("POST", "/repos/{owner}/{repo}/issues/comments/{id}/reactions")
def react(call: Call) -> Answer:
    found = call.repo.reactions.get(int(call.found["id"]))
    if found is None:
        return NOT_FOUND
    known = call.body["content"] in found
    if not known:
        found.append(call.body["content"])
    return (200 if known else 201), {"id": call.github.next_id(), "content": call.body["content"]}


@route("GET", "/repos/{owner}/{repo}/issues")
def issues(call: Call) -> Answer:
    return 200, list(call.repo.issues.values())[::-1]


@route("POST", "/repos/{owner}/{repo}/issues")
def create_issue(call: Call) -> Answer:
    number = 100 + len(call.repo.issues)
    made = {"number": number, "state": "open", "performed_via_github_app": {"id": 4711}, **call.body}
    call.repo.issues[number] = made
    return 201, made


@route("PATCH", "/repos/{owner}/{repo}/issues/{number}")
def update_issue(call: Call) -> Answer:
    found = call.repo.issues.get(int(call.found["number"]))
    if found is None:
        return NOT_FOUND
    found |= call.body
    return 200, found
