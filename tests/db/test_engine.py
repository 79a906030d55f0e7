"""Connections that the server has dropped meanwhile."""

from __future__ import annotations

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from groundspeed.service.db import engine
from groundspeed.service.db.engine import Database


def dropped(db: Database) -> None:
    """The server ends the pool's resting connections, as its restart would."""
    with db.engine.connect() as one, db.engine.connect() as other:
        pids = [connection.execute(text("SELECT pg_backend_pid()")).scalar_one() for connection in (one, other)]
    outside = Database(db.url)
    with outside.engine.connect() as connection:
        for pid in pids:
            connection.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})
    outside.close()


def one(db: Database) -> int:
    with db.transaction() as session:
        return int(session.execute(text("SELECT 1")).scalar_one())


def test_a_connection_that_has_rested_is_tried_before_it_is_used(
    postgres_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "RESTED_S", 0.0)
    dropped(postgres_database)
    assert one(postgres_database) == 1


def test_one_that_was_used_a_moment_ago_costs_one_error_at_most(
    postgres_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "RESTED_S", 3600.0)
    dropped(postgres_database)
    with pytest.raises(OperationalError):
        one(postgres_database)
    assert one(postgres_database) == 1
