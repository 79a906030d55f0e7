"""Connections that the server has dropped meanwhile, and transactions that fill an empty SQLite file."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from groundspeed.service.db import postgres
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import LONG_PAGE, Database


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
    monkeypatch.setattr(postgres, "RESTED_S", 0.0)
    dropped(postgres_database)
    assert one(postgres_database) == 1


def test_one_that_was_used_a_moment_ago_costs_one_error_at_most(
    postgres_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "RESTED_S", 3600.0)
    dropped(postgres_database)
    with pytest.raises(OperationalError):
        one(postgres_database)
    assert one(postgres_database) == 1


COMMITS = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000)
INSERT INTO revision (project_id, sha, parents, author, authored_at, committed_at, title, tags)
SELECT 1, i, '[]', '', '2026-01-01', '2026-01-01', hex(zeroblob(250)), '[]' FROM n
"""


def fill(db: Database, then: signal.Signals | None = None) -> str:
    """Two megabytes of commits in one transaction; returns how the file was kept whole meanwhile."""
    with db.first_of_many(into_nothing=True) as session:
        (how,) = session.execute(text("PRAGMA journal_mode")).one()
        session.execute(text("PRAGMA cache_size = 10"))
        session.add(t.Project(id=1, slug="p", name="p", repo_url=""))
        session.flush()
        session.execute(text(COMMITS))
        if then is not None:
            os.kill(os.getpid(), then)
    return str(how)


def standing(db: Database) -> tuple[int, str, str, int]:
    with db.read() as session:
        asked = (
            "SELECT count(*) FROM revision",
            *(f"PRAGMA {w}" for w in ("journal_mode", "quick_check", "synchronous")),
        )
        count, mode, check, synchronous = (session.execute(text(one)).scalar_one() for one in asked)
        return count, mode, check, synchronous


def test_whoever_fills_a_file_and_is_killed_leaves_it_as_it_was(sqlite_database: Database) -> None:
    path = Path(str(sqlite_database.engine.url.database))
    with sqlite_database.first_of_many(into_nothing=True) as session:
        assert session.execute(text("PRAGMA page_size")).scalar_one() == 4096
    with sqlite_database.first_of_many(into_nothing=True, large=True) as session:
        assert session.execute(text("PRAGMA page_size")).scalar_one() == LONG_PAGE
    sqlite_database.close()
    before = path.stat().st_size
    child = multiprocessing.get_context("fork").Process(target=fill, args=(sqlite_database, signal.SIGKILL))
    child.start()
    child.join(240)
    assert child.exitcode == -signal.SIGKILL
    assert path.stat().st_size > before + 1_000_000, "most of it was in the file already"
    assert standing(sqlite_database) == (0, "wal", "ok", 1)
    assert path.stat().st_size == before
    assert fill(sqlite_database) == "delete"
    assert standing(sqlite_database) == (4000, "wal", "ok", 1)


def test_a_file_that_others_have_open_is_filled_beside_them(sqlite_database: Database) -> None:
    path = str(sqlite_database.engine.url.database)
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT count(*) FROM revision").fetchone() == (0,)
        assert fill(sqlite_database) == "wal"
        assert other.execute("SELECT count(*) FROM revision").fetchone() == (4000,)
    assert standing(sqlite_database) == (4000, "wal", "ok", 1)
