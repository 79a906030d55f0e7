"""`pytest --groundspeed` in a real pytest process: benchmarks with samples, plain timings, failures; readable by import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from groundspeed.service.formats import detect
from groundspeed.service.formats.records import Record
from groundspeed.service.formats.source import of_bytes

pytest.importorskip("pytest_benchmark", reason="pytest-benchmark is part of the test extra")
TESTS = """
import pytest, time

@pytest.mark.parametrize("n", [10, 1000])
def test_sum(benchmark, n):
    benchmark.pedantic(sum, args=(range(n),), rounds=7, iterations=3)

def test_plain():
    time.sleep(0.02)

def test_broken():
    assert 1 == 2

@pytest.mark.skip(reason="not here")
def test_left_out():
    pass
"""  # fmt: skip


def session(folder: Path, *options: str) -> list[Record]:
    (folder / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "test_it.py"]
    # the plugin is found by its entry point; what the session around this one was told does not count here
    around = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=folder, env=around, capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode == 1, done.stdout + done.stderr  # one test fails on purpose
    assert "groundspeed report out/r.jsonl" in done.stdout
    document = of_bytes("r.jsonl", (folder / "out/r.jsonl").read_bytes())
    assert detect.detect(document).name == "groundspeed"
    items = list(detect.parse(document))
    assert all(isinstance(item, Record) for item in items)
    return [item for item in items if isinstance(item, Record)]


def test_benchmarks_timings_and_failures_are_recorded(tmp_path: Path) -> None:
    """A benchmark has all its rounds as samples; a plain test its duration, not gated; a failing one its reason."""
    records = session(tmp_path, "--groundspeed=out/r.jsonl")
    by_name = {(r.benchmark.partition("::")[2], r.params.get("param")): r for r in records}
    assert len(by_name["test_sum", "10"].samples) == len(by_name["test_sum", "1000"].samples) == 7
    assert by_name["test_sum", "10"].metric.gate
    plain = by_name["test_plain", None]
    assert plain.value is not None
    assert 0.02 <= plain.value < 60
    assert not plain.metric.gate
    assert by_name["test_broken", None].outcome == "failed"
    assert "assert 1 == 2" in by_name["test_broken", None].reason
    assert by_name["test_left_out", None].outcome == "skipped"


def test_with_xdist_one_file_holds_all(tmp_path: Path) -> None:
    """The controller writes what the workers' tests took."""
    records = session(tmp_path, "--groundspeed=out/r.jsonl", "-n", "2", "--benchmark-disable")
    assert len(records) == 5
