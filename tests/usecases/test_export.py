"""Every result leaves as a line that other tools read."""

from __future__ import annotations

import csv
import json

import pytest

from groundspeed.service.db.engine import Database
from groundspeed.service.errors import NotFound
from groundspeed.service.usecases.export import COLUMNS, export
from world import World, run, samples


@pytest.fixture
def world(database: Database) -> World:
    world = World(database)
    world.commits(2)
    for revision in world.revisions:
        world.report(
            world.attempt(world.job(revision)), run(samples=[samples("time", 1.0, 2.0, 3.0), samples("memory", 7.0)])
        )
    return world


def test_json_lines_say_what_was_measured_where(world: World) -> None:
    lines = [json.loads(line) for line in export(world.db, "tiny", raw=True)]
    assert len(lines) == 4
    line = lines[0]
    assert (line["suite"], line["metric"], line["unit"], line["params"], line["value"]) == (
        "train",
        "time",
        "s",
        {"b": 1},
        2.0,
    )
    assert (line["samples"], line["states"], line["position"], line["node"]) == (
        [1.0, 2.0, 3.0],
        ["valid"] * 3,
        0,
        "n1",
    )


def test_csv_has_the_same(world: World) -> None:
    rows = list(csv.DictReader(export(world.db, form="csv")))
    assert tuple(rows[0]) == COLUMNS
    assert {(row["metric"], row["value"], row["params"]) for row in rows} == {
        ("time", "2.0", '{"b": 1}'),
        ("memory", "7.0", '{"b": 1}'),
    }


def test_an_unknown_project_is_an_error(world: World) -> None:
    with pytest.raises(NotFound, match="nope"):
        list(export(world.db, "nope"))
