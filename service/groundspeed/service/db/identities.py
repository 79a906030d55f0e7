"""The table behind a model, and the ids of its new rows."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Table, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import Session, SQLModel


def insert_new(session: Session, table: type[SQLModel]) -> Any:
    """An INSERT that leaves rows alone which are there already, in the session's dialect."""
    return insert_statement(table, session.get_bind().dialect.name)


@cache
def insert_statement(table: type[SQLModel], dialect: str) -> Any:
    """An INSERT that leaves rows alone which are there already, in words of ``dialect`` (sqlite or postgresql)."""
    insert = sqlite.insert if dialect == "sqlite" else postgresql.insert
    return insert(core(table)).on_conflict_do_nothing()


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
