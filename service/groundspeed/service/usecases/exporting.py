"""Take everything out again: as an asv results tree, CSV, JSON lines, Parquet, OpenMetrics, github-action-benchmark,
Atom.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Any, cast

from sqlalchemy import func, select
from sqlmodel import Session, col

from groundspeed.service.db import samples as packed
from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import (
    FAILED,
    Benchmark,
    Environment,
    Hardware,
    Project,
    Regression,
    Result,
    Revision,
    Run,
    Series,
)
from groundspeed.service.errors import Invalid, NotFound
from groundspeed.service.formats import own, writers
from groundspeed.service.formats.records import (
    Clock,
    Direction,
    Fact,
    Kind,
    Machine,
    Metric,
    Origin,
    Outcome,
    Record,
    Where,
)
from groundspeed.service.usecases import export_asv

FORMATS = ("asv", "csv", "jsonl", "parquet", "openmetrics", "github-action-benchmark", "atom")
_ROWS_AT_ONCE = 20_000
_NEWEST_REGRESSIONS = 200


def run(db: Database, project: str, form: str, out: Path | IO[str], now: datetime) -> int:
    """Write a project's results; returns how many were written.

    ``out`` is a folder for asv, a file for Parquet, a text stream or a file for the others. Raises :class:`NotFound`
    for an unknown project, :class:`Invalid` for an unknown format or an ``out`` that does not fit.
    """
    if form not in FORMATS:
        raise Invalid(f"There is no export format {form}.", f"Known are {', '.join(FORMATS)}.")
    with db.read() as session:
        found = session.scalars(select(Project).where(col(Project.slug) == project)).first()
        if found is None:
            raise NotFound(
                f"There is no project {project}.", "The first page and `groundspeed project list` show those there are."
            )
        if form in {"asv", "parquet"}:
            if not isinstance(out, Path):
                raise Invalid(f"{form} cannot be written to standard output.", "Give --out.")
            if form == "asv":
                return export_asv.write_tree(session, found, out)
            with whole(out) as part:
                return _parquet(records(session, found), part)
        if isinstance(out, Path):
            with whole(out) as part, part.open("w", encoding="utf-8") as stream:
                return _TEXT[form](session, found, stream, now)
        return _TEXT[form](session, found, out, now)


@contextmanager
def whole(out: Path) -> Iterator[Path]:
    """A file to write beside ``out`` that takes its place when it is complete: readers see the old or the new."""
    if out.exists() and not out.is_file():  # a pipe, a device
        yield out
        return
    out = out.resolve()
    part = out.with_name(f".{out.name}.part-{os.getpid()}")
    try:
        yield part
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)


def _jsonl(session: Session, project: Project, out: IO[str], now: datetime) -> int:  # noqa: ARG001 - one shape for all writers
    count = 0
    for record in records(session, project):
        out.write(own.dump(record) + "\n")
        count += 1
    return count


def _csv(session: Session, project: Project, out: IO[str], now: datetime) -> int:  # noqa: ARG001 - one shape for all writers
    count = -1
    for line in writers.csv_lines(records(session, project)):
        out.write(line + "\n")
        count += 1
    return count


def _openmetrics(session: Session, project: Project, out: IO[str], now: datetime) -> int:  # noqa: ARG001 - one shape for all writers
    count = 0
    for line in writers.openmetrics_lines(project.slug, records(session, project, newest=True)):
        out.write(line + "\n")
        count += not line.startswith("#")
    return count


def _github_action(session: Session, project: Project, out: IO[str], now: datetime) -> int:
    doc = writers.github_action((r for r in records(session, project) if r.outcome == "ok"), project.repo_url, now)
    json.dump(doc, out, ensure_ascii=False, allow_nan=False)
    out.write("\n")
    return sum(len(run["benches"]) for runs in doc["entries"].values() for run in runs)


def _atom(session: Session, project: Project, out: IO[str], now: datetime) -> int:
    query = (
        select(Regression).where(col(Regression.project_id) == project.id).order_by(col(Regression.created_at).desc())
    )
    entries = [
        writers.FeedEntry(
            f"urn:groundspeed:{project.slug}:regression:{r.id}", r.title or f"{r.kind} {r.id}", r.updated_at,
            f"{r.kind}, {r.state}, caused by {r.cause}. {r.note}".strip(), r.link,
        )
        for r in session.scalars(query.limit(_NEWEST_REGRESSIONS))
    ]  # fmt: skip
    out.write(writers.atom(f"{project.name}: changes of performance", f"urn:groundspeed:{project.slug}", entries, now))
    return len(entries)


_TEXT: dict[str, Callable[[Session, Project, IO[str], datetime], int]] = {
    "jsonl": _jsonl, "csv": _csv, "openmetrics": _openmetrics, "github-action-benchmark": _github_action, "atom": _atom,
}  # fmt: skip


def records(session: Session, project: Project, *, newest: bool = False) -> Iterator[Record]:
    """All results of a project in the neutral form, streamed in the order of their arrival; failures too.

    ``newest``: of every series only the last result on the branch.
    """
    origins = _Origins(session)
    query = (
        select(Result, Run, Series, Benchmark)
        .join(Run, col(Run.id) == col(Result.run_id))
        .join(Series, col(Series.id) == col(Result.series_id))
        .join(Benchmark, col(Benchmark.id) == col(Series.benchmark_id))
        .where(col(Series.project_id) == project.id)
        .order_by(col(Result.id))
        .execution_options(yield_per=_ROWS_AT_ONCE)
    )
    if newest:
        last = (
            select(col(Result.series_id), func.max(col(Revision.position)).label("position"))
            .join(Revision, col(Revision.id) == col(Result.revision_id))
            .where(col(Revision.project_id) == project.id)
            .group_by(col(Result.series_id))
            .subquery()
        )
        query = query.join(Revision, col(Revision.id) == col(Result.revision_id)).join(
            last, (last.c.series_id == col(Result.series_id)) & (last.c.position == col(Revision.position))
        )
    for result, run_, series, benchmark in session.execute(query).tuples():
        yield _record(result, run_, series, benchmark, origins.of(run_))
    if not newest:
        yield from _failures(session, project, origins)


def _record(result: Result, run_: Run, series: Series, benchmark: Benchmark, origin: Origin) -> Record:
    metric = Metric(
        series.metric, series.unit, cast("Direction", series.direction), cast("Kind", series.kind), cast("Clock",
        series.clock),
        series.gate,
    )  # fmt: skip
    raw = packed.unpack(result.samples)[0] if result.samples else []
    return Record(
        origin, benchmark.suite, metric, _where(run_), result.value, dict(series.params), tuple(raw), result.spread,
        result.count, benchmark.version, cast("Outcome", run_.outcome),
    )  # fmt: skip


def _where(run_: Run) -> Where:
    return Where(f"run {run_.id}")


def _failures(session: Session, project: Project, origins: _Origins) -> Iterator[Record]:
    """Runs that ended without any number."""
    query = (
        select(Run, Benchmark)
        .join(Benchmark, col(Benchmark.id) == col(Run.benchmark_id))
        .where(col(Benchmark.project_id) == project.id, FAILED)
        .where(~select(col(Result.id)).where(col(Result.run_id) == col(Run.id)).exists())
        .order_by(col(Run.id))
        .execution_options(yield_per=_ROWS_AT_ONCE)
    )
    nothing = Metric("outcome", "1", 0, "counter", gate=False)
    for run_, benchmark in session.execute(query).tuples():
        yield Record(
            origins.of(run_), benchmark.suite, nothing, _where(run_), params=dict(run_.params),
            version=benchmark.version,
            outcome=cast("Outcome", run_.outcome), reason=str(run_.evidence.get("message", "")),
        )  # fmt: skip


class _Origins:
    """Commit, machine and environment of runs, each read once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._made: dict[tuple[Any, ...], Origin] = {}

    def of(self, run_: Run) -> Origin:
        key = (run_.revision_id, run_.hardware_id, run_.environment_id, run_.started_at)
        if key not in self._made:
            if len(self._made) > _ROWS_AT_ONCE:
                self._made.clear()
            self._made[key] = self._make(run_)
        return self._made[key]

    def _make(self, run_: Run) -> Origin:
        revision = self._session.get_one(Revision, run_.revision_id)
        hardware = self._session.get_one(Hardware, run_.hardware_id)
        environment = self._session.get_one(Environment, run_.environment_id)
        facts = hardware.facts
        return Origin(
            tool="groundspeed", commit=revision.sha, committed_at=revision.committed_at, measured_at=run_.started_at,
            title=revision.title, author=revision.author,
            machine=Machine(
                name=str(facts.get("machine", "")), identity="machine" in facts, cpu_model=str(facts.get("cpu_model",
                "")),
                cpu_count=int(facts.get("cpu_count", 0)), memory_bytes=int(facts.get("memory_bytes", 0)),
                gpu_model=str(facts.get("gpu_model", "")), gpu_count=int(facts.get("gpu_count", 0)),
                topology=str(facts.get("topology", "")),
                facts=tuple(sorted((str(k), str(v)) for k, v in dict(facts.get("facts") or {}).items())),
            ),
            environment=tuple(Fact(f["layer"], f["name"],
            str(f["value"])) for f in environment.facets if f.get("value") is not None),
        )  # fmt: skip


def _parquet(rows: Iterator[Record], out: Path) -> int:
    """One row a record. Raises :class:`Invalid` when pyarrow is missing."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise Invalid("Parquet needs pyarrow.", 'Install it: pip install "groundspeed[parquet]".') from None
    schema = pa.schema([
        *((name, pa.string()) for name in ("benchmark", "version", "params", "metric", "unit", "kind", "outcome",
        "commit", "machine")),
        ("direction", pa.int8()), ("value", pa.float64()), ("spread", pa.float64()), ("count", pa.int64()),
        ("samples", pa.list_(pa.float64())), ("committed_at", pa.timestamp("us", tz="UTC")), ("measured_at",
        pa.timestamp("us", tz="UTC")),
    ])  # fmt: skip
    count = 0
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        batch: list[dict[str, Any]] = []
        for record in rows:
            batch.append(_parquet_row(record))
            count += 1
            if len(batch) >= _ROWS_AT_ONCE:
                writer.write_table(pa.Table.from_pylist(batch, schema))
                batch = []
        writer.write_table(pa.Table.from_pylist(batch, schema))
    return count


def _parquet_row(record: Record) -> dict[str, Any]:
    origin = record.origin
    return {
        "benchmark": record.benchmark, "version": record.version, "params": json.dumps(dict(record.params),
        sort_keys=True),
        "metric": record.metric.name, "unit": record.metric.unit, "kind": record.metric.kind, "outcome": record.outcome,
        "commit": origin.commit, "machine": origin.machine.name or origin.machine.gpu_model or origin.machine.cpu_model,
        "direction": record.metric.direction, "value": record.value, "spread": record.spread, "count": record.count,
        "samples": list(record.samples), "committed_at": origin.committed_at, "measured_at": origin.measured_at,
    }  # fmt: skip
