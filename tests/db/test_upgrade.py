"""A database that the first migration made, full of rows, comes up to date with nothing lost, on both engines."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import (
    JSON,
    Boolean,
    Connection,
    DateTime,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    func,
    insert,
    inspect,
    select,
)

from groundspeed.service.db import migrate
from groundspeed.service.db.engine import Database

ROWS = 3
GONE = {"result": {"created_at"}}
"""What is told elsewhere: a result came with its run."""


@pytest.fixture
def old(database_url: str):
    db = Database(database_url)
    migrate.upgrade(db, "0001")
    yield db
    db.close()


def _value(column: Any, i: int) -> Any:
    kinds = (
        (DateTime, datetime(2026, 1, 1 + i, tzinfo=UTC)),
        (Boolean, i % 2 == 0),
        (Integer, i),
        (Float, i + 0.5),
        (LargeBinary, bytes([i]) * 20),
        (JSON, {"i": i, "text": "é"}),
    )
    return next((value for kind, value in kinds if isinstance(column.type, kind)), f"{column.name[:20]}-{i}")


def _fill(db: Database) -> dict[str, list[tuple[Any, ...]]]:
    """Some rows in every table, every column set, references to the row of the same number."""
    metadata = MetaData()
    metadata.reflect(db.engine)
    metadata.remove(metadata.tables["alembic_version"])
    with db.engine.begin() as connection:
        for table in metadata.sorted_tables:
            for i in range(1, ROWS + 1):
                row = {
                    column.name: f"id-{i}"
                    if column.primary_key and not isinstance(column.type, Integer)
                    else next(
                        (f"id-{i}" if key.column.table.name == "attempt" else i for key in column.foreign_keys), None
                    )
                    or (i if column.primary_key else _value(column, i))
                    for column in table.columns
                }
                connection.execute(insert(table).values(row))
    return {table.name: _rows(db, table) for table in metadata.sorted_tables}


def _rows(db: Database, table: Table) -> list[tuple[Any, ...]]:
    with db.engine.connect() as connection:
        return [tuple(row) for row in connection.execute(select(table).order_by(table.c.id))]


def test_an_upgrade_loses_no_row_and_no_value(old: Database) -> None:
    before = _fill(old)
    assert all(len(rows) == ROWS for rows in before.values())
    columns = {name: [c["name"] for c in inspect(old.engine).get_columns(name)] for name in before}
    gone = {name: [c in GONE.get(name, ()) for c in names] for name, names in columns.items()}
    assert migrate.check(old) == "older"
    migrate.upgrade(old)
    assert migrate.check(old) == "current"
    metadata = MetaData()
    metadata.reflect(old.engine, only=list(before))
    for name, rows in before.items():
        table = metadata.tables[name]
        with old.engine.connect() as connection:
            asked = [table.c[c] for c, left in zip(columns[name], gone[name], strict=True) if not left]
            kept = connection.execute(select(*asked).order_by(table.c.id)).all()
        wanted = [tuple(v for v, left in zip(row, gone[name], strict=True) if not left) for row in rows]
        assert [tuple(row) for row in kept] == wanted, name
        assert GONE.get(name, set()).isdisjoint(table.c.keys()), name


def test_numbering_goes_on_after_an_upgrade(old: Database) -> None:
    """A new row does not take an old one's number."""
    _fill(old)
    if not old.is_sqlite:
        with old.engine.begin() as connection:
            for name in ("regression", "result", "run", "changepoint"):
                connection.execute(select(func.setval(f"{name}_id_seq", ROWS)))
    migrate.upgrade(old)
    metadata = MetaData()
    metadata.reflect(old.engine, only=["regression"])
    table = metadata.tables["regression"]
    row = {c.name: _value(c, 9) for c in table.columns if not c.primary_key and not c.foreign_keys} | {"project_id": 1}
    with old.engine.begin() as connection:
        assert connection.execute(insert(table).values(row)).inserted_primary_key == (ROWS + 1,)


def test_references_still_hold_after_an_upgrade(old: Database) -> None:
    """On SQLite tables are made anew on the way, with the checks off: afterwards they are on again, and hold."""
    _fill(old)
    migrate.upgrade(old)
    with pytest.raises(Exception, match=r"(?i)foreign key"), old.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM revision WHERE id = 1")


def test_a_migration_that_would_break_a_reference_is_rolled_back(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(connection: Connection, *_: object) -> None:
        connection.exec_driver_sql(
            "INSERT INTO schedulefire (project_id, name, fired_at) VALUES (99, 'x', '2026-01-01')"
        )

    monkeypatch.setattr(migrate, "_bring", breaks)
    with pytest.raises(RuntimeError, match="schedulefire that refers to nothing"):
        migrate.upgrade(sqlite_database)
    with sqlite_database.engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM schedulefire").scalar() == 0
