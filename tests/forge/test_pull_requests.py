"""What becomes of pull requests: what is measured, against what, and what is told of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from forge.office import CONFIG, MAINTAINER, Office, office
from groundspeed.service.db import forge_tables as f
from groundspeed.service.db import tables as t


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


def test_failing_heads_are_failures_and_failing_bases_are_nobodys(desk: Office) -> None:
    head, both = desk.open(1), desk.open(2)
    check = desk.answer(head, outcomes=("ok", "crashed"))
    assert check["conclusion"] == "failure"
    assert check["output"]["title"].startswith("1 failing"), check["output"]
    check = desk.answer(both, outcomes=("crashed", "crashed"))
    assert check["conclusion"] == "neutral", "zero compared is never a success"
    assert check["output"]["title"].startswith("Nothing was compared")


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
