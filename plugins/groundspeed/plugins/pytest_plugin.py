"""``pytest --groundspeed[=FILE]``: what pytest-benchmark measured, and how long plain tests took, as JSON lines.

The file is what ``groundspeed report`` and ``groundspeed import`` read. Timings of plain tests are charted, never
gated: a
test is run once, among others.
"""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

FORMAT = "groundspeed.result.v1"
DEFAULT_FILE = "groundspeed.jsonl"
MAX_SAMPLES = 1000
"""Of one benchmark; of more rounds every so many-th is kept, in order. The value rests on all of them."""
_TIME = {"name": "time", "unit": "s", "direction": -1, "kind": "time", "clock": "wall"}
_TEST_TIME = {**_TIME, "name": "test_time", "gate": False}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("groundspeed").addoption(
        "--groundspeed", nargs="?", const=DEFAULT_FILE, default=None, metavar="FILE",
        help=f"write benchmark results and timings of tests to FILE ({DEFAULT_FILE})",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    # with xdist only the process that starts the others writes: their reports come to it
    if config.getoption("--groundspeed") is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(Path(config.getoption("--groundspeed"))), "groundspeed-recorder")


class Recorder:
    """Collects as tests end, writes once when the session does."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._began = datetime.now(UTC)
        self._plain: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or (report.when == "setup" and not report.passed):
            outcome = {"passed": "ok", "skipped": "skipped"}.get(report.outcome, "failed")
            self._plain[report.nodeid] = {"metric": _TEST_TIME, "outcome": outcome, "value": None}
            if outcome == "ok":
                self._plain[report.nodeid]["value"] = report.duration
            else:
                self._plain[report.nodeid]["reason"] = str(report.longrepr or report.outcome)[-500:]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        measured = {name: fields for name, fields in _benchmarks(session.config) if fields}
        lines = [self._line(name, fields) for name, fields in {**self._plain, **measured}.items()]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_name(f"{self._path.name}.{os.getpid()}.tmp")
        temporary.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        temporary.replace(self._path)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.write_line(
            f"groundspeed: results are in {self._path}; send: groundspeed report {self._path} --project NAME --url URL"
        )

    def _line(self, name: str, fields: dict[str, Any]) -> dict[str, Any]:
        test, bracket, parameter = name.partition("[")
        return {
            "format": FORMAT, "tool": "pytest", "benchmark": test, "measured_at": self._began.isoformat(),
            "params": {"param": parameter.removesuffix("]")} if bracket else {},
            "machine": {"name": platform.node(), "cpu_model": _cpu_model(), "cpu_count": os.cpu_count() or 0},
            "environment": [
                {"layer": "stack", "name": "python",
                "value": f"{platform.python_implementation()} {platform.python_version()}"},
                {"layer": "node", "name": "os", "value": platform.platform(), "tracked": False},
            ],
            **fields,
        }  # fmt: skip


def _thinned(data: list[float]) -> list[float]:
    if len(data) <= MAX_SAMPLES:
        return data
    return [data[i * len(data) // MAX_SAMPLES] for i in range(MAX_SAMPLES)]


def _cpu_model() -> str:
    """What Linux calls the processor; what Python knows of it elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor()
    )


def _benchmarks(config: pytest.Config) -> list[tuple[str, dict[str, Any]]]:
    """What pytest-benchmark has measured in this session; nothing when it is not installed."""
    found = getattr(getattr(config, "_benchmarksession", None), "benchmarks", None) or []
    lines = []
    for bench in found:
        data = [float(v) for v in getattr(bench.stats, "data", [])]
        if bench.has_error or not data:
            continue
        ordered = sorted(data)
        middle = ordered[(len(ordered) - 1) // 2 : len(ordered) // 2 + 1]
        lines.append((
            bench.fullname,
            {"metric": _TIME, "outcome": "ok", "value": sum(middle) / len(middle), "samples": _thinned(data),
            "count": len(data)},
        ))  # fmt: skip
    return lines
