"""The benchmark process: whatever plugin and target do is a result in words, written whole."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest
from tests.plugins.test_registry import GOOD, distribution

import groundspeed.plugins
from groundspeed.plugins.gate import Gate, GateClosed, wait
from groundspeed.plugins.protocol import ChildReport, ChildSpec

PLUGIN = """
import time
from groundspeed.plugins.spi import *

class P:
    name, version, description, timing = "acme", "3", "for tests", "{timing}"
    params = (Param("size", "int", 2, minimum=1), Param("seed", "int", 0, series=False))
    needs = Needs(target={needs_target})
    def metrics(self):
        return (Metric("count", "1", Direction.LOWER, Kind.COUNTER), Metric("t", "s", Direction.LOWER, Kind.TIME))
{body}
PLUGIN = P()
"""


@pytest.fixture
def acme(child):
    """Installs a third-party plugin with the given body into the project's folder."""

    def install(body, timing="self-timed", needs_target=False):
        code = PLUGIN.format(body=body, timing=timing, needs_target=needs_target)
        for old in child.folder.glob("acme*"):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        distribution(child.folder, "acme-bench", "acme_child", code, "acme")
        return child

    return install


def test_a_self_timed_plugin_reports_its_values_with_their_declaration(acme):
    child = acme("    def run(self, c):\n        yield Measured('count', [c.params['size']] * 3, {'phase': 'x'})\n")
    report = child.run("acme", params={"size": 5})
    assert report.outcome == "ok"
    assert report.plugin_version == "3"
    (found,) = report.metrics
    assert (found.metric, found.unit, found.direction, found.kind, found.values, dict(found.params)) == (
        "count", "1", -1, "counter", (5.0, 5.0, 5.0), {"phase": "x"},
    )  # fmt: skip


def test_a_stepped_plugin_is_driven_and_closed(acme):
    child = acme(
        "    def prepare(self, c):\n"
        "        self.log = c.workdir.parent / 'log'\n"
        "        return Workload(step=lambda: time.sleep(0.004), close=lambda: self.log.write_text('closed'),\n"
        "                        check=lambda: None, facts={'k': 1})\n"
        "    def derive(self, w, m):\n"
        "        yield Measured('t', m.step_wall_s, states=m.states)\n",
        timing="stepped",
    )
    report = child.run("acme")
    assert report.outcome == "ok"
    (found,) = report.metrics
    assert 3 <= len(found.values) <= 20
    assert all(value >= 0.004 for value in found.values)
    assert len(found.states) == len(found.values)
    assert report.facts["k"] == 1
    assert {"import", "setup", "warmup", "measure", "teardown"} <= set(report.phases_s)
    assert (child.folder / "child-1" / "log").read_text() == "closed"


@pytest.mark.parametrize(
    ("raised", "outcome"),
    [
        ("Skip('not on Sundays')", "skipped"),
        ("Unsupported('needs two devices')", "unsupported"),
        ("WrongResult('3 != 4')", "wrong"),
        ("TimedOut('rank 1 hung', {'ranks': [1]})", "timeout"),
        ("ValueError('no luck')", "failed"),
        ("MemoryError()", "oom"),
        ("RuntimeError('CUDA error: out of memory')", "oom"),
        ("RuntimeError('[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can\\'t allocate memory')", "oom"),
        ("SystemExit(3)", "failed"),
    ],
)
def test_what_a_plugin_raises_becomes_the_outcome_and_what_came_before_is_kept(acme, raised, outcome):
    child = acme(f"    def run(self, c):\n        yield Measured('count', [1.0])\n        raise {raised}\n")
    report = child.run("acme")
    assert report.outcome == outcome
    assert report.evidence["message"]
    assert [m.metric for m in report.metrics] == ["count"]
    if outcome in {"failed", "wrong", "oom"} and "SystemExit" not in raised:
        assert "acme_child.py" in report.evidence["traceback"]
    if outcome == "timeout":
        assert report.evidence["ranks"] == [1]


def test_a_value_that_is_not_declared_is_the_plugins_failure(acme):
    report = acme("    def run(self, c):\n        yield Measured('speed', [1.0])\n").run("acme")
    assert report.outcome == "failed"
    assert "does not declare" in report.evidence["message"]


def test_parameters_and_version_are_checked_in_the_process_too(acme):
    child = acme("    def run(self, c):\n        yield Measured('count', [1.0])\n")
    report = child.run("acme", params={"size": 0})
    assert (report.outcome, "an int of at least 1" in report.evidence["message"]) == ("unsupported", True)
    report = child.run("acme", expected_version="2")
    assert report.outcome == "unsupported"
    assert "version 2" in report.evidence["message"]
    assert child.run("acme", expected_version="3").outcome == "ok"
    assert child.run("warp").outcome == "unsupported"


def test_a_target_is_called_with_what_its_signature_names(acme):
    child = acme(
        "    def run(self, c):\n"
        "        from groundspeed.plugins import targets\n"
        "        yield Measured('count', [float(targets.make(c))])\n",
        needs_target=True,
    )
    child.write("proj.py", "def make(size, other=7):\n    return size + other\ndef every(**k):\n    return len(k)\n")
    assert child.run("acme", "proj:make", {"size": 3}).metrics[0].values == (10.0,)
    assert child.run("acme", "proj:every").metrics[0].values == (5.0,)


@pytest.mark.parametrize(
    ("target", "outcome", "words"),
    [
        ("absent:make", "unsupported", "there is no module 'absent' in this revision"),
        ("pkg.absent:make", "unsupported", "there is no module 'pkg.absent'"),
        ("proj:absent", "unsupported", "has no 'absent' in this revision"),
        ("proj:number", "failed", "not something that can be called"),
        ("needy:make", "failed", "No module named 'no_such_library'"),
        ("broken:make", "failed", "at import"),
        ("proj:boom", "failed", "in the factory"),
        (None, "unsupported", "target"),
    ],
)
def test_a_target_that_is_missing_is_unsupported_and_one_that_raises_has_failed(acme, target, outcome, words):
    child = acme(
        "    def run(self, c):\n        c.target()\n        yield Measured('count', [1.0])\n", needs_target=True
    )
    child.write("proj.py", "number = 1\ndef boom():\n    raise RuntimeError('in the factory')\n")
    child.write("needy.py", "import no_such_library\n")
    child.write("broken.py", "raise RuntimeError('at import')\n")
    (child.folder / "pkg").mkdir(exist_ok=True)
    (child.folder / "pkg" / "__init__.py").touch()
    report = child.run("acme", target)
    assert report.outcome == outcome
    assert words in report.evidence["message"]


def test_a_staged_folder_with_the_plugins_alone_runs_a_plugin_of_another_distribution(child):
    """As the worker stages it: groundspeed/plugins and the plugin's own distribution, and nothing else of ours."""
    stage = child.folder / "stage"
    source = Path(groundspeed.plugins.__file__).parent
    shutil.copytree(source, stage / "groundspeed" / "plugins", ignore=shutil.ignore_patterns("__pycache__"))
    distribution(stage, "acme-bench", "acme_staged", GOOD, "acme")
    isolated = (getattr(sys, "_base_executable", sys.executable), "-S")
    report = child.run("acme", env={"PYTHONPATH": str(stage)}, python=isolated)
    assert (report.outcome, report.metrics[0].values) == ("ok", (1.0, 2.0, 3.0))
    report = child.run("training", "absent:make", env={"PYTHONPATH": str(stage)}, python=isolated)
    assert report.outcome == "unsupported"
    assert "torch" in report.evidence["message"]


def test_only_the_plugins_own_imports_are_paid_for(acme):
    """torch and numpy stay out of a process whose plugin does not use them."""
    child = acme(
        "    def run(self, c):\n        import sys\n"
        "        yield Measured('count', [float('torch' in sys.modules or 'numpy' in sys.modules)])\n"
    )
    assert child.run("acme").metrics[0].values == (0.0,)


def test_progress_is_json_lines_with_time(acme):
    child = acme("    def run(self, c):\n        c.progress('half way')\n        yield Measured('count', [1.0])\n")
    spec = child.spec("acme")
    begin = time.time()
    child.start(spec).communicate(timeout=240)
    lines = [json.loads(line) for line in Path(spec.progress_path).read_text().splitlines()]
    assert lines[0]["message"] == "import"
    assert lines[-1]["message"] == "done: ok"
    times = [begin, *(line["t"] for line in lines), time.time()]
    assert all(before - 1 < after for before, after in pairwise(times)), times


def wait_for_progress(spec, words):
    progress, until = Path(spec.progress_path), time.monotonic() + 240
    while not (progress.exists() and words in progress.read_text()):
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_killed_process_leaves_no_report_and_says_its_stacks_when_asked(acme):
    child = acme(
        "    def run(self, c):\n        while True:\n            c.progress('sleeping')\n            time.sleep(0.1)\n        yield\n"
    )
    spec = child.spec("acme")
    process = child.start(spec)
    wait_for_progress(spec, "sleeping")
    process.send_signal(signal.SIGUSR1)
    for line in process.stderr:
        if "acme_child.py" in line:
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert "acme_child.py" in line
    assert not Path(spec.report_path).exists()


def test_a_spec_of_a_newer_version_is_refused_with_advice(child):
    spec = child.spec("acme")
    newer = ChildSpec(**{**{f: getattr(spec, f) for f in spec.__dataclass_fields__}, "version": 99})
    process = child.start(newer)
    _, stderr = process.communicate(timeout=240)
    assert process.returncode == 2
    assert "upgrade the worker" in stderr


def test_what_a_plugin_yields_or_notes_and_nobody_can_keep_is_told_in_words(acme):
    """Not as a process that died: what it noted is no JSON, what it yielded no measurement or no number."""
    for body, says in (
        ("c.facts['raw'] = b'x'\n        yield Measured('count', [1.0])", "cannot be kept"),
        ("yield None", "run() yields Measured"),
        ("yield Measured('count', ['many'])", "'count' that is no number"),
    ):
        report = acme(f"    def run(self, c):\n        {body}\n").run("acme")
        assert (report.outcome, report.metrics) == ("failed", ())
        assert says in report.evidence["message"]


def test_a_report_survives_the_trip_through_json():
    report = ChildReport(plugin="p", plugin_version="1", outcome="ok", conditions={"a": {"unavailable": "why"}})
    assert ChildReport.from_json(report.to_json()) == report


def test_a_process_with_a_gate_is_ready_before_its_turn_and_does_nothing_until_then(child, tmp_path):
    gate = Gate(tmp_path / "gate")
    spec = dataclasses.replace(child.spec("command", params={"command": "true", "runs": 1}), gate=str(gate.path))
    found = []
    thread = threading.Thread(target=lambda: found.append(child.run_spec(spec)))
    thread.start()
    wait_for_progress(spec, '"gate"')
    assert not Path(spec.report_path).exists()
    gate.open()
    thread.join(240)
    gate.close()
    assert found[0].outcome == "ok"
    assert {"import", "gate", "measure"} <= set(found[0].phases_s)


def test_a_gate_that_its_owner_leaves_ends_whoever_waits_at_it(tmp_path):
    gate = Gate(tmp_path / "gate")
    threading.Timer(0.1, gate.close).start()
    for _ in range(2):  # the second comes when the owner is gone already
        with pytest.raises(GateClosed):
            wait(str(gate.path))
