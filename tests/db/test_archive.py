"""A backup holds every row, and either engine can be restored from it, from this version or the first."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import MetaData, select

from groundspeed.service.db import archive, migrate
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.errors import Conflict, Invalid
from groundspeed.service.usecases.analyse import analyse_dirty
from world import NOW, World, run, samples


@pytest.fixture
def target(database_url: str) -> Iterator[Database]:
    db = Database(database_url)
    yield db
    db.close()


def fill(db: Database) -> World:
    world = World(db)
    world.commits(12)
    for x, revision in enumerate(world.revisions):
        attempt = world.attempt(world.job(revision))
        trace = {"t_s": [0], "clock": [1]}
        world.report(
            attempt, run(samples=[samples("time", 1.0 if x < 6 else 2.0)], conditions={"trace": trace, "é": "ü"})
        )
    analyse_dirty(db, NOW)
    first, second = (world.add(t.Regression(project_id=world.project)) for _ in range(2))
    with db.transaction() as session:  # refers to a later row of its own table
        session.get_one(t.Regression, first).merged_into_id = second
    return world


def content(db: Database) -> dict[str, list[tuple]]:
    metadata = MetaData()
    metadata.reflect(db.engine)
    with db.engine.connect() as connection:
        return {
            table.name: [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key.columns))]
            for table in archive._tables(connection)
        }


def test_what_was_backed_up_is_restored_on_either_engine(database: Database, target: Database, tmp_path: Path) -> None:
    fill(database)
    made = archive.backup(database, tmp_path / "b.gsbackup", NOW)
    assert made.rows["result"] == 12
    archive.restore(target, tmp_path / "b.gsbackup")
    assert content(target) == content(database)
    assert migrate.check(target) == "current"
    world = World.__new__(World)
    world.db = target
    fresh = world.add(t.Project(slug="new", name="new", repo_url="r"))
    assert fresh == 2, "numbering goes on"


def test_a_backup_of_the_first_version_is_restored_and_upgraded(target: Database, tmp_path: Path) -> None:
    old = Database(f"sqlite:///{tmp_path}/old.db")
    migrate.upgrade(old, "0001")
    with old.engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO project (slug, name, repo_url, branch, watch, poll_interval_s, config_error, created_at) "
            "VALUES ('p', 'p', 'r', 'main', 1, 15, '', '2026-01-01 00:00:00.000000')"
        )
        with zipfile.ZipFile(tmp_path / "old.gsbackup", "w") as file:
            rows = {table.name: archive._write_table(connection, table, file) for table in archive._tables(connection)}
            manifest = {"format": 1, "schema": "0001", "made_at": "2026-01-01", "rows": rows}
            file.writestr("manifest.json", json.dumps(manifest))
    old.close()
    archive.restore(target, tmp_path / "old.gsbackup")
    assert migrate.check(target) == "current"
    with target.read() as session:
        assert [project.slug for project in session.execute(select(t.Project)).scalars()] == ["p"]


def test_a_database_with_rows_is_not_overwritten(database: Database, tmp_path: Path) -> None:
    world = fill(database)
    archive.backup(database, tmp_path / "b", NOW)
    with pytest.raises(Conflict, match="has rows already"):
        archive.restore(database, tmp_path / "b")
    assert len(world.all(t.Result)) == 12


def test_a_migrated_but_empty_database_is_filled(database: Database, sqlite_database: Database, tmp_path: Path) -> None:
    if database.is_sqlite:
        pytest.skip("the fixture is the same database twice")
    fill(database)
    archive.backup(database, tmp_path / "b", NOW)
    archive.restore(sqlite_database, tmp_path / "b")
    assert content(sqlite_database) == content(database)


def test_a_file_that_is_there_is_not_overwritten_and_none_is_left_half_written(
    sqlite_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "b").write_text("mine")
    with pytest.raises(Invalid, match="is there already"):
        archive.backup(sqlite_database, tmp_path / "b", NOW)
    assert (tmp_path / "b").read_text() == "mine"

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archive, "_write_table", full)
    with pytest.raises(OSError, match="No space"):
        archive.backup(sqlite_database, tmp_path / "c", NOW)
    assert [path.name for path in tmp_path.iterdir() if "c" in path.name and "db" not in path.name] == []


def test_what_is_no_backup_or_a_newer_one_is_refused(target: Database, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"PK nonsense")
    with pytest.raises(Invalid, match="is no backup"):
        archive.restore(target, tmp_path / "x")
    with pytest.raises(Invalid, match="There is no file"):
        archive.restore(target, tmp_path / "y")
    for manifest, words in (
        ({"format": 2}, "format 2"),
        ({"format": 1, "schema": "9999", "made_at": "", "rows": {}}, "9999"),
    ):
        with zipfile.ZipFile(tmp_path / "z", "w") as file:
            file.writestr("manifest.json", json.dumps(manifest))
        with pytest.raises(Invalid, match=words):
            archive.restore(target, tmp_path / "z")
    assert migrate.check(target) == "empty"


def test_a_damaged_backup_restores_nothing(sqlite_database: Database, target: Database, tmp_path: Path) -> None:
    fill(sqlite_database)
    archive.backup(sqlite_database, tmp_path / "b", NOW)
    with zipfile.ZipFile(tmp_path / "b") as source, zipfile.ZipFile(tmp_path / "damaged", "w") as file:
        for name in source.namelist():
            lines = source.read(name).splitlines(keepends=True)
            file.writestr(name, b"".join(lines[:-1] if name == "tables/result.jsonl" else lines))
    with pytest.raises(Invalid, match="result has 11 of 12 rows"):
        archive.restore(target, tmp_path / "damaged")
    assert migrate.check(target) == "empty"
