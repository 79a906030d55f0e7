"""Rows that exist once for their content: found, or made without a race."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, Table, bindparam, text, tuple_
from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import Session, SQLModel, select

Row = Mapping[str, Any]
Key = tuple[Any, ...]


def insert_new(session: Session, table: type[SQLModel]) -> Any:
    """An INSERT that leaves rows alone which are there already, in the session's dialect."""
    return _insert(table, session.get_bind().dialect.name)


@cache
def _insert(table: type[SQLModel], dialect: str) -> Any:
    insert = sqlite.insert if dialect == "sqlite" else postgresql.insert
    return insert(core(table)).on_conflict_do_nothing()


def make(session: Session, table: type[SQLModel], row: Row) -> int | None:
    """The id of a new row; None when one of its keys is there already."""
    connection = session.connection()
    if connection.dialect.name == "sqlite":
        new = _insert_there(connection, table, [row], ())
        return new[0][0] if new else None
    made: int | None = connection.execute(_returning(table, connection.dialect.name), row).scalar()
    return made


def _insert_there(connection: Connection, table: type[SQLModel], rows: Sequence[Row], key: Sequence[str]) -> list[Key]:
    """Id and key of the rows that were new, on SQLite: inside the process each statement is quick but for what
    SQLAlchemy does around it.
    """
    from groundspeed.service.db import bulk  # which stands on this module

    columns = tuple(rows[0])
    values = [tuple(row[name] for name in columns) for row in rows]
    return bulk.insert_rows(connection, table, columns, values, new_only=True, returning=("id", *key))


@cache
def _returning(table: type[SQLModel], dialect: str) -> Any:
    return _insert(table, dialect).returning(core(table).c.id)


def next_ids(session: Session, table: type[SQLModel], count: int) -> list[int]:
    """Ids for rows that are to be written in this transaction, in rising order. Nobody else gets them: the transaction
    holds SQLite's write lock, and PostgreSQL counts on.
    """
    if session.get_bind().dialect.name != "sqlite":
        drawn = text("SELECT nextval(pg_get_serial_sequence(:name, 'id')) FROM generate_series(1, :n)")
        return sorted(session.execute(drawn, {"name": f'"{core(table).name}"', "n": count}).scalars()) if count else []
    last = session.execute(text(f'SELECT coalesce(max(id), 0) FROM "{core(table).name}"')).scalar_one()  # noqa: S608 - our own names
    return list(range(last + 1, last + 1 + count))


def core(table: type[SQLModel]) -> Table:
    """The Core table behind a model."""
    found: Table = table.__table__  # type: ignore[attr-defined]
    return found


def ensure(
    session: Session, table: type[SQLModel], rows: Iterable[Row], key: Sequence[str] = ("fingerprint",)
) -> dict[Key, int]:
    """Ids by key of ``rows``, each made when it was not there. Every row needs all columns without a SQL default.

    Safe when several transactions make the same rows at once: they are inserted in the order of their key, so that
    two waiting for one another cannot be, and read again after the insert.
    """
    wanted: dict[Key, Row] = {tuple(row[name] for name in key): row for row in rows}
    if wanted and session.get_bind().dialect.name == "sqlite":
        new = _insert_there(session.connection(), table, [wanted[k] for k in sorted(wanted)], key)
        made = {tuple(row[1:]): int(row[0]) for row in new}
        return made | find(session, table, [k for k in wanted if k not in made], key)
    found = find(session, table, list(wanted), key)
    missing = [wanted[k] for k in sorted(set(wanted) - set(found))]
    if missing:
        session.execute(insert_new(session, table), [dict(row) for row in missing])
        found |= find(session, table, [k for k in wanted if k not in found], key)
    return found


def find(session: Session, table: type[SQLModel], keys: Sequence[Key], key: Sequence[str]) -> dict[Key, int]:
    """Ids by key of the rows that are there."""
    if not keys:
        return {}
    if len(keys) == 1:
        values = {f"key_{i}": value for i, value in enumerate(keys[0])}
        row = session.connection().execute(_one(table, tuple(key)), values).first()
        return {keys[0]: row[0]} if row is not None else {}
    columns = [core(table).c[name] for name in key]
    condition = columns[0].in_([k[0] for k in keys]) if len(key) == 1 else tuple_(*columns).in_(keys)
    query = select(core(table).c.id, *columns).where(condition)
    return {tuple(row[1:]): row[0] for row in session.execute(query)}


@cache
def _one(table: type[SQLModel], key: tuple[str, ...]) -> Select[int]:
    """Made once: of a single row, making the statement costs more than running it."""
    columns = core(table).c
    return select(columns.id).where(*(columns[name] == bindparam(f"key_{i}") for i, name in enumerate(key)))
