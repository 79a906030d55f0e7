"""A running Groundspeed, as a user starts it: real processes in a folder of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest


@dataclass(frozen=True)
class Groundspeed:
    """Commands against one data folder."""

    data: Path

    def run(self, *arguments: str, timeout_s: float = 240.0) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "groundspeed.cli", *arguments, "--data", str(self.data)]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False, env=self.env)

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "GROUNDSPEED_TRACEBACK": "", "OMP_NUM_THREADS": "1"}

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """A command that goes on, stopped as Ctrl-C would."""
        log = self._log.open("a")
        command = [sys.executable, "-m", "groundspeed.cli", *arguments, "--data", str(self.data)]
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, text=True, env=self.env, start_new_session=True
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(120)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            log.close()

    def query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        database = self.data / "groundspeed.db"
        if not database.exists():
            return []
        connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=30)
        try:
            return connection.execute(sql, values).fetchall()
        finally:
            connection.close()

    def children(self, *words: str) -> list[psutil.Process]:
        """Processes of this folder whose command line holds all the words."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                line = " ".join(process.cmdline())
                if all(word in line for word in words) and process.environ().get("GROUNDSPEED_DATA_DIR") == str(
                    self.data
                ):
                    found.append(process)
        return found

    def benchmark_runs(self) -> bool:
        """Whether the worker has a benchmark process (whose environment is its own) at this moment."""
        for worker in self.children("groundspeed.cli", "worker"):
            with suppress(psutil.Error):
                for child in worker.children(recursive=True):
                    if "groundspeed.plugins.child" in " ".join(child.cmdline()):
                        return True
        return False

    def wait(self, what: str, condition: Callable[[], Any], timeout_s: float) -> Any:
        """The condition's first true value; fails with the log's end when it never comes."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            with suppress(sqlite3.OperationalError):  # the tables are not there yet
                value = condition()
                if value:
                    return value
            time.sleep(0.2)
        raise AssertionError(f"{what} did not happen within {timeout_s:.0f} s\n{self.said()[-3000:]}")

    def said(self) -> str:
        """What commands that go on have printed."""
        return self._log.read_text() if self._log.exists() else ""

    @property
    def _log(self) -> Path:
        return self.data.parent / f"{self.data.name}.log"

    def findings(self, project: str = "tinygpt") -> Any:
        done = self.run("findings", project, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def groundspeed(tmp_path: Path) -> Iterator[Groundspeed]:
    one = Groundspeed(tmp_path / "data")
    yield one
    for process in one.children():
        with suppress(psutil.Error):
            process.kill()


@pytest.fixture(scope="session")
def make_example(root: Path) -> ModuleType:
    """The generator in examples/."""
    spec = importlib.util.spec_from_file_location("e2e_make_example", root / "examples" / "make_example.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def planted(data: Path) -> dict[str, str]:
    """What the example's generator planted: sha by kind."""
    about = json.loads((data / "example" / "example.json").read_text())
    return {row["plant"]: row["sha"] for row in about["planted"]}


def found(findings: Any) -> dict[str, set[str]]:
    """Commits named by the table, by regression or improvement."""
    named: dict[str, set[str]] = {}
    for row in findings["rows"]:
        named.setdefault(row["kind"], set()).add(row["commit"]["sha"])
    return named


# --- a plugin of its own package, and a project that it measures -----------------------------------------------------

PLUGIN_PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "acme-bench"
version = "1.0"

[project.entry-points."groundspeed.benchmarks"]
pingpong = "acme_bench:PLUGIN"
"""
PLUGIN = """
from groundspeed.plugins.spi import Direction, Kind, Measured, Metric, Needs, Param


class PingPong:
    name = "pingpong"
    version = "1"
    description = "Counts what the project says."
    timing = "self-timed"
    params = (Param("size", "int", default=64, minimum=1, maximum=1000),)
    needs = Needs(target=True)

    def metrics(self):
        return (Metric("points", "1", Direction.LOWER, Kind.COUNTER, "Points."),)

    def run(self, context):
        context.progress("counting")
        yield Measured("points", [float(context.target() * context.params["size"])] * 3)


PLUGIN = PingPong()
"""
CONFIG = """
[project]
name = "counted"

[build]
paths = ["."]

[[suite]]
name = "points"
plugin = "pingpong"
target = "counted:points"
params = { size = 10 }
"""


@pytest.fixture
def acme_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Built as a wheel and installed by pip, apart from everything else, where Python finds it."""
    source, site = tmp_path / "acme", tmp_path / "site"
    (source / "acme_bench").mkdir(parents=True)
    (source / "pyproject.toml").write_text(PLUGIN_PROJECT)
    (source / "acme_bench" / "__init__.py").write_text(PLUGIN)
    pip = [sys.executable, "-m", "pip"]
    subprocess.run(
        [*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(source)], check=True
    )
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run([*pip, "install", "-q", "--no-deps", "--target", str(site), str(wheel)], check=True)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH")))))
    return site


@dataclass(frozen=True)
class Counted:
    """A repository whose commits say how many points they cost; counting takes ``seconds``."""

    folder: Path
    seconds: float = 0.0

    def commit(self, points: int) -> str:
        """One more commit on main; its sha."""
        body = f"import time\n\n\ndef points():\n    time.sleep({self.seconds})\n    return {points}\n"
        (self.folder / "counted.py").write_text(body)
        (self.folder / "groundspeed.toml").write_text(CONFIG)
        self._git("add", ".")
        self._git(
            "-c", "user.name=t", "-c", "user.email=t@t.example", "commit", "--allow-empty", "-qm", f"{points} points"
        )
        return self._git("rev-parse", "HEAD").strip()

    def _git(self, *arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(self.folder), *arguments], check=True, capture_output=True, text=True)
        return done.stdout


@pytest.fixture
def counted(tmp_path: Path) -> Callable[..., Counted]:
    """Makes the repository."""

    def make(seconds: float = 0.0) -> Counted:
        folder = tmp_path / "counted"
        subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
        return Counted(folder, seconds)

    return make
