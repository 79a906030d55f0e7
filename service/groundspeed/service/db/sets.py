"""Many rows named in one statement whose text is the same however many they are, so that it is planned once.

``WHERE one_of(table.c.id, among("ids"))`` is ``= ANY (array)`` on PostgreSQL and ``IN (SELECT … json_each)`` on SQLite;
SQLAlchemy's own IN writes a marker a value, which makes another statement of each number of values.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

from sqlalchemy import BindParameter, Boolean, Dialect, Integer, Text, bindparam
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine
from sqlmodel import Session, SQLModel

from groundspeed.service.db.identities import core
from groundspeed.service.db.types import UtcDateTime


class Several(TypeDecorator[Sequence[Any]]):
    """An array where the engine has arrays, JSON where it has not."""

    impl = Text
    cache_ok = True

    def __init__(self, item: type[TypeEngine[Any]]) -> None:
        super().__init__()
        self.item = item

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(Text() if dialect.name == "sqlite" else ARRAY(self.item))

    def process_bind_param(self, value: Sequence[Any] | None, dialect: Dialect) -> Any:
        given = list(value or ())
        return json.dumps(given) if dialect.name == "sqlite" else given


def among(name: str, item: type[TypeEngine[Any]] = Integer) -> BindParameter[Sequence[Any]]:
    """A parameter that takes a sequence of values."""
    return bindparam(name, type_=Several(item))


class one_of(FunctionElement[bool]):  # noqa: N801 - reads as the function that it is in a query
    """Whether a column's value is one of the parameter's."""

    type = Boolean()
    inherit_cache = True
    name = "one_of"

    def __init__(self, column: Any, values: BindParameter[Sequence[Any]]) -> None:
        super().__init__(column, values)

    def self_group(self, against: Any = None) -> Any:  # noqa: ARG002 - the base class's signature
        """As it is: SQLite would be asked whether it is ``= 1``, which no index answers."""
        return self


@compiles(one_of)
def _with_json(element: one_of, compiler: Any, **options: Any) -> str:
    column, values = (compiler.process(clause, **options) for clause in element.clauses)
    return f"{column} IN (SELECT value FROM json_each({values}))"  # noqa: S608 - both are compiled


@compiles(one_of, "postgresql")
def _with_array(element: one_of, compiler: Any, **options: Any) -> str:
    column, values = (compiler.process(clause, **options) for clause in element.clauses)
    return f"{column} = ANY ({values})"


def update_where(
    session: Session, table: type[SQLModel], columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]], where: str
) -> list[Any]:
    """Set ``columns`` of the rows whose ``id`` comes first in each of ``rows``, where the condition holds; returns the
    ids of those that were set. Each id stands once; no column is JSON. Rows are held in the order of their ids.
    """
    if not rows:
        return []
    connection = session.connection()
    if connection.dialect.name != "sqlite":
        arrays = [list(column) for column in zip(*rows, strict=True)]
        found = connection.exec_driver_sql(_update_postgres(table, columns, where), (*arrays, arrays[0]))
        return list(found.scalars())
    statement, stamped = _update_sqlite(table, columns, where)
    cursor = connection.connection.cursor()
    try:
        ready = [[stamp(v) if t and v is not None else v for v, t in zip(row, stamped, strict=True)] for row in rows]
        return [row[0] for row in ready if cursor.execute(statement, (*row[1:], row[0])).rowcount]
    finally:
        cursor.close()


@cache
def _update_sqlite(table: type[SQLModel], columns: tuple[str, ...], where: str) -> tuple[str, tuple[bool, ...]]:
    """A statement for one row, and which of its values are times."""
    sets = ", ".join(f'"{name}" = ?' for name in columns)
    statement = f'UPDATE "{core(table).name}" SET {sets} WHERE "id" = ? AND {where}'  # noqa: S608 - names are our own
    return statement, tuple(isinstance(core(table).c[name].type, UtcDateTime) for name in ("id", *columns))


@cache
def _update_postgres(table: type[SQLModel], columns: tuple[str, ...], where: str) -> str:
    name, dialect = core(table).name, postgresql.dialect()  # type: ignore[no-untyped-call]
    kinds = {column: core(table).c[column].type.compile(dialect=dialect) for column in ("id", *columns)}
    sets = ", ".join(f'"{column}" = given."{column}"' for column in columns)
    arrays = ", ".join(f"%b::{kind}[]" for kind in kinds.values())
    held = (
        f'SELECT "id" FROM "{name}" WHERE "id" = ANY (%b::{kinds["id"]}[]) AND {where} '  # noqa: S608 - names are our own
        'ORDER BY "id" FOR NO KEY UPDATE'
    )
    given = ", ".join(f'"{column}"' for column in kinds)
    return (
        f'UPDATE "{name}" SET {sets} FROM unnest({arrays}) AS given ({given}) '  # noqa: S608 - names are our own
        f'WHERE "{name}"."id" = given."id" AND "{name}"."id" IN ({held}) RETURNING "{name}"."id"'
    )


def stamp(value: datetime) -> str:
    """As SQLAlchemy writes times to SQLite."""
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")
