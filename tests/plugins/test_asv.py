"""An asv suite made here runs unmodified: every kind of benchmark, parameters, setup_cache, failures and skips."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from groundspeed.plugins.asv import PLUGIN, Asv
from groundspeed.plugins.spi import Context, Measured, Unsupported

pytest.importorskip("asv", reason="asv is an extra")

SUITE = """
import colorsys  # of the standard library, and nothing of asv's has imported it before
import time
from asv_runner.benchmarks.mark import skip_for_params, skip_benchmark

class Grid:
    params = [[1000, 4000], ["sum", "max"]]
    param_names = ["n", "how"]
    timeout = 20
    rounds = 2
    repeat = (3, 5, 0.1)
    warmup_time = 0.01
    version = "two"

    def setup_cache(self):
        return {"data": list(range(4000))}

    def setup(self, cache, n, how):
        self.data = cache["data"][:n]

    def teardown(self, cache, n, how):
        self.data = None

    def time_fold(self, cache, n, how):
        (sum if how == "sum" else max)(self.data)

    def track_length(self, cache, n, how):
        return len(self.data)
    track_length.unit = "items"

class Parts:
    params = [1, 2, 3]
    rounds = 1
    repeat = 2
    number = 2
    warmup_time = 0

    @skip_for_params([(2,)])
    def time_some(self, n):
        sum(range(1000 * n))

    def time_fails_at_3(self, n):
        if n == 3:
            raise ValueError("three")

def mem_list():
    return [0] * 1000

def peakmem_block():
    return bytearray(20_000_000)

def timeraw_import():
    return "import json"
timeraw_import.repeat = 2
timeraw_import.number = 1
timeraw_import.rounds = 1

@skip_benchmark
def time_never():
    pass
"""  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a suite and asv.conf.json that measures in this Python."""
    root = tmp_path / "project"
    (root / "benchmarks").mkdir(parents=True)
    (root / "benchmarks/__init__.py").write_text("")
    (root / "benchmarks/suite.py").write_text(SUITE)
    conf = {
        "version": 1,
        "project": "project",
        "repo": ".",
        "branches": ["main"],
        "environment_type": "existing",
        "pythons": ["same"],
    }
    (root / "asv.conf.json").write_text("// comments are allowed\n" + json.dumps(conf))
    for command in (
        ["git", "init", "-q", "-b", "main"],
        ["git", "add", "."],
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"],
    ):
        subprocess.run(command, cwd=root, check=True)
    return root


def measure(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **params: object) -> list[Measured]:
    given = {p.name: p.default for p in PLUGIN.params} | {"env_dir": str(tmp_path / "env")} | params
    monkeypatch.chdir(root)
    context = Context("cpu", given, None, tmp_path, lambda _text: None)  # type: ignore[arg-type]
    return list(Asv().run(context))


def by_point(found: list[Measured]) -> dict[tuple[str, str], Measured]:
    def key(one: Measured) -> str:
        return ",".join(str(v) for k, v in one.params.items() if k not in {"benchmark_version", "unit"})

    return {(one.metric, key(one)): one for one in found}


@pytest.fixture
def found(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[tuple[str, str], Measured]]:
    return by_point(measure(project, tmp_path, monkeypatch))


def test_every_kind_of_benchmark_is_measured(found: dict[tuple[str, str], Measured]) -> None:
    """Times have samples, memory its bytes, tracked values their number and unit; parameters and versions are kept."""
    grid = [one for (metric, key), one in found.items() if metric == "time" and key.startswith("suite.Grid.time_fold")]
    assert [(one.params["n"], one.params["how"]) for one in grid] == [
        (1000, "sum"),
        (1000, "max"),
        (4000, "sum"),
        (4000, "max"),
    ]
    assert all(
        len(one.values) >= 6 and one.params["benchmark_version"] == "two" for one in grid
    )  # 2 rounds of 3 or more
    assert found["track", "suite.Grid.track_length,4000,max"].values == (4000.0,)
    assert found["track", "suite.Grid.track_length,4000,max"].params["unit"] == "items"
    assert found["memory", "suite.mem_list"].values[0] > 8000
    assert found["peak_memory", "suite.peakmem_block"].values[0] > 20e6
    assert found["time", "suite.timeraw_import"].values[0] > 0
    assert not any("time_never" in key for _, key in found)
    # A failure is a value of its own; what is skipped is neither failed nor measured.
    assert found["failed", "suite.Parts.time_fails_at_3,3"].values == [1.0]
    assert found["failed", "suite.Parts.time_fails_at_3,1"].values == [0.0]
    assert ("time", "suite.Parts.time_fails_at_3,3") not in found
    assert ("failed", "suite.Parts.time_some,2") not in found


@pytest.mark.long
def test_it_agrees_with_asv_itself(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same suite by `asv run` on this machine: the same benchmarks, and times within the noise of a busy machine."""
    ours = by_point(measure(project, tmp_path, monkeypatch, bench="Grid|mem_list"))
    sha = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=project, capture_output=True, text=True, check=True
    ).stdout.strip()
    machine = [sys.executable, "-m", "asv", "machine", "--yes", "--config", "asv.conf.json"]
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    subprocess.run(machine, cwd=project, env=env, capture_output=True, check=True)
    command = [
        sys.executable,
        "-m",
        "asv",
        "run",
        "--python=same",
        f"--set-commit-hash={sha}",
        "--bench",
        "Grid|mem_list",
    ]
    done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = list((project / "results").rglob(f"{sha[:8]}-*.json"))
    theirs = json.loads(path.read_text())["results"]
    assert {one.params["benchmark"] for one in ours.values()} == set(theirs)
    pairs = [
        (median(ours["time", f"suite.Grid.time_fold,{n},{how}"].values), theirs["suite.Grid.time_fold"][0][i])
        for i, (n, how) in enumerate((n, how) for n in (1000, 4000) for how in ("sum", "max"))
    ]
    assert all(0.4 < mine / other < 2.5 for mine, other in pairs), pairs
    assert ours["memory", "suite.mem_list"].values[0] == theirs["suite.mem_list"][0][0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"no_such_option": 1}, "options that asv does not know: no_such_option"),
        ({"environment_type": "no-such-tool"}, "asv"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, object], words: str
) -> None:
    """An unknown option of asv.conf.json, or a kind of environment that is not installed, is named."""
    conf = json.loads((project / "asv.conf.json").read_text().partition("\n")[2]) | change
    (project / "asv.conf.json").write_text(json.dumps(conf))
    with pytest.raises(Unsupported, match=words):
        measure(project, tmp_path, monkeypatch)


def test_a_missing_configuration_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that was looked for is named."""
    with pytest.raises(Unsupported, match=r"asv\.conf\.json is no asv configuration"):
        measure(tmp_path, tmp_path, monkeypatch)
