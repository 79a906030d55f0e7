"""The contract test kit passes good plugins and says what is wrong with others."""

from __future__ import annotations

import pytest
from tests.plugins.test_registry import GOOD, distribution

from groundspeed.plugins import checks, registry
from groundspeed.plugins.protocol import ChildReport, MetricReport


@pytest.mark.parametrize("name", sorted(registry.BUILT_IN))
def test_built_in_plugins_pass(name):
    checks.assert_contract(registry.load(name), name)
    checks.assert_installed(name, "groundspeed")


def test_an_installed_third_party_plugin_passes_and_runs(tmp_path, monkeypatch):
    distribution(tmp_path / "site", "acme-bench", "acme_checked", GOOD, "acme")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    checks.assert_installed("acme", "acme-bench")
    report = checks.run("acme", tmp_path)
    checks.assert_report(report)
    with pytest.raises(AssertionError, match="expected 'skipped'"):
        checks.assert_report(report, "skipped")
    with pytest.raises(AssertionError, match="not by other"):
        checks.assert_installed("acme", "other")


def test_what_is_wrong_is_said():
    with pytest.raises(AssertionError, match="`timing` is None"):
        checks.assert_contract(object())
    with pytest.raises(AssertionError, match="is the package installed"):
        checks.assert_installed("no-such")


@pytest.mark.parametrize(
    ("values", "states", "words"),
    [
        ((), (), "has no samples"),
        ((1.0, float("nan")), (), "not a finite number"),
        ((1.0,), ("valid", "valid"), "1 values and 2 states"),
        ((1.0,), ("dubious",), "unknown sample state"),
    ],
)
def test_a_report_with_bad_samples_is_refused(values, states, words):
    bad = MetricReport("t", "s", -1, "time", values, states=states)
    with pytest.raises(AssertionError, match=words):
        checks.assert_report(ChildReport("p", "1", "ok", (bad,)))


def test_a_point_yielded_twice_is_refused():
    one = MetricReport("t", "s", -1, "time", (1.0,), {"bytes": 8})
    with pytest.raises(AssertionError, match="yielded twice"):
        checks.assert_report(ChildReport("p", "1", "ok", (one, one)))
