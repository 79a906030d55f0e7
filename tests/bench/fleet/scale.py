"""A campaign of 10,000 devices and 30 metrics: from rows of the database to the report, and its page."""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from simulate import FleetShape, Noise, simulate
from sqlalchemy import Connection

from groundspeed.service.db import migrate
from groundspeed.service.db import tables as t
from groundspeed.service.db.campaign_tables import Campaign, CampaignNode
from groundspeed.service.db.engine import Database
from groundspeed.service.pages import render
from groundspeed.service.usecases.campaigns import report, view

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SUITES = ("gemm", "memory", "collectives")


def run(noise: Noise, seed: int, nodes: int = 1250) -> None:
    shape = FleetShape(nodes=nodes, devices_per_node=8, metrics=30, broken_nodes=5)
    data, _ = simulate(np.random.default_rng(seed), shape, noise, 0.0)
    with tempfile.TemporaryDirectory(prefix="gs-fleet-") as folder:
        db = Database(f"sqlite:///{folder}/fleet.db")
        migrate.upgrade(db)
        fill(db, data.before, data.after, shape)
        before = peak_gb()
        begin, worked = time.perf_counter(), time.process_time()
        judged = report.judge(db, 1, NOW)
        assert judged is not None
        with db.transaction() as session:
            session.get_one(Campaign, 1).report = judged.report
        took, worked = time.perf_counter() - begin, time.process_time() - worked
        peak = peak_gb()
        pages = [page(db) for _ in range(7)]
        size = Path(folder, "fleet.db").stat().st_size / 1e9
        db.close()
    sys.stdout.write(
        f"\nA campaign in the database ({nodes * 8:,} devices x 30 metrics x 3 replicates x 2 sides, {size:.2f} GB): "
        f"analysed in {took:.1f} s ({worked:.1f} s of processor time), peak memory {peak:.2f} GB ({before:.2f} GB before); its page in "
        f"{statistics.median(one[0] for one in pages):.2f} s (median of {len(pages)}; "
        f"{statistics.median(one[1] for one in pages):.2f} s of processor time; longest "
        f"{max(one[0] for one in pages):.2f} s), {pages[0][2] / 1e3:.0f} kB\n"
    )


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def page(db: Database) -> tuple[float, float, int]:
    """Seconds by the clock and of the processor, and bytes, of the report page, made as the service makes it."""
    begin, worked = time.perf_counter(), time.process_time()
    text = render.render("campaign.html", view.campaign(db, "scale"), path="/campaigns/scale")
    return time.perf_counter() - begin, time.process_time() - worked, len(text.encode())


def fill(db: Database, before: np.ndarray, after: np.ndarray, shape: FleetShape) -> None:
    plan = {
        "canary": 10, "waves": [0.1, 1.0], "replicates": 3, "margin": 0.01, "margins": {}, "hold": "auto",
        "max_lost": 1, "stop_on_no_go": True, "return_s": 3600.0, "measure_s": 3600.0, "fresh_s": 0.0, "hook": "",
        "price": None, "currency": "", "note": "", "suites": [], "config": {}, "sha": "",
    }  # fmt: skip
    with db.transaction() as session:
        session.add(t.Project(id=1, slug="scale", name="scale", repo_url="/r"))
        session.add(t.Hardware(id=1, fingerprint="h", label="H200"))
        session.add(t.Environment(id=1, fingerprint="e"))
        session.flush()
        session.add(t.Revision(id=1, project_id=1, sha="a" * 40))
        session.add(t.Request(id=1, project_id=1, kind="campaign", idempotency_key="c"))
        session.add_all(
            t.Benchmark(id=i, project_id=1, suite=s, plugin=s, version="1") for i, s in enumerate(SUITES, 1)
        )
        session.flush()
        session.add_all(
            t.Series(id=m + 1, fingerprint=str(m), project_id=1, benchmark_id=1 + m % 3, hardware_id=1,
                     metric=f"time{m}", unit="s", direction=-1) for m in range(shape.metrics)
        )  # fmt: skip
        session.add_all(t.Node(id=n + 1, name=f"n{n:05}", hardware_id=1, environment_id=1) for n in range(shape.nodes))
        session.flush()
        session.add(
            Campaign(id=1, name="scale", project_id=1, revision_id=1, wanted={"gpu.driver": "580"}, plan=plan, phase=2)
        )
        session.flush()
        session.add_all(
            CampaignNode(campaign_id=1, node_id=n + 1, wave=1 if n < 10 else 2, state="measured",
                         before_environment_id=1, after_environment_id=1,
                         jobs={"before": [2 * n + 1], "after": [2 * n + 2]}) for n in range(shape.nodes)
        )  # fmt: skip
        session.flush()
        connection = session.connection()
        for table, rows in _rows(before, after, shape):
            if table is t.Result:
                _quickly(connection, rows)
            else:
                connection.execute(table.__table__.insert(), rows)


def _quickly(connection: Connection, rows: list[tuple[int, int, float]]) -> None:
    """Nearly two million rows that differ in three columns, by the driver itself."""
    connection.connection.cursor().executemany(
        "INSERT INTO result (run_id, series_id, value, revision_id, environment_id, spread, count, state)"
        " VALUES (?, ?, ?, 1, 1, 0.0, 3, 'valid')",
        rows,
    )


def _rows(before: np.ndarray, after: np.ndarray, shape: FleetShape) -> Iterator[tuple[Any, list[Any]]]:
    """Jobs, attempts, runs and results of one node after another."""
    per, run_id = shape.devices_per_node, 0
    conditions = {"device": {"power_w": {"median": 650.0, "min": 600.0, "max": 690.0}}}
    for node in range(shape.nodes):
        for side, values in enumerate((before, after)):
            job = 2 * node + 1 + side
            uuids = [f"GPU-{node}-{d}" for d in range(per)]
            spec = {"benchmarks": [{"key": f"b @gpu{d}", "devices": [uuids[d]]} for d in range(per)]}
            yield t.Job, [_plain(t.Job(id=job, request_id=1, project_id=1, key=str(job), suite="gemm", spec=spec))]
            yield t.Attempt, [_plain(t.Attempt(id=str(job), job_id=job, node_id=node + 1, number=1, expires_at=NOW))]
            runs, results = [], []
            for d in range(per):
                for replicate in range(shape.replicates):
                    run_id += 1
                    runs.append(
                        _plain(t.Run(id=run_id, job_id=job, attempt_id=str(job), side=0, benchmark_key=f"b @gpu{d}",
                                     replicate=replicate, benchmark_id=1, revision_id=1, hardware_id=1,
                                     environment_id=1, node_id=node + 1, device_uuid=uuids[d], conditions=conditions))
                    )  # fmt: skip
                    row = values[node * per + d, :, replicate]
                    results += [(run_id, m + 1, float(row[m])) for m in range(shape.metrics)]
            yield t.Run, runs
            yield t.Result, results


def _plain(row: Any) -> dict[str, Any]:
    values: dict[str, Any] = row.model_dump()
    return values
