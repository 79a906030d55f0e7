"""A database of any size, made by the database itself: projects of one shape, as many as the results asked for need.

A project has 200 commits, 125 parameter sets with 4 metrics each (500 series) and so 100,000 results with samples.
"""

from __future__ import annotations

import random
import sys
from datetime import UTC, datetime

from sqlalchemy import Connection, text

from groundspeed.service.db import migrate
from groundspeed.service.db.engine import Database
from groundspeed.service.db.samples import pack

COMMITS, SETS, METRICS = 200, 125, 4
SERIES = SETS * METRICS
RESULTS = COMMITS * SERIES
NOW = datetime(2026, 3, 1, tzinfo=UTC)


AT_ONCE = 10


def grow(db: Database, first: int, last: int) -> None:
    """Add projects ``first`` to ``last`` (not included), each ``RESULTS`` results."""
    for start in range(first, last, AT_ONCE):
        _grow(db, start, min(start + AT_ONCE, last))
        sys.stderr.write(f"{db.engine.dialect.name}: {min(start + AT_ONCE, last) * RESULTS:,} results\n")
    with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("ANALYZE" if db.is_sqlite else "VACUUM ANALYZE")


def _grow(db: Database, first: int, last: int) -> None:
    values = random.Random(1).choices([0.1 + 1e-5 * i for i in range(1000)], k=20)
    blob = pack(values)
    with migrate.exclusively(db) as connection:
        if db.is_sqlite:
            connection.exec_driver_sql("PRAGMA cache_size=-400000")
        else:
            connection.exec_driver_sql("SET session_replication_role = replica")  # no check of each reference
        connection.execute(text("CREATE TEMPORARY TABLE numbers (i INTEGER PRIMARY KEY)"))
        connection.execute(text("INSERT INTO numbers VALUES (:i)"), [{"i": i} for i in range(1000)])
        if first == 0:
            _common(connection)
        for p in range(first, last):
            for statement in _PROJECT:
                connection.execute(text(_told(statement, db)), {"p": p, "now": _now(db), "blob": blob})
        connection.execute(text("DROP TABLE numbers"))
        if not db.is_sqlite:
            for table in ("project", "revision", "benchmark", "series", "request", "job", "jobside", "run", "result"):
                connection.execute(text(f"SELECT setval('{table}_id_seq', (SELECT max(id) FROM {table}))"))


def _told(statement: str, db: Database) -> str:
    return statement.replace("{json}", "TEXT" if db.is_sqlite else "JSONB")


def _now(db: Database) -> object:
    return "2026-03-01 00:00:00.000000" if db.is_sqlite else NOW


def _common(connection: Connection) -> None:
    now = "2026-03-01 00:00:00"
    for statement in (
        "INSERT INTO hardware (id, fingerprint, label, facts) VALUES (1, 'h', 'H200', '{}')",
        f"INSERT INTO environment (id, fingerprint, label, facets, created_at) VALUES (1, 'e', 'e', '[]', '{now}')",
        (
            "INSERT INTO node (id, name, state, state_reason, labels, protocol, worker_version, slots, sandbox, hardware_id, "
            "environment_id, info, registered_at, seen_at) "
            f"VALUES (1, 'n1', 'active', '', '{{}}', 1, '1', 1, '', 1, 1, '[]', '{now}', '{now}')"
        ),
    ):
        connection.exec_driver_sql(statement.replace("%", "%%"))


_C, _K, _M = f"c.i < {COMMITS}", f"k.i < {SETS}", f"m.i < {METRICS}"
_JOB = f"(:p * {COMMITS} + c.i + 1)"
_ZEROS = "0" * 40
_SHA = f"substr('{_ZEROS}' || {_JOB}, length('' || {_JOB}) + 1)"
_RUN = f"((:p * {COMMITS} + c.i) * {SETS} + k.i + 1)"
_SERIES = f"(:p * {SERIES} + k.i * {METRICS} + m.i + 1)"
_PROJECT = (
    (
        "INSERT INTO project (id, slug, name, repo_url, branch, watch, poll_interval_s, config_error, created_at) "
        "VALUES (:p + 1, 'p' || :p, 'p' || :p, 'r', 'main', FALSE, 15, '', :now)"
    ),
    (
        "INSERT INTO revision (id, project_id, sha, parents, position, author, authored_at, committed_at, title, tags) "
        f"SELECT {_JOB}, :p + 1, {_SHA}, '[]', c.i, 'Ada', :now, :now, 'Commit ' || c.i, '[]' FROM numbers c WHERE {_C}"
    ),
    "INSERT INTO benchmark (id, project_id, suite, plugin, version) VALUES (:p + 1, :p + 1, 'train', 'training', '1')",
    (
        "INSERT INTO series (id, fingerprint, project_id, benchmark_id, hardware_id, metric, unit, direction, kind, clock, "
        "gate, params, series_class, noise, detector_version, last_result_at, created_at) "
        f"SELECT {_SERIES}, 'f' || {_SERIES}, :p + 1, :p + 1, 1, 'metric' || m.i, 's', -1, 'time', 'wall', TRUE, "
        "CAST('{\"size\": ' || k.i || '}' AS {json}), 'steady', '{}', '1', :now, :now "
        f"FROM numbers k, numbers m WHERE {_K} AND {_M}"
    ),
    (
        "INSERT INTO request (id, project_id, kind, idempotency_key, state, priority, tip_sha, payload, config, budget_s, "
        "error, created_at) VALUES (:p + 1, :p + 1, 'push', 'x', 'done', 50, '', '{}', '{}', 0, '', :now)"
    ),
    (
        "INSERT INTO job (id, request_id, project_id, key, suite, reason, state, priority, requirements, spec, trust, "
        "attempts, max_attempts, error, created_at) "
        f"SELECT {_JOB}, :p + 1, :p + 1, 'k' || c.i, 'train', 'measure', 'done', 50, '{{}}', '{{}}', 'trusted', 1, 3, '', :now "
        f"FROM numbers c WHERE {_C}"
    ),
    (
        'INSERT INTO jobside (id, job_id, "index", role, revision_id) '
        f"SELECT {_JOB}, {_JOB}, 0, 'point', {_JOB} FROM numbers c WHERE {_C}"
    ),
    (
        "INSERT INTO attempt (id, job_id, node_id, number, delivery, state, phase, message, done, total, error_kind, error, "
        "claimed_at, heartbeat_at, expires_at, finished_at) "
        f"SELECT 'a-' || {_JOB}, {_JOB}, 1, 1, '', 'succeeded', '', '', 1, 1, '', '', :now, :now, :now, :now "
        f"FROM numbers c WHERE {_C}"
    ),
    (
        "INSERT INTO run (id, job_id, attempt_id, side, benchmark_key, replicate, benchmark_id, revision_id, hardware_id, "
        "environment_id, node_id, params, outcome, evidence, conditions, facts, phases_s, started_at, duration_s, created_at) "
        f"SELECT {_RUN}, {_JOB}, 'a-' || {_JOB}, 0, 'size=' || k.i, 0, :p + 1, {_JOB}, 1, 1, 1, "
        "CAST('{\"size\": ' || k.i || '}' AS {json}), "
        "CASE WHEN k.i = 7 AND c.i % 50 = 9 THEN 'oom' ELSE 'ok' END, '{}', '{\"steady\": true}', '{}', '{}', :now, 3, :now "
        f"FROM numbers c, numbers k WHERE {_C} AND {_K}"
    ),
    (
        "INSERT INTO result (id, run_id, series_id, revision_id, environment_id, value, spread, count, state, samples) "
        f"SELECT {_RUN} * {METRICS} + m.i, {_RUN}, {_SERIES}, {_JOB}, 1, "
        "1.0 + 0.001 * ((c.i * 7 + k.i * 13 + m.i) % 11) + CASE WHEN c.i >= 120 AND k.i < 3 THEN 0.2 ELSE 0 END, 0.002, 20, "
        f"'valid', :blob FROM numbers c, numbers k, numbers m WHERE {_C} AND {_K} AND {_M}"
    ),
)
