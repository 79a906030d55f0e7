"""What writing foreign results needs of the tables: rows in bulk, versions linked, parameters made storable."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from math import isfinite
from typing import Any

from sqlalchemy import func, select, text, update
from sqlmodel import Session, SQLModel, col

from groundspeed.service.db.bulk import told
from groundspeed.service.db.identities import core
from groundspeed.service.db.tables import Benchmark, Result, Revision, Run
from groundspeed.service.db.types import clean_text
from groundspeed.service.formats.digests import digest as digest_of
from groundspeed.service.formats.records import Scalar

PLUGIN_PREFIX = "import."
"""Benchmarks that came from elsewhere: no worker offers such a plugin."""
FILLED_KB = 16_384
"""What rows that come behind one another want of SQLite's pages in memory."""
SORTED_KB = 4096
"""How much of an index is sorted at a time: what fits beside the processor is sorted fast. (A thread that sorts while
SQLite reads on takes twice the processor time of both for the same wall time.)"""
ROWS_AT_ONCE = 100
"""In one statement of SQLite: what surrounds a statement costs as much as writing a row."""
_ROWS_TAKEN = 1000
"""From the rows that are given, at a time: a multiple of that."""


def link_versions(session: Session, project_id: int) -> int:
    """A later version of a benchmark points to the one before it, by their first results; returns how many now do."""
    named = select(col(Benchmark.suite), col(Benchmark.plugin))
    named = named.where(col(Benchmark.project_id) == project_id, col(Benchmark.plugin).startswith(PLUGIN_PREFIX))
    several = named.group_by(col(Benchmark.suite), col(Benchmark.plugin)).having(func.count() > 1)
    if session.execute(several.limit(1)).first() is None:
        return 0  # what follows reads every run of the project
    first = (
        select(col(Run.benchmark_id), func.min(col(Revision.committed_at)).label("at"))
        .join(Revision, col(Revision.id) == col(Run.revision_id))
        .where(col(Revision.project_id) == project_id)
        .group_by(col(Run.benchmark_id))
        .subquery()
    )
    query = (
        select(Benchmark, first.c.at)
        .join(first, first.c.benchmark_id == col(Benchmark.id))
        .where(col(Benchmark.plugin).startswith(PLUGIN_PREFIX))
        .order_by(col(Benchmark.suite), col(Benchmark.plugin), first.c.at, col(Benchmark.id))
    )
    before: Benchmark | None = None
    linked = 0
    for benchmark, _ in session.execute(query).tuples().all():
        if before and (before.suite, before.plugin) == (benchmark.suite, benchmark.plugin):  # noqa: SIM102 - the outer says which, the inner whether
            if benchmark.previous_id != before.id:
                session.execute(
                    update(Benchmark).where(col(Benchmark.id) == benchmark.id).values(previous_id=before.id)
                )
                linked += 1
        before = benchmark
    return linked


def tune(session: Session) -> None:
    """The indexes over millions of rows want more of SQLite's pages in memory than a connection keeps by itself. On
    PostgreSQL nothing waits for the disk before the import's last transaction, which waits for all.
    """
    if session.get_bind().dialect.name == "sqlite":
        session.execute(text("PRAGMA cache_size = -65536"))
    else:
        session.execute(text("SET LOCAL synchronous_commit = off"))


def is_empty(session: Session) -> bool:
    """Whether the store holds no results yet."""
    return session.execute(select(col(Run.id)).limit(1)).first() is None


@contextmanager
def without_index(session: Session) -> Iterator[bool]:
    """Sets the indexes of runs and results aside for a transaction that fills an empty SQLite store; gives whether it
    did.

    What defines them is part of the transaction: whoever cuts the import finds indexes and store as they were.
    """
    connection = session.connection()
    if connection.dialect.name != "sqlite" or not is_empty(session):
        yield False
        return
    indexes = [index for table in (Run, Result) for index in core(table).indexes]
    for index in indexes:
        index.drop(connection, checkfirst=True)
    (kept,) = connection.exec_driver_sql("PRAGMA cache_size").one()
    try:
        connection.exec_driver_sql(f"PRAGMA cache_size = -{FILLED_KB}")
        yield True
        connection.exec_driver_sql(f"PRAGMA cache_size = -{SORTED_KB}")
        for index in indexes:
            index.create(connection)
    finally:  # the connection goes on in others' hands
        connection.exec_driver_sql(f"PRAGMA cache_size = {kept}")


Same = Mapping[str, str | int | None]
"""Columns whose value is the same in all rows: our own words and numbers, never a stranger's."""


def bulk_insert(
    session: Session,
    table: type[SQLModel],
    columns: Sequence[str],
    rows: Iterable[tuple[Any, ...]],
    same: Same | None = None,
) -> None:
    """Many rows in the driver's own fastest way: executemany on SQLite, COPY on PostgreSQL."""
    if session.connection().dialect.name == "sqlite":
        left = iter(rows)
        flat = (list(chain.from_iterable(some)) for some in iter(lambda: list(islice(left, _ROWS_TAKEN)), []))
        _insert_flat(session, table, columns, flat, same or {})
    else:
        _copy(session, table, columns, rows, same or {})


def bulk_insert_columns(
    session: Session,
    table: type[SQLModel],
    columns: Sequence[str],
    blocks: Iterable[Sequence[Sequence[Any]]],
    same: Same | None = None,
) -> None:
    """The same for blocks of rows that are given as columns of one length."""
    if session.connection().dialect.name == "sqlite":
        _insert_flat(session, table, columns, map(_by_row, blocks), same or {})
    else:
        _copy(session, table, columns, chain.from_iterable(zip(*block, strict=True) for block in blocks), same or {})


def _by_row(block: Sequence[Sequence[Any]]) -> list[Any]:
    """All values of the rows, one row after the other."""
    width = len(block)
    flat: list[Any] = [None] * (width * len(block[0]))
    for i, column in enumerate(block):
        flat[i::width] = column
    return flat


def _insert_flat(
    session: Session, table: type[SQLModel], columns: Sequence[str], blocks: Iterable[list[Any]], same: Same
) -> None:
    connection = session.connection()
    names = ", ".join(f'"{c}"' for c in (*columns, *same))
    marks = ", ".join(["?"] * len(columns) + [_literal(value) for value in same.values()])
    # FAIL: SQLite need not be able to undo a statement, for which it would copy every page that the statement changes.
    # Whoever fails here gives up the transaction. While references are checked it copies all the same.
    insert = f'INSERT OR FAIL INTO "{core(table).name}" ({names}) VALUES '  # noqa: S608 - names are our own
    at_once = 1 if connection.exec_driver_sql("PRAGMA foreign_keys").scalar() else ROWS_AT_ONCE
    size, rest = len(columns) * at_once, list[Any]()

    def together() -> Iterator[list[Any]]:
        for block in blocks:
            rest.extend(block)
            whole = len(rest) - len(rest) % size
            yield from (rest[start : start + size] for start in range(0, whole, size))
            del rest[:whole]

    cursor: Any = connection.connection.cursor()
    try:
        cursor.executemany(insert + ", ".join([f"({marks})"] * at_once), together())
        last = (rest[start : start + len(columns)] for start in range(0, len(rest), len(columns)))
        cursor.executemany(f"{insert}({marks})", last)
    except sqlite3.Error as error:
        raise told(error, names, sqlite3.Error) from error
    finally:
        cursor.close()


def _copy(
    session: Session, table: type[SQLModel], columns: Sequence[str], rows: Iterable[tuple[Any, ...]], same: Same
) -> None:
    names = ", ".join(f'"{c}"' for c in (*columns, *same))
    constants = tuple(same.values())
    connection = session.connection()
    cursor: Any = connection.connection.cursor()
    try:
        with cursor.copy(f'COPY "{core(table).name}" ({names}) FROM STDIN') as copy:
            for row in rows:
                copy.write_row(row + constants)
    except connection.dialect.loaded_dbapi.Error as error:
        raise told(error, names, connection.dialect.loaded_dbapi.Error) from error
    finally:
        cursor.close()


def _literal(value: str | int | None) -> str:
    if value is None:
        return "NULL"
    return str(int(value)) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def storable(params: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Parameters that JSON and both databases hold: numbers that are none, and huge integers, become text."""
    kept: dict[str, Scalar] = {}
    for name, value in params.items():
        if isinstance(value, str):
            kept[clean_text(name)] = clean_text(value)
        elif isinstance(value, float) and not isfinite(value):
            kept[clean_text(name)] = str(value)
        elif isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
            kept[clean_text(name)] = f"{value:e}" if value.bit_length() < 1000 else "a very large number"
        else:
            kept[clean_text(name)] = value
    return kept


def short(text_: str, limit: int) -> str:
    """The text, or its beginning and a digest when it is longer than ``limit``."""
    return text_ if len(text_) <= limit else f"{text_[: limit - 12]}…{digest_of(text_.encode('utf-8', 'replace'))}"


def readable(params: Mapping[str, Scalar]) -> str:
    return ",".join(f"{name}={value}" for name, value in params.items())[:150]
