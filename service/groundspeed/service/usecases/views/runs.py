"""One process in full: its samples, its conditions over time, its evidence, and how to repeat it."""

from __future__ import annotations

import json
import math
import shlex
import zlib
from collections.abc import Mapping
from typing import Any

from sqlmodel import Session

from groundspeed.service.db import reads, reads_series, reads_work, samples
from groundspeed.service.db.engine import Database
from groundspeed.service.errors import NotFound
from groundspeed.service.usecases.views import refs
from groundspeed.service.wire import views as v

MAX_SAMPLES = 5000
MAX_INFLATED = 64 << 20
_UNITS = {"mhz": "MHz", "c": "°C", "w": "W", "percent": "%", "utilisation": "%", "bytes": "B", "ratio": ""}
_FIRST = ("sm_mhz", "power_w", "temperature_c", "memory_mhz", "utilisation", "memory_used_bytes")
"""Traces in the order in which one looks at them; others follow."""


def run_row(run: Any, suite: str, node: str, names: refs.Names) -> v.RunRow:
    """One process in one line."""
    return v.RunRow(
        id=run.id,
        job=run.job_id,
        benchmark=suite,
        key=run.benchmark_key,
        side=run.side,
        replicate=run.replicate,
        outcome=run.outcome,
        summary=summary(run.evidence),
        node=node,
        duration_s=run.duration_s,
        started_at=run.started_at,
        revision=names.known_revision(run.revision_id),
    )


def artefact(row: Any) -> v.ArtefactView:
    """A file of an attempt."""
    return v.ArtefactView(
        id=row.id,
        attempt=row.attempt_id,
        sha256=row.sha256,
        kind=row.kind,
        name=row.name,
        size_bytes=row.size_bytes,
        stored=row.stored,
    )


def summary(evidence: Mapping[str, Any]) -> str:
    """The first line of what a failed run left, at most 300 characters."""
    for key in ("error", "reason", "message", "detail", "stderr", "traceback"):
        text = evidence.get(key)
        if isinstance(text, str) and text.strip():
            return text.strip().splitlines()[0][:300]
    return ""


def run_page(db: Database, id_: int) -> v.RunPage:
    """Raises NotFound for an unknown run."""
    with db.read() as session:
        found = reads_work.run(session, id_)
        if found is None:
            raise NotFound(f"There is no run {id_}.", "Runs are listed with their jobs, under Runs.")
        run, suite, node = found
        names = refs.Names(session, [run.revision_id], [run.environment_id])
        results = reads_work.results_of_run(session, id_)
        series = {row.id: row for row in reads_series.series_rows(session, [r.series_id for r in results])}
        job = reads_work.job(session, run.job_id)
        project = reads.project_by_id(session, job.project_id) if job is not None else None
        environment = reads.environments_by_id(session, [run.environment_id])[run.environment_id]
        build = reads_work.build_snapshot(session, run.build_id)
        benchmark = reads_work.benchmark(session, run.benchmark_id)
        artefacts = [a for a in reads_work.artefacts_of_attempts(session, [run.attempt_id]) if a.run_id in {None, id_}]
        return v.RunPage(
            project=refs.project_ref(project),
            run=run_row(run, suite, node, names),
            job=run.job_id,
            attempt=run.attempt_id,
            plugin=benchmark.plugin,
            params=run.params,
            environment=refs.environment_ref(environment),
            facets=tuple(environment.facets),
            build=tuple(build.facets) if build is not None else (),
            device=run.device_uuid or "",
            hardware=_hardware(session, run.hardware_id),
            evidence=run.evidence,
            conditions=run.conditions,
            facts=run.facts,
            phases_s=run.phases_s,
            samples=tuple(_samples(r, series[r.series_id]) for r in results),
            traces=tuple(traces(run.trace)),
            artefacts=tuple(artefact(a) for a in artefacts),
            repeat=_repeat(
                benchmark, run, job.spec if job is not None else {}, names.known_revision(run.revision_id).sha
            ),
        )


def _hardware(session: Session, id_: int) -> str:
    return reads_work.hardware_by_id(session, [id_])[id_].label


def _samples(result: Any, series: Any) -> v.SampleSet:
    values, states = samples.unpack(result.samples) if result.samples else ([], [])
    return v.SampleSet(
        series=refs.series_ref(series),
        value=result.value,
        spread=result.spread,
        state=result.state,
        values=tuple(refs.finite(x) for x in values[:MAX_SAMPLES]),
        states=tuple(states[:MAX_SAMPLES]),
    )


def _repeat(benchmark: Any, run: Any, spec: Mapping[str, Any], sha: str) -> str:
    """The command that starts the same process again, in a checkout of the project with its environment active."""
    build = spec.get("build") or {}
    listed: list[dict[str, Any]] = list(spec.get("benchmarks") or ())
    mine = next((b for b in listed if b.get("key") == run.benchmark_key), {})
    child = {
        "plugin": benchmark.plugin,
        "params": run.params,
        "target": benchmark.target,
        "paths": list(build.get("paths") or (".",)),
        "workdir": ".",
        "limits": mine.get("limits") or {},
        "report_path": "report.json",
        "progress_path": "/dev/null",
    }
    start = f"echo {shlex.quote(json.dumps(child, separators=(',', ':')))} | python -m groundspeed.plugins.child"
    return f"git checkout {shlex.quote(sha)}\n{start}"


def traces(blob: bytes | None) -> list[v.Trace]:
    """Conditions over time. Stored as zlib of JSON: columns by name, with ``t`` (seconds from the start) among them."""
    if not blob:
        return []
    try:
        data = json.loads(zlib.decompressobj().decompress(blob, MAX_INFLATED))
    except (zlib.error, ValueError):
        return []
    if isinstance(data, list):
        data = _columns(data)
    if not isinstance(data, dict):
        return []
    times = _numbers(data.get("t") or data.get("t_s") or ())
    out = []
    for name, column in data.items():
        if name in {"t", "t_s"} or not isinstance(column, list):
            continue
        y = _numbers(column)
        if name in {"foreign", "reasons"} and not any(y):
            continue  # nothing to see: no other process, no reason to slow down
        if any(value is not None for value in y) and len(y) == len(times):
            unit = _UNITS.get(str(name).rsplit("_", 1)[-1], "")
            out.append(v.Trace(name=str(name), unit=unit, t=times, y=y))
    return sorted(out, key=lambda trace: _FIRST.index(trace.name) if trace.name in _FIRST else len(_FIRST))


def _columns(rows: list[Any]) -> dict[str, list[Any]]:
    """Columns of a list of samples."""
    dicts = [row for row in rows if isinstance(row, dict)]
    names = dict.fromkeys(name for row in dicts for name in row)
    return {name: [row.get(name) for row in dicts] for name in names}


def _numbers(column: Any) -> tuple[float | None, ...]:
    return tuple(
        float(x) if isinstance(x, (int, float)) and not isinstance(x, bool) and math.isfinite(x) else None
        for x in column
    )
