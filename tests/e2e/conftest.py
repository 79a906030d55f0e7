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

    def run(self, *arguments: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "groundspeed.cli", *arguments, "--data", str(self.data)]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False, env=self.env)

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "GROUNDSPEED_TRACEBACK": "", "OMP_NUM_THREADS": "1"}

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """A command that goes on, stopped as Ctrl-C would."""
        log = (self.data.parent / f"{self.data.name}.log").open("a")
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
                    process.wait(60)
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
        log = self.data.parent / f"{self.data.name}.log"
        tail = log.read_text()[-3000:] if log.exists() else ""
        raise AssertionError(f"{what} did not happen within {timeout_s:.0f} s\n{tail}")

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
