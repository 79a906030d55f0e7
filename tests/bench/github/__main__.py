"""make bench-github: webhooks at 50 a second while pull requests are measured, against a GitHub over HTTP.

Real processes: PostgreSQL, Redis, one API, one control worker, a sender with 16 connections and a pool of simulated
workers that report at once, so that what is timed is the service's own part:

* a webhook's answer, beside the floor of this machine: the same request refused for its signature, nothing stored;
* from a pull request's webhook to the first visible reaction (its check exists at GitHub);
* from the last sample (the worker's last report) to the posted verdict (check concluded and comment there).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

import httpx  # noqa: E402
import psutil  # noqa: E402
import psycopg  # noqa: E402

from databases import PostgresServer  # noqa: E402
from fleet import registration  # noqa: E402
from forge.github_server.model import Pull, Repo, stamp  # noqa: E402
from forge.github_server.server import APP_ID, SECRET, FakeGitHub, key_pair, serving  # noqa: E402
from forge.office import CONFIG  # noqa: E402
from processes import RedisServer, Service, until  # noqa: E402
from repositories import GitRepo, toy  # noqa: E402

WEBHOOK_P99_MS, VERDICT_P99_S = 100.0, 10.0
SLOTS = 16


def out(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=50.0, help="deliveries a second")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--pulls", type=int, default=60, help="pull requests opened meanwhile, each measured")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="gs-bench-github-"))
    folder.chmod(0o755)
    try:
        return bench(folder, asked)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def bench(folder: Path, asked: argparse.Namespace) -> int:
    (folder / "pg").mkdir()
    (folder / "redis").mkdir()
    postgres, redis = PostgresServer(folder / "pg", {"max_connections": "100"}), RedisServer(folder / "redis")
    postgres.start()
    redis.start()
    parts: list[Any] = []
    try:
        with serving(FakeGitHub()) as github:
            github.unvalidated = "not in a benchmark"
            service = start(folder, postgres, redis, github)
            parts.append(service)
            return run(folder, service, github, asked, postgres)
    finally:
        for part in parts:
            part.end()
        redis.kill()
        postgres.stop()


def start(folder: Path, postgres: PostgresServer, redis: RedisServer, github: FakeGitHub) -> Service:
    key = folder / "app.pem"
    key.write_text(key_pair()[0])
    service = Service(
        folder / "data", database_url=postgres.create(), broker_url=redis.url, github_webhook_secret=SECRET,
        github_app_id=APP_ID, github_private_key_file=str(key), github_api_url=github.url, tick_s="2",
        public_url="https://speed.example", log_level="WARNING",
    )  # fmt: skip
    service.folder.mkdir()
    environment = {**os.environ, **service.environment}
    subprocess.run([sys.executable, "-m", "groundspeed.service", "migrate"], env=environment, check=True)
    service.start("api", "control")
    return service


def run(folder: Path, service: Service, github: FakeGitHub, asked: argparse.Namespace, postgres: PostgresServer) -> int:
    git, _ = toy(folder / "repo", 4, CONFIG)
    repo = github.repo("octo/toy", clone_url=str(git.path))
    repo.permissions["ann"] = "write"
    environment = {**os.environ, **service.environment}
    for words in (("project", "add", str(git.path)), ("github", "link", "toy", "octo/toy")):
        command = [sys.executable, "-m", "groundspeed.cli", *words, "--data", str(service.folder)]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    nodes(service)
    pulls = [open_pull(git, repo, number) for number in range(1, asked.pulls + 1)]
    plan = deliveries(github, repo, pulls, int(asked.rate * asked.seconds))
    (folder / "plan.json").write_text(json.dumps(plan))
    worker = subprocess.Popen(
        [sys.executable, str(HERE / "workers.py"), service.url, str(SLOTS), str(folder / "samples.jsonl")]
    )
    try:
        floor = send(folder, service, asked, wrong=True)
        sent = send(folder, service, asked, wrong=False)
        heads = [pull.head_sha for pull in pulls]
        lost = wait_for(github, repo, heads)
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(20)
    return told(folder, service, github, repo, plan, floor, sent, lost)


def nodes(service: Service) -> None:
    for slot in range(SLOTS):
        message = registration(f"sim{slot}", sandbox="bubblewrap").model_dump_json()
        headers = {"content-type": "application/json"}
        httpx.post(f"{service.url}/api/v1/workers/register", content=message, headers=headers).raise_for_status()


def open_pull(git: GitRepo, repo: Repo, number: int) -> Pull:
    git.git("checkout", "-q", "-B", f"change-{number}", "main")
    sha = git.commit(f"Change {number}", {"train.py": f"{number}\n"})
    git.git("update-ref", f"refs/pull/{number}/head", sha)
    git.git("checkout", "-q", "main")
    repo.pulls[number] = Pull(number, sha, f"change-{number}", git.git("rev-parse", "main"), updated_at=stamp())
    return repo.pulls[number]


def deliveries(github: FakeGitHub, repo: Repo, pulls: list[Pull], count: int) -> list[dict[str, Any]]:
    """Mostly what nobody acts on, as a busy repository sends it; among it pull requests, pushes and commands."""
    filler = {"action": "completed", "workflow_run": {"steps": ["x" * 200] * 100}, "repository": repo.describe()}
    plan = []
    every = max(1, count // len(pulls))
    for i in range(count):
        event, payload, head = "workflow_run", {**filler, "n": i}, ""
        if i % every == 0 and i // every < len(pulls):
            pull = pulls[i // every]
            event, payload, head = "pull_request", github.pull_event(repo, pull, "opened"), pull.head_sha
        elif i % every == 5 and i // every < len(pulls):
            event = "pull_request"
            payload = github.pull_event(repo, pulls[i // every], "labeled", label={"name": "x"}, n=i)
        elif i % every == 3:
            event, payload = "push", {"ref": f"refs/heads/topic-{i}", "before": "a" * 40, "after": "b" * 40}
            payload |= {"repository": repo.describe(), "n": i}
        elif i % 50 == 7:
            event, payload = "issue_comment", github.comment_event(repo, pulls[0], "/groundspeed help")
        plan.append({"event": event, "body": json.dumps(payload), "head": head})
    return plan


def send(folder: Path, service: Service, asked: argparse.Namespace, *, wrong: bool) -> list[dict[str, Any]]:
    target = folder / f"sent-{wrong}.json"
    command = [sys.executable, str(HERE / "sender.py"), service.url, str(folder / "plan.json"), str(target)]
    command += [str(asked.rate), str(asked.connections), "another secret" if wrong else SECRET]
    subprocess.run(command, check=True)
    found: list[dict[str, Any]] = json.loads(target.read_text())
    return found


def wait_for(github: FakeGitHub, repo: Repo, heads: list[str], limit_s: float = 180.0) -> list[str]:
    """Heads that got no check or no comment in time."""

    def missing() -> list[str]:
        with github.lock:
            concluded = {c["head_sha"] for c in repo.checks.values() if c.get("conclusion")}
            commented = {c["number"] for c in repo.verdict_comments()}
        numbers = {pull.head_sha: pull.number for pull in repo.pulls.values()}
        return [head for head in heads if head not in concluded or numbers[head] not in commented]

    try:
        until(lambda: not missing(), limit_s=limit_s, every_s=0.5)
    except AssertionError:
        return missing()
    return []


def told(
    folder: Path, service: Service, github: FakeGitHub, repo: Repo, plan: list[dict[str, Any]],
    floor: list[dict[str, Any]], sent: list[dict[str, Any]], lost: list[str],
) -> int:  # fmt: skip
    webhook, refused = ([one["ms"] for one in rows] for rows in (sent, floor))
    at = {one["head"]: one["at"] for one in sent if one["head"]}
    checks: dict[str, Any] = {}
    for check in repo.checks.values():
        checks.setdefault(check["head_sha"], check)
    reaction = [checks[head]["made_at"] - begin for head, begin in at.items() if head in checks]
    verdict = verdict_times(folder, repo, checks)
    statuses = Counter(one["status"] for one in sent)
    url = service.environment["GROUNDSPEED_DATABASE_URL"].replace("+psycopg", "")
    with psycopg.connect(url) as connection:
        states = dict(connection.execute("select state, count(*) from delivery group by state").fetchall())
        waiting = connection.execute("select count(*) from forgeaction where state not in ('sent')").fetchone()
    seconds = max(one["at"] for one in sent) - min(one["at"] for one in sent)
    out(f"{len(sent)} deliveries in {seconds:.1f} s, {len(plan) / seconds:.0f} a second; answers {dict(statuses)}")
    out(
        f"deliveries by state: {states}; actions not sent: {waiting[0] if waiting else '?'}; lost verdicts: {len(lost)}"
    )
    out(f"GitHub answered {sum(github.statuses().values())} requests: {dict(github.statuses())}")
    out(f"{'':38}{'count':>7}{'p50':>10}{'p99':>10}{'max':>10}")
    line("webhook, ms", webhook)
    line("  floor: refused by its signature, ms", refused)
    line("webhook to first visible reaction, s", reaction)
    line("last sample to posted verdict, s", verdict)
    for name, part in service.parts.items():
        assert part.process is not None
        times = psutil.Process(part.process.pid).cpu_times()
        out(f"{name} used {sum(times[:4]):.1f} s of processor time, git and start included")
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    out(f"{os.cpu_count()} processors; load of the machine over the last 1, 5, 15 minutes: {load}")
    good = {
        f"webhook p99 under {WEBHOOK_P99_MS:.0f} ms": quantile(webhook, 0.99) < WEBHOOK_P99_MS,
        f"verdict p99 under {VERDICT_P99_S:.0f} s": bool(verdict) and quantile(verdict, 0.99) < VERDICT_P99_S,
        "nothing lost": not lost and states.keys() <= {"done", "ignored"} and sum(states.values()) == len(plan),
    }
    for words, holds in good.items():
        out(f"{'ok    ' if holds else 'MISSED'} {words}")
    return 0 if all(good.values()) else 1


def verdict_times(folder: Path, repo: Repo, checks: dict[str, Any]) -> list[float]:
    last = {}
    for row in (folder / "samples.jsonl").read_text().splitlines():
        found = json.loads(row)
        last[found["head"]] = found["at"]
    comments = {c["number"]: c["at"] for c in repo.verdict_comments()}
    numbers = {pull.head_sha: pull.number for pull in repo.pulls.values()}
    times = []
    for head, at in last.items():
        check = checks.get(head, {})
        if "concluded_at" in check and numbers[head] in comments:
            times.append(max(check["concluded_at"], comments[numbers[head]]) - at)
    return times


def line(name: str, values: list[float]) -> None:
    if values:
        out(
            f"{name:38}{len(values):>7}{quantile(values, 0.5):>10.2f}{quantile(values, 0.99):>10.2f}{max(values):>10.2f}"
        )


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


if __name__ == "__main__":
    begin = time.monotonic()
    status = main()
    out(f"took {time.monotonic() - begin:.0f} s")
    raise SystemExit(status)
