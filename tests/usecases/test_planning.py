"""Requests become the right jobs, in the right order, or an error that says what to do; on both engines."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from fleet import Fleet, fleet
from groundspeed.service.db.engine import Database
from groundspeed.service.errors import ConfigError, Conflict, Invalid, NotFound
from groundspeed.service.usecases import planning, projects, requests
from groundspeed.service.usecases.topics import PLAN
from groundspeed.service.wire.hints import RUN_JOB
from repositories import CONFIG


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Fleet:
    world = fleet(database, tmp_path)
    world.add(watch=False)
    return world


def plain(sqlite_database: Database, tmp_path: Path, config: str) -> Fleet:
    return fleet(sqlite_database, tmp_path, 3, config)


def test_history_is_measured_from_its_ends_to_its_middles(world: Fleet) -> None:
    with world.db.read() as session:
        assert requests.by_slug(session, "toy").branch == "main"
    keys = [job.key for job in world.measure()]
    assert keys == [f"train@{world.shas[i][:16]}" for i in (5, 0, 2, 1, 3, 4)]
    assert {job.priority for job in world.jobs()} == {20}
    assert len(world.messages(RUN_JOB)) == 6


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 64, 101])
def test_an_even_order_leaves_no_commit_out_and_halves_the_largest_gap(count: int) -> None:
    order = planning.spread(count)
    assert sorted(order) == list(range(count))
    for seen in range(3, len(order) + 1):
        gaps = [b - a for a, b in itertools.pairwise(sorted(order[:seen]))]
        assert max(gaps) <= 2 * min(gaps) + 2, order[:seen]


def test_the_same_question_asks_once(world: Fleet) -> None:
    first = world.ask("HEAD~2..HEAD")
    assert first.created
    again = world.ask("HEAD~2..HEAD")
    assert (again.id, again.created) == (first.id, False)
    assert world.plan(first).jobs == 2
    assert world.plan(first).jobs == 0
    assert len(world.jobs()) == 2


def test_commits_that_are_measured_or_on_their_way_are_left_out(world: Fleet) -> None:
    world.measure("HEAD~2..HEAD")
    planned = world.plan(world.ask("HEAD~4..HEAD"))
    assert (planned.jobs, planned.skipped) == (2, 2)
    ref = world.ask("HEAD~1..HEAD", key="again")
    assert world.plan(ref).jobs == 0
    assert world.request(ref.id).state == "done"


def test_a_changed_suite_is_measured_anew(world: Fleet) -> None:
    world.measure("HEAD~1..HEAD")
    world.repo.commit("Wider", {"groundspeed.toml": CONFIG.replace("[8, 16]", "[8, 32]")})
    assert len(world.measure("HEAD~2..HEAD")) == 2


def test_suites_come_from_the_tip_of_the_request(world: Fleet) -> None:
    second = '\n[[suite]]\nname = "gather"\nplugin = "collectives"\n'
    world.repo.commit("One more suite", {"groundspeed.toml": CONFIG + second})
    assert [job.suite for job in world.measure("HEAD~2..HEAD")] == ["train", "gather"] * 2
    assert {job.spec["tip_sha"] for job in world.jobs()} == {world.repo.git("rev-parse", "HEAD")}
    assert [job.suite for job in world.measure("HEAD~3..HEAD~2", suites=("train",))] == ["train"]


def test_a_range_that_cannot_be_is_refused_before_anything_is_written(world: Fleet) -> None:
    with pytest.raises(Invalid, match="no commit 'nope'"):
        world.ask("nope..HEAD")
    with pytest.raises(Invalid, match="is empty"):
        world.ask("HEAD..HEAD")
    with pytest.raises(NotFound, match=r"no project 'other'\. There are: toy"):
        requests.create(world.db, world.mirrors, "other", requests.Asked(), world.now)
    with pytest.raises(Invalid, match="no suite 'trian'"):
        world.ask("HEAD~1..HEAD", suites=("trian",))
    assert world.messages(PLAN) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("batch_size = [8, 16]", "batchsize = 8"), r"plugin 'training' has no parameter 'batchsize'.*'batch_size'"),
        (("batch_size = [8, 16]", "batch_size = 0"), r"training' does not take batch_size = 0.*at least 1"),
        (("batch_size = [8, 16]", 'batch_size = "big"'), r"does not take batch_size = \"big\".*whole number"),
        (("batch_size = [8, 16]", "batch_size = [8, 8]"), "holds a value twice"),
        (("batch_size = [8, 16]", "batch_size = []"), "an empty list"),
        (('plugin = "training"', 'plugin = "trainig"'), r"no worker offers plugin 'trainig'.*Did you mean 'training'"),
        (('target = "bench:make"\n', ""), "needs a target"),
    ],
)
def test_a_suite_that_cannot_be_right_is_refused_by_name(
    sqlite_database: Database, tmp_path: Path, change: tuple[str, str], said: str
) -> None:
    """The plugin, the field and the allowed values are named, and nothing is queued."""
    world = plain(sqlite_database, tmp_path, CONFIG.replace(*change))
    with pytest.raises(Invalid, match=said):
        world.add()
    with pytest.raises(NotFound):
        world.ask()


WAITS = "no worker offers plugin 'acme-kernel'. Install its package beside a worker, and start that worker anew"


def test_a_plugin_of_ones_own_waits_for_the_worker_that_has_it(sqlite_database: Database, tmp_path: Path) -> None:
    world = plain(sqlite_database, tmp_path, CONFIG.replace('"training"', '"acme-kernel"').replace("[8, 16]", "[1, 2]"))
    world.add()
    ref = world.ask("HEAD~1..HEAD")
    assert world.plan(ref).jobs == 0
    request = world.request(ref.id)
    assert (request.state, request.error) == ("pending", f"Waits: {WAITS}.")
    world.node("other")  # that there are workers, none of which has it, is no reason to give up
    assert world.plan(ref).jobs == 0
    spec = {"name": "acme-kernel", "version": "1", "params": [{"name": "batch_size", "type": "int"}]}
    world.node(catalogue=[spec])
    assert world.plan(ref).jobs == 1
    assert world.request(ref.id).error == ""


def test_what_no_node_can_ever_run_is_an_error_that_says_why(sqlite_database: Database, tmp_path: Path) -> None:
    world = plain(sqlite_database, tmp_path, CONFIG + 'requires = { gpu_model = "H200", gpu_count = 2, rack = "b" }\n')
    world.add(watch=False)
    early = world.ask("HEAD~1..HEAD")
    assert world.plan(early).jobs == 1, "without any node it waits"
    world.node("small")
    late = world.ask("HEAD~2..HEAD~1")
    world.plan(late)
    error = world.request(late.id).error
    assert world.request(late.id).state == "failed"
    assert "No node can run suite 'train': small has no GPU, not H200 and has 0 of 2 GPUs" in error
    assert "has no label rack, not b" in error
    assert world.claim(world.jobs()[0].id, "small").reason.startswith("Job 1 is not for this node: it has no GPU")
    hardware = {"gpu_model": "NVIDIA H200", "gpu_count": 8, "cpu_model": "x", "cpu_count": 1}
    world.node("large", hardware=hardware, labels={"rack": "b"})
    assert world.ask("HEAD~2..HEAD~1").state == "pending", "asked again, it is planned again"
    assert world.plan(late).jobs == 1
    assert world.next("large").attempt_id is not None
    assert world.next("small").attempt_id is None


def test_a_plugin_that_a_node_could_not_load_is_not_run_there(sqlite_database: Database, tmp_path: Path) -> None:
    world = plain(sqlite_database, tmp_path, CONFIG)
    world.node("bad", catalogue=[{"name": "training", "version": "1", "error": "No module named 'torch'"}])
    world.add(watch=False)
    ref = world.ask("HEAD~1..HEAD")
    world.plan(ref)
    assert "cannot load plugin 'training': No module named 'torch'" in world.request(ref.id).error


def test_a_pull_request_is_one_job_of_two_sides(world: Fleet) -> None:
    with world.db.transaction() as session:
        project = requests.by_slug(session, "toy")
        payload = {"base": world.shas[2], "head": world.shas[5], "config_sha": world.shas[2], "trust": "untrusted"}
        new = requests.New("pull_request", "pr:1", world.shas[5], payload)
        ref = requests.add(session, project.id or 0, new, world.now)
    assert world.plan(ref).jobs == 1
    world.node("open")
    assert "no sandbox" in world.claim(world.jobs()[0].id, "open").reason
    world.node("safe", sandbox="bubblewrap")
    spec = world.next("safe").job
    assert spec is not None
    assert [(s.role, s.sha) for s in spec.sides] == [("base", world.shas[2]), ("head", world.shas[5])]
    assert (spec.trust, spec.min_pairs, spec.max_pairs) == ("untrusted", 3, 12)


def test_adding_a_project_again_changes_what_was_given(world: Fleet) -> None:
    world.repo.git("branch", "dev")
    assert world.add(branch="dev", watch=False) == projects.Added(1, "toy", "dev", created=False)
    with world.db.read() as session:
        assert requests.by_slug(session, "toy").branch == "dev"


def test_a_name_belongs_to_one_repository(world: Fleet, tmp_path: Path) -> None:
    other = fleet(world.db, tmp_path / "other")
    with pytest.raises(Conflict, match="The name 'toy' belongs to"):
        other.add()


def test_the_branch_is_heads_own_when_the_configuration_names_none(sqlite_database: Database, tmp_path: Path) -> None:
    world = plain(sqlite_database, tmp_path, CONFIG)
    world.repo.git("branch", "-m", "trunk")
    assert world.add().branch == "trunk"
    named = plain(sqlite_database, tmp_path / "b", CONFIG.replace('"toy"', '"toy2"\nbranch = "release"'))
    with pytest.raises(Invalid, match=r"no branch 'release'\. It has main"):
        named.add()


def test_a_repository_without_configuration_is_told_to_make_one(sqlite_database: Database, tmp_path: Path) -> None:
    world = plain(sqlite_database, tmp_path, CONFIG)
    world.repo.git("rm", "-q", "groundspeed.toml")
    world.repo.commit("Gone")
    with pytest.raises(ConfigError, match=r"has no groundspeed\.toml at .*groundspeed init"):
        world.add()


def test_the_shipped_catalogue_is_that_of_the_plugins() -> None:
    """`python -m groundspeed.plugins.registry --dump > service/groundspeed/service/catalogue.json` makes it."""
    import json
    import subprocess
    import sys
    from importlib import resources

    from groundspeed.service.usecases import catalogue

    dumped = subprocess.run(
        [sys.executable, "-m", "groundspeed.plugins.registry", "--dump"], capture_output=True, text=True, check=True
    ).stdout
    ours = [p for p in json.loads(dumped)["plugins"] if p["distribution"] == "groundspeed"]
    shipped = json.loads(resources.files("groundspeed.service").joinpath("catalogue.json").read_text(encoding="utf-8"))
    assert shipped["plugins"] == ours
    assert set(catalogue.shipped()) >= {"training", "inference", "collectives", "memory"}
