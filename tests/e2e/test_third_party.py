"""A plugin in a package of its own, built and installed by pip, runs without touching Groundspeed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Groundspeed

PROJECT = """
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
def installed(tmp_path: Path) -> Path:
    """Where pip has put the built package, apart from everything else."""
    source, site = tmp_path / "acme", tmp_path / "site"
    (source / "acme_bench").mkdir(parents=True)
    (source / "pyproject.toml").write_text(PROJECT)
    (source / "acme_bench" / "__init__.py").write_text(PLUGIN)
    pip = [sys.executable, "-m", "pip"]
    subprocess.run(
        [*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(source)], check=True
    )
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run([*pip, "install", "-q", "--no-deps", "--target", str(site), str(wheel)], check=True)
    return site


def commit(repository: Path, points: int) -> None:
    (repository / "counted.py").write_text(f"def points():\n    return {points}\n")
    (repository / "groundspeed.toml").write_text(CONFIG)
    identity = ["-c", "user.name=t", "-c", "user.email=t@t.example"]
    subprocess.run(["git", "-C", str(repository), "add", "."], check=True)
    subprocess.run(
        ["git", "-C", str(repository), *identity, "commit", "--allow-empty", "-qm", f"{points} points"], check=True
    )


def test_it_is_found_and_measures_a_project(
    groundspeed: Groundspeed, installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(installed), os.environ.get("PYTHONPATH")))))
    repository = tmp_path / "repo"
    subprocess.run(["git", "init", "-q", "-b", "main", str(repository)], check=True)
    for points in (3, 3, 4):
        commit(repository, points)
    done = groundspeed.run("demo", "--repo", str(repository), "--port", "0", "--once", timeout_s=240)
    assert done.returncode == 0, done.stdout + done.stderr
    values = groundspeed.query(
        "select result.value from result join revision on revision.id = result.revision_id order by revision.position"
    )
    assert sorted({value for (value,) in values}) == [30.0, 40.0]
    assert groundspeed.query("select distinct outcome from run") == [("ok",)]
