"""Answers that GitHub does not take at once: they wait, are given once, and are found again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from forge.github_server.server import FakeGitHub
from forge.office import Office
from groundspeed.service.db import forge_tables as f
from groundspeed.service.usecases.pulls import evaluate, perform


@pytest.mark.parametrize("trouble", ["away", "502", "secondary", "primary", "revoked"])
def test_an_answer_waits_for_github_and_is_given_once(desk: Office, trouble: str) -> None:
    pull = desk.open(1)
    desk.tell(pull)
    desk.settle()
    desk.measure(head=1.2)
    spoil(desk.github, trouble)
    (action,) = desk.rows(f.ForgeAction, f.ForgeAction.kind == "answer")
    desk.now += timedelta(seconds=30)
    if trouble != "revoked":
        progress_and_perform(desk, action.id)
        (row,) = desk.rows(f.ForgeRepository)
        assert row.quiet_until is not None
        calls = len(desk.github.seen)
        assert perform.perform(desk.desk, action.id, row.quiet_until - timedelta(milliseconds=1)) is False
        assert len(desk.github.seen) == calls, "nothing is asked before its time"
        assert desk.verdicts(pull) == []
        desk.now = row.quiet_until
    desk.github.trouble.away, desk.github.trouble.status, desk.github.limit = False, 0, 5000
    desk.now += timedelta(seconds=30)
    desk.settle()
    assert desk.check(pull)["conclusion"] == "failure"
    assert len(desk.checks(pull)) == len(desk.verdicts(pull)) == 1


def spoil(github: FakeGitHub, trouble: str) -> None:
    if trouble == "away":
        github.trouble.away = True
    elif trouble == "502":
        github.trouble.status = 502
    elif trouble == "secondary":
        github.trouble.status, github.trouble.retry_after_s = 403, 60
    elif trouble == "primary":
        github.limit = github.used
    else:
        github.revoke_tokens()


def progress_and_perform(desk: Office, action_id: int) -> None:
    from groundspeed.service.usecases.pulls import progress

    progress.look(desk.desk, desk.now)
    assert perform.perform(desk.desk, action_id, desk.now) is False


@pytest.mark.parametrize("after", ["POST /check-runs", "POST /comments"])
def test_an_answer_that_was_given_and_not_noted_is_found_again(
    desk: Office, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies between GitHub's answer and the note of it; the next try finds what is there."""
    from groundspeed.service.usecases.pulls import answer

    method, ending = after.split()
    real = answer._note

    def dies(*arguments: object, **columns: object) -> None:
        if desk.github.count(method, ending) and not died:
            died.append(1)
            raise OSError("killed")
        real(*arguments, **columns)  # type: ignore[arg-type]

    died: list[int] = []
    monkeypatch.setattr(answer, "_note", dies)
    pull = desk.open(1)
    desk.answer(pull, head=1.2)
    desk.now += timedelta(minutes=5)
    desk.settle()
    assert died
    assert len(desk.checks(pull)) == len(desk.verdicts(pull)) == 1
    assert desk.check(pull)["conclusion"] == "failure"


def test_a_deleted_comment_is_written_again_and_a_refusal_is_not_repeated(desk: Office) -> None:
    pull = desk.open(1)
    desk.answer(pull)
    desk.repo.comments.clear()
    desk.press(pull, "rerun")
    desk.measure()
    desk.settle()
    assert len(desk.verdicts(pull)) == 1
    desk.github.permissions.pop("checks")
    other = desk.open(2)
    desk.tell(other)
    desk.settle()
    refused = sum(seen.status == 403 for seen in desk.github.seen)
    for _ in range(5):
        desk.settle()
    assert sum(seen.status == 403 for seen in desk.github.seen) == refused
    assert "not accessible" in desk.rows(f.ForgeAction, f.ForgeAction.state == "failed")[0].error


def test_a_head_that_git_does_not_have_yet_is_waited_for(desk: Office) -> None:
    pull = desk.open(1)
    desk.tell(pull)
    with desk.db.transaction() as session:
        row = session.get_one(f.PullRequest, 1)
        row.head_sha = "d" * 40
        session.add(row)
    assert evaluate.evaluate(desk.desk, 1, desk.now) == ""
    assert "not in the repository yet" in desk.pull(pull).note
    for _ in range(2):
        desk.now += timedelta(minutes=1)
        desk.settle()
    assert desk.pull(pull).head_sha == pull.head_sha, "from the second time on GitHub is asked"
    assert len(desk.requests()) == 1
