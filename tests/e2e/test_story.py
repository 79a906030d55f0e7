"""From a commit to a flagged regression, with accidents on the way, as one story on one machine.

The example is shortened to ten commits; `make test-long` runs it whole, with other seeds.
"""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest

from .conftest import Groundspeed, found, planted

COMMITS = "10"
DEMO = ("demo", "--commits", COMMITS, "--port", "0")
ONE_RESULT = (
    "select count(*), count(distinct job_id || ':' || side || ':' || benchmark_key || ':' || replicate) from run"
)


def expected(data: Path) -> dict[str, set[str]]:
    plants = planted(data)
    return {"regression": {plants["training"], plants["memory"]}, "improvement": {plants["inference"]}}


def kill_in_the_middle(groundspeed: Groundspeed) -> None:
    """kill -9 of the worker while a benchmark runs, then of the service, then of everything at once."""
    groundspeed.wait("a benchmark process", groundspeed.benchmark_runs, 120)
    for process in groundspeed.children("groundspeed.cli", "worker"):
        process.send_signal(signal.SIGKILL)
    done = groundspeed.query("select count(*) from run")[0][0]
    groundspeed.wait(
        "a result after the worker was killed",
        lambda: groundspeed.query("select count(*) from run")[0][0] > done,
        180,
    )
    groundspeed.wait("a benchmark process", groundspeed.benchmark_runs, 120)
    for process in groundspeed.children("groundspeed.service", "api"):
        process.send_signal(signal.SIGKILL)
    time.sleep(3)


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_killed_on_the_way_the_answer_is_the_same(groundspeed: Groundspeed, make_example: ModuleType) -> None:
    """Worker, service and supervisor die by kill -9; after another start the table is right, and each result is there
    once. A rerun adds nothing; a commit pushed while it runs is measured by itself.
    """
    with groundspeed.running(*DEMO) as first:
        kill_in_the_middle(groundspeed)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()

    done = groundspeed.run(*DEMO, "--once", timeout_s=1200)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    table = groundspeed.findings()
    assert found(table) == expected(groundspeed.data), done.stdout
    for row in table["rows"]:
        assert row["members"][0]["low"] < row["members"][0]["ratio"] < row["members"][0]["high"]
        assert row["commit"]["sha"][:9] in done.stdout
    rows, distinct = groundspeed.query(ONE_RESULT)[0]
    assert rows == distinct
    lost = "select count(*) from job where state not in ('done') and reason = 'measure'"
    assert groundspeed.query(lost) == [(0,)]
    assert groundspeed.query("select count(*) from job where reason = 'measure'") == [(int(COMMITS) * 3,)]

    again = groundspeed.run(*DEMO, "--once", timeout_s=240)
    assert again.returncode == 0, again.stderr
    assert groundspeed.query(ONE_RESULT)[0] == (rows, distinct)
    assert found(groundspeed.findings()) == found(table)

    pushed_is_measured(groundspeed, make_example)


def pushed_is_measured(groundspeed: Groundspeed, make_example: ModuleType) -> None:
    repository = groundspeed.data / "example" / "tinygpt"
    with groundspeed.running("up", "--port", "0"):
        groundspeed.wait("the service", lambda: groundspeed.children("groundspeed.service", "api"), 240)
        sha = make_example.append(repository, "Say what a run costs", "docs/cost.md", "Seconds and joules.\n")
        measured = """
            select count(distinct run.benchmark_id) from run join revision on revision.id = run.revision_id
            where revision.sha = ? and run.outcome = 'ok'
        """
        groundspeed.wait("the pushed commit's results", lambda: groundspeed.query(measured, sha)[0][0] == 3, 180)
        groundspeed.wait(
            "the analysis of all results", lambda: groundspeed.query("select count(*) from seriesmark") == [(0,)], 60
        )
    assert sha not in {commit for commits in found(groundspeed.findings()).values() for commit in commits}


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [11, 12, 13, 14, 15])
def test_other_seeds_of_the_example_give_the_right_table(groundspeed: Groundspeed, seed: int) -> None:
    done = groundspeed.run("demo", "--seed", str(seed), "--port", "0", "--once", timeout_s=1700)
    assert done.returncode == 0, done.stderr
    assert found(groundspeed.findings()) == expected(groundspeed.data), done.stdout


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_history_without_a_change_gives_an_empty_table(groundspeed: Groundspeed) -> None:
    done = groundspeed.run("demo", "--quiet", "--port", "0", "--once", timeout_s=1700)
    assert done.returncode == 0, done.stderr
    assert groundspeed.findings()["rows"] == []
    assert "No change of performance was found" in done.stdout


def test_ctrl_c_leaves_no_process_behind(groundspeed: Groundspeed) -> None:
    with groundspeed.running("up", "--port", "0") as process:
        groundspeed.wait("the worker", lambda: groundspeed.children("groundspeed.cli", "worker"), 240)
        groundspeed.wait("the service", lambda: groundspeed.children("groundspeed.service", "api"), 240)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
    left: list[Any] = [p for p in groundspeed.children() if p.status() != psutil.STATUS_ZOMBIE]
    assert left == []


def test_a_second_start_on_the_same_folder_is_refused_in_words(groundspeed: Groundspeed) -> None:
    with groundspeed.running("up", "--port", "0"):
        groundspeed.wait("the service", lambda: groundspeed.children("groundspeed.service", "api"), 240)
        second = groundspeed.run("up", "--port", "0")
    assert second.returncode == 2
    assert "already runs" in second.stderr
    assert "Traceback" not in second.stderr


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@t.example")
    done = subprocess.run(["git", "-C", str(folder), *identity, *arguments], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path, make_example: ModuleType) -> Path:
    folder = tmp_path / "repo"
    make_example.make(folder, commits=10)
    return folder


def no_config(repository: Path) -> None:
    (repository / "groundspeed.toml").unlink()
    git(repository, "commit", "-qam", "Take the configuration away")


def broken_config(repository: Path) -> None:
    (repository / "groundspeed.toml").write_text("[project]\nname = \n")
    git(repository, "commit", "-qam", "Break the configuration")


def unknown_plugin(repository: Path) -> None:
    file = repository / "groundspeed.toml"
    file.write_text(file.read_text().replace('plugin = "training"', 'plugin = "trainig"'))
    git(repository, "commit", "-qam", "Misspell a plugin")


def wrong_parameter(repository: Path) -> None:
    file = repository / "groundspeed.toml"
    file.write_text(file.read_text().replace("batch_size = 16", "batch_sise = 16", 1))
    git(repository, "commit", "-qam", "Misspell a parameter")


def dirty(repository: Path) -> None:
    (repository / "groundspeed.toml").write_text("# changed\n")


BAD = [
    pytest.param(no_config, (), "groundspeed.toml", id="config missing"),
    pytest.param(broken_config, (), "groundspeed.toml:2:8", id="config broken"),
    pytest.param(unknown_plugin, (), "training", id="unknown plugin"),
    pytest.param(wrong_parameter, (), "batch_size", id="wrong parameter"),
    pytest.param(dirty, (), "not committed", id="dirty worktree"),
    pytest.param(lambda _: None, ("--range", "nosuch..main"), "nosuch", id="unknown range"),
    pytest.param(lambda _: None, ("--range", "main..main"), "main..main", id="empty range"),
]


@pytest.mark.parametrize(("harm", "arguments", "says"), BAD)
def test_bad_input_is_one_paragraph_with_status_2(
    groundspeed: Groundspeed, repository: Path, harm: Any, arguments: tuple[str, ...], says: str
) -> None:
    """And nothing half-written: no project, no request, no job."""
    harm(repository)
    done = groundspeed.run("demo", "--repo", str(repository), "--port", "0", "--once", *arguments)
    assert done.returncode == 2, done.stdout
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert groundspeed.query("select count(*) from job") in ([], [(0,)])
    assert groundspeed.query("select count(*) from request") in ([], [(0,)])


def test_a_folder_without_a_repository(groundspeed: Groundspeed, tmp_path: Path) -> None:
    done = groundspeed.run("demo", "--repo", str(tmp_path), "--port", "0", "--once")
    assert done.returncode == 2
    assert "git repository" in done.stderr


def test_a_shallow_clone(groundspeed: Groundspeed, repository: Path, tmp_path: Path) -> None:
    shallow = tmp_path / "shallow"
    subprocess.run(["git", "clone", "-q", "--depth", "3", f"file://{repository}", str(shallow)], check=True)
    done = groundspeed.run("demo", "--repo", str(shallow), "--port", "0", "--once")
    assert done.returncode == 2
    assert "unshallow" in done.stderr


def test_a_database_of_a_newer_release(groundspeed: Groundspeed) -> None:
    assert groundspeed.run("status").returncode == 0

    with sqlite3.connect(groundspeed.data / "groundspeed.db") as connection:
        connection.execute("update alembic_version set version_num = '9999'")
    done = groundspeed.run("up", "--port", "0")
    assert done.returncode == 2
    assert "newer Groundspeed" in done.stderr


def test_a_port_that_is_taken(groundspeed: Groundspeed) -> None:

    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = groundspeed.run("up", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert "--port" in done.stderr
