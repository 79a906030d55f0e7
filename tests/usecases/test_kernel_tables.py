"""Kernel tables on their way in, and what a change of history is told of them."""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from sqlmodel import col
from typer.testing import CliRunner

from groundspeed.cli import main as cli
from groundspeed.plugins.timing.kernels import Interval, KernelTable
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases import artefacts, retention
from groundspeed.service.usecases.analyse import analyse_dirty
from groundspeed.service.usecases.kernels import sides, tables
from groundspeed.service.usecases.views import findings
from world import NOW, World, run, samples, sha

LATER = NOW + timedelta(hours=1)
ROW = {"name": "k", "count_per_step": 1.0, "time_per_step_s": 1e-3}


@pytest.fixture
def world(sqlite_database: Database) -> World:
    return World(sqlite_database)


def table(process: int = 0, **kernels: float) -> bytes:
    """Ten steps of kernels of so many microseconds, twelve launches a step of each, as a plugin's process writes it."""
    made = KernelTable(steps=10)
    for name, each_us in kernels.items():
        made.add([Interval(name, 0, round(each_us * 1000 * (1 + 0.001 * (process * 7 % 5))))] * 120)
    return json.dumps(made.as_json()).encode()


def deliver(world: World, store: artefacts.Store, revision: int, file: bytes, time: float = 1.0) -> int:
    """One process with a table, its report first; its run."""
    attempt = world.attempt(world.job(revision))
    digest = hashlib.sha256(file).hexdigest()
    reference = {"kind": "kernel-table", "name": "kernel-table.json", "sha256": digest, "size_bytes": len(file)}
    world.report(attempt, run(samples=[samples("time", time)], artefacts=[reference]))
    with artefacts.upload(store, digest) as incoming:
        incoming.write(file)
        incoming.finish()
    for _ in range(2):  # whatever is sent twice is kept once
        artefacts.mark_stored(world.db, store, attempt, NOW)
    (found,) = world.all(t.Run, t.Run.attempt_id == attempt)
    return int(found.id)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\xff", "is no JSON"),
        (b"[" * 200_000, "is no JSON"),
        (b"[]", "no list of kernels"),
        ({"version": 9, "kernels": []}, "another version"),
        ({"version": 1, "kernels": [1]}, "no object"),
        ({"version": 1, "kernels": [ROW | {"name": 7}]}, "no text"),
        ({"version": 1, "kernels": [ROW | {"time_per_step_s": -1}]}, "a number that cannot be"),
        (b'{"version": 1, "kernels": [{"name": "k", "count_per_step": NaN, "time_per_step_s": 1}]}', "cannot be"),
        ({"version": 1, "kernels": [ROW] * (tables.MOST_ROWS + 1)}, "more than 20000 rows"),
        (b" " * (tables.MOST_BYTES + 1), "larger than 4 MiB"),
    ],
)
def test_a_file_that_is_no_table_is_said_and_nothing_breaks(
    world: World, tmp_path: Path, content: Any, why: str
) -> None:
    (revision,) = world.commits(1)
    file = content if isinstance(content, bytes) else json.dumps(content).encode()
    made = deliver(world, artefacts.Store(tmp_path, 2**26, 2**28), revision, file)
    with world.db.read() as session:
        found, reasons = tables.load(session, [made])
    assert found == {}
    assert [why in reason for reason in reasons] == [True]


def test_names_lose_what_is_no_text_and_small_kernels_become_one_sum(world: World, tmp_path: Path) -> None:
    (revision,) = world.commits(1)
    rows = [ROW | {"name": f"k{i}", "time_per_step_s": 1e-6} for i in range(300)]
    hostile = [ROW | {"name": "a\x00\x1b[31m\u202eb\ud800" + "x" * 5000}, ROW | {"name": "a [31mb"}]
    file = json.dumps({"version": 1, "kernels": rows + hostile}).encode()
    made = deliver(world, artefacts.Store(tmp_path, 2**26, 2**28), revision, file)
    with world.db.read() as session:
        (found,) = tables.load(session, [made])[0].values()
    assert len(found.kernels) == tables.MOST_KERNELS
    assert found.total_s == pytest.approx(2e-3 + 300e-6)
    assert found.rest_s == pytest.approx(102e-6)
    first, second = list(found.kernels)[:2]
    assert first.startswith("a[31mbxxx")
    assert len(first) == tables.LONGEST_NAME
    assert second == "a [31mb"


def test_a_change_of_history_names_its_kernel_on_the_page_and_in_the_terminal(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = artefacts.Store(tmp_path, 2**26, 2**28)
    for x, revision in enumerate(world.commits(16)):
        file = table(x, gemm=100.0, layer_norm=36.0 if x >= 9 else 30.0, gelu=20.0 + x / 1000)
        deliver(world, store, revision, file, (1.04 if x >= 9 else 1.0) + 0.0003 * (x * 7 % 5))
    analyse_dirty(world.db, LATER)
    (regression,) = world.all(t.Regression)
    (told,) = findings.regression_detail(world.db, "tiny", regression.id).kernels
    assert (told.benchmark, told.state) == ("train[b=1]", "told")
    assert [(row.name, row.kind) for row in told.rows] == [("layer_norm", "slower")]
    assert told.rows[0].share == pytest.approx(1.0, abs=0.1)
    assert "4 + 4 processes" in told.summary, "of four commits on each side"
    monkeypatch.setenv("GROUNDSPEED_DATABASE_URL", world.db.url)
    cli._register()
    said = CliRunner().invoke(cli.app, ["explain", f"train/time@{sha('True-9')}", "--data", str(tmp_path / "d")])
    assert said.exit_code == 0, said.output
    as_json = (
        CliRunner().invoke(cli.app, ["explain", f"1@{sha('True-9')}", "--json", "--data", str(tmp_path / "d")]).stdout
    )
    assert json.loads(as_json)["kernels"][0]["rows"][0]["name"] == "layer_norm"
    assert "layer_norm: slower per launch: 30.1 µs → 36.1 µs each, 12 launches a step" in said.output
    retention.thin(world.db, retention.Policy(), LATER + timedelta(days=400))
    with world.db.read() as session:
        kept = set(session.scalars(select(col(t.KernelTable.run_id))))
    assert kept == {9, 10}, "a regression keeps the tables of its own two commits for ever"


def test_two_runs_are_compared_by_what_they_launched(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = artefacts.Store(tmp_path, 2**26, 2**28)
    before, after = world.commits(2)
    deliver(world, store, before, table(0, gemm=100.0))
    deliver(world, store, after, table(1, gemm=100.0, copy=9.0), 1.1)
    monkeypatch.setenv("GROUNDSPEED_DATABASE_URL", world.db.url)
    cli._register()
    said = CliRunner().invoke(cli.app, ["compare", "1", "2", "--by", "run", "--data", str(tmp_path / "d")])
    assert said.exit_code == 0, said.output
    assert "copy: new: 12 launches a step, 9.0" in said.output
    assert "With one process a side only what is launched can be compared." in said.output


def test_numbers_that_are_as_good_as_none_break_no_verdict(world: World, tmp_path: Path) -> None:
    store = artefacts.Store(tmp_path, 2**26, 2**28)
    files = [
        json.dumps({"version": 1, "kernels": [
            {**ROW, "name": "a", "time_per_step_s": time}, {**ROW, "name": "b", "count_per_step": time},
        ]}).encode()
        for time in (1e-200, 1.1e-200, 5e-324, 1e-170)
    ]  # fmt: skip
    runs = [deliver(world, store, revision, file) for revision, file in zip(world.commits(4), files, strict=True)]
    with world.db.read() as session:
        told = sides.of_runs(session, runs[:2], runs[2:], 0.2)
    assert told is not None
    assert told.rows == ()
