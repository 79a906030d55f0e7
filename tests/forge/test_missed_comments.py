"""Commands in comments that no delivery told: found by looking, done once, and never more than their words allow."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from forge.office import MEMBER, Office
from groundspeed.service.db import forge_tables as f
from groundspeed.service.db import tables as t


def commands(desk: Office) -> list[Any]:
    return desk.rows(f.ForgeAction, f.ForgeAction.kind == "command")


def reactions(desk: Office, event: dict[str, Any]) -> list[str]:
    return desk.repo.reactions[event["comment"]["id"]]


def test_a_command_that_no_delivery_told_is_found_and_done_once(desk: Office) -> None:
    pull = desk.open(1)
    before = desk.write(pull, "/groundspeed run")
    assert desk.answer(pull, head=1.2)["conclusion"] == "failure"
    desk.now += timedelta(hours=1)
    desk.reconcile()
    assert commands(desk) == [], "what was said before the first look is nobody's command now"
    event = desk.write(pull, '/groundspeed accept "more work"')
    desk.write(pull, "no command")
    assert desk.reconcile() == 1
    assert desk.check(pull)["conclusion"] == "neutral"
    assert reactions(desk, event) == ["rocket"]
    for _ in range(2):
        assert desk.reconcile() == 0
    assert desk.hear("issue_comment", event).state == "done", "the delivery comes after all"
    desk.settle()
    told = desk.write(pull, "/groundspeed run")
    desk.hear("issue_comment", told)
    desk.settle()
    assert desk.reconcile() == 0, "what was told is not found again"
    assert len(commands(desk)) == 2
    assert len(desk.rows(t.AuditEntry, t.AuditEntry.action == "pull.accept")) == 1
    assert reactions(desk, before) == []


def test_a_late_word_lets_nothing_run_that_was_not_named(desk: Office) -> None:
    """Between the comment and the look at it the stranger pushes: the approval was of what the maintainer had read."""
    pull = desk.open(1, fork=True)
    desk.tell(pull)
    desk.settle()
    desk.reconcile()
    event = desk.write(pull, "/groundspeed approve")
    named = desk.write(pull, f"/groundspeed approve {pull.head_sha[:12]}")
    desk.push(pull)
    assert desk.reconcile() > 0
    assert [reactions(desk, one) for one in (event, named)] == [["confused"], ["confused"]]
    assert desk.pull(pull).approved_sha == ""
    assert desk.requests() == []
    again = desk.write(pull, f"/groundspeed approve {pull.head_sha[:12]}")
    desk.reconcile()
    assert reactions(desk, again) == ["rocket"]
    assert [one.tip_sha for one in desk.requests()] == [pull.head_sha]


def test_a_late_acceptance_is_of_the_verdict_that_stood_when_it_was_written(desk: Office) -> None:
    pull = desk.open(1)
    desk.answer(pull, head=1.2)
    desk.reconcile()
    event = desk.write(pull, '/groundspeed accept "more work"')
    desk.now += timedelta(minutes=1)
    desk.push(pull)
    desk.answer(pull, head=1.5)
    desk.reconcile()
    assert reactions(desk, event) == ["confused"]
    assert desk.check(pull)["conclusion"] == "failure"


def test_words_that_were_edited_or_deleted_plain_issues_and_those_who_may_not(desk: Office) -> None:
    pull, elsewhere = desk.open(1), desk.open(2)
    desk.answer(pull, head=1.2)
    del desk.repo.pulls[2]  # the number of a plain issue
    desk.reconcile()
    edited = desk.write(pull, "/groundspeed run")
    edited["comment"]["updated_at"] = "2999-01-01T00:00:00Z"
    desk.write(elsewhere, "/groundspeed run")
    refused = desk.write(pull, '/groundspeed accept "mine"', MEMBER)
    gone = desk.write(pull, '/groundspeed accept "more work"')
    desk.repo.said.remove(gone["comment"])
    assert desk.reconcile() == 1
    assert reactions(desk, edited) == reactions(desk, gone) == []
    assert reactions(desk, refused) == ["confused"], "who may is asked of GitHub, however the word came"


def test_a_github_that_shows_no_comments_still_shows_pull_requests(desk: Office) -> None:
    desk.reconcile()
    pull = desk.open(1)
    desk.github.hides_comments = True
    assert desk.reconcile() == 1
    assert [one.tip_sha for one in desk.requests()] == [pull.head_sha]
    (repository,) = desk.rows(f.ForgeRepository)
    assert repository.state == "active"
