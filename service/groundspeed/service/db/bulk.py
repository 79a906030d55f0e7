"""Many rows in one statement, in each engine's fastest way that still says which of them were new.

PostgreSQL takes one array a column and spreads them itself: the statement is the same for one row and for ten thousand,
so that it is planned once. SQLite runs one prepared statement for each row, without leaving the process. Both use the
driver's own cursor: what SQLAlchemy does around a statement costs as much as the statement.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any

from sqlalchemy import JSON, Connection
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError
from sqlmodel import Session, SQLModel

from groundspeed.service.db.identities import core
from groundspeed.service.db.types import UtcDateTime, dump_json

Row = tuple[Any, ...]
Converter = Callable[[Any], Any]
Plan = tuple[str, tuple[Converter | None, ...]]
"""A statement, and what each column's values go through."""


def insert_rows(
    session: Session | Connection,
    table: type[SQLModel],
    columns: tuple[str, ...],
    rows: Sequence[Row],
    *,
    new_only: bool = False,
    returning: tuple[str, ...] = (),
) -> list[Row]:
    """Insert ``rows``, their values in the order of ``columns``; returns ``returning`` of those that were inserted.

    ``new_only`` passes over rows that a unique constraint knows already. Every column without a default of the
    database must be given. Rows are inserted in their order.
    """
    if not rows:
        return []
    connection = session if isinstance(session, Connection) else session.connection()
    if connection.dialect.name == "sqlite":
        return _sqlite(connection, _plan_sqlite(table, columns, new_only, returning), rows, bool(returning))
    return _postgres(connection, _plan_postgres(table, columns, new_only, returning), rows, bool(returning))


def update_rows(session: Session, table: type[SQLModel], columns: tuple[str, ...], rows: Sequence[Row]) -> None:
    """Set ``columns`` of rows that are there: each of ``rows`` is an id followed by their values."""
    if not rows:
        return
    connection = session.connection()
    if connection.dialect.name == "sqlite":
        _sqlite(connection, _update_sqlite(table, columns), rows, back=False)
    else:
        _postgres(connection, _update_postgres(table, columns), rows, back=False)


@contextmanager
def pipelined(connection: Connection) -> Iterator[None]:
    """Statements of this module in the block are sent without a wait for each answer; the first that gives rows waits
    for all before it. On SQLite there is nothing to wait for. No other statement may be run in the block.
    """
    if connection.dialect.name == "sqlite":
        yield
        return
    import psycopg  # who stores in SQLite need not load it

    if not psycopg.Pipeline.is_supported():
        yield
        return
    try:
        with connection.connection.driver_connection.pipeline():  # type: ignore[union-attr]
            yield
    except psycopg.Error as error:
        raise told(error, "several statements", psycopg.Error) from error


def value_of(connection: Connection, table: type[SQLModel], column: str, id_: Any) -> Any:
    """One column of the row with this id, as the driver gives it; None where there is no such row."""
    mark = "?" if connection.dialect.name == "sqlite" else "%b"
    statement = f'SELECT "{column}" FROM "{core(table).name}" WHERE "id" = {mark}'  # noqa: S608 - names are our own
    cursor = connection.connection.cursor()
    try:
        cursor.execute(statement, (id_,))
        row = cursor.fetchone()
    except connection.dialect.loaded_dbapi.Error as error:
        raise told(error, statement, connection.dialect.loaded_dbapi.Error) from error
    finally:
        cursor.close()
    return None if row is None else row[0]


def _postgres(connection: Connection, plan: Plan, rows: Sequence[Row], back: bool) -> list[Row]:
    statement, converters = plan
    arrays = [
        [convert(value) if value is not None else None for value in column] if convert is not None else list(column)
        for convert, column in zip(converters, zip(*rows, strict=True), strict=True)
    ]
    cursor = connection.connection.cursor()
    try:
        cursor.execute(statement, arrays)
        return list(cursor.fetchall()) if back else []
    except connection.dialect.loaded_dbapi.Error as error:
        raise told(error, statement, connection.dialect.loaded_dbapi.Error) from error
    finally:
        cursor.close()


def _sqlite(connection: Connection, plan: Plan, rows: Sequence[Row], back: bool) -> list[Row]:
    statement, converters = plan
    at = [(i, convert) for i, convert in enumerate(converters) if convert is not None]
    ready = []
    for row in rows:
        values = list(row)
        for i, convert in at:
            if values[i] is not None:
                values[i] = convert(values[i])
        ready.append(values)
    cursor = connection.connection.cursor()
    found: list[Row] = []
    try:
        if back:
            for given in ready:
                found += cursor.execute(statement, given).fetchall()
        else:
            cursor.executemany(statement, ready)
    except sqlite3.Error as error:
        raise told(error, statement, sqlite3.Error) from error
    finally:
        cursor.close()
    return found


def told(error: Exception, statement: str, base: type[Exception]) -> BaseException:
    """The same as an error of SQLAlchemy, as every other statement raises it."""
    ours = DBAPIError.instance(statement, None, error, base)
    return ours if isinstance(ours, BaseException) else error


@cache
def _plan_sqlite(table: type[SQLModel], columns: tuple[str, ...], new_only: bool, returning: tuple[str, ...]) -> Plan:
    marks = ", ".join("?" * len(columns))
    statement = f"{_head(table, columns)} VALUES ({marks}){_tail(new_only, returning)}"
    return statement, _converters(table, columns)


@cache
def _update_sqlite(table: type[SQLModel], columns: tuple[str, ...]) -> Plan:
    sets = ", ".join(f'"{name}" = ?{i}' for i, name in enumerate(columns, 2))
    statement = f'UPDATE "{core(table).name}" SET {sets} WHERE "id" = ?1'  # noqa: S608 - names are our own
    return statement, _converters(table, ("id", *columns))


def _converters(table: type[SQLModel], columns: tuple[str, ...]) -> tuple[Converter | None, ...]:
    types = [core(table).c[name].type for name in columns]
    return tuple(
        _stamp if isinstance(kind, UtcDateTime) else dump_json if isinstance(kind, JSON) else None for kind in types
    )


@cache
def _plan_postgres(table: type[SQLModel], columns: tuple[str, ...], new_only: bool, returning: tuple[str, ...]) -> Plan:
    spread, given, converters = _given(table, columns)
    statement = f"{_head(table, columns)} SELECT {', '.join(spread)} FROM {given}{_tail(new_only, returning)}"  # noqa: S608 - names are our own
    return statement, converters


@cache
def _update_postgres(table: type[SQLModel], columns: tuple[str, ...]) -> Plan:
    (of, *spread), given, converters = _given(table, ("id", *columns))
    sets = ", ".join(f'"{name}" = {value}' for name, value in zip(columns, spread, strict=True))
    name = core(table).name
    statement = f'UPDATE "{name}" SET {sets} FROM {given} WHERE "{name}"."id" = {of}'  # noqa: S608 - names are our own
    return statement, converters


def _given(table: type[SQLModel], columns: tuple[str, ...]) -> tuple[list[str], str, tuple[Converter | None, ...]]:
    """Of one array a column: what each value is called, what is selected from, and what values go through."""
    types = [core(table).c[name].type for name in columns]
    is_json = [isinstance(kind, JSON) for kind in types]
    names = [f'"{name}"' for name in columns]
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    arrays = ", ".join(
        "%b::text[]" if json else f"%b::{kind.compile(dialect=dialect)}[]"
        for kind, json in zip(types, is_json, strict=True)
    )
    spread = [f"given.{name}::jsonb" if json else f"given.{name}" for name, json in zip(names, is_json, strict=True)]
    given = f"unnest({arrays}) AS given ({', '.join(names)})"
    return spread, given, tuple(dump_json if json else None for json in is_json)


def _head(table: type[SQLModel], columns: tuple[str, ...]) -> str:
    names = ", ".join(f'"{name}"' for name in columns)
    return f'INSERT INTO "{core(table).name}" ({names})'


def _tail(new_only: bool, returning: tuple[str, ...]) -> str:
    names = ", ".join(f'"{name}"' for name in returning)
    return (" ON CONFLICT DO NOTHING" if new_only else "") + (f" RETURNING {names}" if returning else "")


def _stamp(value: datetime) -> str:
    """As SQLAlchemy writes times to SQLite."""
    return _of_utc(value if value.tzinfo is UTC else value.astimezone(UTC))


@lru_cache(1024)
def _of_utc(value: datetime) -> str:
    """Many rows are of one moment."""
    return value.replace(tzinfo=None).isoformat(" ", "microseconds")
