"""Some hundred damaged files of every format on every run of the tests; `make fuzz` gives each its minutes."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz import seeds, targets
from groundspeed.service.formats import detect
from groundspeed.service.formats.records import Record
from groundspeed.service.formats.source import of_bytes


@pytest.mark.parametrize("name", sorted(targets.TARGETS))
def test_no_damaged_file_breaks_an_importer(name: str) -> None:
    """Whatever stands in it, a file gives items or is refused with its place."""
    rng = random.Random(name)
    targets.TARGETS[name](seeds.seed(name))
    for _ in range(150):
        targets.TARGETS[name](seeds.damaged(name, rng))


FOUND = sorted((Path(__file__).resolve().parent / "found").glob("*/*"))


@pytest.mark.parametrize("path", FOUND, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_fuzzing_has_found_stays_found(path: Path) -> None:
    """Inputs, each in the folder of its target, that once took for ever or broke something."""
    targets.TARGETS[path.parent.name](path.read_bytes())
    targets.anything(path.read_bytes())


@pytest.mark.parametrize("name", sorted(targets.TARGETS))
def test_no_long_run_of_anything_takes_long(name: str) -> None:
    """Twenty thousand blanks or strokes within a line, where an expression that looks again and again takes seconds
    of the processor's time, and one that tries every way to cut them takes for ever.
    """
    rng, began = random.Random(name), time.process_time()
    for _ in range(25):
        targets.TARGETS[name](seeds.with_run(name, rng))
    assert time.process_time() - began < 25 * 0.5


@pytest.mark.parametrize("name", sorted(set(detect.BY_NAME) - {"csv"}))
def test_a_sound_file_is_recognised_and_read(name: str) -> None:
    """Fuzzing starts from files that work: detection finds the format, and there is at least one record."""
    document = of_bytes("seed", seeds.seed(name))
    assert detect.detect(document).name == name
    items = list(detect.parse(document))
    assert name == "asv" or any(isinstance(item, Record) for item in items)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400) | st.text(max_size=400).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_anything_at_all_is_refused_or_read(data: bytes) -> None:
    """Detection and all that follows it on bytes that nobody wrote."""
    targets.anything(data)


@settings(max_examples=100, deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8), lambda x: st.lists(x, max_size=4) | st.dictionaries(st.sampled_from(
    ["benchmarks", "results", "stats", "name", "value", "metric", "metadata", "runs", "values", "entries", "tags", "data", "states", "commit_hash", "requirements", "params"]), x, max_size=5), max_leaves=20), st.sampled_from(sorted(set(detect.BY_NAME) - set(targets.HAND_WRITTEN))))  # fmt: skip
def test_json_of_any_shape_breaks_no_importer(value: object, name: str) -> None:
    """Right keys with wrong values."""
    import json

    targets.TARGETS[name](json.dumps(value).encode("utf-8", "surrogatepass"))
