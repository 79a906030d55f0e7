"""Floors: bare FastAPI routes. One reads the same message as ingest and does one Core insert of the same rows; the other
runs the one query that a chart of a series needs and sends its rows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from fastapi import FastAPI, Response
from sqlalchemy import Column, Float, Integer, LargeBinary, MetaData, String, Table, insert, text

from groundspeed.service.db.engine import Database
from groundspeed.service.db.samples import pack
from groundspeed.service.wire.v1 import Ack, RunBatch

TABLE = Table(
    "floor",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("run_id", Integer),
    Column("series_id", Integer),
    Column("revision_id", Integer),
    Column("environment_id", Integer),
    Column("value", Float),
    Column("spread", Float),
    Column("count", Integer),
    Column("state", String),
    Column("samples", LargeBinary),
)


def app() -> FastAPI:
    """Served by ``uvicorn --factory``; the database stands in FLOOR_DATABASE_URL."""
    db = Database(os.environ["FLOOR_DATABASE_URL"])
    TABLE.metadata.create_all(db.engine)
    made = FastAPI()
    made.post("/runs")(_route(db))
    made.get("/points/{series}")(_points(db))
    return made


_POINTS = text(
    "SELECT r.position, r.sha, r.committed_at, r.author, r.title, p.environment_id, p.value, p.spread, p.state, p.run_id "
    "FROM result p JOIN revision r ON r.id = p.revision_id WHERE p.series_id = :series AND r.position IS NOT NULL "
    "ORDER BY r.position"
)


def _points(db: Database) -> Callable[[int], Response]:
    def points(series: int) -> Response:
        with db.engine.connect() as connection:
            rows = connection.execute(_POINTS, {"series": series}).all()
        columns = [list(column) for column in zip(*rows, strict=True)]
        columns[2] = [str(at) for at in columns[2]]
        return Response(json.dumps(columns), media_type="application/json")

    return points


def _route(db: Database) -> Callable[[RunBatch], Ack]:
    def runs(message: RunBatch) -> Ack:
        rows = [
            {
                "run_id": run.key.replicate, "series_id": 1, "revision_id": 1, "environment_id": 1,
                "value": samples.values[0], "spread": 0.0, "count": len(samples.values), "state": "valid",
                "samples": pack(samples.values),
            }
            for run in message.runs
            for samples in run.samples
        ]  # fmt: skip
        with db.engine.begin() as connection:
            connection.execute(insert(TABLE), rows)
        return Ack()

    return runs
