"""Brings a database to the tables that this code expects, and says in words when it cannot.

The schema's version is the Alembic revision in ``alembic_version``. An upgrade is one transaction under a lock: two
processes that start together upgrade once, and one that dies half-way leaves the database as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError
from sqlmodel import SQLModel

from groundspeed.service.db.engine import Database
from groundspeed.service.errors import Conflict, Unavailable

if TYPE_CHECKING:  # it takes a while to load, and only a database that is not current needs it
    from alembic.config import Config

FOLDER = Path(__file__).parent / "migrations"
SCRIPT = FOLDER / "sqlite.sql"
"""What migrations make of an empty SQLite file, which is made at once from this. Where it lacks the latest of them,
they follow.
"""
Standing = Literal["empty", "older", "current"]

_LOCK = 0x6773_6D69_6772
"""Key of PostgreSQL's advisory lock: any number that nobody else uses."""


def upgrade(db: Database, to: str = "head") -> None:
    """Create or upgrade the tables; nothing happens when they are current.

    Raises ``Conflict`` when the database was written by a newer Groundspeed, ``Unavailable`` when it is not there.
    """
    with exclusively(db) as connection:
        _bring(connection, _standing(connection), to)


def _bring(connection: Connection, standing: Standing, to: str) -> None:
    if to in {"head", newest()} and standing == "current":
        return
    if to == "head" and standing == "empty" and connection.dialect.name == "sqlite":
        for statement in SCRIPT.read_text("utf-8").split(";\n"):
            if statement.strip():
                connection.exec_driver_sql(statement)
        if _version(connection) == newest():
            return
    from alembic import command

    command.upgrade(_config(connection), to)


def script(db: Database) -> str:
    """What makes this SQLite database's tables and indexes, empty, with its version."""
    with db.engine.connect() as connection:
        kept = connection.exec_driver_sql(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"
        ).scalars()
        version = f"INSERT INTO alembic_version (version_num) VALUES ('{_version(connection)}')"  # noqa: S608 - our own
        return "".join(f"{statement};\n" for statement in (*kept, version))


def check(db: Database) -> Standing:
    """Where the database stands against this code. Raises as ``upgrade`` does; changes nothing."""
    try:
        with db.engine.connect() as connection:
            return _standing(connection)
    except DBAPIError as error:
        raise _unreachable(db, error) from error


def require_current(db: Database) -> None:
    """For processes that must not upgrade by themselves: raises ``Conflict`` unless the tables are current."""
    if check(db) != "current":
        raise Conflict(
            f"The database {_shown(db)} is older than this Groundspeed.",
            "Run `groundspeed db upgrade` once (`groundspeed up` does it by itself), then start this process again.",
        )


def version(db: Database) -> str | None:
    """The schema's version; None for a database without our tables."""
    with db.engine.connect() as connection:
        return _version(connection)


def newest() -> str:
    """The schema's version that this code expects."""
    return max(versions())


def versions() -> set[str]:
    """Every version of the schema that this code can upgrade from: the names of migrations' files begin with it."""
    return {path.name.partition("_")[0] for path in (FOLDER / "versions").glob("[0-9]*_*.py")}


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return found


def differences(db: Database) -> list[object]:
    """What the models say and the database does not; empty when they agree."""
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    with db.engine.connect() as connection:
        options = {"compare_type": True, "include_object": is_ours}
        return list(compare_metadata(MigrationContext.configure(connection, opts=options), SQLModel.metadata))


def is_ours(_item: object, name: str | None, kind: str, reflected: bool, _compare_to: object) -> bool:
    """For Alembic: partitions of a table, which no model has, are PostgreSQL's own affair."""
    return not (kind == "table" and reflected and name is not None and name not in SQLModel.metadata.tables)


def _standing(connection: Connection) -> Standing:
    found = _version(connection)
    if found is None:
        if "project" in inspect(connection).get_table_names():
            raise Conflict(
                f"The database {_shown_url(connection)} has tables but no version, so nobody can say how old they are.",
                "Name another database, or restore a backup that `groundspeed db backup` made.",
            )
        return "empty"
    if found not in versions():
        raise Conflict(
            f"The database {_shown_url(connection)} (version {found}) was written by a newer Groundspeed; "
            f"this one knows versions up to {newest()}.",
            "Install the newer Groundspeed again, or restore the backup that was made before the upgrade.",
        )
    return "current" if found == newest() else "older"


@contextmanager
def exclusively(db: Database) -> Iterator[Connection]:
    """One transaction under the lock that every change of the schema takes; references are checked at its end."""
    try:
        with db.engine.connect() as connection:
            transaction = _exclusive_sqlite(connection) if db.is_sqlite else _exclusive_postgres(connection)
            with transaction:
                yield connection
    except DBAPIError as error:
        raise _unreachable(db, error) from error


@contextmanager
def _exclusive_postgres(connection: Connection) -> Iterator[None]:
    with connection.begin():
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        yield


@contextmanager
def _exclusive_sqlite(connection: Connection) -> Iterator[None]:
    """SQLite alters a table by making another in its place: references are checked at the end, not on the way."""
    raw: Any = connection.connection.dbapi_connection
    raw.execute("PRAGMA foreign_keys=OFF")
    try:
        with connection.execution_options(groundspeed_begin="IMMEDIATE").begin():
            yield
            broken = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
            if broken is not None:
                raise RuntimeError(f"the migration would leave a row of {broken[0]} that refers to nothing")
    finally:
        raw.execute("PRAGMA foreign_keys=ON")


def _config(connection: Connection) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _unreachable(db: Database, error: DBAPIError) -> Unavailable:
    return Unavailable(
        f"The database {_shown(db)} cannot be used: {str(error.orig).strip()}.",
        "Check that it runs, that its address is right and that this user may write to it, then try again.",
    )


def _shown(db: Database) -> str:
    return db.engine.url.render_as_string(hide_password=True)


def _shown_url(connection: Connection) -> str:
    return connection.engine.url.render_as_string(hide_password=True)
