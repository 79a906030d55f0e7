"""A project as an asv results tree, so that ``asv publish``, ``asv show`` and ``asv compare`` work on it.

What came from asv goes back as it was: every file with its head, its parameters as asv wrote them, its statistics.
Groundspeed's own results become benchmarks named "suite.metric"; their parameters are the axes.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db import samples as packed
from groundspeed.service.db.tables import (
    Benchmark,
    Environment,
    Hardware,
    Job,
    Project,
    Request,
    Result,
    Revision,
    Run,
    Series,
)
from groundspeed.service.formats import asv

_COLUMNS = (
    "result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b", "stats_q_25",
    "stats_q_75",
    "stats_number", "stats_repeat", "samples", "profile",
)  # fmt: skip
_TYPES = {"time": ("time", "seconds"), "bytes": ("peakmemory", "bytes")}
_FILE_PARTS = 128


def write_tree(session: Session, project: Project, out: Path) -> int:
    """Write the tree below ``out``; returns how many values it holds."""
    request = session.scalars(
        select(Request).where(col(Request.project_id) == project.id, col(Request.kind) == "import")
    ).first()
    payload = dict(request.payload) if request else {}
    described: dict[str, Any] = dict(payload.get("asv", {}))
    exporter = _Imported(session, described.get("benchmarks", {}), payload.get("axes", {}), out)
    for machine, facts in described.get("machines", {}).items():
        _write(out / _file_name(machine) / "machine.json", {**facts, "version": 1}, indent=4)
    jobs = (
        select(col(Job.id))
        .where(col(Job.project_id) == project.id, col(Job.suite) == "import.asv")
        .order_by(col(Job.id))
    )
    for job_id in session.scalars(jobs).all():
        exporter.job(session.get_one(Job, job_id))
        session.expunge_all()
    benchmarks = {
        name: {"code": "", **facts}
        for name, facts in described.get("benchmarks", {}).items()
        if isinstance(facts, dict)
    }
    native = _Native(session, project, out)
    count = exporter.count + native.write()
    _write(out / "benchmarks.json", {**benchmarks, **native.benchmarks, "version": 2}, indent=4)
    return count


class _Imported:
    """Jobs that came from asv results files, one file each."""

    def __init__(self, session: Session, described: Mapping[str, Any], axes: Mapping[str, Any], out: Path) -> None:
        self._session = session
        self._described = described
        self._axes = axes
        self._out = out
        self._index: dict[tuple[int, str, int], int] = {}
        self._points: dict[tuple[str, str], dict[str, int]] = {}
        self.count = 0

    def job(self, job: Job) -> None:
        head = dict(dict(job.spec.get("import", {})).get("head", {}))
        if not head:
            return
        runs = self._session.execute(
            select(Run, Benchmark).join(Benchmark,
            col(Benchmark.id) == col(Run.benchmark_id)).where(col(Run.job_id) == job.id).order_by(col(Run.id))
        ).tuples().all()  # fmt: skip
        results = self._results(job)
        revision = self._session.get_one(Revision, runs[0][0].revision_id) if runs else None
        rows: dict[str, list[Any]] = {}
        for run, benchmark in runs:
            if "asv" in run.facts:
                rows[benchmark.suite] = self._row(run, benchmark, results.get(run.id or 0, []))
        for run, benchmark in runs:
            if "asv" not in run.facts and benchmark.suite not in rows:
                rows[benchmark.suite] = [
                    None,
                    self._described.get(benchmark.suite, {}).get("params", []),
                    benchmark.version,
                ]
        machine = str(dict(head.get("params", {})).get("machine", "unknown"))
        commit = revision.sha if revision else head.get("commit_hash", "")
        name = f"{commit[:8]}-{_environment_name(head)}.json"
        data = {
            "commit_hash": commit, "env_name": head.get("env_name") or _environment_name(head),
            "date": head.get("date"),
            "params": head.get("params", {}), "python": head.get("python", ""),
            "requirements": head.get("requirements", {}),
            "env_vars": head.get("env_vars", {}), "result_columns": list(_COLUMNS), "results": rows,
            "durations": head.get("durations", {}), "version": asv.NEWEST_VERSION,
        }  # fmt: skip
        path = self._out / _file_name(machine) / name
        if path.exists():
            before = json.loads(path.read_text())
            data["results"] = {**before["results"], **rows}
        _write(path, data)

    def _results(self, job: Job) -> dict[int, list[tuple[Result, Series]]]:
        query = (
            select(Result, Series)
            .join(Run, col(Run.id) == col(Result.run_id))
            .join(Series, col(Series.id) == col(Result.series_id))
            .where(col(Run.job_id) == job.id)
        )
        found: dict[int, list[tuple[Result, Series]]] = {}
        for result, series in self._session.execute(query).tuples():
            found.setdefault(result.run_id, []).append((result, series))
        return found

    def _row(self, run: Run, benchmark: Benchmark, results: Sequence[tuple[Result, Series]]) -> list[Any]:
        facts: dict[str, Any] = run.facts["asv"]
        axes: list[list[str]] = self._axes[benchmark.suite][facts["axes"]] if "axes" in facts else []
        size = math.prod(len(a) for a in axes)
        values: list[float | None] = [None] * size
        samples: list[list[float] | None] = [None] * size
        for result, series in results:
            at = self._place(benchmark.suite, facts.get("axes", -1), axes, series)
            values[at] = result.value
            samples[at] = packed.unpack(result.samples)[0] if result.samples else None
            self.count += 1
        for at in facts.get("skipped", []):
            values[at] = math.nan
        stats: dict[str, Any] = facts.get("stats", {})
        row = [
            values, axes, benchmark.version, int(run.started_at.timestamp() * 1000),
            _five_digits(run.duration_s) or None,
            *([_five_digits(v) for v in stats[key]] if key in stats else None for key in asv.STATISTICS),
            samples if any(samples) else None,
        ]  # fmt: skip
        while row and row[-1] is None:
            row.pop()
        return row

    def _place(self, name: str, index: int, axes: Sequence[Sequence[str]], series: Series) -> int:
        """Where among the points of the axes a series stands."""
        key = (series.id or 0, name, index)
        if key not in self._index:
            points = self._points.get((name, str(index)))
            if points is None:
                values = [[asv.param_value(v) for v in a] for a in axes]
                if any(len({(type(v), v) for v in a}) != len(a) for a in values):
                    values = [list(a) for a in axes]
                points = {_canonical(p): i for i, p in enumerate(itertools.product(*values))}
                self._points[name, str(index)] = points
            self._index[key] = points[_canonical(series.params.values())]
        return self._index[key]


def _five_digits(value: Any) -> Any:
    """As asv writes statistics; files of its first version hold more digits."""
    return float(f"{value:.5g}") if isinstance(value, float) else value


def _canonical(values: Iterable[Any]) -> str:
    return json.dumps([[type(v).__name__, str(v)] for v in values])


class _Native:
    """Results that Groundspeed or another tool made."""

    def __init__(self, session: Session, project: Project, out: Path) -> None:
        self._session = session
        self._project = project
        self._out = out
        self.benchmarks: dict[str, dict[str, Any]] = {}

    def write(self) -> int:
        families = self._families()
        files: dict[tuple[int, int, int], dict[str, dict[int, list[Result]]]] = {}
        places: dict[int, tuple[str, int]] = {}
        for name, lines in families.items():
            self.benchmarks[name] = _describe(name, lines)
            for series in lines:
                places[series.id or 0] = (name, _point_of(series, self.benchmarks[name]))
        query = (
            select(Result, Series)
            .join(Series, col(Series.id) == col(Result.series_id))
            .where(col(Series.project_id) == self._project.id, col(Result.state) != "rejected")
            .order_by(col(Result.id))
        )
        count = 0
        for result, series in self._session.execute(query.execution_options(yield_per=10_000)).tuples():
            if (series.id or 0) in places:
                name, at = places[series.id or 0]
                key = (result.revision_id, result.environment_id, series.hardware_id)
                files.setdefault(key, {}).setdefault(name, {}).setdefault(at, []).append(result)
                count += 1
        for (revision, environment, hardware), rows in files.items():
            self._file(revision, environment, hardware, rows)
        return count

    def _families(self) -> dict[str, list[Series]]:
        """Series by the name of the benchmark that asv will see."""
        query = (
            select(Series, Benchmark)
            .join(Benchmark, col(Benchmark.id) == col(Series.benchmark_id))
            .where(col(Series.project_id) == self._project.id, col(Benchmark.plugin) != "import.asv")
            .order_by(col(Series.id))
        )
        families: dict[str, list[Series]] = {}
        for series, benchmark in self._session.execute(query).tuples():
            prefix = {"time": "time", "bytes": "peakmem"}.get(series.kind, "track")
            version = "" if benchmark.version == "1" else f"_v{benchmark.version}"
            keys = "_".join(sorted(series.params))
            name = f"{_identifier(benchmark.suite)}.{prefix}_{_identifier(series.metric + version)}"
            known = families.setdefault(name, [])
            if known and sorted(known[0].params) != sorted(series.params):
                known = families.setdefault(f"{name}_by_{_identifier(keys)}", [])
            known.append(series)
        return families

    def _file(
        self, revision_id: int, environment_id: int, hardware_id: int, rows: Mapping[str, dict[int, list[Result]]]
    ) -> None:
        revision = self._session.get_one(Revision, revision_id)
        hardware = self._session.get_one(Hardware, hardware_id)
        environment = self._session.get_one(Environment, environment_id)
        machine = _file_name(str(hardware.facts.get("machine") or hardware.label or "machine"))
        facts = {
            "machine": machine, "cpu": str(hardware.facts.get("cpu_model", "")),
            "num_cpu": str(hardware.facts.get("cpu_count", "")),
            "ram": str(int(hardware.facts.get("memory_bytes", 0) or 0) // 1024), "os": "", "arch": "",
        }  # fmt: skip
        _write(self._out / machine / "machine.json", {**facts, "version": 1}, indent=4)
        python = next((str(f["value"]) for f in environment.facets if f["name"] == "python"), "")
        name = f"env-{environment.fingerprint[:12]}"
        results = {}
        for benchmark, points in rows.items():
            described = self.benchmarks[benchmark]
            size = math.prod(len(a) for a in described["params"])
            values = [median(r.value for r in points[i]) if i in points else None for i in range(size)]
            low, high = ([_bound(points.get(i, []), sign) for i in range(size)] for sign in (-1, 1))
            repeats = [sum(r.count for r in points[i]) if i in points else None for i in range(size)]
            started = int(revision.committed_at.timestamp() * 1000)
            ones = [None if v is None else 1 for v in values]
            results[benchmark] = [
                values, described["params"], described["version"], started, None, low, high, low, high, ones, repeats,
            ]  # fmt: skip
        data = {
            "commit_hash": revision.sha, "env_name": name, "date": int(revision.committed_at.timestamp() * 1000),
            "params": {**facts, "python": python}, "python": python, "requirements": {}, "env_vars": {},
            "result_columns": list(_COLUMNS), "results": results, "durations": {}, "version": asv.NEWEST_VERSION,
        }  # fmt: skip
        _write(self._out / machine / f"{revision.sha[:8]}-{name}.json", data)


def _bound(results: Sequence[Result], sign: int) -> float | None:
    if not results:
        return None
    centre = median(r.value for r in results)
    return centre + sign * (median(r.spread for r in results) or abs(centre) * 1e-9)


def _describe(name: str, lines: Sequence[Series]) -> dict[str, Any]:
    names = sorted(lines[0].params)
    axes = [_ordered({s.params[n] for s in lines}) for n in names]
    kind, unit = _TYPES.get(lines[0].kind, ("track", lines[0].unit or "unit"))
    content = json.dumps([name, lines[0].unit, lines[0].metric])
    return {
        "name": name, "code": "", "type": kind, "unit": unit, "param_names": names,
        "params": [[repr(v) for v in a] for a in axes],
        "timeout": 60.0, "version": hashlib.sha256(content.encode()).hexdigest(),
    }  # fmt: skip


def _ordered(values: set[Any]) -> list[Any]:
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=lambda v: (type(v).__name__, str(v)))


def _point_of(series: Series, described: Mapping[str, Any]) -> int:
    at = 0
    for name, axis in zip(described["param_names"], described["params"], strict=True):
        at = at * len(axis) + axis.index(repr(series.params[name]))
    return at


def _identifier(text: str) -> str:
    return re.sub(r"\W+", "_", text).strip("_") or "x"


def _environment_name(head: Mapping[str, Any]) -> str:
    """The name of the environment as asv makes it; a digest when it is too long for a file."""
    name = str(head.get("env_name") or "")
    if not name:
        requirements = dict(head.get("requirements") or {})
        name = "-".join([f"py{head.get('python', '')}", *(f"{k}{v or ''}" for k, v in sorted(requirements.items()))])
    name = re.sub(r'[<>:"/\\^|?*\x00-\x1f]', "_", name)
    return f"env-{hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()}" if len(name) >= _FILE_PARTS else name


def _file_name(text: str) -> str:
    """A folder's name that cannot lead out of the tree."""
    return re.sub(r'[<>:"/\\^|?*\x00-\x1f]', "_", text).strip(". ") or "machine"


def _write(path: Path, data: Any, indent: int | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=indent), encoding="utf-8")
