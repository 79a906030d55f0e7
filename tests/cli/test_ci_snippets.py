"""The GitHub action and the GitLab snippet: valid by the vendors' schemas, and the action's script does what it says."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

CI = Path(__file__).resolve().parents[2] / "examples/ci"


@pytest.mark.parametrize(
    ("file", "schema"), [("action.yml", "vendor.github-actions"), ("gitlab.yml", "vendor.gitlab-ci")]
)
def test_it_is_what_the_vendor_reads(file: str, schema: str) -> None:
    """Checked against the schema that comes with check-jsonschema."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(CI / file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_actions_script_reports_and_gives_the_replies(tmp_path: Path) -> None:
    """Several files, an empty format and a commit reach the command as they are; the replies are an output."""
    (step,) = yaml.safe_load((CI / "action.yml").read_text())["runs"]["steps"]
    (tmp_path / "groundspeed").write_text('#!/bin/sh\nfor word; do echo "<$word>"; done\n')
    (tmp_path / "groundspeed").chmod(stat.S_IRWXU)
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text("{}")
    environ = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "FILES": "a.json b*.json", "FORMAT": "",
                            "COMMIT": "abc", "PACKAGE": "none", "GITHUB_OUTPUT": str(tmp_path / "output")}  # fmt: skip
    done = subprocess.run(
        ["bash", "-c", step["run"]], cwd=tmp_path, env=environ, capture_output=True, text=True, check=True
    )
    words = ["<report>", "<a.json>", "<b.json>", "<--format>", "<>", "<--commit>", "<abc>", "<--json>"]
    assert done.stdout.split() == words
    assert (tmp_path / "output").read_text().split() == ["replies<<END_OF_REPLIES", *words, "END_OF_REPLIES"]
    # a pull request of a fork has no secrets: that is no failure of its author
    fork = environ | {"HEAD_REPOSITORY": "stranger/mylib", "GITHUB_REPOSITORY": "owner/mylib", "GROUNDSPEED_TOKEN": ""}
    done = subprocess.run(
        ["bash", "-c", step["run"]], cwd=tmp_path, env=fork, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("::notice::Nothing is reported")
    # the status and the replies of a service that refused a part come through
    (tmp_path / "groundspeed").write_text("#!/bin/sh\necho refused; exit 1\n")
    failed = subprocess.run(
        ["bash", "-c", step["run"]], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert (failed.returncode, failed.stdout) == (1, "refused\n")
