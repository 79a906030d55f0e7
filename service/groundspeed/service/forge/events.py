"""GitHub's webhook payloads, turned into our events. Pure; raises :class:`Malformed` and nothing else.

Only what we act on is read, so that payloads of any age, and of GitHub Enterprise, are understood.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from groundspeed.service.domain.pulls.events import (
    CheckAsked,
    Commented,
    Event,
    Ignored,
    InstallationChanged,
    MergeGroup,
    Pinged,
    PullAction,
    PullRequest,
    Pushed,
    Repository,
    RepositoryChanged,
)
from groundspeed.service.forge.fields import Fields, Malformed

_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REPOSITORY_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,150}")
_LONGEST_TITLE, _LONGEST_NAME, _MOST_LABELS = 500, 200, 100
_PULL_ACTIONS: dict[str, PullAction] = {
    "opened": "opened",
    "synchronize": "updated",
    "closed": "closed",
    "reopened": "reopened",
    "ready_for_review": "ready",
    "converted_to_draft": "drafted",
    "edited": "retargeted",
    "labeled": "labelled",
    "unlabeled": "labelled",
}
_REPOSITORY_ACTIONS = frozenset(
    {"renamed", "transferred", "privatized", "publicized", "archived", "unarchived", "deleted", "edited"}
)


def read_event(name: str, payload: Any) -> Event:
    """Understand one delivery: ``name`` is the header ``X-GitHub-Event``, ``payload`` its parsed JSON.

    An event or action we do not act on is :class:`Ignored` with the reason to count it by.
    """
    if reason := why_ignored(name):
        return Ignored(reason)
    return _READERS[name](Fields(payload))


def why_ignored(name: str) -> str:
    """Why an event of that name is not even read; empty for one that is."""
    return "" if name in _READERS else f"event {_short(name)}"


def _push(payload: Fields) -> Event:
    before, after = _sha(payload.text("before")), _sha(payload.text("after"))
    ref = payload.text("ref")
    if not ref.startswith(("refs/heads/", "refs/tags/")):
        return Ignored("push of another kind of ref")
    pusher = payload.inner_or_none("sender") or payload.inner_or_none("pusher")
    sender = (pusher.text("login", "") or pusher.text("name", "")) if pusher else ""
    return Pushed(_own(payload), ref, before, after, payload.flag("forced"), sender)


def _pull_request(payload: Fields) -> Event:
    action = _PULL_ACTIONS.get(payload.text("action"))
    if action is None:
        return Ignored(f"pull_request {_short(payload.text('action'))}")
    if action == "retargeted" and not _base_was_edited(payload):
        return Ignored("pull_request edited without a new base")
    repository = _own(payload)
    label = payload.inner_or_none("label") if payload.text("action") == "labeled" else None
    sender = payload.inner_or_none("sender")
    return read_pull(
        payload.inner("pull_request"),
        repository,
        action,
        sender=sender.text("login", "") if sender else "",
        added_label=label.text("name", "") if label else "",
    )


def read_pull(
    pull: Fields, repository: Repository, action: PullAction, *, sender: str = "", added_label: str = ""
) -> PullRequest:
    """A pull request as events and lists describe it. Raises :class:`Malformed`."""
    head, base = pull.inner("head"), pull.inner("base")
    fork = head.inner_or_none("repo")
    return PullRequest(
        repository=repository,
        number=_pull_number(pull),
        action=action,
        title=pull.text("title", "")[:_LONGEST_TITLE],
        author=_login(pull),
        association=pull.text("author_association", "NONE"),
        state="closed" if pull.text("state") == "closed" else "open",
        merged=pull.flag("merged"),
        draft=pull.flag("draft"),
        head_sha=_must_be_sha(head, "sha"),
        head_ref=head.text("ref")[:_LONGEST_NAME],
        head_repository=read_repository(fork) if fork else None,
        base_ref=base.text("ref")[:_LONGEST_NAME],
        base_sha=_must_be_sha(base, "sha"),
        labels=tuple(label.text("name", "")[:_LONGEST_NAME] for label in pull.items("labels")[:_MOST_LABELS]),
        updated_at=pull.text("updated_at", ""),
        sender=sender,
        added_label=added_label,
    )


def _base_was_edited(payload: Fields) -> bool:
    changes = payload.inner_or_none("changes")
    return changes is not None and changes.has("base")


def _issue_comment(payload: Fields) -> Event:
    if payload.text("action") != "created":
        return Ignored(f"issue_comment {_short(payload.text('action'))}")
    issue, comment = payload.inner("issue"), payload.inner("comment")
    if not issue.has("pull_request"):
        return Ignored("comment on an issue that is no pull request")
    return read_comment(comment, _own(payload), _pull_number(issue))


def read_comment(comment: Fields, repository: Repository, number: int) -> Commented:
    """A comment as events and lists describe it. Raises :class:`Malformed`."""
    user = comment.inner_or_none("user")
    return Commented(
        repository=repository,
        number=number,
        comment_id=comment.number("id"),
        author=_login(comment),
        author_is_bot=user is not None and user.text("type", "User") == "Bot",
        association=comment.text("author_association", "NONE"),
        body=comment.text("body", ""),
        created_at=comment.text("created_at", ""),
        updated_at=comment.text("updated_at", ""),
    )


def _check_run(payload: Fields) -> Event:
    action = payload.text("action")
    if action not in {"rerequested", "requested_action"}:
        return Ignored(f"check_run {_short(action)}")
    check = payload.inner("check_run")
    asked = payload.inner("requested_action").text("identifier") if action == "requested_action" else "rerun"
    return _check(payload, check, asked, check.text("external_id", ""))


def _check_suite(payload: Fields) -> Event:
    action = payload.text("action")
    if action != "rerequested":
        return Ignored(f"check_suite {_short(action)}")
    return _check(payload, payload.inner("check_suite"), "rerun", "")


def _check(payload: Fields, check: Fields, action: str, external_id: str) -> CheckAsked:
    return CheckAsked(
        repository=_own(payload),
        head_sha=_must_be_sha(check, "head_sha"),
        action=action,
        sender=payload.inner("sender").text("login", ""),
        external_id=external_id,
        numbers=tuple(_pull_number(pull) for pull in check.items("pull_requests")),
    )


def _merge_group(payload: Fields) -> Event:
    if payload.text("action") not in {"checks_requested", "destroyed"}:
        return Ignored(f"merge_group {_short(payload.text('action'))}")
    group = payload.inner("merge_group")
    return MergeGroup(
        _own(payload),
        _must_be_sha(group, "head_sha"),
        _must_be_sha(group, "base_sha"),
        group.text("base_ref").removeprefix("refs/heads/"),
        gone=payload.text("action") == "destroyed",
    )


def _repository_event(payload: Fields) -> Event:
    action = payload.text("action")
    if action not in _REPOSITORY_ACTIONS:
        return Ignored(f"repository {_short(action)}")
    return RepositoryChanged(_own(payload), action)


def _installation(payload: Fields) -> Event:
    installation = payload.inner("installation")
    account = installation.inner_or_none("account")
    return InstallationChanged(
        installation.number("id"),
        payload.text("action"),
        account.text("login", "") if account else "",
        added=tuple(read_repository(r) for r in [*payload.items("repositories"), *payload.items("repositories_added")]),
        removed=tuple(read_repository(r) for r in payload.items("repositories_removed")),
    )


def _ping(payload: Fields) -> Event:
    return Pinged(payload.text("zen", ""))


_READERS: Mapping[str, Callable[[Fields], Event]] = {
    "push": _push,
    "pull_request": _pull_request,
    "issue_comment": _issue_comment,
    "check_run": _check_run,
    "check_suite": _check_suite,
    "merge_group": _merge_group,
    "repository": _repository_event,
    "installation": _installation,
    "installation_repositories": _installation,
    "ping": _ping,
}


def _own(payload: Fields) -> Repository:
    """The repository of an event, with the installation that it came through."""
    installation = payload.inner_or_none("installation")
    found = read_repository(payload.inner("repository"))
    return replace(found, installation_id=installation.number("id")) if installation else found


def read_repository(repository: Fields) -> Repository:
    name = repository.text("full_name")
    if not _REPOSITORY_NAME.fullmatch(name):
        raise Malformed(f"{_short(name)!r} is no repository's name")
    return Repository(
        id=repository.number("id"),
        full_name=name,
        default_branch=repository.text("default_branch", ""),
        private=repository.flag("private"),
        clone_url=repository.text("clone_url", ""),
    )


def _pull_number(thing: Fields) -> int:
    number = thing.number("number")
    if number >= 2**31:
        raise Malformed(f"{number} is no pull request's number")
    return number


def _login(thing: Fields) -> str:
    """Name of the author; a deleted account is null in the payload and "ghost" on the page."""
    user = thing.inner_or_none("user")
    return user.text("login", "ghost")[:_LONGEST_NAME] if user else "ghost"


def _sha(text: str) -> str | None:
    if not _SHA.fullmatch(text):
        raise Malformed(f"{_short(text)!r} is no commit id")
    return None if set(text) == {"0"} else text


def _must_be_sha(thing: Fields, name: str) -> str:
    sha = _sha(thing.text(name))
    if sha is None:
        raise Malformed(f"{name} is the null commit")
    return sha


def _short(text: str) -> str:
    """A stranger's text, fit for a counter's label."""
    return re.sub(r"[^\w.-]", "?", text[:40]) or "?"
