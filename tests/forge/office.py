"""A project on a GitHub over HTTP, and the service's use cases around it; what the control worker does is done by hand."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlmodel import SQLModel, select

from fleet import Fleet, registration
from forge.github_server.model import Pull, Repo, stamp
from forge.github_server.server import APP_ID, TOKEN, FakeGitHub, key_pair, serving
from groundspeed.plugins.timing.kernels import Interval, KernelTable
from groundspeed.service.db import forge_tables as f
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.forge.events import read_event
from groundspeed.service.forge.github import GitHubAccess, GitHubForge
from groundspeed.service.repo import Mirrors
from groundspeed.service.usecases import artefacts, gate, ingest, nodes, planning
from groundspeed.service.usecases.pulls import (
    deliveries,
    evaluate,
    issues,
    outgoing,
    perform,
    places,
    progress,
    reconcile,
)
from groundspeed.service.usecases.pulls.outgoing import Desk
from groundspeed.service.usecases.pulls.topics import Patience
from groundspeed.service.wire import v1
from repositories import GitRepo, toy
from world import run, samples

CONFIG = """\
[project]
name = "toy"
history = 8

[build]
paths = ["."]

[pull_request]
paths_ignore = ["docs/**", "*.md"]

[[suite]]
name = "train"
plugin = "training"
target = "bench:make"
params = { batch_size = 8 }
"""
MAINTAINER, MEMBER, STRANGER = "ann", "bob", "mallory"


@dataclass
class Office:
    db: Database
    github: FakeGitHub
    repo: Repo
    desk: Desk
    git: GitRepo
    fleet: Fleet
    store: artefacts.Store
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    # --- what happens outside ----------------------------------------------------------------------------------------

    def open(self, number: int, *, fork: bool = False, files: dict[str, str] | None = None, **more: Any) -> Pull:
        """A pull request with one commit; its author is a member, or a stranger with a fork."""
        branch = f"change-{number}"
        sha = self.commit(branch, number, files)
        about: dict[str, Any] = {"author": MEMBER, "association": "MEMBER"}
        if fork:
            about = {"author": STRANGER, "association": "FIRST_TIME_CONTRIBUTOR", "fork": "mallory/toy"}
        pull = Pull(number, sha, branch, self.git.git("rev-parse", "main"), **(about | more))
        if fork:
            self.git.git("branch", "-q", "-D", branch)  # what GitHub has of it is refs/pull alone
        self.repo.pulls[number] = pull
        return pull

    def commit(self, branch: str, number: int, files: dict[str, str] | None = None, start: str = "main") -> str:
        self.git.git("checkout", "-q", "-B", branch, start)
        sha = self.git.commit(f"Change {uuid.uuid4().hex[:6]}", files or {"train.py": uuid.uuid4().hex})
        self.git.git("update-ref", f"refs/pull/{number}/head", sha)
        self.git.git("checkout", "-q", "main")
        return sha

    def push(self, pull: Pull, files: dict[str, str] | None = None) -> str:
        """A newer head; the older one."""
        old = pull.head_sha
        pull.head_sha = self.commit(pull.head_ref, pull.number, files)
        if pull.fork:
            self.git.git("branch", "-q", "-D", pull.head_ref)
        self.later(pull)
        return old

    def later(self, pull: Pull) -> None:
        at = datetime.fromisoformat(pull.updated_at)
        pull.updated_at = stamp(at + timedelta(seconds=5))

    # --- what GitHub tells -------------------------------------------------------------------------------------------

    def hear(self, event: str, payload: Any, guid: str = "") -> f.Delivery:
        """A delivery, stored and worked on."""
        body = json.dumps(payload).encode()
        incoming = deliveries.Incoming(guid or uuid.uuid4().hex, event, body)
        deliveries.receive(self.db, incoming, self.now)
        for row in self.rows(f.Delivery, f.Delivery.state == "pending"):
            deliveries.process(self.db, row.id, read_event, self.now)
        return self.rows(f.Delivery)[-1]

    def tell(self, pull: Pull, action: str = "opened", **more: Any) -> f.Delivery:
        return self.hear("pull_request", self.github.pull_event(self.repo, pull, action, **more))

    def write(self, pull: Pull, words: str, author: str = MAINTAINER) -> dict[str, Any]:
        """A comment that nobody has told us of; the event that would have."""
        self.github.now = self.now
        event = self.github.comment_event(self.repo, pull, words, author)
        self.github.now = None
        return event

    def say(self, pull: Pull, words: str, author: str = MAINTAINER) -> list[str]:
        """A comment with a command, carried out; the reactions to it."""
        event = self.github.comment_event(self.repo, pull, words, author)
        self.hear("issue_comment", event)
        self.settle()
        return self.repo.reactions[event["comment"]["id"]]

    def press(self, pull: Pull, identifier: str, sender: str = MAINTAINER) -> None:
        self.hear("check_run", self.github.check_event(self.repo, self.check(pull), identifier, sender))
        self.settle()

    # --- what the service does ---------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Until nothing is left that could be done now."""
        for _ in range(30):
            self.now += timedelta(seconds=6)
            work = [evaluate.evaluate(self.desk, one, self.now) for one in evaluate.waiting(self.db, self.now)]
            for request in self.rows(t.Request, t.Request.state == "pending"):
                work.append(str(planning.plan_request(self.db, self.desk.mirrors, request.id, self.now)))
            progress.look(self.desk, self.now)
            issues.look(self.db, self.now)
            work += ["told" for one in outgoing.waiting(self.db, self.now) if perform.perform(self.desk, one, self.now)]
            if not any(work) and not self.rows(t.Request, t.Request.state == "pending"):
                return
        raise AssertionError("it does not come to rest")

    def reconcile(self) -> int:
        self.now += timedelta(hours=1)
        found = reconcile.waiting(self.db, self.now, self.desk.patience.reconcile_s)
        changed = sum(reconcile.reconcile(self.desk, one, self.now) for one in found)
        self.settle()
        return changed

    def measure(
        self,
        head: float = 1.0,
        base: float = 1.0,
        pairs: int = 4,
        outcomes: tuple[str, str] = ("ok", "ok"),
        kernels: Callable[[int, int], KernelTable] | None = None,
        **more: Any,
    ) -> int:
        """Every waiting job, with times in seconds for base and head and, by side and pair, what the device's kernels
        took; how many jobs.
        """
        count = 0
        while True:
            self.fleet.now = self.now
            claimed = self.fleet.next(delivery=uuid.uuid4().hex)
            if claimed.job is None:
                return count
            count += 1
            for benchmark in claimed.job.benchmarks:
                for pair in range(pairs):
                    for side, (value, outcome) in enumerate(((base, outcomes[0]), (head, outcomes[1]))):
                        wobble = 1 + 0.0005 * ((pair * 7 + side * 3) % 5 - 2)
                        file = json.dumps(kernels(side, pair).as_json()).encode() if kernels is not None else b""
                        report = run(
                            benchmark.key, pair, side, plugin=benchmark.plugin, params=benchmark.params, outcome=outcome,
                            samples=[samples("time", value * wobble)] if outcome == "ok" else [],
                            artefacts=[reference(file)] if file else [], **more,
                        )  # fmt: skip
                        ack = ingest.ingest_runs(
                            self.db, claimed.attempt_id or "", v1.RunBatch(runs=(report,)), self.now
                        )
                        assert not ack.refused, ack.refused
                        if file:
                            self.upload(claimed.attempt_id or "", file)
            self.fleet.finish(claimed.attempt_id)
            gate.conclude(self.db, claimed.attempt_id or "", self.now)

    def upload(self, attempt: str, file: bytes) -> None:
        """An artefact, as a worker sends it after the report that names it."""
        sha256 = hashlib.sha256(file).hexdigest()
        with artefacts.upload(self.store, sha256) as incoming:
            incoming.write(file)
            incoming.finish()
        artefacts.mark_stored(self.db, self.store, attempt, self.now)

    def answer(self, pull: Pull, **values: Any) -> dict[str, Any]:
        """Tell of the pull request, measure it, and read its check."""
        self.tell(pull)
        self.settle()
        self.measure(**values)
        self.settle()
        return self.check(pull)

    # --- looking -----------------------------------------------------------------------------------------------------

    def rows(self, table: type[SQLModel], *conditions: Any) -> list[Any]:
        with self.db.read() as session:
            return list(session.exec(select(table).where(*conditions).order_by(table.id)))  # type: ignore[attr-defined]

    def pull(self, pull: Pull) -> f.PullRequest:
        (row,) = self.rows(f.PullRequest, f.PullRequest.number == pull.number)
        return row

    def checks(self, pull: Pull) -> list[dict[str, Any]]:
        return [one for one in self.repo.checks.values() if one["head_sha"] == pull.head_sha]

    def check(self, pull: Pull) -> dict[str, Any]:
        return self.checks(pull)[-1]

    def verdicts(self, pull: Pull) -> list[str]:
        """Our comments on it that hold."""
        bodies = [c["body"] for c in self.repo.verdict_comments() if c["number"] == pull.number]
        return [body for body in bodies if body.startswith("<!-- groundspeed -->")]

    def requests(self, *conditions: Any) -> list[t.Request]:
        return self.rows(t.Request, t.Request.kind == "pull_request", *conditions)


def reference(file: bytes) -> dict[str, Any]:
    sha256 = hashlib.sha256(file).hexdigest()
    return {"kind": "kernel-table", "name": "kernel-table.json", "sha256": sha256, "size_bytes": len(file)}


def kernel_table(spread: int, steps: int = 10, **kernels: tuple[int, float]) -> KernelTable:
    """As the profiled pass makes it: launches a step and microseconds of each, by name; ``spread`` tells processes of
    the same code apart.
    """
    factor = 1 + 0.001 * (spread * 7 % 5 - 2)
    table = KernelTable(steps=steps)
    for name, (launches, each_us) in kernels.items():
        table.add([Interval(name, 0, round(each_us * 1000 * factor))] * (launches * steps))
    return table


@contextmanager
def office(
    db: Database, folder: Path, *, token: bool = False, sandbox: str = "bubblewrap", **more: Any
) -> Iterator[Office]:
    """A linked project with a node that has (or has not) a sandbox."""
    git, shas = toy(folder / "repo", 3, CONFIG)
    fleet = Fleet(db, Mirrors(folder / "mirrors"), git, shas)
    fleet.add(watch=False)
    nodes.register(db, registration("n1", sandbox=sandbox, **more), datetime.now(UTC), 10.0)
    with serving() as github:
        repo = github.repo("octo/toy", clone_url=str(git.path))
        repo.permissions |= {MAINTAINER: "maintain", MEMBER: "read", STRANGER: "none", "triager": "triage"}
        access = GitHubAccess(github.url, token=TOKEN) if token else GitHubAccess(github.url, APP_ID, key_pair()[0])
        forge = GitHubForge(access)
        places.link(db, "toy", forge.repository("octo/toy"), datetime.now(UTC), "test")
        desk = Desk(db, fleet.mirrors, forge, "https://speed.example", Patience(backoff_s=1.0, longest_s=30.0))
        yield Office(db, github, repo, desk, git, fleet, artefacts.Store(folder / "artefacts", 2**26, 2**28))
    assert github.violations == []
