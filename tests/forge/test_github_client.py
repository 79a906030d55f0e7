"""The client against a GitHub over real HTTP: who it is, what it sends, and what it makes of every kind of no."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from forge.github_server.model import Pull, Repo
from forge.github_server.server import APP_ID, TOKEN, FakeGitHub, key_pair, serving
from groundspeed.service.domain.pulls.forge import ACCEPT, RERUN, Cause, Check, ForgeRefused, ForgeUnavailable, Reply
from groundspeed.service.domain.pulls.report import Report, Row, conclusion
from groundspeed.service.forge.github import GitHubAccess, GitHubForge

BASE, HEAD = "a" * 40, "b" * 40
REPORT = Report(
    "done", BASE, HEAD, "https://speed.example/projects/tiny/pulls/3",
    rows=(Row("regressed", "train[batch=8]", "step_time", 0.03, 0.02, 0.04, 0.005, suite="train"),),
    lines=(("train", 7),),
)  # fmt: skip


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    with serving() as fake:
        fake.repo()
        yield fake
    assert fake.violations == []
    if fake.unvalidated:
        pytest.skip(f"the requests were right, and not held against GitHub's OpenAPI description: {fake.unvalidated}")


@pytest.fixture
def forge(github: FakeGitHub) -> GitHubForge:
    return GitHubForge(GitHubAccess(github.url, APP_ID, key_pair()[0]))


@pytest.fixture
def by_token(github: FakeGitHub) -> GitHubForge:
    return GitHubForge(GitHubAccess(github.url, token=TOKEN))


def check(report: Report = REPORT) -> Check:
    return Check(HEAD, report, "1:b:0", conclusion(report), (RERUN, ACCEPT))


def repo(github: FakeGitHub) -> Repo:
    return github.repos["octo/tiny"]


def test_a_check_is_made_and_updated_as_the_app(github: FakeGitHub, forge: GitHubForge) -> None:
    running = replace(REPORT, state="running", rows=(), done=1, total=4)
    number = forge.create_check("octo/tiny", check(running))
    forge.update_check("octo/tiny", number, check())
    made = repo(github).checks[number]
    assert (made["status"], made["conclusion"]) == ("completed", "failure")
    assert made["output"]["title"].startswith("1 slower. 1 metric compared; a change of 0.50 % or more")
    (mark,) = made["output"]["annotations"]
    assert (mark["path"], mark["start_line"], mark["annotation_level"]) == ("groundspeed.toml", 7, "warning")
    assert [one["identifier"] for one in made["actions"]] == ["rerun", "accept"]
    assert forge.find_check("octo/tiny", HEAD, "1:b:0") == number
    assert forge.find_check("octo/tiny", HEAD, "1:b:1") is None
    assert github.count("POST", "/access_tokens") == 1, "a token is good for many calls"


def test_a_token_writes_statuses_instead(github: FakeGitHub, by_token: GitHubForge) -> None:
    by_token.create_check("octo/tiny", check())
    (status,) = repo(github).statuses
    assert (status["state"], status["context"]) == ("failure", "groundspeed")
    assert len(status["description"]) <= 140


def test_comments_are_made_edited_and_found_among_hundreds(github: FakeGitHub, forge: GitHubForge) -> None:
    ours = forge.create_comment("octo/tiny", 3, REPORT)
    for number in range(230):
        body = "<!-- groundspeed -->\nnot ours" if number % 100 == 0 else "hello"
        repo(github).comments[5000 + number] = {"id": 5000 + number, "number": 3, "body": body}
    assert forge.find_comment("octo/tiny", 3) == ours, "anybody can begin a comment with our marker"
    assert github.count("GET", "/issues/3/comments") == 3
    forge.update_comment("octo/tiny", ours, replace(REPORT, accepted="fine"))
    assert "accepted as intended" in repo(github).comments[ours]["body"]
    forge.retire_comment("octo/tiny", ours, REPORT)
    assert forge.find_comment("octo/tiny", 3) is None


def test_a_reply_quotes_strangers_harmlessly(github: FakeGitHub, forge: GitHubForge) -> None:
    number = forge.create_comment("octo/tiny", 3, Reply("No suite {}.", ("`x` @everyone <b>",), help=True))
    assert repo(github).comments[number]["body"].startswith("No suite `` `x` @everyone <b> ``.\n\n- `/groundspeed run")


def test_open_pull_requests_come_over_all_pages(github: FakeGitHub, forge: GitHubForge) -> None:
    for number in range(1, 206):
        repo(github).pulls[number] = Pull(number, HEAD, f"b{number}", BASE, fork="x/tiny" if number % 2 else "")
    found = list(forge.open_pulls("octo/tiny"))
    assert [one.number for one in found] == list(range(1, 206))
    assert found[0].from_fork
    assert not found[1].from_fork


def test_what_has_not_changed_is_not_sent_again(github: FakeGitHub, forge: GitHubForge) -> None:
    repo(github).pulls[1] = Pull(1, HEAD, "b", BASE)
    assert list(forge.open_pulls("octo/tiny")) == list(forge.open_pulls("octo/tiny"))
    assert github.statuses()[304] == 1
    used = github.used
    list(forge.open_pulls("octo/tiny"))
    assert github.used == used, "an answer of 304 does not count against the limit"


@pytest.mark.parametrize(
    ("role", "permission"), [("admin", "admin"), ("maintain", "maintain"), ("triage", "triage"), ("none", "none")]
)
def test_permissions_are_asked_for(github: FakeGitHub, forge: GitHubForge, role: str, permission: str) -> None:
    repo(github).permissions["bob"] = role
    assert forge.permission("octo/tiny", "bob") == permission
    assert forge.permission("octo/tiny", "../../x y") == "read"


def test_a_revoked_token_is_replaced_at_once(github: FakeGitHub, forge: GitHubForge) -> None:
    repo(github).pulls[1] = Pull(1, HEAD, "b", BASE)
    forge.pull("octo/tiny", 1)
    github.revoke_tokens()
    assert forge.pull("octo/tiny", 1).head_sha == HEAD
    assert github.count("POST", "/access_tokens") == 2


def test_every_no_is_either_later_or_never(github: FakeGitHub, forge: GitHubForge) -> None:
    repo(github).pulls[1] = Pull(1, HEAD, "b", BASE)
    forge.pull("octo/tiny", 1)
    github.trouble.status = 502
    with pytest.raises(ForgeUnavailable, match="answered 502"):
        forge.pull("octo/tiny", 1)
    github.trouble.status, github.trouble.away = 0, True
    with pytest.raises(ForgeUnavailable, match="cannot be reached"):
        forge.pull("octo/tiny", 1)
    github.trouble.away = False
    github.trouble.status, github.trouble.retry_after_s = 403, 7
    with pytest.raises(ForgeUnavailable) as secondary:
        forge.pull("octo/tiny", 1)
    assert secondary.value.retry_after_s == pytest.approx(7, abs=1)
    github.trouble.status, github.trouble.retry_after_s = 0, None
    github.limit = github.used
    with pytest.raises(ForgeUnavailable) as primary:
        forge.pull("octo/tiny", 1)
    assert 1 <= primary.value.retry_after_s <= 3
    github.limit = 5000
    with pytest.raises(ForgeRefused) as gone:
        forge.pull("octo/tiny", 9)
    assert gone.value.gone
    github.permissions.pop("checks")
    with pytest.raises(ForgeRefused, match="not accessible by integration"):
        forge.create_check("octo/tiny", check())


def test_a_wrong_key_is_said_and_not_retried_for_ever(github: FakeGitHub) -> None:
    stranger = GitHubForge(GitHubAccess(github.url, "4712", key_pair()[0]))
    with pytest.raises(ForgeRefused, match="credentials"):
        stranger.pull("octo/tiny", 1)


def test_issues_are_opened_once_and_closed(github: FakeGitHub, forge: GitHubForge) -> None:
    cause = Cause(
        5, "train is 3 % slower", "https://speed.example/r/5", (("train", "step_time", 0.03),), BASE, HEAD,
        suspects=((HEAD, "Merge pull request #7 from @evil/<b>"),), suspects_total=1, pulls=(7,),
    )  # fmt: skip
    number = forge.open_issue("octo/tiny", cause, ("performance",))
    assert forge.find_issue("octo/tiny", cause) == number
    issue = repo(github).issues[number]
    assert "Pull requests: #7" in issue["body"]
    assert "@evil" not in issue["body"]
    forge.update_issue("octo/tiny", number, replace(cause, closed_because="the level before it is reached again"))
    assert repo(github).issues[number]["state"] == "closed"
