"""How long the pages' queries take at 100,000 results and at many more, and what PostgreSQL does for them."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import generate
import psycopg
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

TURNS = 21
TARGET = 2.0


def main(server: PostgresServer, folder: Path, rows: int) -> None:
    """Both sizes stand side by side and take turns, so that whatever else the machine does falls on both."""
    projects = max(rows // generate.RESULTS, 2)
    for engine in ("postgresql", "sqlite"):
        small, large = (_made(engine, server, folder, size) for size in (1, projects))
        _say(
            f"\n{'page, ' + engine:<28}{'100,000 results, ms':>20}{f'{projects * generate.RESULTS:,}, ms':>16}{'ratio':>8}"
        )
        for name, (before, after) in _compare(_pages(small, 0), _pages(large, projects // 2)).items():
            over = "" if after <= TARGET * before else f"  over the target of {TARGET:g}"
            _say(f"{name:<28}{1e3 * before:>20.1f}{1e3 * after:>16.1f}{after / before:>8.2f}{over}")
        if engine == "postgresql":
            _explain(large, projects // 2)
        small.close()
        large.close()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _made(engine: str, server: PostgresServer, folder: Path, projects: int) -> Database:
    """A database of so many projects; what an earlier run has left in ``folder`` is used and completed."""
    name = f"pages_{projects}"
    if engine == "postgresql":
        with suppress(psycopg.errors.DuplicateDatabase):
            server.execute(f"CREATE DATABASE {name}")
    db = Database(server.url(name) if engine == "postgresql" else f"sqlite:///{folder}/{name}.db")
    migrate.upgrade(db)
    with db.engine.connect() as connection:
        there = int(connection.execute(text("SELECT count(*) FROM project")).scalar_one())
    start = time.perf_counter()
    generate.grow(db, there, projects)
    seen = projects // 2
    analyse(db, range(seen * generate.SERIES + 1, seen * generate.SERIES + 13), generate.NOW)
    made = (projects - there) * generate.RESULTS
    _say(f"{engine}: {made:,} of {projects * generate.RESULTS:,} results made in {time.perf_counter() - start:.0f} s")
    return db


def _pages(db: Database, project: int) -> dict[str, Callable[[], Any]]:
    """What each page asks for one project."""
    slug, first = f"p{project}", project * generate.SERIES + 1
    run = project * generate.COMMITS * generate.SETS + 5000
    sha = f"{project * generate.COMMITS + 100:040d}"
    return {
        "overview": lambda: overview.overview(db, slug, generate.NOW),
        "grid": lambda: grid(db, slug, GridQuery()),
        "graph of 4 series": lambda: graph(db, slug, GraphQuery(series=tuple(range(first, first + 4)))),
        "regressions": lambda: views_findings.regression_list(db, slug),
        "commit": lambda: revision.revision_page(db, slug, sha),
        "run": lambda: runs.run_page(db, run),
        "final table": lambda: findings(db, slug),
        "detection of one series": lambda: analyse(db, [first], generate.NOW),
    }


def _compare(
    small: dict[str, Callable[[], Any]], large: dict[str, Callable[[], Any]]
) -> dict[str, tuple[float, float]]:
    """Median seconds of each page on both; the first turn warms the caches and does not count."""
    found = {}
    for name, pages in ((name, (small[name], large[name])) for name in small):
        taken: list[tuple[float, ...]] = [tuple(_seconds(page) for page in pages) for _ in range(TURNS + 1)]
        before, after = zip(*taken[1:], strict=True)
        found[name] = statistics.median(before), statistics.median(after)
    return found


def _seconds(page: Callable[[], Any]) -> float:
    start = time.perf_counter()
    page()
    return time.perf_counter() - start


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
