"""One object that knows how to reach the database, on SQLite and PostgreSQL alike."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlmodel import Session

from groundspeed.service.db.types import dump_json, load_json

BUSY_TIMEOUT_S = 30.0
"""How long a SQLite writer waits for another one, and who opens a file for one that fills it."""
LONG_PAGE = 16_384
"""Bytes of a page where a million rows are the first that a SQLite file gets: a tenth of their time is saved. Elsewhere
SQLite's own 4096 is better, because each commit writes whole pages.
"""
CACHE_KB = 32_768
"""How much of a SQLite file a connection may keep in memory, in KiB: SQLite's own 2 MB are less than one page reads."""


class Recent:
    """The last things that were asked for, at most ``size``."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: dict[Hashable, Any] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Any:
        """None: not here (any more)."""
        return self._kept.get(key)

    def put(self, key: Hashable, value: Any) -> None:
        with self._lock:
            self._kept[key] = value
            while len(self._kept) > self._size:
                del self._kept[next(iter(self._kept))]

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()


class Database:
    """Transactions over one engine.

    ``transaction`` commits when its block ends and rolls back when it raises; on SQLite it takes the write lock at
    once (BEGIN IMMEDIATE), so that two writers wait for one another instead of failing half-way.
    ``read`` is a snapshot that is never committed.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine: Engine = _make_engine(url)
        self.known: dict[Hashable, Any] = {}
        """Content-addressed rows seen committed in this database: they never change. See ``forget``."""
        self.recent = Recent(4096)
        """What does not change while it is of interest, such as what an attempt is for."""

    def forget(self) -> None:
        """One of the rows that were remembered has been deleted. Who is in the middle of its work keeps what it has."""
        self.known = {}
        self.recent.clear()

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        with Session(self.engine, expire_on_commit=False) as session:
            if self.is_sqlite:
                session.connection(execution_options={"groundspeed_begin": "IMMEDIATE"})
            yield session
            session.commit()

    @contextmanager
    def first_of_many(self, *, into_nothing: bool = False, large: bool = False) -> Iterator[Session]:
        """A transaction whose every row refers to rows that it has made or looked up itself, so that SQLite need not
        look for them again, which takes a third of writing many. PostgreSQL looks all the same.

        ``into_nothing``: there is next to nothing in the database yet, so that SQLite undoes the transaction by cutting
        the file off, and need not write all of it twice. It does so where nobody else has the file open; who opens it
        meanwhile waits as long as for another writer. ``large``: a file that is filled so gets long pages first.
        """
        if not self.is_sqlite:
            with self.transaction() as session:
                yield session
            return
        with self.engine.connect() as connection:
            raw: Any = connection.connection.driver_connection
            raw.execute("PRAGMA foreign_keys=OFF")
            alone = into_nothing and _write_once(raw, large=large)
            try:
                bound = connection.execution_options(groundspeed_begin="IMMEDIATE")
                with Session(bound, expire_on_commit=False) as session:
                    yield session
                    session.commit()
            finally:
                if raw.in_transaction:
                    raw.rollback()
                raw.execute("PRAGMA foreign_keys=ON")
                if alone:
                    _write_ahead(raw)

    @contextmanager
    def read(self) -> Iterator[Session]:
        with Session(self.engine, expire_on_commit=False) as session:
            if not self.is_sqlite:
                session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
            yield session

    def close(self) -> None:
        self.engine.dispose()


def _make_engine(url: str) -> Engine:
    if not url.startswith("sqlite"):
        if url.startswith("postgresql://"):  # the driver that the package depends on
            url = url.replace("postgresql://", "postgresql+psycopg://", 1)
        engine = create_engine(url, json_serializer=dump_json, json_deserializer=load_json)
        from groundspeed.service.db import postgres  # its driver takes a while to load

        postgres.prepare(engine)
        return engine
    arguments = {"timeout": BUSY_TIMEOUT_S, "check_same_thread": False}
    engine = create_engine(url, connect_args=arguments, json_serializer=dump_json, json_deserializer=load_json)
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


def _on_connect(connection: Any, _record: Any) -> None:
    # The driver's own transaction handling would begin late and commit on DDL; we say BEGIN ourselves.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={int(BUSY_TIMEOUT_S * 1000)}")
    _write_ahead(cursor)
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute(f"PRAGMA cache_size=-{CACHE_KB}")
    cursor.close()


def _write_ahead(cursor: Any) -> None:
    """SQLite does not wait for the lock that a change of the journal's mode takes: processes that open a new database
    together are to wait for the first of them.
    """
    last = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname not in {"SQLITE_BUSY", "SQLITE_LOCKED"} or time.monotonic() > last:
                raise
            time.sleep(0.02)
        else:
            cursor.execute("PRAGMA synchronous=NORMAL")
            return


def _write_once(connection: Any, *, large: bool) -> bool:
    """Have SQLite keep what a transaction changes of old pages instead of what it writes; returns whether it does."""
    try:
        (mode,) = connection.execute("PRAGMA journal_mode=DELETE").fetchone()
    except sqlite3.OperationalError:
        return False  # another connection is open
    if mode != "delete":
        return False
    connection.execute("PRAGMA synchronous=FULL")
    if large and connection.execute("PRAGMA page_size").fetchone() != (LONG_PAGE,):
        connection.execute(f"PRAGMA page_size={LONG_PAGE}")
        with suppress(sqlite3.OperationalError):  # another has opened it just now: its pages stay as they are
            connection.execute("VACUUM")  # writes it anew, which takes no time while next to nothing is there
    return True


def _on_begin(connection: Any) -> None:
    mode = connection.get_execution_options().get("groundspeed_begin", "")
    connection.exec_driver_sql(f"BEGIN {mode}".strip())
