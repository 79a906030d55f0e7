"""The pages that list suites and findings are those of the code, and nothing in them is left unsaid."""

from __future__ import annotations

import importlib.util

import pytest

from groundspeed.plugins.registry import BUILT_IN, load
from groundspeed.plugins.symptoms import SYMPTOMS


@pytest.fixture(scope="module")
def pages(root):
    spec = importlib.util.spec_from_file_location("make_suites", root / "docs" / "make_suites.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_current(root, pages):
    assert (root / "docs" / "suites.md").read_text() == pages.page(), "run: python docs/make_suites.py"
    assert (root / "docs" / "doctor.md").read_text() == pages.doctor_page(), "run: python docs/make_suites.py"


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_every_metric_says_what_it_is_and_where_it_comes_from(root, name):
    plugin = load(name)
    text = (root / "docs" / "suites.md").read_text()
    section = text.split(f"\n## {name}\n")[1].split("\n## ")[0]
    for metric in plugin.metrics():
        assert f"| `{metric.name}` | {metric.unit} |" in section
        assert metric.description, metric.name
        assert metric.formula, metric.name
    for param in plugin.params:
        assert f"| `{param.name}` |" in section


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_the_example_of_every_suite_is_a_configuration_that_its_plugin_takes(pages, name):
    import itertools

    from groundspeed.plugins import params as parameters
    from groundspeed.service.config import load as load_configuration

    config = load_configuration('[project]\nname = "x"\n' + pages.example(name))
    (suite,) = config.suite
    plugin = load(name)
    assert suite.plugin == name
    assert bool(suite.target) == plugin.needs.target
    lists = [value if isinstance(value, list | tuple) else [value] for value in suite.params.values()]
    for values in itertools.product(*lists):
        parameters.resolve(name, plugin.params, dict(zip(suite.params, values, strict=True)))


def test_every_symptom_says_what_why_and_what_to_do():
    for symptom in SYMPTOMS.values():
        assert symptom.what
        assert symptom.why
        assert symptom.cure
        assert not symptom.what.endswith(".")
