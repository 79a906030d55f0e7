"""What the registry finds, and how it says that something is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import tomllib

import pytest

from groundspeed.plugins import registry
from groundspeed.plugins.errors import BrokenPlugin, DuplicatePlugin, UnknownPlugin
from groundspeed.plugins.spi import ENTRY_POINT_GROUP
from groundspeed.plugins.validate import problems

GOOD = """
from groundspeed.plugins.spi import Direction, Kind, Measured, Metric, Needs

class Acme:
    name, version, description, timing = "acme", "3", "counts", "self-timed"
    params, needs = (), Needs(target=False)
    def metrics(self):
        return (Metric("count", "1", Direction.LOWER, Kind.COUNTER),)
    def run(self, context):
        yield Measured("count", [1.0, 2.0, 3.0])

PLUGIN = Acme()
"""


def distribution(folder, name, module, code, entry, attribute="PLUGIN"):
    """A distribution as pip leaves it: a module and its dist-info."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{module}.py").write_text(textwrap.dedent(code))
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{ENTRY_POINT_GROUP}]\n{entry} = {module}:{attribute}\n")
    return folder


@pytest.fixture
def on_path(monkeypatch):
    """Puts folders on the import path for one test and forgets their modules afterwards."""
    before = set(sys.modules)

    def put(*folders):
        for folder in folders:
            monkeypatch.syspath_prepend(str(folder))

    yield put
    for name in set(sys.modules) - before:
        if name.startswith("acme"):
            del sys.modules[name]


def entry_of(name):
    return next(entry for entry in registry.load_catalogue() if entry.name == name)


def test_the_built_in_table_is_what_the_package_declares(root):
    declared = tomllib.loads((root / "pyproject.toml").read_text())["project"]["entry-points"][ENTRY_POINT_GROUP]
    assert declared == dict(registry.BUILT_IN)


@pytest.mark.parametrize("name", sorted(registry.BUILT_IN))
def test_every_built_in_plugin_keeps_the_contract(name):
    assert problems(registry.load(name), name) == []


def test_a_plugin_of_another_distribution_is_found(tmp_path, on_path):
    on_path(distribution(tmp_path, "acme-bench", "acme_good", GOOD, "acme"))
    entry = entry_of("acme")
    assert (entry.version, entry.distribution, entry.timing, entry.error) == ("3", "acme-bench", "self-timed", None)
    assert entry.metrics[0].name == "count"


def test_a_plugin_class_is_made_into_an_object(tmp_path, on_path):
    on_path(distribution(tmp_path, "acme-bench", "acme_class", GOOD, "acme", "Acme"))
    assert registry.load("acme").version == "3"


def test_a_plugin_that_does_not_import_is_listed_with_why(tmp_path, on_path):
    on_path(distribution(tmp_path, "acme-bench", "acme_bad", "import no_such_thing", "acme"))
    entry = entry_of("acme")
    assert entry.error is not None
    assert "acme-bench" in entry.error
    assert "No module named 'no_such_thing'" in entry.error
    with pytest.raises(BrokenPlugin):
        registry.load("acme")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('"acme", "3"', '"other", "3"', "the entry point is called 'acme'"),
        ('"self-timed"', '"stepped"', "needs the method `prepare`"),
        ('"self-timed"', '"timed"', "must be 'stepped' or 'self-timed'"),
        ('Metric("count", "1"', 'Metric("count", ""', "has no unit"),
        ("params, needs = ()", "params, needs = (Param('a', 'int', 0, minimum=1),)", "its default 0 is not an int"),
        ('(Metric("count", "1", Direction.LOWER, Kind.COUNTER),)', "()", "declares nothing"),
        ('"acme", "3"', '"acme", 3', "`version` must be a string"),
    ],
)
def test_a_plugin_that_breaks_the_contract_is_listed_with_why(tmp_path, on_path, before, after, words):
    assert before in GOOD
    code = GOOD.replace(before, after).replace("Metric, Needs", "Metric, Needs, Param")
    on_path(distribution(tmp_path, "acme-bench", "acme_contract", code, "acme"))
    assert words in (entry_of("acme").error or "")


def test_one_name_of_two_distributions_is_an_error_naming_both(tmp_path, on_path):
    on_path(
        distribution(tmp_path / "a", "acme-bench", "acme_one", GOOD, "acme"),
        distribution(tmp_path / "b", "rival-bench", "acme_two", GOOD, "acme"),
    )
    error = entry_of("acme").error
    assert error is not None
    assert "acme-bench" in error
    assert "rival-bench" in error
    with pytest.raises(DuplicatePlugin):
        registry.load("acme")


def test_a_name_of_ours_offered_by_another_is_an_error_naming_both(tmp_path, on_path):
    on_path(distribution(tmp_path, "acme-bench", "acme_three", GOOD, "training"))
    error = entry_of("training").error or ""
    assert "acme-bench" in error
    assert "groundspeed" in error


def test_the_same_distribution_twice_on_the_path_counts_once(tmp_path, on_path):
    on_path(
        distribution(tmp_path / "a", "acme-bench", "acme_twice", GOOD, "acme"),
        distribution(tmp_path / "b", "acme-bench", "acme_twice", GOOD, "acme"),
    )
    assert entry_of("acme").error is None


def test_an_unknown_plugin_lists_what_there_is():
    with pytest.raises(UnknownPlugin, match=r"'warp'; there are: .*training"):
        registry.load("warp")


def test_the_dump_is_json_without_importing_torch():
    """The service ships this file; making it must work where no torch is."""
    code = (
        "import sys\n"
        "sys.modules['torch'] = None\n"
        "from groundspeed.plugins import registry\n"
        "registry.main(['--dump', '--built-in'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    document = json.loads(done.stdout)
    assert {plugin["name"] for plugin in document["plugins"]} == set(registry.BUILT_IN)
    training = next(plugin for plugin in document["plugins"] if plugin["name"] == "training")
    assert training["metrics"][0]["direction"] == -1
    assert all(plugin["error"] is None for plugin in document["plugins"])
