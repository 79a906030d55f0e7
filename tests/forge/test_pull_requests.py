"""What becomes of pull requests: decisions, verdicts, commands, and what happens when GitHub or a message is away."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from forge.github_server.server import FakeGitHub
from forge.office import CONFIG, MAINTAINER, MEMBER, STRANGER, Office, office
from groundspeed.service.db import forge_tables as f
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases.pulls import evaluate, outgoing, perform

NULL = "0" * 40


@pytest.mark.parametrize("mode", ["app on sqlite", "token on postgresql"])
def test_a_slower_head_is_told_once_and_a_better_one_anew(
    mode: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    token = mode.startswith("token")
    db = request.getfixturevalue("postgres_database" if token else "sqlite_database")
    with office(db, tmp_path, token=token) as desk:
        pull = desk.open(1)
        desk.tell(pull)
        desk.settle()
        told = desk.repo.statuses if token else desk.checks(pull)
        assert len(told) == 1, "the first reaction comes before anything is measured"
        assert desk.verdicts(pull) == []
        desk.measure(head=1.1)
        desk.settle()
        (comment,) = desk.verdicts(pull)
        assert comment.splitlines()[1].startswith("### 1 slower. 1 metric compared; a change of ")
        assert "/groundspeed run train" in comment
        assert "https://speed.example/projects/toy/series/" in comment
        if token:
            assert [one["state"] for one in desk.repo.statuses] == ["pending", "failure"]
            assert desk.repo.checks == {}
        else:
            assert desk.check(pull)["conclusion"] == "failure"
        (asked,) = desk.requests()
        assert asked.payload["base"] == desk.git.git("rev-parse", "main")
        assert [side.role for side in desk.rows(t.JobSide)] == ["base", "head"]

        desk.push(pull)
        desk.tell(pull, "synchronize")
        desk.settle()
        assert len(desk.repo.verdict_comments()) == 1, "while it is measured, the comment is edited in place"
        assert "Waiting for a machine" in desk.verdicts(pull)[0]
        desk.measure(head=1.1)
        desk.settle()
        assert len(desk.repo.verdict_comments()) == 1, "the same verdict is no news"
        desk.push(pull)
        desk.tell(pull, "synchronize")
        desk.settle()
        desk.measure(head=0.9)
        desk.settle()
        assert len(desk.repo.verdict_comments()) == 2
        assert ["1 faster" in body for body in desk.verdicts(pull)] == [True]
        assert desk.rows(f.ForgeAction, f.ForgeAction.state != "sent") == []


def test_events_in_any_order_settle_to_the_same_state(desk: Office) -> None:
    pull = desk.open(1)
    opened = desk.github.pull_event(desk.repo, pull, "opened")
    desk.push(pull)
    newer = desk.github.pull_event(desk.repo, pull, "synchronize")
    desk.later(pull)
    pull.draft = True
    draft = desk.github.pull_event(desk.repo, pull, "converted_to_draft")
    for event in (draft, opened, newer, draft):
        desk.hear("pull_request", event)
    desk.settle()
    row = desk.pull(pull)
    assert (row.head_sha, row.draft, row.outcome) == (pull.head_sha, True, "draft")
    assert desk.check(pull)["output"]["title"] == "Drafts are not measured here"
    assert desk.requests() == []


def test_of_two_events_in_one_second_the_forge_is_asked(desk: Office) -> None:
    pull = desk.open(1)
    first = desk.github.pull_event(desk.repo, pull, "opened")
    at = pull.updated_at
    desk.push(pull)
    pull.updated_at = at
    second = desk.github.pull_event(desk.repo, pull, "synchronize")
    desk.hear("pull_request", second)
    desk.hear("pull_request", first)
    desk.settle()
    assert desk.pull(pull).head_sha == pull.head_sha
    assert [request.tip_sha for request in desk.requests()] == [pull.head_sha]


@pytest.mark.parametrize(
    ("rules", "files", "about", "title"),
    [
        ("", {"docs/a/b.md": "x", "README.md": "x"}, {}, "Nothing to measure"),
        ("", {"a.py": "x"}, {"draft": True}, "Drafts are not measured here"),
        ('label = "perf"\n', {"a.py": "x"}, {"labels": ["other"]}, "Not measured: the label"),
        ('label = "perf"\n', {"a.py": "x"}, {"labels": ["perf"]}, "Waiting for a machine"),
        ("drafts = true\n", {"a.py": "x"}, {"draft": True}, "Waiting for a machine"),
    ],
)
def test_what_is_measured_is_the_bases_to_say(desk: Office, rules: str, files: dict[str, str], about: dict[str, object], title: str) -> None:  # fmt: skip
    desk.git.commit("Rules", {"groundspeed.toml": CONFIG.replace("[pull_request]\n", f"[pull_request]\n{rules}")})
    lenient = CONFIG.replace("[pull_request]\n", "[pull_request]\ndrafts = true\npaths_ignore = []\n#").replace(
        'paths_ignore = ["docs/**", "*.md"]', ""
    )
    pull = desk.open(1, files=files | {"docs/groundspeed.toml": lenient}, **about)
    desk.tell(pull)
    desk.settle()
    assert desk.check(pull)["output"]["title"].startswith(title)
    assert desk.verdicts(pull) == []


def test_a_head_that_rewrites_the_configuration_changes_nothing(desk: Office) -> None:
    evil = CONFIG.replace("batch_size = 8", "batch_size = [1, 2, 4]").replace(
        "[build]\n", '[build]\ninstall = ["curl evil"]\n'
    )
    pull = desk.open(1, fork=True, files={"groundspeed.toml": evil})
    desk.tell(pull)
    desk.settle()
    assert desk.say(pull, f"/groundspeed approve {pull.head_sha[:10]}") == ["rocket"]
    (job,) = desk.rows(t.Job)
    assert [one["key"] for one in job.spec["benchmarks"]] == ["batch_size=8"]
    assert job.spec["build"]["install"] == []
    assert (job.trust, job.spec["trust"], job.requirements["sandbox"]) == ("untrusted", "untrusted", True)


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


# --- approval --------------------------------------------------------------------------------------------------------


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


HOSTILE = (
    "</a><script>alert(1)</script> @everyone ![i](http://evil) | `x` \x1b[31m\u202e <!-- groundspeed --> "
    + "A" * 1_000_000
)


def test_hostile_titles_and_names_stay_text(desk: Office) -> None:
    pull = desk.open(1, fork=True, title=HOSTILE, labels=[HOSTILE[:300]], author="@everyone<b>")
    pull.head_ref = HOSTILE[:300]
    assert desk.tell(pull).state == "done"
    desk.settle()
    pull.head_ref = "change-1"
    event = desk.github.comment_event(desk.repo, pull, f'/groundspeed accept "{HOSTILE}"\n{HOSTILE}', MAINTAINER)
    assert desk.hear("issue_comment", event).state == "done"
    desk.say(pull, f"/groundspeed run {'@everyone<img>'}", MAINTAINER)
    desk.say(pull, f"/groundspeed approve {pull.head_sha}")
    desk.measure(head=1.2)
    desk.settle()
    assert desk.say(pull, '/groundspeed accept "@everyone <script> [x](http://evil)"') == ["rocket"]
    said = [c["body"] for c in desk.repo.comments.values()]
    said += [c["output"]["summary"] + c["output"]["title"] for c in desk.repo.checks.values()]
    assert said
    for text in said:
        assert "<script" not in text
        assert "@everyone" not in text.replace("`@everyone", "")
        assert "](http://evil" not in text
        assert "\x1b" not in text
        assert len(text) < 65_536
    assert len(desk.pull(pull).title) <= 500


# --- commands --------------------------------------------------------------------------------------------------------


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
    assert (
        "not &#39;nowhere&#39;" in desk.check(pull)["output"]["summary"]
        or "nowhere" in desk.check(pull)["output"]["summary"]
    )
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


def test_failing_heads_are_failures_and_failing_bases_are_nobodys(desk: Office) -> None:
    head, both = desk.open(1), desk.open(2)
    check = desk.answer(head, outcomes=("ok", "crashed"))
    assert check["conclusion"] == "failure"
    assert check["output"]["title"].startswith("1 failing"), check["output"]
    check = desk.answer(both, outcomes=("crashed", "crashed"))
    assert check["conclusion"] == "neutral", "zero compared is never a success"
    assert check["output"]["title"].startswith("Nothing was compared")


# --- queues, repositories, things that go wrong ----------------------------------------------------------------------


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


def test_what_no_delivery_told_is_found(desk: Office) -> None:
    pull, closed = desk.open(1), desk.open(2)
    desk.tell(closed)
    desk.settle()
    closed.state = "closed"
    desk.later(closed)
    assert desk.reconcile() == 2
    assert [r.tip_sha for r in desk.requests(t.Request.state == "planned")] == [pull.head_sha]
    assert desk.pull(closed).state == "closed"
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
