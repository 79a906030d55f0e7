"""`groundspeed init` looks at a repository and writes what can be measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from groundspeed.service.config import load


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "groundspeed.cli", "init", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", "-b", "trunk", str(tmp_path)], check=True)
    return tmp_path


def test_an_empty_repository_gets_a_first_benchmark(repository: Path) -> None:
    done = run(repository)
    assert done.returncode == 0, done.stderr
    config = load((repository / "groundspeed.toml").read_text(), "groundspeed.toml")
    assert config.project.branch == "trunk"
    assert config.suite[0].target == "benchmarks.first:make"
    assert (repository / "benchmarks" / "first.py").exists()


def test_factories_that_are_there_are_found_without_importing_them(repository: Path) -> None:
    folder = repository / "benchmarks"
    folder.mkdir()
    (folder / "inference_small.py").write_text("raise SystemExit('imported')\ndef make(batch_size, device): ...\n")
    (folder / "broken.py").write_text("def make(:\n")
    (repository / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert run(repository).returncode == 0
    config = load((repository / "groundspeed.toml").read_text(), "groundspeed.toml")
    assert [(s.plugin, s.target) for s in config.suite] == [("inference", "benchmarks.inference_small:make")]
    assert config.build.install == ("pip install .",)


def test_a_file_that_is_there_is_kept(repository: Path) -> None:
    (repository / "groundspeed.toml").write_text("# mine\n")
    done = run(repository)
    assert done.returncode == 2
    assert "--force" in done.stderr
    assert (repository / "groundspeed.toml").read_text() == "# mine\n"


def test_outside_a_repository_it_says_what_to_do(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 2
    assert "git init" in done.stderr
    assert "Traceback" not in done.stderr
