"""The example: a real history whose three planted commits each move one quantity, and whose others move none."""

from __future__ import annotations

import importlib.util
import itertools
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from groundspeed.service.config import load

PLANTS = {"training", "memory", "inference"}


@pytest.fixture(scope="session")
def example(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_example", root / "examples" / "make_example.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True).stdout


def shas(folder: Path) -> list[str]:
    return git(folder, "rev-list", "--reverse", "main").split()


def test_the_default_history_has_twenty_commits_three_of_them_planted(example: Any, tmp_path: Path) -> None:
    planted = example.make(tmp_path / "a")
    assert len(shas(tmp_path / "a")) == 20
    assert {p["plant"] for p in planted} == PLANTS
    assert git(tmp_path / "a", "status", "--porcelain") == ""
    assert len(set(git(tmp_path / "a", "log", "--format=%an").split("\n"))) > 3


def test_the_same_arguments_give_the_same_shas(example: Any, tmp_path: Path) -> None:
    example.make(tmp_path / "a", seed=7)
    example.make(tmp_path / "b", seed=7)
    example.make(tmp_path / "c", seed=8)
    assert shas(tmp_path / "a") == shas(tmp_path / "b") != shas(tmp_path / "c")


@pytest.mark.parametrize("commits", [10, 12, 20])
def test_seeds_move_places_and_sizes_within_bounds(example: Any, commits: int) -> None:
    history = example._history()
    plans = [history.seeded_plan(commits, seed) for seed in range(40)]
    assert len({tuple(p.places.values()) for p in plans}) > 5
    for plan in plans:
        places = sorted(plan.places.values())
        assert places[0] >= 3
        assert places[-1] <= commits - 3
        assert all(0.15 <= size <= 0.30 for size in plan.sizes.values())
        assert all(b - a >= 2 for a, b in itertools.pairwise(places))
        history.build(commits, plan)


def test_quiet_plants_nothing(example: Any, tmp_path: Path) -> None:
    assert example.make(tmp_path / "a", quiet=True) == []
    assert len(shas(tmp_path / "a")) == 20


def test_a_folder_that_holds_something_is_left_alone(example: Any, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    with pytest.raises(FileExistsError):
        example.make(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["kept"]


def test_its_configuration_is_right(example: Any, tmp_path: Path) -> None:
    example.make(tmp_path / "a")
    config = load((tmp_path / "a" / "groundspeed.toml").read_text())
    assert [suite.name for suite in config.suite] == ["training", "inference", "memory"]


COUNT = """
import importlib, sys, torch
from torch.profiler import profile, ProfilerActivity
from torch.utils.flop_counter import FlopCounterMode
torch.set_num_threads(1)

def flops(f):
    f()
    with FlopCounterMode(display=False) as counter:
        f()
    return counter.get_total_flops()

def peak(make):
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as p:
        f = make(); f(); f()
    total = top = 0
    events = [e for e in p.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda e: e.start_ns()):
        total += event.nbytes()
        top = max(top, total)
    return top

for folder in sys.argv[1:]:
    for name in [n for n in sys.modules if n.partition(".")[0] in ("tinygpt", "benchmarks")]:
        del sys.modules[name]
    sys.path.insert(0, folder)
    load = lambda name: importlib.import_module(f"benchmarks.{name}").make
    training, inference = flops(load("training")(16, "cpu")), flops(load("inference")(4, "cpu"))
    print(training, inference, peak(lambda: load("memory")(16, "cpu")))
    sys.path.remove(folder)
"""


def counts(folder: Path, revisions: list[str]) -> list[tuple[float, ...]]:
    """Floating-point operations of a training step and of a request, and peak bytes, at each revision."""
    places = []
    for revision in revisions:
        place = folder.parent / f"at-{len(places)}"
        git(folder, "worktree", "add", "-q", "--detach", str(place), revision)
        git(place, "checkout", "-q", "main", "--", "benchmarks")
        places.append(str(place))
    out = subprocess.run([sys.executable, "-c", COUNT, *places], check=True, capture_output=True, text=True).stdout
    return [tuple(map(float, line.split())) for line in out.splitlines()]


@pytest.mark.parametrize("seed", [None, 3])
def test_each_planted_commit_moves_its_own_quantity_and_no_other(
    example: Any, tmp_path: Path, seed: int | None
) -> None:
    """Counted in operations and bytes, so that no clock is involved."""
    planted = example.make(tmp_path / "a", seed=seed)
    seen = counts(tmp_path / "a", [sha for plant in planted for sha in (plant["sha"] + "~1", plant["sha"])])
    for index, plant in enumerate(planted):
        changes = [new / old - 1 for old, new in zip(seen[2 * index], seen[2 * index + 1], strict=True)]
        by_name = dict(zip(("training", "inference", "memory"), changes, strict=True))
        own = by_name.pop(plant["plant"])
        assert 0.1 < (-own if plant["plant"] == "inference" else own) < 0.4
        assert max(map(abs, by_name.values())) < 0.002, (plant, by_name)


def test_the_ordinary_commits_move_nothing(example: Any, tmp_path: Path) -> None:
    """First and last commit of a quiet history do the same work in the same memory."""
    folder = tmp_path / "a"
    example.make(folder, quiet=True)
    first, last = counts(folder, [shas(folder)[0], "main"])
    assert first == pytest.approx(last, rel=0.002)
    subprocess.run([sys.executable, "-m", "compileall", "-q", "."], cwd=folder, check=True)
