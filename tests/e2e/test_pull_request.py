"""From webhook to check and comment: a bare repository, a real service with a worker, and a GitHub over HTTP.

The benchmark counts what the project says it costs, so that each process takes a moment and the answer is certain.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from forge.github_server.model import Pull, Repo, stamp
from forge.github_server.server import APP_ID, SECRET, FakeGitHub, deliver, key_pair, serving
from groundspeed.workers import sandbox

from .conftest import CONFIG, PLUGIN, Groundspeed

MAINTAINER, STRANGER = "ann", "mallory"
LIMIT_S = 300.0
OUTAGE_S = 6.0
HOSTILE = "</title><script>alert(1)</script> @everyone \x1b[31m![x](http://evil)"
ENTRY_POINTS = "[groundspeed.benchmarks]\npingpong = acme_bench:PLUGIN\n"


@dataclass
class Checkout:
    """A clone of the bare repository, pushed to it by whoever may, and to ``refs/pull`` as GitHub does for forks."""

    folder: Path
    bare: Path

    def git(self, *arguments: str) -> str:
        who = ("-c", "user.name=t", "-c", "user.email=t@t.example")
        command = ["git", "-C", str(self.folder), *who, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def change(self, branch: str, points: int, seconds: float = 0.0, base: str = "main", **files: str) -> str:
        """A commit on a branch that starts anew from ``base``; its sha. Not pushed yet."""
        self.git("checkout", "-q", "-B", branch, base)
        body = f"import time\n\n\ndef points():\n    time.sleep({seconds})\n    return {points}\n"
        for name, text in {"counted.py": body, **files}.items():
            path = self.folder / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", f"{points} points {branch} {time.monotonic_ns()}")
        return self.git("rev-parse", "HEAD")

    def push(self, branch: str, ref: str = "") -> None:
        self.git("push", "-q", "--force", str(self.bare), f"{branch}:{ref or f'refs/heads/{branch}'}")


@dataclass
class Story:
    """The world of the test, and what can be said of it."""

    groundspeed: Groundspeed
    github: FakeGitHub
    repo: Repo
    checkout: Checkout
    url: str = ""

    def open(self, number: int, branch: str, points: int, seconds: float = 0.0, fork: str = "", **more: Any) -> Pull:
        sha = self.checkout.change(branch, points, seconds, **more.pop("files", {}))
        self.checkout.push(branch, f"refs/pull/{number}/head" if fork else "")
        if not fork:
            self.checkout.push(branch, f"refs/pull/{number}/head")
        base = self.checkout.git("rev-parse", "main")
        association = "FIRST_TIME_CONTRIBUTOR" if fork else "MEMBER"
        pull = Pull(number, sha, branch, base, fork=fork, association=association, **more)
        with self.github.lock:
            self.repo.pulls[number] = pull
        return pull

    def push_to(self, pull: Pull, points: int, seconds: float = 0.0) -> str:
        """A forced push of another commit; the old head."""
        old, sha = pull.head_sha, self.checkout.change(pull.head_ref, points, seconds)
        self.checkout.push(pull.head_ref, f"refs/pull/{pull.number}/head")
        time.sleep(1.1)  # GitHub's times are whole seconds
        with self.github.lock:
            pull.head_sha, pull.updated_at = sha, stamp()
        return old

    def tell(self, pull: Pull, action: str, guid: str = "", **more: Any) -> dict[str, Any]:
        event = self.github.pull_event(self.repo, pull, action, **more)
        assert deliver(self.url, "pull_request", event, guid=guid).status_code == 202
        return event

    def comment(self, pull: Pull, body: str, author: str = MAINTAINER) -> int:
        event = self.github.comment_event(self.repo, pull, body, author)
        assert deliver(self.url, "issue_comment", event).status_code == 202
        return int(event["comment"]["id"])

    def press(self, check: dict[str, Any], identifier: str, sender: str) -> None:
        assert deliver(self.url, "check_run", self.github.check_event(self.repo, check, identifier, sender)).is_success

    def wait(self, what: str, condition: Callable[[], Any], limit_s: float = LIMIT_S) -> Any:
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            with self.github.lock:
                value = condition()
            if value:
                return value
            time.sleep(0.1)
        raise AssertionError(f"{what} did not happen within {limit_s:.0f} s\n{self.now()}")

    def now(self) -> str:
        checks = [
            (c["head_sha"][:8], c.get("status"), c.get("conclusion"), c["output"]) for c in self.repo.checks.values()
        ]
        logs = "\n".join(p.read_text()[-2500:] for p in sorted((self.groundspeed.data / "logs").glob("*.log*")))
        comments = [(one["number"], one["body"][:400]) for one in self.repo.comments.values()]
        return f"{json.dumps(checks, indent=1)}\n{comments}\n{logs}"

    def checks_of(self, sha: str) -> list[dict[str, Any]]:
        return [check for check in self.repo.checks.values() if check["head_sha"] == sha]

    def concluded(self, sha: str, *conclusions: str) -> Callable[[], Any]:
        return lambda: [c for c in self.checks_of(sha) if c.get("conclusion") in conclusions]

    def verdicts(self, pull: Pull) -> list[str]:
        """Our comments with a verdict, the retired ones left out."""
        bodies = [c["body"] for c in self.repo.verdict_comments() if c["number"] == pull.number]
        return [body for body in bodies if body.startswith("<!-- groundspeed -->")]


def plugin(site: Path) -> None:
    """The plugin as pip would have put it there."""
    site.mkdir()
    (site / "acme_bench.py").write_text(PLUGIN)
    about = site / "acme_bench-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-bench\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    names = ("acme_bench.py", *(f"{about.name}/{name}" for name in ("METADATA", "entry_points.txt", "RECORD")))
    (about / "RECORD").write_text("".join(f"{name},,\n" for name in names))


@pytest.fixture
def story(tmp_path: Path, groundspeed: Groundspeed, monkeypatch: pytest.MonkeyPatch) -> Iterator[Story]:
    for name in [name for name in os.environ if name.startswith("GITHUB_")]:
        monkeypatch.setenv(name, "not ours")
    plugin(tmp_path / "site")
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join(filter(None, (str(tmp_path / "site"), os.environ.get("PYTHONPATH"))))
    )
    bare = tmp_path / "bare.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(bare)], check=True)
    subprocess.run(["git", "init", "-q", "-b", "main", str(tmp_path / "work")], check=True)
    checkout = Checkout(tmp_path / "work", bare)
    checkout.git("commit", "-q", "--allow-empty", "-m", "Start")
    checkout.change(
        "start", 3, base="HEAD", **{"groundspeed.toml": CONFIG + "\n[pull_request]\npaths_ignore = ['docs/**']\n"}
    )
    checkout.git("branch", "-q", "-f", "main")
    checkout.push("main")
    key = tmp_path / "app.pem"
    key.write_text(key_pair()[0])
    with serving() as github:
        repo = github.repo(clone_url=str(bare))
        repo.permissions |= {MAINTAINER: "maintain", STRANGER: "read"}
        settings = {
            "GITHUB_WEBHOOK_SECRET": f"older,{SECRET}", "GITHUB_APP_ID": APP_ID, "GITHUB_PRIVATE_KEY_FILE": str(key),
            "GITHUB_API_URL": github.url, "GITHUB_POLL_S": "3600", "GITHUB_BACKOFF_S": "0.5", "TICK_S": "0.5",
            "WORKER_IDLE_POLL_S": "1", "HEARTBEAT_S": "1",
        }  # fmt: skip
        for name, value in settings.items():
            monkeypatch.setenv(f"GROUNDSPEED_{name}", value)
        yield Story(groundspeed, github, repo, checkout)
    assert github.violations == []


def command(story: Story, *arguments: str) -> None:
    done = story.groundspeed.run(*arguments, timeout_s=240.0)
    assert done.returncode == 0, done.stderr + done.stdout


@pytest.mark.timeout(1500)
@pytest.mark.filterwarnings("default:not held against")
def test_pull_requests_get_their_answers(story: Story) -> None:
    command(story, "project", "add", str(story.checkout.bare))
    command(story, "github", "link", "counted", "octo/tiny")
    with story.groundspeed.running("up", "--port", "0"):
        facts = story.groundspeed.wait("the service", lambda: running_at(story.groundspeed), 300)
        story.url = facts["url"]
        slower(story)
        docs_only(story)
        from_a_fork(story)
        pushed_in_mid_run(story)
        closed_in_mid_run(story)
        lost_and_away(story)
    nothing_doubled(story)
    if story.github.unvalidated:
        warnings.warn(f"not held against the OpenAPI description: {story.github.unvalidated}", stacklevel=1)


def running_at(groundspeed: Groundspeed) -> Any:
    done = groundspeed.run("status", "--json", timeout_s=240.0)
    facts = json.loads(done.stdout)["running"] if done.returncode == 0 else None
    if not facts or "url" not in facts:
        return None
    probe = subprocess.run(
        [sys.executable, "-c", f"import urllib.request as u; u.urlopen('{facts['url']}/readyz', timeout=2)"],
        check=False, capture_output=True,
    )  # fmt: skip
    return facts if probe.returncode == 0 else None


def slower(story: Story) -> None:
    """A member's branch: twice delivered, out of order; slower; accepted by a maintainer and by nobody else."""
    pull = story.open(1, "slower", 4, title=HOSTILE)
    old = story.github.pull_event(story.repo, pull, "opened")
    event = story.tell(pull, "opened", guid="delivery-1")
    story.wait("the first reaction", lambda: story.checks_of(pull.head_sha))
    assert deliver(story.url, "pull_request", event, guid="delivery-1").json()["state"] == "known"
    assert deliver(story.url, "pull_request", event, guid="replayed").json()["state"] == "known"
    old["pull_request"] |= {"updated_at": "2020-01-01T00:00:00Z", "state": "closed"}
    assert deliver(story.url, "pull_request", old).json()["state"] == "stored"

    (check,) = story.wait("the verdict", story.concluded(pull.head_sha, "failure"))
    assert check["output"]["title"].startswith("1 slower. 1 metric compared")
    assert "**+33.3 %**" in check["output"]["summary"]
    assert [one["identifier"] for one in check["actions"]] == ["rerun", "accept"]
    (comment,) = story.wait("the comment", lambda: story.verdicts(pull))
    assert "/groundspeed run points" in comment
    assert "script" not in comment

    refused = story.comment(pull, '/groundspeed accept "mine"', STRANGER)
    story.wait("the refusal", lambda: story.repo.reactions[refused] == ["confused"])
    story.wait("its words", lambda: any("may not" in reply for reply in story.repo.replies()))
    accepted = story.comment(pull, '/groundspeed accept "more work is done"')
    story.wait("the acceptance", story.concluded(pull.head_sha, "neutral"))
    story.wait("its reaction", lambda: story.repo.reactions[accepted] == ["rocket"])
    story.wait("its reason", lambda: ["more work is done" in body for body in story.verdicts(pull)] == [True])
    assert len(story.checks_of(pull.head_sha)) == 1


def docs_only(story: Story) -> None:
    pull = story.open(2, "docs", 3, files={"docs__a.md": "words"})
    story.tell(pull, "opened")
    (check,) = story.wait("nothing to measure", story.concluded(pull.head_sha, "neutral"))
    assert check["output"]["title"].startswith("Nothing to measure")
    assert story.verdicts(pull) == []


def from_a_fork(story: Story) -> None:
    """A stranger's code waits for a maintainer's word about this very commit, and runs in a sandbox or not at all."""
    greedy = CONFIG.replace("size = 10", "size = 1000")
    pull = story.open(3, "theirs", 3, fork="mallory/tiny", author=STRANGER, files={"groundspeed.toml": greedy})
    story.tell(pull, "opened")
    (check,) = story.wait("the question", story.concluded(pull.head_sha, "action_required"))
    assert [one["identifier"] for one in check["actions"]] == ["approve"]
    own = story.comment(pull, "/groundspeed approve", STRANGER)
    story.wait("the refusal", lambda: story.repo.reactions[own] == ["confused"])
    story.press(check, "approve", STRANGER)
    waiting = "select approved_sha from pullrequest where number = 3"
    old = story.push_to(pull, 5)
    story.tell(pull, "synchronize")
    story.wait("the question about the newer head", story.concluded(pull.head_sha, "action_required"))
    stale = story.comment(pull, f"/groundspeed approve {old[:12]}")
    story.wait("the refusal of a stale approval", lambda: story.repo.reactions[stale] == ["confused"])
    assert story.groundspeed.query(waiting) == [("",)]
    assert story.groundspeed.query("select count(*) from request where payload like '%untrusted%'") == [(0,)]

    story.comment(pull, f"/groundspeed approve {pull.head_sha[:12]}")
    expected = "failure" if sandbox.available()[0] else "refusal"
    (check,) = story.wait(f"the {expected}", story.concluded(pull.head_sha, "failure"))
    if expected == "failure":
        assert check["output"]["title"].startswith("1 slower. 1 metric compared")
        assert "size&#61;10&#93;" in check["output"]["summary"] or "size=10&#93;" in check["output"]["summary"]
    else:
        assert "no sandbox for untrusted code" in check["output"]["summary"].replace("&#45;", "-")


def pushed_in_mid_run(story: Story) -> None:
    """The older head is given up, its check ends, and the newer one gets the verdict."""
    pull = story.open(4, "moving", 4, seconds=4.0)
    story.tell(pull, "opened")
    running = "select count(*) from job join request on request.id = job.request_id where request.tip_sha = ? and job.state = ?"
    story.groundspeed.wait(
        "the older head to run", lambda: story.groundspeed.query(running, pull.head_sha, "running") == [(1,)], LIMIT_S
    )
    old = story.push_to(pull, 2)
    story.tell(pull, "synchronize")
    (check,) = story.wait("the verdict on the newer head", story.concluded(pull.head_sha, "success", "failure"))
    assert check["output"]["title"].startswith("1 faster. 1 metric compared")
    story.wait("the end of the older check", story.concluded(old, "cancelled"))
    assert story.groundspeed.query(running, old, "cancelled") == [(1,)]
    story.wait("the comment", lambda: len(story.verdicts(pull)) == 1)


def closed_in_mid_run(story: Story) -> None:
    pull = story.open(5, "given-up", 4, seconds=4.0)
    story.tell(pull, "opened")
    running = "select count(*) from job join request on request.id = job.request_id where request.tip_sha = ? and job.state = ?"
    story.groundspeed.wait(
        "the head to run", lambda: story.groundspeed.query(running, pull.head_sha, "running") == [(1,)], LIMIT_S
    )
    time.sleep(1.1)
    pull.state, pull.updated_at = "closed", stamp()
    story.tell(pull, "closed")
    story.wait("the end of the check", story.concluded(pull.head_sha, "cancelled"))
    assert story.groundspeed.query(running, pull.head_sha, "cancelled") == [(1,)]
    assert story.verdicts(pull) == []


def lost_and_away(story: Story) -> None:
    """A delivery that never came is found by looking, and what GitHub was away for is said when it is back."""
    outage_s = float(os.environ.get("GROUNDSPEED_TEST_OUTAGE_S", OUTAGE_S))
    missed = story.open(6, "missed", 4)
    with sqlite3.connect(story.groundspeed.data / "groundspeed.db", timeout=30) as store:
        store.execute("update forgerepository set reconciled_at = '2020-01-01 00:00:00'")
    (check,) = story.wait("the verdict on the missed one", story.concluded(missed.head_sha, "failure"))
    pull = story.open(7, "unlucky", 4)
    story.tell(pull, "opened")
    story.wait("the first reaction", lambda: story.checks_of(pull.head_sha))
    story.github.trouble.away = True
    begin = time.monotonic()
    story.groundspeed.wait(
        "the verdict to be known",
        lambda: story.groundspeed.query("select 1 from request where tip_sha = ? and state = 'done'", pull.head_sha),
        LIMIT_S,
    )
    time.sleep(max(0.0, outage_s - (time.monotonic() - begin)))
    assert not story.concluded(pull.head_sha, "failure")()
    story.github.trouble.away = False
    (check,) = story.wait("the verdict after the outage", story.concluded(pull.head_sha, "failure"))
    assert check["output"]["title"].startswith("1 slower")
    story.wait("its comment", lambda: len(story.verdicts(pull)) == 1)


def nothing_doubled(story: Story) -> None:
    sql = "select count(*), count(distinct job_id || ':' || side || ':' || benchmark_key || ':' || replicate) from run"
    rows, distinct = story.groundspeed.query(sql)[0]
    assert rows == distinct > 0
    assert story.groundspeed.query(
        "select count(*) from delivery where state in ('pending', 'failed', 'malformed')"
    ) == [(0,)]
    assert story.groundspeed.query("select error from forgeaction where state = 'failed'") == []
    heads = [check["external_id"] for check in story.repo.checks.values()]
    assert len(heads) == len(set(heads))
