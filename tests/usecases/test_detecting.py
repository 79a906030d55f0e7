"""What is looked at ahead says what the transaction would say, and is not used where something came since."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select, update
from sqlmodel import Session, col

from formats import trees
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases import analyse, analyse_many, beforehand, children, detecting, importing
from groundspeed.service.usecases.series_arrays import Frame, columns_of, rows_of
from world import NOW, World

METRICS = ("time", "rate", "memory", "ratio")


def history(database: Database) -> tuple[World, dict[str, int]]:
    """Twenty commits with some metrics, which step one after the other; the series by metric."""
    world = World(database)
    world.commits(21)
    for x in range(20):
        noise = 0.001 * ((7 * x) % 5)
        world.measure(world.revisions[x], **{m: 1.0 + noise + (x > 8 + n) for n, m in enumerate(METRICS)})
    return world, {row.metric: row.id for row in world.all(t.Series)}


def plain(looked: dict[int, detecting.Looked]) -> dict[int, str]:
    return {key: repr((sorted(one.marks), one.last, one.order, one.config, one.answer)) for key, one in looked.items()}


def found(world: World) -> list[tuple[object, ...]]:
    rows = world.all(t.ChangePoint)
    return sorted((r.series_id, r.before_revision_id, r.after_revision_id, r.state, r.strength) for r in rows)


def test_what_came_since_is_seen_and_the_rest_is_taken_as_it_was_found(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, series = history(database)
    ids = sorted(series.values())
    with database.read() as session:
        looked = detecting.look(session, ids)
    assert sorted(looked) == ids
    world.measure(world.revisions[20], **{METRICS[1]: 9.0})
    asked = []
    detections = analyse_many.detections
    monkeypatch.setattr(
        analyse_many,
        "detections",
        lambda session, frame, some: (asked.extend(one.id for one in some), detections(session, frame, some))[1],
    )
    assert analyse._analyse_list(database, ids, NOW, looked, only_marked=True) == len(METRICS)
    assert asked == [series[METRICS[1]]]
    together = found(world)
    assert {row[0] for row in together} == set(ids)
    assert analyse.analyse(database, ids, NOW + timedelta(hours=1)) == len(METRICS)  # one by one, from all points
    assert found(world) == together

    with database.read() as session:  # nothing has news, but another analysis came in between
        looked = detecting.look(session, ids)
    analyse.analyse(database, ids[:1], NOW + timedelta(hours=2))
    asked.clear()
    analyse._analyse_list(database, ids, NOW + timedelta(hours=3), looked, only_marked=False)
    assert asked == ids[:1]
    assert found(world) == together

    with database.transaction() as session:  # nor here, but commits have moved: what was found lies elsewhere
        looked = detecting.look(session, ids)
        session.execute(update(t.Revision).values(position=col(t.Revision.position) + 100))
    asked.clear()
    analyse._analyse_list(database, ids, NOW + timedelta(hours=4), looked, only_marked=False)
    assert asked == ids
    assert found(world) == together


def test_a_result_of_a_commit_that_came_after_the_order_was_read_is_left_to_its_mark(sqlite_database: Database) -> None:
    """PostgreSQL shows what others commit between two questions of a transaction."""
    world, series = history(sqlite_database)
    with sqlite_database.read() as session:
        frame = Frame.of(session, world.project)
        revision, *others = rows_of(session, [series["time"]])[series["time"]]
    revision[-1] = max(world.revisions) + 1
    seen = columns_of(frame, (revision, *others))
    assert seen is not None
    assert seen.x.tolist() == list(range(19))


@pytest.mark.long
def test_two_processes_say_what_one_says_also_when_one_is_killed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detecting, "UNIT", 1)
    _, series = history(database)
    ids = sorted(series.values())
    lists = [ids[:2], ids[2:]]
    with database.read() as session:
        alone = detecting.look(session, ids)
    database.close()  # as whoever starts another process does
    with ProcessPoolExecutor(1, children.context(), children.settle) as pool:
        both = detecting.Ahead(database, lists, pool)
        assert plain({**both.of(0), **both.of(1)}) == plain(alone)
        again = detecting.Ahead(database, lists, pool)
        os.kill(pool.submit(os.getpid).result(), signal.SIGKILL)
        for nth in (0, 1):  # what is missing is left to the transaction
            assert plain(again.of(nth)).items() <= plain(alone).items()
        assert again.pool is None


LOOK, HELP = beforehand._look, beforehand.Beforehand._help
HELPED = "GS_TEST_HELPED"
"""Names a file that is there once this process has helped; also for a process that is started anew."""


def late_look(ids: Sequence[int]) -> dict[int, detecting.Answer]:
    """In the other process: begins when this one has helped."""
    for _ in range(6000):
        if Path(os.environ[HELPED]).exists():
            break
        time.sleep(0.01)
    return LOOK(ids)


def told_help(self: beforehand.Beforehand, session: Session) -> bool:
    helped = HELP(self, session)
    Path(os.environ[HELPED]).touch()
    return helped


@pytest.mark.parametrize("helped", [False, True])
def test_what_is_looked_at_while_an_import_ends_is_what_its_results_say(
    sqlite_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, helped: bool
) -> None:
    """Series that are measured once at each commit are not read again, but for those that this process takes off the
    other; the answers are those of reading each, and where a result came since, they are not used."""
    if helped:
        monkeypatch.setenv(HELPED, str(tmp_path / "helped"))
        monkeypatch.setattr(beforehand, "_look", late_look)
        monkeypatch.setattr(beforehand.Beforehand, "_help", told_help)
    else:
        monkeypatch.setattr(beforehand.Beforehand, "_help", lambda *_: False)
    for name in ("FOR_TWO", "UNIT"):
        monkeypatch.setattr(beforehand, name, 1)
    monkeypatch.setattr(analyse, "MANY", 1)
    monkeypatch.setattr(children, "cores", lambda: 2)
    trees.write_tree(tmp_path / "results", trees.repository(tmp_path / "repo", 30))
    options = importing.Options("demo", (tmp_path / "results",), repo=tmp_path / "repo")
    read = []
    rows_of = detecting.rows_of
    monkeypatch.setattr(detecting, "rows_of", lambda s, ids: (read.extend(ids), rows_of(s, ids))[1])

    def states() -> dict[str, object]:
        with sqlite_database.read() as session:
            return {one.fingerprint: (one.noise, one.state) for one in session.scalars(select(t.Series))}

    with beforehand.Beforehand() as early:
        importing.run(sqlite_database, options, NOW, early=early)
        with sqlite_database.read() as session:
            every = session.scalars(select(col(t.SeriesMark.series_id)).distinct()).all()
            known = early.looked(session, every)
        assert len(known) > 10
        analyse.analyse_dirty(sqlite_database, NOW, early=early)
        assert {*read} & {*known} if helped else {*read} == {*every} - {*known}
        seen = states()
        analyse.analyse(sqlite_database, every, NOW)
        assert {*read} == {*every}
        assert states() == seen
        csv = tmp_path / "more.csv"
        csv.write_text("benchmark,value,unit\nload,12.5,ms\n")
        importing.run(sqlite_database, importing.Options("demo", (csv,)), NOW)
        with sqlite_database.read() as session:
            assert early.looked(session, list(known)) == {}


def test_an_import_goes_on_where_no_other_process_can_be_started(
    sqlite_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory() -> int:
        raise OSError(errno.ENOMEM, "no memory for another process")

    monkeypatch.setattr(beforehand, "FOR_TWO", 1)
    monkeypatch.setattr(children, "cores", lambda: 2)
    trees.write_tree(tmp_path / "results", trees.repository(tmp_path / "repo", 4))
    options = importing.Options("demo", (tmp_path / "results",), repo=tmp_path / "repo")
    with beforehand.Beforehand() as early:
        monkeypatch.setattr(os, "fork", no_memory)
        done = importing.run(sqlite_database, options, NOW, early=early)
        monkeypatch.undo()
        assert done.added.results > 10
        assert analyse.analyse_dirty(sqlite_database, NOW, early=early) == done.series
