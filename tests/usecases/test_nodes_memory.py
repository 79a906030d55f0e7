"""What nodes offer is remembered per open database, never across one that was emptied and opened anew."""

from __future__ import annotations

from pathlib import Path

from fleet import fleet
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases import nodes


def test_an_emptied_database_starts_with_nothing_remembered(sqlite_database: Database, tmp_path: Path) -> None:
    """Same address, same id, same time, another node: its own offer counts."""
    path = str(sqlite_database.engine.url)
    empty = Path(sqlite_database.engine.url.database or "").read_bytes()
    world = fleet(sqlite_database, tmp_path / "first")
    world.node("open", sandbox="none")
    assert world.next("open").job is None
    sqlite_database.close()
    for rest in ("-wal", "-shm"):
        Path(f"{sqlite_database.engine.url.database}{rest}").unlink(missing_ok=True)
    Path(sqlite_database.engine.url.database or "").write_bytes(empty)
    again = Database(path)
    try:
        second = fleet(again, tmp_path / "second")
        second.add()
        second.measure()
        second.node("safe", sandbox="bubblewrap")
        with again.read() as session:
            found = nodes.find(session, "safe")
            assert found is not None
            assert nodes.offer(session, found).sandbox == "bubblewrap"
    finally:
        again.close()
