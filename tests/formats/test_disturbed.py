"""Imports that are disturbed: several at once, cut, with files that cannot be read; the rows are those of an undisturbed one."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import multiprocessing
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import func, select, text

from formats import trees
from formats.test_importing import NOW, bring, rows
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.errors import Invalid
from groundspeed.service.usecases import import_finish, import_readers, import_sources, importing, receiving

SHA = "abcdef1234567890abcdef1234567890abcdef12"
TOGETHER = 20
"""More than the connections that a service keeps."""


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    with ThreadPoolExecutor(len(calls)) as pool:
        return [one.result() for one in [pool.submit(call) for call in calls]]


def body(*names: str) -> bytes:
    return orjson.dumps({"results": [{"command": name, "mean": 1.5, "times": [1.4, 1.5, 1.6]} for name in names]})


def orphans(db: Database) -> list[Any]:
    with db.read() as session:
        return list(session.execute(text("PRAGMA foreign_key_check"))) if db.is_sqlite else []


def test_results_that_come_at_once_are_each_there_once(database: Database) -> None:
    """The same file, files with the same benchmarks in other orders, each with a shortened hash."""
    receiving_first(database)
    names = [f"b{i}" for i in range(8)]
    files = [body(*names[i % 2 :: 2], *names[1 - i % 2 :: 2][:: 1 - 2 * (i % 2)]) for i in range(2)]
    files += [body(*reversed(names))]

    def send(i: int) -> importing.Summary:
        return receiving.receive(database, "demo", f"{i % 3}.json", files[i % 3], NOW, commit=SHA[:7])

    sent = at_once(*(lambda i=i: send(i) for i in range(TOGETHER)))
    assert sum(one.added.runs for one in sent) == 8
    assert all(one.added.runs + one.added.already == 8 for one in sent)
    with database.read() as session:
        assert session.execute(select(func.count()).select_from(t.Revision)).scalar_one() == 1
    assert rows(database)["Run"] == 9
    assert orphans(database) == []


def receiving_first(database: Database) -> None:
    """The project, with one commit."""
    with database.transaction() as session:
        session.add(t.Project(slug="demo", name="demo", repo_url=""))
    receiving.receive(database, "demo", "first.json", body("first"), NOW, commit=SHA)


def test_the_same_tree_twice_at_once_is_there_once(database: Database, tmp_path: Path) -> None:
    """In small batches, so that the two are in the middle of the same files."""
    count = trees.write_tree(tmp_path / "results", trees.repository(tmp_path / "repo", 12))
    sent = at_once(*[lambda: bring(database, tmp_path / "results", batch_rows=3, analyse=False)] * 2)
    assert sum(one.added.results for one in sent) == count
    assert rows(database)["Result"] == count
    assert orphans(database) == []


def test_what_a_cut_import_left_is_looked_at_after_the_next(
    sqlite_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shas = trees.repository(tmp_path / "repo", 12)
    trees.write_tree(tmp_path / "results", shas[:6])
    bring(sqlite_database, tmp_path / "results")
    with sqlite_database.transaction() as session:
        session.execute(text("DELETE FROM seriesmark"))
    shutil.rmtree(tmp_path / "results")
    trees.write_tree(tmp_path / "results", shas)
    with monkeypatch.context() as patch:
        patch.setattr(import_finish, "finish", _cut)
        with pytest.raises(KeyboardInterrupt):
            bring(sqlite_database, tmp_path / "results", batch_rows=3)
    again = bring(sqlite_database, tmp_path / "results")
    assert (again.added.runs, again.series) == (0, rows(sqlite_database)["Series"])
    assert bring(sqlite_database, tmp_path / "results").series == 0, "and once is enough"


def _cut(*_: object) -> None:
    raise KeyboardInterrupt


def test_another_order_of_the_same_commits_is_another_history(sqlite_database: Database, tmp_path: Path) -> None:
    """Imported by dates first, then with a graph in which they stand otherwise: every series is looked at again."""
    shas = trees.repository(tmp_path / "repo", 4)
    trees.write_tree(tmp_path / "results", shas)
    bring(sqlite_database, tmp_path / "results")
    assert bring(sqlite_database, tmp_path / "results").series == 0
    backwards = [f"{sha}\t{parent}\t1\t1\t" for sha, parent in zip(shas, [*shas[1:], ""], strict=True)]
    (tmp_path / "graph").write_text("\n".join(backwards))
    assert (
        bring(sqlite_database, tmp_path / "results", graph=tmp_path / "graph").series == rows(sqlite_database)["Series"]
    )


def test_files_that_cannot_be_read_stand_in_nobodys_way(
    sqlite_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "all"
    count = trees.write_tree(root / "results", trees.repository(tmp_path / "repo", 3))
    (root / "broken.tar.gz").write_bytes(b"\x1f\x8b nothing")
    (root / "locked").mkdir()
    real = Path.iterdir

    def iterdir(path: Path) -> Any:
        if path.name == "locked":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    summary = bring(sqlite_database, root)
    assert summary.added.results == count
    assert sorted(str(one.where.source) for one in summary.refused) == ["broken.tar.gz", "locked"]


def test_a_reader_that_is_killed_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_readers, "BYTES_FOR_A_POOL", 0)
    monkeypatch.setattr(import_readers, "BYTES_AHEAD", 0)
    trees.write_tree(tmp_path / "results", trees.repository(tmp_path / "repo", 30))
    sources = import_sources.Sources((tmp_path / "results",))
    sources.begin()
    (tree,) = sources.find()
    assert isinstance(tree, import_sources.AsvTree)
    alone = [plain(one) for one in import_readers.Readers(tree.tree, tree.files, -1).read()]
    seen = []
    for one in sources.read(tree):
        seen.append(plain(one))
        if len(seen) == 3:
            for child in multiprocessing.active_children():
                child.kill()
    assert seen == alone


def plain(found: Any) -> tuple[int, str]:
    """How many values a file holds, and why it was refused."""
    items, refused = found
    return sum(one.read for one in items if hasattr(one, "read")), str(refused)


@pytest.mark.parametrize("packing", ["gz", "xz", "bz2", "tar.gz", "zip"])
def test_what_is_sent_packed_may_not_become_anything(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch, packing: str
) -> None:
    monkeypatch.setattr(receiving, "MAX_UNPACKED_BYTES", 200_000)
    importing.run(sqlite_database, importing.Options("demo", ()), NOW)
    text = b"\n" * 300_000
    plain = {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress}
    body = plain[packing](text) if packing in plain else _archive(packing, {"t.csv": text})
    with pytest.raises(Invalid, match="unpacks to more than"):
        receiving.receive(sqlite_database, "demo", f"t.{packing}", body, NOW, form="csv")


def test_archives_in_archives_come_to_an_end(sqlite_database: Database) -> None:
    """There are some that hold themselves, to any depth."""
    importing.run(sqlite_database, importing.Options("demo", ()), NOW)
    body = b""
    for _ in range(10):
        body = _archive("zip", {"t.csv": b"benchmark,value,unit,commit\nx,1,s,abcdef1\n", "r.zip": body})
    summary = receiving.receive(sqlite_database, "demo", "r.zip", body, NOW)
    assert [str(one) for one in summary.refused if "other archives" in one.reason]
    assert summary.read == import_sources.MAX_DEPTH + 1


def _archive(kind: str, files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in files.items():
                archive.writestr(name, data)
        return out.getvalue()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()
