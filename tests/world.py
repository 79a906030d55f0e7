"""A small world for tests of use cases: a project with commits, a node, jobs that are claimed, runs that are reported."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlmodel import SQLModel, select

from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases import fingerprints
from groundspeed.service.usecases.ingest import ingest_runs
from groundspeed.service.wire import v1

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HARDWARE = v1.HardwareSpec(gpu_model="H200", gpu_count=1, cpu_model="EPYC", cpu_count=32, memory_bytes=2**37)
DRIVER = v1.Facet(layer="node", name="driver", value="570.1")


def sha(text: str) -> str:
    return hashlib.sha1(text.encode()).hexdigest()


@dataclass
class World:
    """``revisions[i]`` is the id of the commit at position i."""

    db: Database
    project: int = 0
    node: int = 0
    revisions: list[int] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    request: int = 0

    def __post_init__(self) -> None:
        self.project = self.add(t.Project(slug="tiny", name="tiny", repo_url="/r"))
        hardware = self.add(
            t.Hardware(fingerprint=fingerprints.hardware(HARDWARE), label="H200", facts=HARDWARE.model_dump())
        )
        self.node = self.add(t.Node(name="n1", hardware_id=hardware))
        self.request = self.add(
            t.Request(project_id=self.project, kind="push", idempotency_key="1", state="running", config=self.config)
        )

    def add(self, row: SQLModel) -> Any:
        with self.db.transaction() as session:
            session.add(row)
        return row.id  # type: ignore[attr-defined]

    def all(self, table: type[SQLModel], *conditions: Any) -> list[Any]:
        with self.db.read() as session:
            return list(session.exec(select(table).where(*conditions).order_by(table.id)).all())  # type: ignore[attr-defined]

    def commits(self, count: int, *, on_branch: bool = True) -> list[int]:
        """More commits at the end of the branch (or beside it); their ids."""
        start = len(self.revisions)
        rows = [
            t.Revision(
                project_id=self.project,
                sha=sha(f"{on_branch}-{start + i}"),
                position=start + i if on_branch else None,
                title=f"Commit {start + i}",
                author="Ada",
                committed_at=NOW + timedelta(minutes=i),
            )
            for i in range(count)
        ]
        with self.db.transaction() as session:
            session.add_all(rows)
        made = [row.id or 0 for row in rows]
        if on_branch:
            self.revisions += made
        return made

    def job(self, revision: int | Sequence[int], keys: Sequence[str] = ("b=1",), suite: str = "train") -> int:
        """A job of one side (or of base and head) for benchmarks of the plugin ``training``."""
        sides = [revision] if isinstance(revision, int) else list(revision)
        roles = ("point",) if len(sides) == 1 else ("base", "head")
        benchmarks = [
            {"key": key, "plugin": "training", "target": "m:f", "params": _params(key), "replicates": 1} for key in keys
        ]
        job = t.Job(
            request_id=self.request, project_id=self.project, key=uuid.uuid4().hex, suite=suite,
            spec={"benchmarks": benchmarks}, state="running",
        )  # fmt: skip
        with self.db.transaction() as session:
            session.add(job)
            session.flush()
            for index, (role, one) in enumerate(zip(roles, sides, strict=True)):
                session.add(t.JobSide(job_id=job.id or 0, index=index, role=role, revision_id=one))
        return job.id or 0

    def attempt(self, job: int, number: int = 1, state: str = "running", node: int | None = None) -> str:
        return self.add(
            t.Attempt(
                id=str(uuid.uuid4()), job_id=job, node_id=node or self.node, number=number, state=state, expires_at=NOW
            )
        )

    def report(self, attempt: str, *runs: v1.RunReport, now: datetime = NOW, node: int | None = None) -> v1.RunAck:
        return ingest_runs(self.db, attempt, v1.RunBatch(runs=runs), now, node_id=node)

    def measure(self, revision: int, replicate: int = 0, suite: str = "train", **metrics: float) -> v1.RunAck:
        """One process of ``suite`` on the revision, claimed and reported; ``time=1.0`` is a metric and its value."""
        attempt = self.attempt(self.job(revision, suite=suite))
        return self.report(attempt, run(replicate=replicate, samples=[samples(m, v) for m, v in metrics.items()]))


_METRICS: dict[str, tuple[str, int, str]] = {
    "time": ("s", -1, "time"),
    "rate": ("samples/s", 1, "rate"),
    "memory": ("B", -1, "bytes"),
    "ratio": ("1", 0, "ratio"),
}


def samples(metric: str = "time", *values: float, **changes: Any) -> v1.Samples:
    unit, direction, kind = _METRICS[metric]
    base: dict[str, Any] = {
        "metric": metric,
        "unit": unit,
        "direction": direction,
        "kind": kind,
        "values": values or (1.0,),
    }
    return v1.Samples.model_validate(base | changes)


def run(key: str = "b=1", replicate: int = 0, side: int = 0, **changes: Any) -> v1.RunReport:
    base: dict[str, Any] = {
        "key": {"side": side, "benchmark": key, "replicate": replicate},
        "plugin": "training",
        "plugin_version": "1",
        "params": _params(key),
        "outcome": "ok",
        "started_at": NOW.timestamp() - 10,
        "duration_s": 3.0,
        "samples": [samples()],
        "environment": [DRIVER],
    }
    return v1.RunReport.model_validate(base | changes)


def _params(key: str) -> dict[str, Any]:
    return {name: int(value) for name, value in (part.split("=") for part in key.split(","))}
