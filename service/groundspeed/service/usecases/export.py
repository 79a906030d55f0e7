"""Every result as a line that other tools read: JSON lines or CSV, one process of one series a line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any, Literal

from sqlalchemy import select
from sqlmodel import col

from groundspeed.service.db import samples
from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import (
    Benchmark,
    Environment,
    Hardware,
    Node,
    Project,
    Result,
    Revision,
    Run,
    Series,
)
from groundspeed.service.errors import NotFound

COLUMNS = (
    "project", "suite", "plugin", "version", "metric", "unit", "direction", "params", "hardware", "commit", "position",
    "environment", "node", "started_at", "replicate", "value", "spread", "count", "state",
)  # fmt: skip
"""What every line has; ``samples`` (values in ``unit``) and ``states`` come after it where asked for and still kept."""


def export(
    db: Database, project: str | None = None, *, form: Literal["jsonl", "csv"] = "jsonl", raw: bool = False
) -> Iterator[str]:
    """Lines of text, read in a snapshot as they are taken; ``project`` None: all. Raises ``NotFound``."""
    with db.read() as session:
        known = select(col(Project.id)).where(col(Project.slug) == project)
        if project is not None and session.scalar(known) is None:
            raise NotFound(
                f"There is no project {project!r}.",
                "The first page and `groundspeed project list` show those there are.",
            )
        names = (*COLUMNS, "samples", "states") if raw else COLUMNS
        if form == "csv":
            yield _csv(names)
        rows = session.execute(_query(project, raw=raw), execution_options={"stream_results": True, "yield_per": 1000})
        for row in rows:
            values = list(row)
            values[13] = values[13].isoformat()
            if raw:
                values[-1:] = samples.unpack(values[-1]) if values[-1] is not None else (None, None)
            yield _csv(values) if form == "csv" else json.dumps(dict(zip(names, values, strict=True))) + "\n"


def _query(project: str | None, *, raw: bool) -> Any:
    columns = [
        col(Project.slug), col(Benchmark.suite), col(Benchmark.plugin), col(Benchmark.version), col(Series.metric),
        col(Series.unit), col(Series.direction), col(Series.params), col(Hardware.label), col(Revision.sha),
        col(Revision.position), col(Environment.fingerprint), col(Node.name), col(Run.started_at), col(Run.replicate),
        col(Result.value), col(Result.spread), col(Result.count), col(Result.state),
    ]  # fmt: skip
    query = (
        select(*columns, *([col(Result.samples)] if raw else []))
        .join(Series, col(Series.id) == col(Result.series_id))
        .join(Project, col(Project.id) == col(Series.project_id))
        .join(Benchmark, col(Benchmark.id) == col(Series.benchmark_id))
        .join(Hardware, col(Hardware.id) == col(Series.hardware_id))
        .join(Revision, col(Revision.id) == col(Result.revision_id))
        .join(Environment, col(Environment.id) == col(Result.environment_id))
        .join(Run, col(Run.id) == col(Result.run_id))
        .join(Node, col(Node.id) == col(Run.node_id))
        .order_by(col(Result.series_id), col(Result.revision_id), col(Result.run_id))
    )
    return query if project is None else query.where(col(Project.slug) == project)


def _csv(values: Any) -> str:
    out = io.StringIO()
    plain = [json.dumps(value) if isinstance(value, (dict, list)) else value for value in values]
    csv.writer(out, lineterminator="\n").writerow(plain)
    return out.getvalue()
