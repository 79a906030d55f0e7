"""Backup and restore: every row of every table in one file that either engine reads, from this version or an older one.

The file is a ZIP: ``manifest.json`` (format, schema's version, time, rows by table) and one ``tables/NAME.jsonl`` each,
a JSON array a row, bytes in base64, times in ISO 8601. A backup is a snapshot: others go on writing meanwhile.
"""

from __future__ import annotations

import base64
import json
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from sqlalchemy import JSON, Column, Connection, DateTime, Integer, LargeBinary, MetaData, Table, func, select, text

from groundspeed.service.db import migrate
from groundspeed.service.db.engine import Database
from groundspeed.service.db.types import JsonDocument, UtcDateTime
from groundspeed.service.errors import Conflict, Invalid

FORMAT = 1
_AT_ONCE = 2000


@dataclass(frozen=True, slots=True)
class Archive:
    """What a backup holds: the schema's version, when it was made, and rows by table."""

    schema: str
    made_at: str
    rows: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.rows.values())


def backup(db: Database, path: Path, now: datetime) -> Archive:
    """Write everything to ``path``, which appears whole or not at all. Raises ``Invalid`` when it is there already."""
    migrate.require_current(db)
    if path.exists():
        raise Invalid(f"{path} is there already.", "Name another file, or move that one away first.")
    part = path.with_name(f".{path.name}.part-{os.getpid()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _snapshot(db) as connection, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as file:
            rows = {table.name: _write_table(connection, table, file) for table in _tables(connection)}
            found = Archive(migrate.version(db) or "", now.astimezone(UTC).isoformat(), rows)
            manifest = {"format": FORMAT, "schema": found.schema, "made_at": found.made_at, "rows": rows}
            file.writestr("manifest.json", json.dumps(manifest, indent=1))
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return found


def read(path: Path) -> Archive:
    """The manifest of a backup. Raises ``Invalid`` for a file that is none, or a newer one than this code knows."""
    try:
        with zipfile.ZipFile(path) as file:
            manifest = json.loads(file.read("manifest.json"))
    except FileNotFoundError:
        raise Invalid(f"There is no file {path}.", "Name a backup that `groundspeed db backup` made.") from None
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise Invalid(f"{path} is no backup: {error}.", "Name one that `groundspeed db backup` made.") from error
    if manifest.get("format", 0) > FORMAT:
        raise Invalid(
            f"{path} is a backup of format {manifest['format']}; this Groundspeed knows up to {FORMAT}.",
            "Restore it with the release that made it, or a newer one.",
        )
    return Archive(manifest["schema"], manifest["made_at"], manifest["rows"])


def restore(db: Database, path: Path) -> Archive:
    """Fill an empty database from a backup, then bring it up to date. All of it or nothing.

    Raises ``Invalid`` for a file that is no (or a newer) backup, ``Conflict`` when the database has rows.
    """
    found = read(path)
    if found.schema not in migrate.versions():
        raise Invalid(
            f"{path} was made with tables of version {found.schema}, which this Groundspeed does not know.",
            "Restore it with the release that made it, or a newer one.",
        )
    standing = migrate.check(db)
    if standing != "empty":
        _refuse_rows(db)
        with migrate.exclusively(db) as connection:
            _drop_all(connection)
    migrate.upgrade(db, found.schema)
    try:
        with migrate.exclusively(db) as connection, zipfile.ZipFile(path) as file:
            for table in _tables(connection):
                _read_table(connection, table, file, found.rows.get(table.name, 0))
    except BaseException:
        with suppress(Exception), migrate.exclusively(db) as connection:
            _drop_all(connection)
        raise
    migrate.upgrade(db)
    return found


def _refuse_rows(db: Database) -> None:
    with db.engine.connect() as connection:
        for table in _tables(connection):
            if connection.execute(select(text("1")).select_from(table).limit(1)).first() is not None:
                raise Conflict(
                    f"The database has rows already (table {table.name}).",
                    "Restore into a new one: name an empty folder with --data, or an empty database.",
                )


def _drop_all(connection: Connection) -> None:
    metadata = MetaData()
    metadata.reflect(connection)
    metadata.drop_all(connection)


def _snapshot(db: Database) -> Any:
    level = {} if db.is_sqlite else {"isolation_level": "REPEATABLE READ"}
    return db.engine.connect().execution_options(stream_results=True, **level)


def _tables(connection: Connection) -> list[Table]:
    """As they are in the database (not as this code has them), those that are referred to first."""
    metadata = MetaData()
    metadata.reflect(connection, resolve_fks=True)
    partitions = _partitions(connection)
    found = [table for table in metadata.sorted_tables if table.name != "alembic_version"]
    return [_typed(table) for table in found if table.name not in partitions]


def _partitions(connection: Connection) -> set[str]:
    if connection.dialect.name != "postgresql":
        return set()
    query = text("SELECT relname FROM pg_class WHERE relispartition")
    return set(connection.execute(query).scalars())


def _typed(table: Table) -> Table:
    """JSON and times as the rest of the code has them, whatever the engine calls them."""
    for column in table.columns:
        if isinstance(column.type, JSON):
            column.type = JsonDocument
        elif isinstance(column.type, DateTime):
            column.type = UtcDateTime()
    return table


def _write_table(connection: Connection, table: Table, file: zipfile.ZipFile) -> int:
    count = 0
    encoders = [_encoder(column) for column in table.columns]
    with file.open(f"tables/{table.name}.jsonl", "w", force_zip64=True) as out:
        out.write(json.dumps([column.name for column in table.columns]).encode() + b"\n")
        order = list(table.primary_key.columns) or list(table.columns)
        for rows in connection.execute(select(table).order_by(*order)).partitions(_AT_ONCE):
            out.write(b"".join(_line(row, encoders) for row in rows))
            count += len(rows)
    return count


def _line(row: Sequence[Any], encoders: Sequence[Callable[[Any], Any] | None]) -> bytes:
    values = [
        value if encode is None or value is None else encode(value) for value, encode in zip(row, encoders, strict=True)
    ]
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _encoder(column: Column[Any]) -> Callable[[Any], Any] | None:
    if isinstance(column.type, LargeBinary):
        return lambda value: base64.b64encode(value).decode()
    if isinstance(column.type, UtcDateTime):
        return lambda value: value.isoformat()
    return None


def _decoder(column: Column[Any]) -> Callable[[Any], Any] | None:
    if isinstance(column.type, LargeBinary):
        return base64.b64decode
    if isinstance(column.type, UtcDateTime):
        return datetime.fromisoformat
    return None


def _read_table(connection: Connection, table: Table, file: zipfile.ZipFile, expected: int) -> None:
    """Insert a table's rows; a row that refers to a later one of its own table gets the reference at the end."""
    if expected == 0:
        return
    own = [c.name for c in table.columns if any(key.column.table.name == table.name for key in c.foreign_keys)]
    later: list[dict[str, Any]] = []
    count = 0
    with file.open(f"tables/{table.name}.jsonl") as source:
        for rows in _batches(_rows(source, table)):
            for row in rows:
                kept = {name: row[name] for name in own if row[name] is not None}
                if kept:
                    later.append({"id": row["id"], **kept})
                    row.update(dict.fromkeys(kept))
            connection.execute(table.insert(), rows)
            count += len(rows)
    for row in later:
        where = table.c.id == row.pop("id")
        connection.execute(table.update().where(where).values(row))
    if count != expected:
        raise Invalid(f"The backup is damaged: {table.name} has {count} of {expected} rows.", "Use another backup.")
    _go_on_counting(connection, table)


def _rows(source: IO[bytes], table: Table) -> Iterator[dict[str, Any]]:
    names: list[str] = json.loads(source.readline())
    decoders = [_decoder(table.c[name]) for name in names]
    for line in source:
        values = json.loads(line)
        yield {
            name: value if decode is None or value is None else decode(value)
            for name, value, decode in zip(names, values, decoders, strict=True)
        }


def _batches(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == _AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _go_on_counting(connection: Connection, table: Table) -> None:
    """The next row gets a number of its own."""
    if connection.dialect.name != "postgresql" or "id" not in table.c or not isinstance(table.c.id.type, Integer):
        return
    newest = select(func.max(table.c.id)).scalar_subquery()
    sequence = func.pg_get_serial_sequence(f'"{table.name}"', "id")
    connection.execute(select(func.setval(sequence, newest)))
