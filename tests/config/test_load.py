"""Reading groundspeed.toml: what is right is read, what is wrong is named with its place and its cure."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from groundspeed.service.config import json_schema, load
from groundspeed.service.errors import ConfigError

GOOD = """\
[project]
name = "tinygpt"
branch = "main"

[build]
paths = ["src"]
benchmarks = "benchmarks"

[thresholds]
time = 0.03

[[suite]]
name = "train"
plugin = "training"
target = "benchmarks.train:make"
params = { batch_size = [8, 32], precision = "fp32" }

[[schedule]]
name = "nightly"
cron = "0 3 * * *"
suites = ["train"]
"""


def fails(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(text, "groundspeed.toml")
    return caught.value


def test_a_full_file_is_read() -> None:
    config = load(GOOD)
    assert config.suite[0].params == {"batch_size": (8, 32), "precision": "fp32"}
    assert config.build.paths == ("src",)
    assert config.schedule[0].suites == ("train",)


def test_a_syntax_error_has_line_and_column() -> None:
    error = fails('[project]\nname = "x"\nbranch == "main"\n')
    assert (error.line, error.column) == (3, 9)
    assert str(error).startswith("groundspeed.toml:3:9: not valid TOML:")


def test_a_text_that_ends_too_early_has_line_and_column() -> None:
    error = fails('[project]\nname = "x')
    assert error.line == 2


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        ("branch =", "brunch =", (3, 1), "unknown key 'project.brunch'. Did you mean 'branch'?"),
        ("[build]", "[biuld]", (5, 2), "unknown key 'biuld'. Did you mean 'build'?"),
        ("target =", "targets =", (15, 1), "unknown key 'suite[1].targets'. Did you mean 'target'?"),
        ('["src"]', "7", (6, 1), "'build.paths'"),
        ('["src"]', '["../x"]', (6, 1), "must be a folder inside the repository"),
        ("0.03", "-1", (10, 1), "greater than 0"),
        ("0 3 * * *", "0 3 * *", (20, 1), "no cron expression"),
        ("0 3 * * *", "0 3 * * * *", (20, 1), "no cron expression"),
        ("0 3 * * *", "r 3 * * *", (20, 1), "no cron expression"),
        ("0 3 * * *", "0 3 30 2 *", (20, 1), "never comes"),
        ('suites = ["train"]', 'suites = ["trian"]', (21, 1), "Did you mean 'train'?"),
        ("[8, 32]", "[]", (16, 12), "an empty list runs nothing"),
        ("[8, 32]", "[8, [1]]", (16, 12), "batch_size"),
        ('name = "tinygpt"', "", (1, 2), "'project.name' is missing"),
        ('"tinygpt"', '"tiny gpt"', (2, 1), "has not the form of"),
        ("benchmarks.train:make", "benchmarks.train", (15, 1), "has not the form of"),
    ],
)
def test_a_mistake_is_placed_and_explained(old: str, new: str, place: tuple[int, int], words: str) -> None:
    error = fails(GOOD.replace(old, new, 1))
    assert words in error.title
    assert (error.line, error.column) == place
    assert error.title.startswith(f"groundspeed.toml:{place[0]}:{place[1]}: ")
    assert "groundspeed config check" in error.advice


def test_all_mistakes_are_listed_in_the_order_of_the_file() -> None:
    error = fails(GOOD.replace("branch =", "brunch =").replace("0.03", "-1").replace("plugin =", "plugni ="))
    title = error.title
    assert title.startswith("groundspeed.toml has 4 mistakes. ")
    assert title.index("brunch") < title.index("thresholds.time") < title.index("plugni")
    assert error.line == 3


def test_a_key_in_a_multi_line_value_is_found() -> None:
    text = GOOD.replace('paths = ["src"]', 'paths = [\n  "a",\n  "/abs",\n]\nenvv = {}')
    error = fails(text)
    assert "envv" in error.title
    assert (error.line, error.column) == (10, 1)


def test_a_key_named_in_a_comment_or_string_is_not_taken_for_it() -> None:
    text = GOOD.replace("[project]", '# brunch = "no"\n[project]').replace("branch =", "brunch =")
    assert fails(text).line == 4


def test_no_suite_is_said_in_words() -> None:
    assert "no [[suite]]" in fails('suite = []\n[project]\nname = "x"\n').title
    assert "'suite' is missing" in fails('[project]\nname = "x"\n').title


def test_a_second_suite_or_schedule_of_the_same_name_is_refused() -> None:
    twice = GOOD + '\n[[suite]]\nname = "train"\nplugin = "memory"\n'
    error = fails(twice)
    assert "a second suite named 'train'" in error.title
    assert error.line == 24


def test_binary_or_huge_input_is_refused_without_a_traceback() -> None:
    assert "not valid TOML" in fails("\x00\x01").title
    assert "larger than" in fails("#" * 1_000_001).title


def test_the_published_schema_is_current(root: Path) -> None:
    """Regenerate with: groundspeed config schema > docs/groundspeed.schema.json"""
    published = json.loads((root / "docs" / "groundspeed.schema.json").read_text())
    assert published == json_schema()


def test_the_schema_accepts_what_the_loader_accepts_and_describes_every_key() -> None:
    import tomllib

    schema = json_schema()
    jsonschema.validate(tomllib.loads(GOOD), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tomllib.loads(GOOD.replace("branch", "brunch")), schema)
    for name, section in schema["$defs"].items():
        for key, value in section["properties"].items():
            assert "description" in value, f"{name}.{key}"
