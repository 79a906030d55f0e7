"""Imported results are rows like own ones: each once, in the order of commits, cut and resumed without loss."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Index, delete, func, inspect, select
from sqlmodel import col

from formats import trees
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.errors import Invalid
from groundspeed.service.formats import prepared
from groundspeed.service.usecases import analyse, import_rows, import_tables, importing, receiving
from groundspeed.service.usecases.import_summary import Summary
from groundspeed.service.usecases.importing import Options
from groundspeed.service.usecases.topics import ANALYSE

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def bring(db: Database, *paths: Path, project: str = "demo", **more: object) -> Summary:
    return importing.run(db, Options(project, paths, **more), NOW)  # type: ignore[arg-type]


def rows(db: Database) -> dict[str, int]:
    kinds = (
        t.Run,
        t.Result,
        t.Series,
        t.Benchmark,
        t.Revision,
        t.Job,
        t.JobSide,
        t.Attempt,
        t.Node,
        t.Environment,
        t.Hardware,
    )
    with db.read() as session:
        return {k.__name__: session.execute(select(func.count()).select_from(k)).scalar_one() for k in kinds}


def test_a_tree_becomes_a_history_and_again_adds_nothing(database: Database, tmp_path: Path) -> None:
    """Every value is a result, positions follow git, and a second import changes no row."""
    shas = trees.repository(tmp_path / "repo", 8)
    count = trees.write_tree(tmp_path / "results", shas)
    first = bring(database, tmp_path / "results", repo=tmp_path / "repo")
    before = rows(database)
    assert (first.read, first.added.results, first.revisions, first.unplaced) == (count + 7, count, 8, 0)  # 7 NaN
    assert first.order == "the git repository repo"
    second = bring(database, tmp_path / "results", repo=tmp_path / "repo")
    assert (second.added.runs, second.added.results) == (0, 0)
    assert second.added.already == first.added.runs
    assert rows(database) == before
    with database.read() as session:
        placed = session.execute(
            select(col(t.Revision.sha), col(t.Revision.position)).order_by(col(t.Revision.position))
        ).all()
    assert [sha for sha, _ in placed] == shas
    assert [position for _, position in placed] == list(range(8))


def test_values_metrics_and_machine_are_as_asv_has_them(sqlite_database: Database, tmp_path: Path) -> None:
    """Units, directions, parameters, spread, repeats and samples come through; a raised version is another benchmark."""
    shas = trees.repository(tmp_path / "repo", 4)
    trees.write_tree(tmp_path / "results", shas)
    bring(sqlite_database, tmp_path / "results", repo=tmp_path / "repo")
    with sqlite_database.read() as session:
        series = session.scalars(select(t.Series)).all()
        benchmarks = {b.id: b for b in session.scalars(select(t.Benchmark))}
        grid = [s for s in series if benchmarks[s.benchmark_id].suite == "suite.Time.time_grid"]
        assert {json.dumps(s.params, sort_keys=True) for s in grid} >= {
            '{"mode": "fast", "n": 10}',
            '{"mode": "slow", "n": "range(0, 3)"}',
        }
        units = {benchmarks[s.benchmark_id].suite: (s.metric, s.unit, s.direction, s.kind) for s in series}
        assert units["suite.Time.time_plain"] == ("time", "s", -1, "time")
        assert units["suite.peakmem_all"] == ("peak_memory", "B", -1, "bytes")
        assert units["suite.track_score"] == ("track", "points", -1, "counter")
        versions = [b for b in benchmarks.values() if b.suite == "suite.Time.time_grid"]
        new = next(b for b in versions if b.version == "v2")
        assert benchmarks[new.previous_id or 0].version == "v1"
        hardware = session.scalars(select(t.Hardware)).one()
        assert (hardware.facts["cpu_model"], hardware.facts["cpu_count"], hardware.facts["machine"]) == (
            "Example CPU 9000",
            4,
            "box",
        )
        environment = session.scalars(select(t.Environment)).one()
        assert {f["name"]: f["value"] for f in environment.facets}["variable OMP"] == "1"
        plain = next(s for s in series if benchmarks[s.benchmark_id].suite == "suite.Time.time_plain")
        result = session.scalars(select(t.Result).where(col(t.Result.series_id) == plain.id)).first()
        assert result is not None
        assert result.count == 2
        assert result.samples is not None
        outcomes = session.execute(select(col(t.Run.outcome), func.count()).group_by(col(t.Run.outcome))).tuples().all()
        # 1 failing point; 3 skipped ones; the commit that did not build: 4 benchmarks
        assert dict(outcomes) == {"ok": 15, "failed": 5, "skipped": 3}


def test_a_cut_import_is_resumed(sqlite_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was committed stays, the rest comes with the next attempt, and the sum is that of an uncut import."""
    shas = trees.repository(tmp_path / "repo", 12)
    count = trees.write_tree(tmp_path / "results", shas)
    real, left = import_rows.bulk_insert, [3]

    def dies(*args: object) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(import_rows, "bulk_insert", dies)
    with pytest.raises(KeyboardInterrupt):
        bring(sqlite_database, tmp_path / "results", batch_rows=3)
    assert rows(sqlite_database)["Result"] == 0
    with sqlite_database.read() as session:  # what was set aside for a first import is back
        assert "ix_result_series" in {i["name"] for i in inspect(session.connection()).get_indexes("result")}
    left[0] = 4 * importing.PARTS * importing.BATCHES_INTO_NOTHING + 15
    with pytest.raises(KeyboardInterrupt):
        bring(sqlite_database, tmp_path / "results", batch_rows=3)
    monkeypatch.setattr(import_rows, "bulk_insert", real)
    halfway = rows(sqlite_database)["Result"]
    assert 0 < halfway < count
    summary = bring(sqlite_database, tmp_path / "results", batch_rows=3)
    assert summary.added.results == count - halfway
    assert rows(sqlite_database)["Result"] == count


def test_news_of_an_import_that_was_cut_at_its_end_are_seen(
    sqlite_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was looked at before its commits had their places is looked at again, though nothing is added."""
    trees.write_tree(tmp_path / "results", trees.repository(tmp_path / "repo", 3))

    def marked() -> set[int]:
        with sqlite_database.read() as session:
            return set(session.scalars(select(col(t.SeriesMark.series_id))))

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(importing.Importer, "finish", dies)
        with pytest.raises(KeyboardInterrupt):
            bring(sqlite_database, tmp_path / "results")
    before = marked()
    assert len(before) > 5
    analyse.analyse_dirty(sqlite_database, NOW)
    assert bring(sqlite_database, tmp_path / "results").added.results == 0
    assert marked() >= before


def test_another_order_of_commits_has_every_series_looked_at_again(sqlite_database: Database, tmp_path: Path) -> None:
    """Dates came first, the graph later: nothing is added, and what was found stands at other commits now."""
    table, graph = tmp_path / "t.csv", tmp_path / "graph.tsv"
    shas = [digit * 40 for digit in "abc"]
    lines = [f"load,12.5,ms,{sha},2024-05-{day:02}T07:00:00Z\n" for day, sha in enumerate(shas, 1)]
    table.write_text("benchmark,value,unit,commit,date\n" + "".join(lines))
    bring(sqlite_database, table)
    analyse.analyse_dirty(sqlite_database, NOW)
    assert bring(sqlite_database, table).series == 0
    a, b, c = shas
    graph.write_text(f"{b}\t{c}\t3\t3\t\n{c}\t{a}\t2\t2\t\n{a}\t\t1\t1\t\n")
    assert bring(sqlite_database, table, graph=graph).series == 1
    with sqlite_database.read() as session:
        assert session.scalars(select(col(t.SeriesMark.revision_id))).all() == [None]
        assert session.scalars(select(col(t.Revision.sha)).order_by(col(t.Revision.position))).all() == [a, c, b]


def test_a_changed_result_is_another_run_and_the_old_one_stays(sqlite_database: Database, tmp_path: Path) -> None:
    """asv overwrites a result that is measured again; here both are kept."""
    shas = trees.repository(tmp_path / "repo", 2)
    trees.write_tree(tmp_path / "results", shas)
    bring(sqlite_database, tmp_path / "results")
    path = next(p for p in (tmp_path / "results/box").iterdir() if p.name.startswith(shas[0][:8]))
    doc = json.loads(path.read_text())
    doc["results"]["suite.Time.time_plain"][0] = [9.5e-3]
    path.write_text(json.dumps(doc))
    assert bring(sqlite_database, tmp_path / "results").added.results == 1


def test_version_1_and_many_processes(
    sqlite_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bare numbers, nulls and dictionaries; a pool of processes reads the same as one process does."""
    count = trees.write_version_1(tmp_path / "results", "ab" * 20)
    monkeypatch.setattr("groundspeed.service.usecases.import_readers.BYTES_FOR_A_POOL", 0)
    summary = bring(sqlite_database, tmp_path / "results", processes=1)
    assert (summary.added.results, summary.added.failures) == (count, 2)
    assert bring(sqlite_database, tmp_path / "results", processes=-1).added.results == 0


def test_commits_without_a_repository_are_ordered_by_date_and_it_says_so(
    sqlite_database: Database, tmp_path: Path
) -> None:
    """Dates give the order; with the repository, later, the same rows get their true places."""
    shas = trees.repository(tmp_path / "repo", 5)
    trees.write_tree(tmp_path / "results", shas)
    assert "dates" in bring(sqlite_database, tmp_path / "results").order
    assert bring(sqlite_database, tmp_path / "results", repo=tmp_path / "repo").order == "the git repository repo"
    assert bring(sqlite_database, tmp_path / "results").order == "the order that the project has already"


def test_a_history_that_git_stumbles_over_says_so_and_costs_no_results(
    sqlite_database: Database, tmp_path: Path
) -> None:
    """It is found out only when results are stored; with the mended repository they get their places."""
    shas = trees.repository(tmp_path / "repo", 5)
    count = trees.write_tree(tmp_path / "results", shas)
    lost = next((tmp_path / "repo").rglob(shas[1][2:]))
    lost.rename(tmp_path / "lost")
    with pytest.raises(Invalid, match="cannot be read") as raised:
        bring(sqlite_database, tmp_path / "results", repo=tmp_path / "repo")
    assert "stored stay" in raised.value.advice
    assert rows(sqlite_database)["Result"] == count
    (tmp_path / "lost").rename(lost)
    again = bring(sqlite_database, tmp_path / "results", repo=tmp_path / "repo")
    assert (again.added.results, again.unplaced, again.revisions) == (0, 0, 5)


def test_an_index_that_cannot_be_made_leaves_the_connection_as_it_was(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def settings() -> int:
        with sqlite_database.engine.connect() as connection:
            return int(connection.exec_driver_sql("PRAGMA cache_size").scalar_one())

    def refuse(*_: object, **__: object) -> None:
        raise OSError("no space")

    before = settings()
    with (
        pytest.raises(OSError, match="no space"),
        sqlite_database.transaction() as session,
        import_tables.without_index(session),
    ):
        monkeypatch.setattr(Index, "create", refuse)
    assert settings() == before


def test_short_commits_find_their_full_name(sqlite_database: Database, tmp_path: Path) -> None:
    """ "abc1234" of a tool is the commit that asv names in full: one revision, not two."""
    shas = trees.repository(tmp_path / "repo", 3)
    trees.write_tree(tmp_path / "results", shas)
    bring(sqlite_database, tmp_path / "results", repo=tmp_path / "repo")
    table = tmp_path / "more.csv"
    table.write_text(f"benchmark,value,unit,commit\nload,12.5,ms,{shas[1][:8]}\n")
    assert bring(sqlite_database, table).revisions == 3


def test_results_without_commit_or_date_get_a_named_stand_in(sqlite_database: Database, tmp_path: Path) -> None:
    """A time stands for a commit; a file's name for both; a commit can be given."""
    table = tmp_path / "undated.csv"
    table.write_text("benchmark,value,unit\nload,12.5,ms\n")
    dated = tmp_path / "dated.csv"
    dated.write_text("benchmark,value,unit,date\nload,12.5,ms,2024-05-06T07:08:09Z\n")
    bring(sqlite_database, table, dated)
    bring(sqlite_database, table, commit="c0ffee0")
    with sqlite_database.read() as session:
        shas = sorted(session.scalars(select(col(t.Revision.sha))))
    assert shas[0] == "at-20240506T070809"
    assert shas[1] == "c0ffee0"
    assert shas[2].startswith("file-")


def test_a_folder_of_many_formats_names_what_it_left_out(sqlite_database: Database, tmp_path: Path) -> None:
    """One bad file stops nothing; it is named with its line, as are skipped entries by their reason."""
    trees.write_tree(tmp_path / "in/asv", trees.repository(tmp_path / "repo", 2))
    (tmp_path / "in/bad.json").write_text('{\n  "results": [\n')
    (tmp_path / "in/notes.txt").write_text("nothing here\n")
    (tmp_path / "in/go.txt").write_text(
        "pkg: a/b\nBenchmarkX-8 100 12.5 ns/op 3 B/op\nBenchmarkX-8 100 12.7 ns/op 3 B/op\n"
    )
    (tmp_path / "in/table.csv").write_text("benchmark,value,unit\nok,1,s\nbroken,many,s\n")
    summary = bring(sqlite_database, tmp_path / "in")
    assert sorted(str(r.where) for r in summary.refused) == ["bad.json:1", "notes.txt:1"]
    (reason,) = summary.skipped
    assert (reason, [str(w) for w in summary.skipped[reason].where]) == ('value "…" is no number', ["table.csv:3"])


def test_results_of_several_projects_are_not_mixed(sqlite_database: Database, tmp_path: Path) -> None:
    """A file that holds several projects is refused with their names until one is chosen; files of two are told apart."""

    def entry(project: str, benchmark: str, commit: str) -> dict[str, object]:
        return {"commitid": commit, "project": project, "benchmark": benchmark, "environment": "box", "executable": "x",
                "result_value": 1.5, "result_date": "2024-01-02 03:04:05"}  # fmt: skip

    several = tmp_path / "several.json"
    several.write_text(
        json.dumps([entry("One", "a", "7"), entry("https://x.org/o/Two.git", "b", "71"), entry("one", "c", "71")])
    )
    refused = bring(sqlite_database, several).refused
    assert [str(e).partition(": ")[2].partition(" `")[0] for e in refused] == ["holds results of 2 projects: one (2), x.org/o/two (1)."]  # fmt: skip
    (nothing,) = bring(sqlite_database, several, project_from="three").refused
    assert 'nothing of the project "three", but of one (2)' in str(nothing)
    assert bring(sqlite_database, several, project="one", project_from="one").added.results == 2
    two = bring(sqlite_database, several, project="two", project_from="o/Two")
    assert (two.added.results, [r.count for r in two.skipped.values()], two.revisions) == (1, [2], 1)
    assert bring(sqlite_database, several, project="all", project_from="*").added.results == 3
    (tmp_path / "0.json").write_text(json.dumps([entry("other", "a", "7")]))
    (tmp_path / "1.json").write_text(json.dumps([entry("one", "a", "7")]))
    mixed = bring(sqlite_database, tmp_path / "0.json", tmp_path / "1.json", project="mixed")
    assert (mixed.added.results, len(mixed.refused)) == (1, 1)
    assert 'is of the project "one", and what came before of "other"' in str(mixed.refused[0])
    with sqlite_database.read() as session:  # 7 is a number of its own and does not stand for 71
        one = select(col(t.Project.id)).where(col(t.Project.slug) == "one").scalar_subquery()
        known = select(col(t.Revision.sha)).where(col(t.Revision.project_id) == one)
        assert sorted(session.scalars(known)) == ["7", "71"]


def test_an_archive_is_unpacked_and_stays_inside(sqlite_database: Database, tmp_path: Path) -> None:
    """A tar of a tree imports like the tree."""
    count = trees.write_tree(tmp_path / "results", trees.repository(tmp_path / "repo", 3))
    archive = shutil.make_archive(str(tmp_path / "history"), "xztar", tmp_path, "results")
    assert bring(sqlite_database, Path(archive)).added.results == count


def test_wrong_results_are_kept_and_do_not_count(sqlite_database: Database, tmp_path: Path) -> None:
    """The run is wrong, its values are rejected."""
    log = tmp_path / "all_reduce.log"
    log.write_text(
        "# Collective test starting: all_reduce_perf\n"
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong\n"
        "     1048576        262144     float     sum      -1    74.78   14.02   24.54       3    76.17   13.77   24.09       0\n"
        "# Out of bounds values : 3 FAILED\n# Avg bus bandwidth    : 24.3\n#\n"
    )
    bring(sqlite_database, log)
    with sqlite_database.read() as session:
        kept = session.execute(
            select(col(t.Run.outcome), col(t.Result.state)).join(t.Result, col(t.Result.run_id) == col(t.Run.id))
        ).all()
    assert sorted({tuple(r) for r in kept}) == [("ok", "valid"), ("wrong", "rejected")]


def test_detection_is_told_which_series_have_come(sqlite_database: Database, tmp_path: Path) -> None:
    """Every series is marked and handed over in the transaction that finishes the import."""
    trees.write_tree(tmp_path / "results", trees.repository(tmp_path / "repo", 3))
    summary = bring(sqlite_database, tmp_path / "results")
    with sqlite_database.read() as session:
        marks = session.scalars(select(col(t.SeriesMark.series_id))).all()
        told = [s for m in session.scalars(select(t.Outbox)) if m.topic == ANALYSE for s in m.payload["series_ids"]]
    assert len(set(marks)) == len(set(told)) == summary.series > 5


def test_detection_goes_on_from_what_it_knows_unless_commits_have_moved(
    sqlite_database: Database, tmp_path: Path
) -> None:
    """A result of a later commit is told with its place; one that moves others has every series looked at anew."""

    def take(*days: int, name: str = "load") -> tuple[set[int | None], set[bool]]:
        """Where the marks lie, and whether series keep their state."""
        table = "benchmark,value,unit,date\n" + "".join(f"{name},12.5,ms,2024-05-{day:02}T07:00:00Z\n" for day in days)
        receiving.receive(sqlite_database, "demo", "table.csv", table.encode(), NOW)
        with sqlite_database.read() as session:
            marks = set(session.scalars(select(col(t.SeriesMark.revision_id))))
            kept = {state is not None for state in session.scalars(select(col(t.Series.state)))}
        analyse.analyse_dirty(sqlite_database, NOW)
        return marks, kept

    bring(sqlite_database, project="demo")
    take(*range(5, 20))
    marks, kept = take(21)
    assert None not in marks
    assert kept == {True}
    assert take(4, name="other") == ({None}, {False})
    assert take(22)[1] == {True, False}  # of the other, and of this one, which is looked at from its beginning
    assert take(23)[1] == {True}


def test_what_was_remembered_and_has_been_deleted_is_made_again(database: Database) -> None:
    """A file that is posted looks up little; a row that went away meanwhile is found out, and all of it is kept."""
    bring(database, project="demo")
    table = "benchmark,value,unit,date\n{name},12.5,ms,2024-05-{day:02}T07:00:00Z\n"

    def take(day: int, name: str = "load") -> Summary:
        return receiving.receive(database, "demo", "table.csv", table.format(name=name, day=day).encode(), NOW)

    assert take(1).added.results == 1
    with database.transaction() as session:
        for kind in (t.SeriesMark, t.Result, t.Run, t.Series, t.Benchmark):
            session.execute(delete(kind))
    assert take(2).added.results == 1
    assert take(2).added.already == 1
    with database.read() as session:
        assert session.scalars(select(col(t.Revision.position)).order_by(col(t.Revision.id))).all() == [0, 1]
        assert session.scalar(select(func.count()).select_from(t.SeriesMark)) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"project": "a b"}, "cannot name a project"),
        ({"project": "x", "format": "nope"}, "There is no format nope"),
        ({"project": "x", "paths": (Path("/nowhere/at/all"),)}, "There is no /nowhere/at/all"),
    ],
)
def test_options_that_cannot_be_are_told(sqlite_database: Database, options: dict[str, object], words: str) -> None:
    """In a sentence, with what to do."""
    with pytest.raises(Invalid, match=words):
        importing.run(sqlite_database, Options(**{"paths": (), **options}), NOW)  # type: ignore[arg-type]


def test_prepared_grids_say_the_same_as_records() -> None:
    """The two ways from a grid to numbers agree, on a grid with failures, samples and statistics."""
    from groundspeed.service.formats.records import Grid, Metric, Origin, Where

    grid = Grid(
        Origin("asv"), "b", Metric("time", "s", -1, "time"), Where("x"), (("n", (1, 2, 3)),), [1.0, None, float("nan")],
        columns={"q_25": [0.9, None, None], "q_75": [1.3, None, None], "repeat": [5, None, None]}, samples=[(0.9, 1.3), None, None],
    )  # fmt: skip
    ready, records = prepared.prepare(grid), list(grid.records())
    assert [r.outcome for r in records] == ["ok", "failed", "skipped"]
    assert (list(ready.values), ready.missing) == ([1.0], [(1, "failed"), (2, "skipped")])
    assert ready.spreads == [pytest.approx(records[0].spread)]
    assert [f.params for f in ready.failures()] == [{"n": 2}, {"n": 3}]
