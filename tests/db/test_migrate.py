"""The tables come from migrations, on both engines, and a database that does not fit is refused in words."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import zipfile
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text
from sqlalchemy.exc import StatementError
from sqlmodel import SQLModel, select

from groundspeed.service.db import migrate
from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import AuditEntry, Project
from groundspeed.service.errors import Conflict, Unavailable


@pytest.fixture
def empty(database_url: str):
    db = Database(database_url)
    yield db
    db.close()


def test_upgrade_makes_every_table_and_a_second_one_changes_nothing(empty: Database) -> None:
    assert migrate.check(empty) == "empty"
    migrate.upgrade(empty)
    assert set(SQLModel.metadata.tables) <= set(inspect(empty.engine).get_table_names())
    assert migrate.check(empty) == "current"
    before = migrate.version(empty)
    migrate.upgrade(empty)
    assert migrate.version(empty) == before


def test_models_and_migrations_agree(database: Database) -> None:
    assert migrate.differences(database) == []


def test_versions_are_those_of_the_migrations(tmp_path: Path) -> None:
    config = Config()
    config.set_main_option("script_location", str(migrate.FOLDER))
    known = ScriptDirectory.from_config(config)
    assert migrate.newest() == known.get_current_head()
    assert migrate.versions() == {one.revision for one in known.walk_revisions()}


def plain(script: str) -> list[tuple[list[str], list[str]]]:
    """Each statement's lines, columns in their order; migrations put constraints in any."""
    made = []
    for statement in script.split(";\n"):
        lines = [line.strip().rstrip(", ") for line in statement.splitlines()]
        constraints = [line for line in lines if line.startswith(("CONSTRAINT", "FOREIGN", "UNIQUE"))]
        made.append(([line for line in lines if line not in constraints], sorted(constraints)))
    return sorted(made)


def test_an_empty_file_is_given_what_the_migrations_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = migrate.SCRIPT.read_text("utf-8")
    (version,) = re.findall(r"alembic_version \(version_num\) VALUES \('(\d+)'\)", kept)
    one, other = (Database(f"sqlite:///{tmp_path}/{name}.db") for name in ("step-by-step", "at-once"))
    migrate.upgrade(one, version)
    wrong = f"{migrate.SCRIPT} differs: write what migrate.script says of a database that migrations made"
    assert plain(migrate.script(one)) == plain(kept), wrong
    migrate.upgrade(one)
    migrate.upgrade(other)
    assert plain(migrate.script(other)) == plain(migrate.script(one))

    late = Database(f"sqlite:///{tmp_path}/late.db")  # a script that lacks the last migrations is no harm
    before = Database(f"sqlite:///{tmp_path}/before.db")
    migrate.upgrade(before, "0017")
    (tmp_path / "old.sql").write_text(migrate.script(before))
    monkeypatch.setattr(migrate, "SCRIPT", tmp_path / "old.sql")
    migrate.upgrade(late)
    assert plain(migrate.script(late)) == plain(migrate.script(one))
    for db in (one, other, late, before):
        db.close()


def test_a_missing_column_is_a_difference(sqlite_database: Database) -> None:
    """The comparison that the test above relies on can fail."""
    with sqlite_database.engine.begin() as connection:
        connection.execute(text("ALTER TABLE project DROP COLUMN config_error"))
    assert "config_error" in str(migrate.differences(sqlite_database))


def test_a_database_of_a_newer_groundspeed_is_refused(database: Database) -> None:
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for action in (migrate.check, migrate.upgrade, migrate.require_current):
        with pytest.raises(Conflict, match=r"9999.*newer Groundspeed.*restore the backup"):
            action(database)


def test_tables_without_a_version_are_refused(sqlite_database: Database) -> None:
    with sqlite_database.engine.begin() as connection:
        connection.execute(text("DROP TABLE alembic_version"))
    with pytest.raises(Conflict, match="no version"):
        migrate.upgrade(sqlite_database)


def test_an_empty_database_is_not_current(empty: Database) -> None:
    with pytest.raises(Conflict, match="groundspeed db upgrade"):
        migrate.require_current(empty)


def test_an_unreachable_database_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    for url in (f"sqlite:///{tmp_path}/no/such/folder/x.db", f"postgresql+psycopg://me:secret@/x?host={tmp_path}"):
        db = Database(url)
        with pytest.raises(Unavailable, match="try again") as caught:
            migrate.upgrade(db)
        assert "secret" not in str(caught.value)
        db.close()


def test_processes_that_start_together_upgrade_once(database_url: str) -> None:
    errors: list[BaseException] = []

    def start() -> None:
        db = Database(database_url)
        try:
            migrate.upgrade(db)
        except BaseException as error:  # noqa: BLE001 - shown by the assertion below
            errors.append(error)
        finally:
            db.close()

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    db = Database(database_url)
    assert migrate.check(db) == "current"
    db.close()


def test_an_upgrade_that_fails_half_way_leaves_nothing(empty: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables and version are one transaction, on SQLite too."""
    original = migrate._bring

    def dies(connection, standing, to) -> None:
        original(connection, standing, to)
        raise RuntimeError("power cut")

    monkeypatch.setattr(migrate, "_bring", dies)
    with pytest.raises(RuntimeError, match="power cut"):
        migrate.upgrade(empty)
    assert inspect(empty.engine).get_table_names() == []


def test_times_come_back_aware_and_in_utc(database: Database) -> None:
    at = datetime(2026, 3, 1, 12, 0, tzinfo=timezone(timedelta(hours=5)))
    with database.transaction() as session:
        session.add(Project(slug="p", name="p", repo_url="r", polled_at=at))
    with database.read() as session:
        project = session.exec(select(Project)).one()
    assert project.polled_at == at
    assert project.polled_at.tzinfo == UTC


def test_a_naive_time_is_refused(database: Database) -> None:
    with database.read() as session:
        session.add(Project(slug="p", name="p", repo_url="r", polled_at=datetime(2026, 1, 1)))  # noqa: DTZ001
        with pytest.raises(StatementError, match="without time zone"):
            session.flush()


def test_text_of_strange_programs_is_storable(database: Database) -> None:
    """NUL, NaN and half characters neither fail nor vanish without a trace."""
    with database.transaction() as session:
        data = {"out\x00": ["a\x00b", float("nan"), "\ud800x", {"y": float("inf")}], "ok": "\\u0000 é"}
        session.add(AuditEntry(actor="a\x00", action="b", subject_type="c", subject_id="d", data=data))
    with database.read() as session:
        entry = session.exec(select(AuditEntry)).one()
    assert entry.data["ok"] == "\\u0000 é"
    assert entry.data["out\ufffd"] == ["a\ufffdb", None, "?x", {"y": None}]


def test_a_transaction_that_raises_leaves_nothing(database: Database) -> None:
    def fails() -> None:
        with database.transaction() as session:
            session.add(Project(slug="p", name="p", repo_url="r"))
            session.flush()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    with database.read() as session:
        assert session.exec(select(Project)).all() == []


def test_a_read_is_a_snapshot(database: Database) -> None:
    with database.read() as reading:
        assert reading.exec(select(Project)).all() == []
        with database.transaction() as session:
            session.add(Project(slug="p", name="p", repo_url="r"))
        assert reading.exec(select(Project)).all() == []


def test_writers_wait_for_one_another(database: Database) -> None:
    """Read, add one, write: nothing is lost, on SQLite because a transaction takes the write lock at its start."""
    with database.transaction() as session:
        session.add(Project(slug="p", name="p", repo_url="r", poll_interval_s=0))

    def add() -> None:
        for _ in range(10):
            with database.transaction() as session:
                project = session.exec(select(Project).with_for_update()).one()
                project.poll_interval_s += 1

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.read() as session:
        assert session.exec(select(Project.poll_interval_s)).one() == 40


@pytest.mark.long
def test_migrations_are_in_the_wheel(root: Path, tmp_path: Path) -> None:
    """An installed Groundspeed finds its migrations without the checkout."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(root)]
    subprocess.run(command, check=True, capture_output=True)
    wheel = next(tmp_path.glob("*.whl"))
    names = zipfile.ZipFile(wheel).namelist()
    folder = "groundspeed/service/db/migrations"
    for path in (*migrate.FOLDER.rglob("*.py"), migrate.SCRIPT):
        assert f"{folder}/{path.relative_to(migrate.FOLDER)}" in names
