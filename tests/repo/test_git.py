"""Git beside what else is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from formats import trees
from groundspeed.service.errors import Unavailable
from groundspeed.service.repo.git import GitFailed, started


def test_git_runs_beside_and_ends_with_whoever_waits(tmp_path: Path) -> None:
    shas = trees.repository(tmp_path / "repo", 3)
    with started("log", "--format=%H", cwd=tmp_path / "repo", timeout_s=60.0) as said:
        assert said().split() == shas[::-1]
    with (
        pytest.raises(GitFailed, match="nothing-of-this-name"),
        started("log", "nothing-of-this-name", cwd=tmp_path / "repo", timeout_s=60.0) as said,
    ):
        said()
    with pytest.raises(Unavailable, match="no folder"), started("log", cwd=tmp_path / "none", timeout_s=60.0):
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="cannot be run in"), started("log", cwd=tmp_path / "file", timeout_s=60.0):
        pass
    with started("cat-file", "--batch", "--batch-all-objects", cwd=tmp_path / "repo", timeout_s=60.0):
        pass  # nobody asks for what it says
