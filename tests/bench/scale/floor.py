"""The floor of ingest: a bare FastAPI route that reads the same message and does one Core insert of the same rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime

from fastapi import FastAPI
from sqlalchemy import Column, DateTime, Float, Integer, LargeBinary, MetaData, String, Table, insert

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
    Column("created_at", DateTime(timezone=True)),
)


def app() -> FastAPI:
    """Served by ``uvicorn --factory``; the database stands in FLOOR_DATABASE_URL."""
    db = Database(os.environ["FLOOR_DATABASE_URL"])
    TABLE.metadata.create_all(db.engine)
    made = FastAPI()
    made.post("/runs")(_route(db))
    return made


def _route(db: Database) -> Callable[[RunBatch], Ack]:
    def runs(message: RunBatch) -> Ack:
        now = datetime.now(UTC)
        rows = [
            {
                "run_id": run.key.replicate, "series_id": 1, "revision_id": 1, "environment_id": 1,
                "value": samples.values[0], "spread": 0.0, "count": len(samples.values), "state": "valid",
                "samples": pack(samples.values), "created_at": now,
            }
            for run in message.runs
            for samples in run.samples
        ]  # fmt: skip
        with db.engine.begin() as connection:
            connection.execute(insert(TABLE), rows)
        return Ack()

    return runs
