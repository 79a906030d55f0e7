"""A series of 5,000 points served over HTTP, beside a bare route that runs the one query and sends the rows."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import httpx
from ingest import free_port, process
from sqlalchemy import insert

from groundspeed.service.db import migrate
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.db.samples import pack
from world import NOW, World, sha

POINTS = 5000
TURNS = 100
TARGET = 2.0


@dataclass(frozen=True)
class Served:
    """Milliseconds, and the bytes of one answer."""

    name: str
    p50_ms: float
    p99_ms: float
    size: int


def measure(url: str, folder: Path) -> list[Served]:
    """Service and floor take turns, so that whatever else the machine does falls on both."""
    db = Database(url)
    migrate.upgrade(db)
    series = _fill(db)
    db.close()
    with _api(url, folder) as api, _floor(url) as floor:
        asked = {
            "the query in a bare route": f"http://127.0.0.1:{floor}/points/{series}",
            "served, all points": f"http://127.0.0.1:{api}/api/v1/projects/tiny/graph?series={series}&points={POINTS}",
            "served, as the page asks": f"http://127.0.0.1:{api}/api/v1/projects/tiny/graph?series={series}",
        }
        took: dict[str, list[float]] = {name: [] for name in asked}
        size = {}
        with httpx.Client(headers={"Accept-Encoding": "identity"}, timeout=60) as http:
            for turn in range(TURNS + 3):
                for name, address in asked.items():
                    begin = time.perf_counter()
                    reply = http.get(address)
                    seconds = time.perf_counter() - begin
                    assert reply.status_code == 200, reply.text[:300]
                    size[name] = len(reply.content)
                    if turn >= 3:
                        took[name].append(1000 * seconds)
    return [
        Served(name, statistics.median(times), sorted(times)[int(0.99 * len(times))], size[name])
        for name, times in took.items()
    ]


def _fill(db: Database) -> int:
    """One series with a result at each of 5,000 commits, and a step in the middle; its id."""
    world = World(db)
    hardware = world.all(t.Hardware)[0].id
    environment = world.add(t.Environment(fingerprint="e", label="e"))
    benchmark = world.add(t.Benchmark(project_id=world.project, suite="s", plugin="p", version="1"))
    series = world.add(
        t.Series(
            fingerprint="f", project_id=world.project, benchmark_id=benchmark, hardware_id=hardware, metric="time",
            unit="s", direction=-1, params={"size": 1}, last_result_at=NOW,
        )
    )  # fmt: skip
    job = world.add(t.Job(request_id=world.request, project_id=world.project, key="k", suite="s"))
    attempt = world.attempt(job)
    blob = pack([0.1 + 1e-5 * i for i in range(20)])
    with db.transaction() as session:
        session.execute(insert(t.Revision), [
            {"project_id": world.project, "sha": sha(f"series {i}"), "position": i, "author": "Ada Lovelace",
             "title": f"Change number {i} of a long history", "parents": [], "tags": [],
             "authored_at": NOW + timedelta(minutes=i), "committed_at": NOW + timedelta(minutes=i)}
            for i in range(POINTS)
        ])  # fmt: skip
    revisions = [row.id for row in world.all(t.Revision)]
    with db.transaction() as session:
        session.execute(insert(t.Run), [
            {"job_id": job, "attempt_id": attempt, "side": 0, "benchmark_key": "k", "replicate": i,
             "benchmark_id": benchmark, "revision_id": revision, "hardware_id": hardware, "environment_id": environment,
             "node_id": world.node, "params": {}, "evidence": {}, "conditions": {}, "facts": {}, "phases_s": {}, "started_at": NOW, "created_at": NOW}
            for i, revision in enumerate(revisions)
        ])  # fmt: skip
    runs = [row.id for row in world.all(t.Run)]
    with db.transaction() as session:
        session.execute(insert(t.Result), [
            {"run_id": run, "series_id": series, "revision_id": revision, "environment_id": environment,
             "value": 1.0 + 0.001 * (i * 7 % 11) + (0.1 if i >= POINTS // 2 else 0.0), "spread": 0.002, "count": 20,
             "samples": blob}
            for i, (run, revision) in enumerate(zip(runs, revisions, strict=True))
        ])  # fmt: skip
    with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("ANALYZE" if db.is_sqlite else "VACUUM ANALYZE")
    return int(series)


@contextmanager
def _api(url: str, folder: Path) -> Iterator[int]:
    port = free_port()
    settings = {"GROUNDSPEED_DATABASE_URL": url, "GROUNDSPEED_DATA_DIR": str(folder / "series"),
                "GROUNDSPEED_PORT": str(port), "GROUNDSPEED_LOG_LEVEL": "ERROR", "OMP_NUM_THREADS": "1"}  # fmt: skip
    with process([sys.executable, "-m", "groundspeed.service", "api"], settings, port):
        yield port


@contextmanager
def _floor(url: str) -> Iterator[int]:
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "--factory", "floor:app", "--port", str(port), "--no-access-log"]
    here = str(Path(__file__).parent)
    with process([*command, "--app-dir", here, "--log-level", "error"], os.environ | {"FLOOR_DATABASE_URL": url}, port):
        yield port
