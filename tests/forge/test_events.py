"""Webhook payloads become our events; nothing a stranger sends raises anything but Malformed."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundspeed.service.domain.pulls.events import (
    CheckAsked,
    Commented,
    Ignored,
    Pinged,
    PullRequest,
    Pushed,
    Repository,
)
from groundspeed.service.forge.events import read_event
from groundspeed.service.forge.fields import Malformed

SHA_A, SHA_B, NULL = "a" * 40, "b" * 40, "0" * 40
REPOSITORY: dict[str, Any] = {"id": 7, "full_name": "octo/tiny", "default_branch": "main", "private": False}
FORK: dict[str, Any] = {"id": 8, "full_name": "stranger/tiny", "default_branch": "main", "private": False}
EVENTS = (
    "push", "pull_request", "issue_comment", "check_run", "check_suite", "merge_group", "repository", "installation",
    "installation_repositories", "ping", "star",
)  # fmt: skip


def pull(action: str = "opened", head: dict[str, Any] | None = FORK, **extra: Any) -> dict[str, Any]:
    return {
        "action": action,
        "repository": REPOSITORY,
        "pull_request": {
            "number": 3, "title": "Faster", "state": "open", "user": {"login": "stranger"},
            "author_association": "FIRST_TIME_CONTRIBUTOR", "draft": False, "updated_at": "2026-01-02T03:04:05Z",
            "labels": [{"name": "perf"}], "head": {"sha": SHA_A, "ref": "patch", "repo": head},
            "base": {"sha": SHA_B, "ref": "main"},
        },
        **extra,
    }  # fmt: skip


def push(**changes: Any) -> dict[str, Any]:
    return {
        "ref": "refs/heads/main",
        "before": SHA_A,
        "after": SHA_B,
        "forced": False,
        "repository": REPOSITORY,
    } | changes


def test_a_push_to_a_branch() -> None:
    event = read_event("push", push(sender={"login": "ann"}))
    assert event == Pushed(Repository(7, "octo/tiny", "main"), "refs/heads/main", SHA_A, SHA_B, False, "ann")
    assert event.branch == "main"


def test_a_deleted_branch_has_nothing_after_and_a_created_one_nothing_before() -> None:
    deleted, created = read_event("push", push(after=NULL)), read_event("push", push(before=NULL))
    assert isinstance(deleted, Pushed)
    assert isinstance(created, Pushed)
    assert (deleted.after, created.before) == (None, None)


def test_a_tag_is_no_branch() -> None:
    event = read_event("push", push(ref="refs/tags/v1"))
    assert isinstance(event, Pushed)
    assert event.branch is None


def test_a_pull_request_from_a_fork_is_known_as_such() -> None:
    event = read_event("pull_request", pull())
    assert isinstance(event, PullRequest)
    assert event.from_fork
    assert (event.head_sha, event.base_sha, event.labels) == (SHA_A, SHA_B, ("perf",))


def test_a_deleted_fork_still_counts_as_a_fork() -> None:
    event = read_event("pull_request", pull(head=None))
    assert isinstance(event, PullRequest)
    assert event.from_fork


def test_a_branch_of_the_same_repository_is_no_fork() -> None:
    event = read_event("pull_request", pull(head=REPOSITORY))
    assert isinstance(event, PullRequest)
    assert not event.from_fork


def test_an_edited_title_is_ignored_and_an_edited_base_is_not() -> None:
    title = read_event("pull_request", pull("edited", changes={"title": {"from": "x"}}))
    base = read_event("pull_request", pull("edited", changes={"base": {"ref": {"from": "dev"}}}))
    assert isinstance(title, Ignored)
    assert isinstance(base, PullRequest)
    assert base.action == "retargeted"


def test_a_comment_of_a_deleted_account_on_a_pull_request() -> None:
    event = read_event(
        "issue_comment",
        {
            "action": "created",
            "repository": REPOSITORY,
            "issue": {"number": 3, "pull_request": {}},
            "comment": {"id": 5, "user": None, "body": "/groundspeed run"},
        },
    )
    assert isinstance(event, Commented)
    assert event.author == "ghost"


def test_unknown_events_are_ignored_under_a_harmless_name() -> None:
    assert read_event("star<script>", {}) == Ignored("event star?script?")


@pytest.mark.parametrize(
    ("name", "payload", "says"),
    [
        ("push", [], "payload is a list"),
        ("push", push(after="HEAD"), "no commit id"),
        ("push", push(repository=None), "payload.repository is missing"),
        ("push", push(repository=REPOSITORY | {"id": "7"}), "payload.repository.id is text"),
        ("pull_request", {"action": 3}, "payload.action is a number"),
    ],
)
def test_what_is_wrong_is_said_with_its_path(name: str, payload: Any, says: str) -> None:
    with pytest.raises(Malformed, match=says):
        read_event(name, payload)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=200)
@given(st.sampled_from(EVENTS), JSON)
def test_any_json_is_an_event_or_malformed(name: str, payload: Any) -> None:
    with contextlib.suppress(Malformed):
        read_event(name, payload)


@settings(max_examples=300)
@given(st.sampled_from([push(), pull()]), st.data())
def test_a_payload_with_one_field_replaced_is_an_event_or_malformed(
    payload: dict[str, Any], data: st.DataObject
) -> None:
    broken = json.loads(json.dumps(payload))
    where = broken
    while True:
        key = data.draw(st.sampled_from(sorted(where)))
        if isinstance(where[key], dict) and where[key] and data.draw(st.booleans()):
            where = where[key]
            continue
        where[key] = data.draw(JSON)
        break
    name = "push" if "ref" in payload else "pull_request"
    with contextlib.suppress(Malformed):
        read_event(name, broken)


@pytest.mark.data
def test_every_recorded_payload_is_understood(shared_data: Path) -> None:
    files = sorted((shared_data / "webhooks" / "octokit").rglob("*.json"))
    assert files
    kinds: dict[str, int] = {}
    for file in files:
        event = read_event(file.parent.name, json.loads(file.read_text()))
        kinds[type(event).__name__] = kinds.get(type(event).__name__, 0) + 1
    assert kinds["Pushed"] == 3
    assert kinds["PullRequest"] == 11
    assert kinds["Pinged"] == 3
    assert kinds["CheckAsked"] == 5
    assert kinds["InstallationChanged"] == 8


@pytest.mark.data
@pytest.mark.parametrize(
    ("file", "event", "kind"),
    [
        ("push.json", "push", Pushed),
        ("push_branch.json", "push", Pushed),
        ("push_to_existing_branch.json", "push", Pushed),
        ("pr.json", "pull_request", PullRequest),
        ("pr_comment_build.json", "issue_comment", Commented),
        ("pr_comment_empty.json", "issue_comment", Commented),
        ("checkrun_rerequested_with_identifier.json", "check_run", CheckAsked),
        ("release.json", "release", Ignored),
    ],
)
def test_payloads_of_older_years_are_understood(shared_data: Path, file: str, event: str, kind: type) -> None:
    payload = json.loads((shared_data / "webhooks" / "packit" / file).read_text())
    assert isinstance(read_event(event, payload), kind)


def test_a_ping_is_a_ping() -> None:
    assert read_event("ping", {"zen": "Keep it logically awesome."}) == Pinged("Keep it logically awesome.")
