"""The usual results of an asv tree, taken a file at a time, come out as the general reader gives them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from random import Random
from typing import Any

import pytest

from groundspeed.service.formats import asv, plain, prepared
from groundspeed.service.formats.plain import Block
from groundspeed.service.formats.prepared import Prepared
from groundspeed.service.formats.times import parse_time

COLUMNS = [
    "result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b", "stats_q_25",
    "stats_q_75", "stats_number", "stats_repeat", "samples", "profile",
]  # fmt: skip
PARAMS = [["'a'", "'b'"], ["1", "2"]]
STATISTICS = [
    [0.9, 1.8, 2.7, 3.6],
    [1.1, 2.2, 3.3, 4.4],
    [0.95, 1.9, 2.9, 3.9],
    [1.05, 1.9, 3.2, 3.8],
    [1, 2, 3, 4],
    [5] * 4,
]
USUAL: dict[str, list[Any]] = {
    "time_grid": [[1.0, 2.0, 3.0, 4.0], PARAMS, "v1", 1700000000123, 0.5, *STATISTICS],
    "time_whole_second": [[0.25], [], "v2", 1700000000000, None, [0.2], [0.3], [0.2], [0.3], [7], [10]],
    "time_undated": [[0.25], None, "v2", None, True, [0.2], [0.3], [0.2], [0.3], [7], [10], None],
}
UNUSUAL: dict[str, list[Any]] = {
    "time_failed_in_part": [[1.0, None, 3.0, float("nan")], PARAMS, "v1", 1700000000123, 0.5, *STATISTICS],
    "time_failed": [None, [], "v1", 1700000000123, 0.5],
    "time_short": [[0.5], [], "v1"],
    "time_whole_numbers": [[1, 2.0, 3.0, 4.0], PARAMS, "v1", 1700000000123, 0.5, *STATISTICS],
    "time_no_spread": [[0.25], [], "v1", None, 0.5, [0.2], [0.3], [None], [0.3], [7], [10]],
    "time_nothing_repeated": [[0.25], [], "v1", None, 0.5, [0.2], [0.3], [0.2], [0.3], [7], [0]],
    "time_raw": [[0.25], [], "v1", None, 0.5, [0.2], [0.3], [0.2], [0.3], [7], [3], [[0.2, 0.25, 0.3]]],
    "time_huge": [[1e308, 1e308, 1e308, 1e308], PARAMS, "v1", None, 0.5, *STATISTICS],
}


def file_of(folder: Path, name: str, results: dict[str, list[Any]]) -> Path:
    doc = {
        "commit_hash": "a" * 40, "date": 1700000000000, "env_name": "py", "params": {"machine": "m", "python": "3.11"},
        "python": "3.11", "requirements": {}, "env_vars": {}, "result_columns": COLUMNS, "version": 2,
        "results": results,
    }  # fmt: skip
    path = folder / name
    path.write_text(json.dumps(doc))
    return path


def by_grid(block: Block) -> dict[str, tuple[Any, ...]]:
    found, at = {}, 0
    for i, shape in enumerate(block.shapes):
        end = at + block.lengths[i]
        numbers = (list(column[at:end]) for column in (block.values, block.spreads, block.counts))
        texts = block.facts[i], block.digests[i], block.starts[i], block.durations_s[i]
        found[shape.benchmark] = (shape.version, shape.axes, shape.axes_key, *texts, *numbers)
        at = end
    return found


def as_one(item: Prepared) -> tuple[Any, ...]:
    texts = item.facts, item.digest, item.started, item.duration_s
    numbers = list(item.values), list(item.spreads), list(item.counts)
    return (item.version, item.axes, item.axes_key, *texts, *numbers)


def test_the_usual_is_taken_as_columns_and_says_what_the_general_reader_says(tmp_path: Path) -> None:
    path = file_of(tmp_path, "a.json", {**USUAL, **UNUSUAL})
    prepared.begin(asv.Tree())
    first, _ = prepared.read_file(str(path), "a.json")
    general = {item.benchmark: item for item in first if isinstance(item, Prepared)}
    assert not any(isinstance(item, Block) for item in first)  # no shape is known yet
    assert set(USUAL) < set(general)
    (block, *rest), _ = prepared.read_file(str(path), "a.json")
    assert isinstance(block, Block)
    assert by_grid(block) == {name: as_one(general[name]) for name in USUAL}
    assert block.read == sum(general[name].read for name in USUAL)
    assert [repr(item) for item in rest] == [
        repr(item) for item in first if not isinstance(item, Prepared) or item.benchmark not in USUAL
    ]
    some = block.only([True, False, True])
    assert by_grid(some) == {name: one for name, one in by_grid(block).items() if name != "time_whole_second"}


def test_what_another_process_sends_is_the_same(tmp_path: Path) -> None:
    path = str(file_of(tmp_path, "a.json", {**USUAL, **UNUSUAL}))
    prepared.begin(asv.Tree())
    read = [prepared.read_file(path, "a.json")[0] for _ in range(2)]
    prepared.begin(asv.Tree())
    receiver = prepared.Receiver()
    for there in read:
        here = receiver.items(prepared.send_file(path, "a.json"))
        blocks = [[by_grid(item) for item in items if isinstance(item, Block)] for items in (there, here)]
        assert blocks[0] == blocks[1]
        grids = [[as_one(item) for item in items if isinstance(item, Prepared)] for items in (there, here)]
        assert grids[0] == grids[1]


def test_moments_are_those_that_are_read_one_by_one() -> None:
    random = Random(1)
    near = [x + d for x in (1e9, 4102444800.0, 4102444800e3, 1e12, 1e15, 1e18, 1e20) for d in (-1, -1e-6, 0, 0.5, 1e-6)]
    given = [None, 0, -1, 0.0, math.nan, math.inf, 10**400, -(10**400), 2**63, 1700000000, 1700000000123, *near]
    given += [random.uniform(0, 4.2e9) for _ in range(500)] + [random.uniform(1e9, 4.2e12) for _ in range(500)]
    given += [random.randrange(10**9, 10**13) + random.choice((0.0005, 0.0015, 0.25)) for _ in range(500)]
    alone = [moment.isoformat(" ", "microseconds") if moment else "" for moment in map(parse_time, given)]
    assert plain._texts(given) == alone
    assert plain._texts(given[7:]) == alone[7:]


@pytest.mark.parametrize("change", [{"version": "v9"}, {"params": [["'a'", "'c'"], ["1", "2"]]}], ids=str)
def test_other_versions_and_parameters_are_shapes_of_their_own(tmp_path: Path, change: dict[str, Any]) -> None:
    row = USUAL["time_grid"]
    other = [row[0], change.get("params", PARAMS), change.get("version", "v1"), *row[3:]]
    prepared.begin(asv.Tree())
    for name, one, taken in (("a", row, False), ("b", other, False), ("c", row, True), ("d", other, True)):
        (item,), _ = prepared.read_file(str(file_of(tmp_path, name, {"time_grid": one})), name)
        assert isinstance(item, Block) is taken
        if isinstance(item, Block):
            (shape,) = item.shapes
            assert (shape.version, [list(axis) for axis in shape.axis_reprs]) == (one[2], one[1])
