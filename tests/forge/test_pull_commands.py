"""What people ask of a pull request: approval of a stranger's commit, and commands."""

from __future__ import annotations

from pathlib import Path

from forge.office import MAINTAINER, MEMBER, STRANGER, Office, office
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database


def test_without_a_sandbox_a_strangers_code_is_refused_in_words(sqlite_database: Database, tmp_path: Path) -> None:
    with office(sqlite_database, tmp_path, sandbox="") as desk:
        pull = desk.open(1, fork=True)
        desk.tell(pull)
        desk.settle()
        desk.say(pull, f"/groundspeed approve {pull.head_sha}")
        assert desk.rows(t.Job) == []
        check = desk.check(pull)
        assert check["conclusion"] == "failure"
        assert "has no sandbox for untrusted code" in check["output"]["summary"]


def test_only_a_maintainers_word_about_this_very_commit_lets_a_stranger_run(desk: Office) -> None:
    pull = desk.open(1, fork=True)
    desk.tell(pull)
    desk.settle()
    assert desk.check(pull)["conclusion"] == "action_required"
    (comment,) = desk.verdicts(pull)
    assert f"/groundspeed approve {pull.head_sha[:12]}" in comment
    for who in (STRANGER, MEMBER, "triager"):
        assert desk.say(pull, "/groundspeed approve", who) == ["confused"]
        desk.press(pull, "approve", who)
    assert desk.say(pull, "/groundspeed run", STRANGER) == ["confused"]
    assert desk.pull(pull).approved_sha == ""
    old = desk.push(pull)
    assert desk.say(pull, "/groundspeed approve") == ["confused"], "the head that was asked about is not the head now"
    assert desk.say(pull, f"/groundspeed approve {old[:12]}") == ["confused"]
    assert desk.requests() == []
    assert desk.say(pull, "/groundspeed approve") == ["rocket"], "by now approval of the newer head was asked for"
    (first,) = desk.requests()
    assert (first.tip_sha, first.payload["trust"]) == (pull.head_sha, "untrusted")
    desk.push(pull)
    desk.tell(pull, "synchronize")
    desk.settle()
    assert desk.requests()[0].state == "cancelled"
    assert desk.check(pull)["conclusion"] == "action_required", "a new commit needs a new approval"
    assert len(desk.requests()) == 1


def test_a_button_approves_the_commit_of_its_check_and_no_later_one(desk: Office) -> None:
    pull = desk.open(1, fork=True)
    desk.tell(pull)
    desk.settle()
    check = desk.check(pull)
    desk.push(pull)
    desk.tell(pull, "synchronize")
    desk.hear("check_run", desk.github.check_event(desk.repo, check, "approve", MAINTAINER))
    desk.settle()
    assert desk.requests() == []
    desk.press(pull, "approve")
    assert [one.tip_sha for one in desk.requests()] == [pull.head_sha]


def test_a_label_approves_when_a_maintainer_puts_it_on(desk: Office) -> None:
    pull = desk.open(1, fork=True)
    desk.tell(pull)
    desk.settle()
    approved = "groundspeed: approved"
    for label, who in ((approved, "triager"), ("other", MAINTAINER)):
        desk.later(pull)
        pull.labels = [label]
        desk.tell(pull, "labeled", label={"name": label}, sender={"login": who, "type": "User"})
        desk.settle()
        assert desk.requests() == []
    desk.later(pull)
    desk.tell(pull, "labeled", label={"name": approved}, sender={"login": MAINTAINER, "type": "User"})
    desk.settle()
    assert len(desk.requests()) == 1
    assert desk.pull(pull).approved_by == MAINTAINER


def test_another_pull_requests_head_is_no_base_to_compare_with(desk: Office) -> None:
    """The mirror holds unapproved heads; against one of them nothing runs."""
    strange, own = desk.open(1, fork=True), desk.open(2)
    desk.tell(strange)
    desk.settle()
    desk.answer(own)
    for ref in (strange.head_sha, "refs/groundspeed/pull/1"):
        assert desk.say(own, f"/groundspeed run against {ref}") == ["rocket"]
        check = desk.check(own)
        assert check["conclusion"] == "failure"
        assert "is on no branch" in check["output"]["summary"]
    assert {job.trust for job in desk.rows(t.Job)} == {"trusted"}
    assert not [r for r in desk.requests() if strange.head_sha in r.payload.values()]


def test_an_accepted_regression_is_recorded_and_turns_the_check_neutral(desk: Office) -> None:
    pull = desk.open(1)
    assert desk.answer(pull, head=1.2)["conclusion"] == "failure"
    assert desk.say(pull, '/groundspeed accept "more work"', MEMBER) == ["confused"], "the author alone may not"
    assert desk.say(pull, "/groundspeed accept") == ["confused"]
    assert desk.say(pull, '/groundspeed accept "more work"') == ["rocket"]
    assert desk.check(pull)["conclusion"] == "neutral"
    assert "accepted: more work" in desk.verdicts(pull)[0]
    row = desk.pull(pull)
    assert (row.accepted_sha, row.accepted_by, row.accepted_reason) == (pull.head_sha, MAINTAINER, "more work")
    assert [e.action for e in desk.rows(t.AuditEntry, t.AuditEntry.action == "pull.accept")] == ["pull.accept"]
    desk.push(pull)
    desk.tell(pull, "synchronize")
    desk.settle()
    desk.measure(head=1.2)
    desk.settle()
    assert desk.check(pull)["conclusion"] == "failure", "the next head is another matter"


def test_run_cancel_help_and_mistakes_are_answered(desk: Office) -> None:
    pull = desk.open(1)
    desk.tell(pull)
    desk.settle()
    assert desk.say(pull, "/groundspeed cancel", MEMBER) == ["rocket"]
    assert desk.check(pull)["conclusion"] == "cancelled"
    assert desk.say(pull, "/groundspeed cancel") == ["confused"]
    assert desk.say(pull, "/groundspeed run train against main", MEMBER) == ["rocket"]
    assert len(desk.checks(pull)) == 2
    desk.measure()
    desk.settle()
    assert desk.check(pull)["conclusion"] == "success"
    assert desk.say(pull, "/groundspeed run on nowhere") == ["rocket"]
    assert "nowhere" in desk.check(pull)["output"]["summary"]
    assert desk.say(pull, "/groundspeed run what") == ["rocket"]
    assert "no suite" in desk.check(pull)["output"]["summary"]
    assert desk.say(pull, "/groundspeed help") == ["rocket"]
    assert desk.say(pull, "/groundspeed rnu") == ["confused"]
    assert "Did you mean `run`" in desk.repo.replies()[-1]
    before = len(desk.repo.comments)
    event = desk.github.comment_event(desk.repo, pull, "> /groundspeed run\nthanks", MAINTAINER)
    assert desk.hear("issue_comment", event).state == "ignored"
    assert len(desk.repo.comments) == before


def test_a_draft_is_measured_when_a_maintainer_asks(desk: Office) -> None:
    pull = desk.open(1, draft=True)
    desk.tell(pull)
    desk.settle()
    assert desk.say(pull, "/groundspeed run", MEMBER) == ["rocket"]
    assert desk.check(pull)["conclusion"] == "neutral"
    assert desk.say(pull, "/groundspeed run") == ["rocket"]
    assert len(desk.requests()) == 1


def test_a_rerun_button_and_closing_and_opening_again(desk: Office) -> None:
    pull = desk.open(1)
    desk.answer(pull)
    desk.press(pull, "rerun")
    assert [r.state for r in desk.requests()] == ["done", "planned"]
    desk.later(pull)
    pull.state = "closed"
    desk.tell(pull, "closed")
    desk.settle()
    assert desk.requests()[-1].state == "cancelled"
    assert desk.check(pull)["conclusion"] == "cancelled"
    desk.later(pull)
    pull.state = "open"
    desk.tell(pull, "reopened")
    desk.settle()
    assert [r.state for r in desk.requests()] == ["done", "cancelled", "planned"]


def test_a_bisection_names_the_commit(desk: Office) -> None:
    pull = desk.open(1)
    shas = [pull.head_sha] + [desk.commit(pull.head_ref, 1, start=pull.head_ref) for _ in range(4)]
    pull.head_sha = shas[-1]
    assert desk.answer(pull, head=1.2)["conclusion"] == "failure"
    assert desk.say(pull, "/groundspeed bisect") == ["rocket"]
    bad = shas[3]
    for _ in range(6):
        waiting = [r for r in desk.rows(t.Request, t.Request.kind == "bisect") if r.state == "planned"]
        if not waiting:
            break
        slow = shas.index(waiting[0].payload["head"]) >= shas.index(bad)
        desk.measure(head=1.2 if slow else 1.0)
        desk.settle()
    assert f"slower is `{bad[:12]}`" in desk.repo.replies()[-1]
