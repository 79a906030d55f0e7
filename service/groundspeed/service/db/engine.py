"""One object that knows how to reach the database, on SQLite and PostgreSQL alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlmodel import Session


class Database:
    """Transactions over one engine.

    ``transaction`` commits when its block ends and rolls back when it raises; on SQLite it takes the write lock at
    once (BEGIN IMMEDIATE), so that two writers wait for one another instead of failing half-way.
    ``read`` is a snapshot that is never committed.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine: Engine = _make_engine(url)

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        with Session(self.engine, expire_on_commit=False) as session:
            if self.is_sqlite:
                session.connection(execution_options={"groundspeed_begin": "IMMEDIATE"})
            with session.begin() if not session.in_transaction() else _already(session):
                yield session

    @contextmanager
    def read(self) -> Iterator[Session]:
        with Session(self.engine, expire_on_commit=False) as session:
            yield session

    def close(self) -> None:
        self.engine.dispose()


@contextmanager
def _already(session: Session) -> Iterator[None]:
    try:
        yield
    except BaseException:
        session.rollback()
        raise
    session.commit()


def _make_engine(url: str) -> Engine:
    if not url.startswith("sqlite"):
        return create_engine(url, pool_pre_ping=True)
    engine = create_engine(url, connect_args={"timeout": 30.0, "check_same_thread": False})
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


def _on_connect(connection: Any, _record: Any) -> None:
    # The driver's own transaction handling would begin late and commit on DDL; we say BEGIN ourselves.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA busy_timeout=30000")
    cursor.close()


def _on_begin(connection: Any) -> None:
    mode = connection.get_execution_options().get("groundspeed_begin", "")
    connection.exec_driver_sql(f"BEGIN {mode}".strip())
