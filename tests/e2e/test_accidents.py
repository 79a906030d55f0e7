"""Whatever dies on the way, the answer is the same: the story of test_story.py, with a benchmark that takes a second."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from .conftest import Counted, Groundspeed, found

RUNS = "select count(*) from run"
LEFT = "select count(*) from job where state in ('queued', 'running')"
FOUND = """
    select regression.kind, revision.sha from regression join revision on revision.id = regression.after_revision_id
"""
DISTINCT = "select count(distinct job_id || ':' || side || ':' || benchmark_key || ':' || replicate) from run"


@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("acme_plugin")
def test_kills_lose_nothing_and_double_nothing_and_a_pushed_commit_gets_its_verdict(
    groundspeed: Groundspeed, counted: Callable[..., Counted], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Worker, service and everything at once die by kill -9 in the middle of a job; the next start goes on. A rerun
    adds nothing. A commit that is pushed while that runs is measured, and found, by itself.
    """
    for name, value in {"LEASE_S": "8", "HEARTBEAT_S": "1", "RETRY_DELAY_S": "1", "POLL_INTERVAL_S": "1"}.items():
        monkeypatch.setenv(f"GROUNDSPEED_{name}", value)
    project = counted(seconds=1.0)
    shas = [project.commit(points) for points in (3, 3, 3, 3, 3, 4, 4, 4, 4, 4)]
    demo = ("demo", "--repo", str(project.folder), "--port", "0")

    killed_in_the_middle(groundspeed, demo)
    done = groundspeed.run(*demo, "--once", timeout_s=240)
    assert done.returncode == 0, done.stdout + done.stderr
    table = found(groundspeed.findings("counted"))
    assert table == {"regression": {shas[5]}}, done.stdout
    results = groundspeed.query(RUNS)
    assert results == groundspeed.query(DISTINCT)
    jobs = groundspeed.query("select state, count(*) from job where reason = 'measure' group by state")
    assert jobs == [("done", len(shas))]

    with groundspeed.running(*demo):
        groundspeed.wait("the table once more", lambda: "measured as they come" in groundspeed.said(), 240)
        assert (groundspeed.query(RUNS), groundspeed.query(FOUND)) == (results, [("regression", shas[5])])
        pushed = project.commit(7)
        seen = groundspeed.wait(
            "the pushed commit's verdict", lambda: groundspeed.query(f"{FOUND} where revision.sha = ?", pushed), 240
        )
    assert seen == [("regression", pushed)]


def killed_in_the_middle(groundspeed: Groundspeed, demo: tuple[str, ...]) -> None:
    def in_the_middle() -> bool:
        """Or past it, on a machine on which looking takes longer than the jobs that are left."""
        return groundspeed.benchmark_runs() or groundspeed.query(LEFT) == [(0,)] != groundspeed.query(RUNS)

    with groundspeed.running(*demo) as process:
        groundspeed.wait("a benchmark process", groundspeed.benchmark_runs, 240)
        for worker in groundspeed.children("groundspeed.cli", "worker"):
            worker.send_signal(signal.SIGKILL)
        done = groundspeed.query(RUNS)[0][0]
        groundspeed.wait("a result after that", lambda: groundspeed.query(RUNS)[0][0] > done, 240)
        groundspeed.wait("a benchmark process", groundspeed.benchmark_runs, 240)
        for service in groundspeed.children("groundspeed.service", "api"):
            service.send_signal(signal.SIGKILL)
        done = groundspeed.query(RUNS)[0][0]
        groundspeed.wait("a result after that", lambda: groundspeed.query(RUNS)[0][0] > done, 240)
        groundspeed.wait("a benchmark process", in_the_middle, 240)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
