"""Running the benchmark process as a worker does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from groundspeed.plugins import checks
from groundspeed.plugins.execution import execute
from groundspeed.plugins.protocol import ChildReport, ChildSpec, Limits

FAST = Limits(warmup_max_s=0.2, min_samples=3, max_samples=20, min_time_s=0.01, max_time_s=0.3)


@dataclass
class Child:
    """Starts ``python -m groundspeed.plugins.child`` in a process group of its own."""

    folder: Path
    count: int = 0

    def spec(self, plugin, target=None, params=None, **more):
        self.count += 1
        base = self.folder / f"child-{self.count}"
        base.mkdir()
        more.setdefault("limits", FAST)
        more.setdefault("paths", (str(self.folder),))
        more.setdefault("device", "cpu")
        return ChildSpec(
            plugin=plugin,
            params=params or {},
            target=target,
            report_path=str(base / "report.json"),
            progress_path=str(base / "progress.jsonl"),
            workdir=str(base / "work"),
            **more,
        )

    def start(self, spec, env=None, python=(sys.executable,)):
        process = subprocess.Popen(
            [*python, "-m", "groundspeed.plugins.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
            start_new_session=True,
        )
        process.stdin.write(spec.to_json())
        process.stdin.close()
        process.stdin = None
        return process

    def run(self, plugin, target=None, params=None, *, env=None, python=(sys.executable,), **more):
        return self.run_spec(self.spec(plugin, target, params, **more), env=env, python=python)

    def run_spec(self, spec, *, env=None, python=(sys.executable,)):
        process = self.start(spec, env, python)
        try:
            _, stderr = process.communicate(timeout=600)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        assert process.returncode == 0, stderr
        return ChildReport.from_json(Path(spec.report_path).read_text())

    def write(self, name, code):
        (self.folder / name).write_text(textwrap.dedent(code))


@pytest.fixture
def child(tmp_path):
    return Child(tmp_path)


@pytest.fixture(scope="module")
def shared_child(tmp_path_factory):
    """One folder for a module's tests whose targets do not change."""
    return Child(tmp_path_factory.mktemp("project"))


def metric(report, name, **params):
    """The samples of one metric at one point; fails when there is not exactly one."""
    (found,) = [m for m in report.metrics if m.metric == name and all(m.params.get(k) == v for k, v in params.items())]
    return found


@pytest.fixture
def here(child):
    """Runs a suite within this process: torch is imported once for all of them."""

    torch = pytest.importorskip("torch")

    def run(plugin, target=None, params=None, **more):
        threads = torch.get_num_threads()
        spec = child.spec(plugin, target, params, **more)
        Path(spec.workdir).mkdir()
        try:
            report = execute(spec)
        finally:
            torch.set_num_threads(threads)
        checks.assert_report(report, report.outcome) if report.outcome == "ok" else None
        return report

    return run
