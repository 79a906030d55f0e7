"""Rows that exist once for their content: found, or made without a race."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, bindparam, tuple_
from sqlmodel import Session, SQLModel, select

from groundspeed.service.db.bulk import insert_rows
from groundspeed.service.db.identities import core, insert_new, insert_statement

Row = Mapping[str, Any]
Key = tuple[Any, ...]


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
    columns = tuple(rows[0])
    values = [tuple(row[name] for name in columns) for row in rows]
    return insert_rows(connection, table, columns, values, new_only=True, returning=("id", *key))


@cache
def _returning(table: type[SQLModel], dialect: str) -> Any:
    return insert_statement(table, dialect).returning(core(table).c.id)


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
