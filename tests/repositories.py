"""Real git repositories for tests."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

CONFIG = """\
[project]
name = "toy"
history = 8

[build]
paths = ["."]

[[suite]]
name = "train"
plugin = "training"
target = "bench:make"
params = { batch_size = [8, 16] }
"""


class GitRepo:
    """A working clone whose commits have fixed dates, one minute apart."""

    def __init__(self, path: Path, branch: str = "main", clock: int = 1_700_000_000) -> None:
        self.path = path
        self.clock = clock
        if not path.exists():
            path.mkdir(parents=True)
            self.git("init", "-q", "-b", branch)

    def git(self, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        fixed = {
            "GIT_AUTHOR_NAME": "Ada",
            "GIT_AUTHOR_EMAIL": "ada@example.org",
            "GIT_COMMITTER_NAME": "Ada",
            "GIT_COMMITTER_EMAIL": "ada@example.org",
            "GIT_AUTHOR_DATE": f"{self.clock} +0000",
            "GIT_COMMITTER_DATE": f"{self.clock} +0000",
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.path,
            env={**os.environ, **fixed, **(env or {})},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def write(self, name: str, text: str) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def commit(self, message: str = "Change", files: Mapping[str, str] | None = None) -> str:
        for name, text in (files or {}).items():
            self.write(name, text)
        self.clock += 60
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")


def toy(path: Path, commits: int = 6, config: str = CONFIG) -> tuple[GitRepo, list[str]]:
    """A repository with a configuration from the first commit on; shas oldest first. Made once, then copied."""
    template, shas, clock = _template(commits, config)
    shutil.copytree(template, path)
    return GitRepo(path, clock=clock), list(shas)


@cache
def _template(commits: int, config: str) -> tuple[Path, tuple[str, ...], int]:
    folder = tempfile.TemporaryDirectory(prefix="gs-toy-")
    atexit.register(folder.cleanup)
    repo = GitRepo(Path(folder.name) / "repo")
    shas = [repo.commit("Start", {"groundspeed.toml": config, "bench.py": "def make(): ...\n"})]
    shas += [repo.commit(f"Change {i}", {"n.txt": str(i)}) for i in range(1, commits)]
    return repo.path, tuple(shas), repo.clock
