"""The contract test kit: what an author of a plugin calls from their own tests.

::

    from groundspeed.plugins import checks

    def test_contract():
        checks.assert_contract(acme_bench.PLUGIN)

    def test_is_found():
        checks.assert_installed("acme", distribution="acme-bench")

    def test_runs(tmp_path):
        report = checks.run("acme", tmp_path, params={"size": 4})
        checks.assert_report(report, outcome="ok")

Standard library alone; raises AssertionError with everything that is wrong.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from groundspeed.plugins import registry
from groundspeed.plugins.protocol import ChildReport, ChildSpec, Limits
from groundspeed.plugins.spi import Outcome, ParamValue, SampleState
from groundspeed.plugins.validate import problems

QUICK = Limits(warmup_max_s=0.2, min_samples=3, max_samples=20, min_time_s=0.01, max_time_s=0.5)
"""Limits for tests: that it runs, not how fast."""


def assert_contract(plugin: Any, offered_as: str | None = None) -> None:
    """The plugin's declaration is complete and consistent. Runs nothing."""
    wrong = problems(plugin, offered_as)
    if wrong:
        raise AssertionError("the plugin does not keep the contract: " + "; ".join(wrong))


def assert_installed(name: str, distribution: str | None = None) -> None:
    """The entry point is found, loads, and no other distribution offers the name."""
    entry = next((entry for entry in registry.load_catalogue() if entry.name == name), None)
    if entry is None:
        raise AssertionError(f"no entry point {name!r} in the group groundspeed.benchmarks: is the package installed?")
    if entry.error is not None:
        raise AssertionError(entry.error)
    if distribution is not None and entry.distribution != distribution:
        raise AssertionError(f"{name!r} is offered by {entry.distribution}, not by {distribution}")


def run(  # noqa: PLR0913 - the knobs of one benchmark process, all but two with a default
    name: str,
    folder: Path,
    *,
    target: str | None = None,
    params: Mapping[str, ParamValue] | None = None,
    paths: Iterable[str] = (),
    device: str = "auto",
    limits: Limits = QUICK,
    timeout_s: float = 300.0,
) -> ChildReport:
    """Runs the installed plugin in a fresh process, as a worker does.

    Raises AssertionError with the process's standard error when it leaves no report.
    """
    report = folder / "report.json"
    spec = ChildSpec(
        plugin=name,
        params=dict(params or {}),
        target=target,
        paths=tuple(paths),
        device=device,
        report_path=str(report),
        progress_path=str(folder / "progress.jsonl"),
        workdir=str(folder / "work"),
        limits=limits,
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "groundspeed.plugins.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(spec.to_json(), timeout=timeout_s)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if not report.exists():
        raise AssertionError(f"the process ended with status {process.returncode} and no report:\n{output}")
    return ChildReport.from_json(report.read_text(encoding="utf-8"))


def assert_report(report: ChildReport, outcome: str = "ok") -> None:
    """The report has that outcome, and its samples fit the plugin's declaration."""
    wrong = list(_wrong_in(report, outcome))
    if wrong:
        raise AssertionError("; ".join(wrong))


def _wrong_in(report: ChildReport, outcome: str) -> Iterable[str]:
    if report.outcome != outcome:
        yield f"outcome is {report.outcome!r}, expected {outcome!r}: {report.evidence.get('message', 'no message')}"
    if report.outcome not in set(Outcome):
        yield f"{report.outcome!r} is no outcome"
    if report.outcome == Outcome.OK and not report.metrics:
        yield "a run that went well yielded no metric"
    seen = set()
    for metric in report.metrics:
        point = (metric.metric, tuple(sorted(metric.params.items())))
        where = f"metric {metric.metric!r} at {dict(metric.params)}"
        if point in seen:
            yield f"{where} was yielded twice: yield all its samples at once"
        seen.add(point)
        if not metric.values:
            yield f"{where} has no samples"
        if not all(math.isfinite(value) for value in metric.values):
            yield f"{where} has a value that is not a finite number"
        if metric.states and len(metric.states) != len(metric.values):
            yield f"{where} has {len(metric.values)} values and {len(metric.states)} states"
        if set(metric.states) - {str(state) for state in SampleState}:
            yield f"{where} has an unknown sample state"
