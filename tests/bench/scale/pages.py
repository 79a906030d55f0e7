"""How long the pages' queries take at 100,000 results and at many more, and what PostgreSQL does for them."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import generate
from sqlalchemy import text

from databases import PostgresServer
from groundspeed.service.db import migrate
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases.analyse import analyse
from groundspeed.service.usecases.findings import findings
from groundspeed.service.usecases.views import findings as views_findings
from groundspeed.service.usecases.views import overview, revision, runs
from groundspeed.service.usecases.views.graph import GraphQuery, graph
from groundspeed.service.usecases.views.grid import GridQuery, grid

TURNS = 9


def main(server: PostgresServer, folder: Path, rows: int) -> None:
    out = sys.stdout.write
    projects = max(rows // generate.RESULTS, 2)
    for engine, url in (("postgresql", server.create()), ("sqlite", f"sqlite:///{folder}/big.db")):
        db = Database(url)
        migrate.upgrade(db)
        generate.grow(db, 0, 1)
        analyse(db, range(1, 13), generate.NOW)
        small = _times(db, 0)
        start = time.perf_counter()
        generate.grow(db, 1, projects)
        middle = projects // 2
        analyse(db, range(middle * generate.SERIES + 1, middle * generate.SERIES + 13), generate.NOW)
        out(f"\n{engine}: {projects * generate.RESULTS:,} results made in {time.perf_counter() - start:.0f} s\n")
        large = _times(db, middle)
        out(f"{'page':<28}{'100,000 results, ms':>20}{'all, ms':>10}{'ratio':>8}\n")
        for name, before in small.items():
            out(f"{name:<28}{1e3 * before:>20.1f}{1e3 * large[name]:>10.1f}{large[name] / before:>8.2f}\n")
        if engine == "postgresql":
            _explain(db, middle)
        db.close()


def _times(db: Database, project: int) -> dict[str, float]:
    """Median seconds of each page's query for one project; the first turn warms the cache."""
    slug, first = f"p{project}", project * generate.SERIES + 1
    run = project * generate.COMMITS * generate.SETS + 5000
    sha = f"{project * generate.COMMITS + 100:040d}"
    pages: dict[str, Callable[[], Any]] = {
        "overview": lambda: overview.overview(db, slug, generate.NOW),
        "grid": lambda: grid(db, slug, GridQuery()),
        "graph of 4 series": lambda: graph(db, slug, GraphQuery(series=tuple(range(first, first + 4)))),
        "regressions": lambda: views_findings.regression_list(db, slug),
        "commit": lambda: revision.revision_page(db, slug, sha),
        "run": lambda: runs.run_page(db, run),
        "final table": lambda: findings(db, slug),
        "detection of one series": lambda: analyse(db, [first], generate.NOW),
    }
    return {name: _median(page) for name, page in pages.items()}


def _median(page: Callable[[], Any]) -> float:
    page()
    taken = []
    for _ in range(TURNS):
        start = time.perf_counter()
        page()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


QUERIES = {
    "points of a series (charts, detection)": (
        "SELECT r.revision_id, r.environment_id, r.value, r.spread, r.state, r.run_id FROM result r "
        "WHERE r.series_id = {series} AND r.state <> 'rejected'"
    ),
    "results of a run": "SELECT * FROM result WHERE run_id = {run}",
    "failed runs of a benchmark": (
        "SELECT revision_id, outcome FROM run WHERE benchmark_id = {benchmark} AND hardware_id = 1 AND outcome != 'ok'"
    ),
    "runs of a commit": "SELECT id, outcome FROM run WHERE revision_id = {revision} AND benchmark_id = {benchmark}",
    "is this run known": (
        "SELECT id FROM run WHERE job_id = {revision} AND side = 0 AND benchmark_key = 'size=7' AND replicate = 0"
    ),
    "next step of retention": "SELECT id, created_at FROM run WHERE id > {run} ORDER BY id LIMIT 1000",
}


def _explain(db: Database, project: int) -> None:
    places = {
        "series": project * generate.SERIES + 5,
        "run": project * generate.COMMITS * generate.SETS + 5000,
        "benchmark": project + 1,
        "revision": project * generate.COMMITS + 100,
    }
    with db.engine.connect() as connection:
        for name, query in QUERIES.items():
            sys.stdout.write(f"\n-- {name}\n{query.format(**places)}\n")
            plan = connection.execute(
                text("EXPLAIN (ANALYZE, COSTS OFF, SUMMARY OFF, BUFFERS) " + query.format(**places))
            )
            sys.stdout.writelines(f"  {row[0]}\n" for row in plan)
        sizes = connection.execute(
            text(
                "SELECT coalesce(parent.relname, c.relname), sum(pg_relation_size(c.oid)), sum(pg_indexes_size(c.oid)), "
                "sum(pg_total_relation_size(c.oid)) FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid "
                "LEFT JOIN pg_class parent ON parent.oid = i.inhparent WHERE c.relkind = 'r' AND c.relnamespace = "
                "'public'::regnamespace GROUP BY 1 ORDER BY 4 DESC LIMIT 4"
            )
        )
        sys.stdout.write("\ntable: rows, indexes, all with samples out of line (MB)\n")
        for table, *amounts in sizes:
            sys.stdout.write(f"{table:<12}" + "".join(f"{float(one) / 1e6:>10.0f}" for one in amounts) + "\n")
