"""Branches, merge queues, repositories that move, and what no delivery told of them."""

from __future__ import annotations

from forge.office import Office
from groundspeed.service.db import forge_tables as f
from groundspeed.service.db import tables as t
from groundspeed.service.usecases.pulls import outgoing

NULL = "0" * 40


def test_a_merge_queue_gets_its_answer(desk: Office) -> None:
    sha = desk.commit("gh-readonly-queue/main/pr-1", 99)
    group = {"head_sha": sha, "base_sha": desk.git.git("rev-parse", "main"), "base_ref": "refs/heads/main"}
    desk.hear("merge_group", desk.github.payload(desk.repo, "checks_requested", merge_group=group))
    desk.settle()
    desk.measure()
    desk.settle()
    (check,) = desk.repo.checks.values()
    assert (check["head_sha"], check["conclusion"]) == (sha, "success")
    assert desk.repo.comments == {}
    desk.hear("merge_group", desk.github.payload(desk.repo, "destroyed", merge_group=group))
    desk.settle()


def test_a_renamed_repository_keeps_its_pull_requests_and_a_removed_one_is_left_alone(desk: Office) -> None:
    pull = desk.open(1)
    desk.answer(pull)
    desk.github.repos["octo/tiny-toy"] = desk.github.repos.pop("octo/toy")
    desk.repo.full_name = "octo/tiny-toy"
    desk.hear("repository", desk.github.payload(desk.repo, "renamed"))
    desk.push(pull)
    desk.tell(pull, "synchronize")
    desk.settle()
    assert desk.check(pull)["status"] == "in_progress"
    assert len(desk.rows(f.PullRequest)) == 1
    gone = {"action": "deleted", "installation": {"id": desk.repo.installation, "account": {"login": "octo"}}}
    desk.hear("installation", gone)
    calls = len(desk.github.seen)
    desk.push(pull)
    desk.tell(pull, "synchronize")
    desk.settle()
    desk.reconcile()
    assert len(desk.github.seen) == calls


def test_another_repository_of_a_given_up_name_gets_nothing(desk: Office) -> None:
    other = desk.github.repo("octo/toy2", clone_url=desk.repo.clone_url)
    pull = desk.open(1)
    event = desk.github.pull_event(other, pull, "opened")
    assert desk.hear("pull_request", event).reason == "the repository belongs to no project"
    assert desk.rows(f.PullRequest) == []


def test_a_push_is_looked_at_at_once_and_other_refs_are_counted(desk: Office) -> None:
    def push(**more: object) -> f.Delivery:
        event = {"ref": "refs/heads/main", "before": "a" * 40, "after": "b" * 40, "repository": desk.repo.describe()}
        return desk.hear("push", event | more)

    assert (push().state, push(ref="refs/tags/v1").reason) == ("done", "push of a tag")
    assert push(ref="refs/heads/other").reason == "push of another branch"
    assert push(after=NULL).reason == "the branch was deleted"
    topics = [m.payload for m in desk.rows(t.Outbox, t.Outbox.topic == "groundspeed.control.watch")]
    assert topics == [{"project_id": 1}]
    assert outgoing.waiting(desk.db, desk.now) == []


def test_what_no_delivery_told_is_found(desk: Office) -> None:
    pull, closed = desk.open(1), desk.open(2)
    desk.tell(closed)
    desk.settle()
    closed.state = "closed"
    desk.later(closed)
    assert desk.reconcile() == 2
    assert [r.tip_sha for r in desk.requests(t.Request.state == "planned")] == [pull.head_sha]
    assert desk.pull(closed).state == "closed"
    assert desk.reconcile() == 0
    used = desk.github.used
    assert desk.reconcile() == 0
    assert desk.github.used == used, "an unchanged list costs nothing of the rate limit"


def test_at_first_sight_old_pull_requests_are_noted_and_not_measured(desk: Office) -> None:
    old, fresh = desk.open(1), desk.open(2)
    old.updated_at = "2020-01-01T00:00:00Z"
    assert desk.reconcile() == 2
    assert [one.tip_sha for one in desk.requests()] == [fresh.head_sha]
    desk.push(old)
    old.updated_at = fresh.updated_at
    desk.reconcile()
    assert [one.tip_sha for one in desk.requests()] == [fresh.head_sha, old.head_sha]


def test_a_lost_message_delays_and_loses_nothing(desk: Office) -> None:
    """Nothing here ever reads the outbox: all was found by looking."""
    pull = desk.open(1)
    assert desk.answer(pull)["conclusion"] == "success"
    assert {m.sent_at for m in desk.rows(t.Outbox)} == {None}
