"""What was taken in goes out again: asv's own publish makes the same graphs, and other formats hold the same numbers."""

from __future__ import annotations

import csv
import io
import json
import math
import subprocess
import sys
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from formats import trees
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.errors import Invalid, NotFound
from groundspeed.service.formats import own
from groundspeed.service.formats.records import Record
from groundspeed.service.formats.source import of_bytes
from groundspeed.service.usecases import exporting, importing, receiving

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def published(tree: Path, repo: Path, site: Path) -> dict[str, Any]:
    """Every graph that the real ``asv publish`` makes of a tree, by its path, with the regressions that it finds."""
    conf = {
        "version": 1,
        "project": "demo",
        "repo": str(repo),
        "branches": ["main"],
        "results_dir": str(tree),
        "html_dir": str(site),
    }
    site.parent.mkdir(parents=True, exist_ok=True)
    (site.parent / "asv.conf.json").write_text(json.dumps(conf))
    command = [sys.executable, "-m", "asv", "publish", "--no-pull"]
    done = subprocess.run(command, cwd=site.parent, capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    graphs = {str(p.relative_to(site)): json.loads(p.read_text()) for p in (site / "graphs").rglob("*.json")}
    found = json.loads((site / "regressions.json").read_text())["regressions"]
    # asv detects in a pool of processes: the order is that of their ends
    return {**graphs, "regressions.json": sorted(found, key=str)}


def same(one: Any, other: Any) -> bool:
    """Equal, point by point; NaN equals NaN."""
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def test_asv_publishes_the_same_from_what_came_back(sqlite_database: Database, tmp_path: Path) -> None:
    """Import, export, `asv publish`: every graph and every regression is equal to that of the original tree."""
    shas = trees.repository(tmp_path / "repo", 24)
    trees.write_tree(tmp_path / "before", shas)
    importing.run(sqlite_database, importing.Options("demo", (tmp_path / "before",), repo=tmp_path / "repo"), NOW)
    exporting.run(sqlite_database, "demo", "asv", tmp_path / "after", NOW)
    before = published(tmp_path / "before", tmp_path / "repo", tmp_path / "a/site")
    after = published(tmp_path / "after", tmp_path / "repo", tmp_path / "b/site")
    assert len(before) > 8
    assert before["regressions.json"]
    assert before.keys() == after.keys()
    assert [name for name in before if not same(before[name], after[name])] == []
    for tree in ("before", "after"):
        command = [sys.executable, "-m", "asv", "compare", shas[2], shas[20], "--machine", "box"]
        conf = (tmp_path / ("a" if tree == "before" else "b") / "asv.conf.json").read_text()
        (tmp_path / tree / "asv.conf.json").write_text(conf)
        done = subprocess.run(command, cwd=tmp_path / tree, capture_output=True, text=True, check=False, timeout=250)
        (tmp_path / f"{tree}.txt").write_text(done.stdout)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "before.txt").read_text() == (tmp_path / "after.txt").read_text() != ""


def test_parameters_that_came_in_another_import_go_out_as_they_were(sqlite_database: Database, tmp_path: Path) -> None:
    """Runs name their parameters by a number: a later file with others must not take the earlier ones' place."""
    shas = trees.repository(tmp_path / "repo", 3)
    trees.write_tree(tmp_path / "before", shas)
    importing.run(sqlite_database, importing.Options("demo", (tmp_path / "before",)), NOW)
    doc = json.loads(next((tmp_path / "before/box").glob(f"{shas[0][:8]}-*")).read_text())
    grid = doc["results"]["suite.Time.time_grid"]
    first, others = grid[1], [[f"'other {i}'" for i, _ in enumerate(grid[1][0])], *grid[1][1:]]
    for sha, params in (("c" * 40, others), ("d" * 40, first)):
        posted = {**doc, "commit_hash": sha, "results": {"suite.Time.time_grid": [grid[0], params, *grid[2:]]}}
        receiving.receive(sqlite_database, "demo", "posted.json", json.dumps(posted).encode(), NOW)
    exporting.run(sqlite_database, "demo", "asv", tmp_path / "after", NOW)
    for sha, params in ((shas[0], first), ("c" * 40, others), ("d" * 40, first)):
        (path,) = (tmp_path / "after").rglob(f"{sha[:8]}-*")
        assert json.loads(path.read_text())["results"]["suite.Time.time_grid"][1] == params


@pytest.mark.long
@pytest.mark.data
@pytest.mark.parametrize(("name", "minimum"), [("geocat", 100), ("pvlib", 60)])
def test_asv_publishes_the_same_of_a_real_tree(
    sqlite_database: Database, shared_data: Path, tmp_path: Path, name: str, minimum: int
) -> None:
    """The same with real histories; one of version 1 is brought up by `asv update`, as asv itself demands."""
    import tarfile

    with tarfile.open(shared_data / f"asv/{name}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    mapping = trees.shape_of(shared_data / f"asv/commits/{name}.tsv.gz", tmp_path / "repo")
    trees.with_hashes(tmp_path / name / "results", tmp_path / "before", mapping)
    importing.run(sqlite_database, importing.Options("demo", (tmp_path / "before",), repo=tmp_path / "repo"), NOW)
    exporting.run(sqlite_database, "demo", "asv", tmp_path / "after", NOW)
    (tmp_path / "asv.conf.json").write_text(
        json.dumps({"version": 1, "project": "demo", "repo": "repo", "results_dir": "before"})
    )
    subprocess.run([sys.executable, "-m", "asv", "update"], cwd=tmp_path, check=True, capture_output=True)
    before = published(tmp_path / "before", tmp_path / "repo", tmp_path / "a/site")
    after = published(tmp_path / "after", tmp_path / "repo", tmp_path / "b/site")
    assert len(before) >= minimum
    assert before.keys() == after.keys()
    assert [graph for graph in before if not same(before[graph], after[graph])] == []


@pytest.fixture
def demo(sqlite_database: Database, tmp_path: Path) -> Database:
    """A project with results of another tool than asv, over four commits."""
    shas = trees.repository(tmp_path / "repo", 4)
    lines = ["benchmark,metric,value,unit,commit,param.n,machine"]
    for i, sha in enumerate(shas):
        lines += [f"load,time,{1.5 + i},ms,{sha},{n},lab" for n in (1, 2)] + [
            f"serve,throughput,{100 - i},requests/s,{sha},,lab"
        ]
    lines.append(f"load,time,,ms,{shas[3]},3,lab")
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    importing.run(sqlite_database, importing.Options("demo", (tmp_path / "table.csv",), repo=tmp_path / "repo"), NOW)
    return sqlite_database


def text(db: Database, form: str) -> str:
    out = io.StringIO()
    exporting.run(db, "demo", form, out, NOW)
    return out.getvalue()


def test_other_results_become_an_asv_tree_that_publishes(demo: Database, tmp_path: Path) -> None:
    """Parameters are axes, and asv's graphs hold the values of every commit."""
    assert exporting.run(demo, "demo", "asv", tmp_path / "tree", NOW) == 12
    graphs = published(tmp_path / "tree", tmp_path / "repo", tmp_path / "c/site")
    (load,) = [g for name, g in graphs.items() if name.endswith("load.time_time.json") and "summary" not in name]
    assert [(i, values[:2]) for i, values in load] == [(i, [pytest.approx(1e-3 * (1.5 + i))] * 2) for i in range(4)]


def test_json_lines_come_in_again_as_they_went_out(demo: Database, tmp_path: Path) -> None:
    """Own lines are read back to the same values, parameters, commits and failures; imported again they add up."""
    lines = text(demo, "jsonl")
    records = [r for r in own.parse(of_bytes("x", lines.encode())) if isinstance(r, Record)]
    assert len(records) == 13
    assert [r.outcome for r in records].count("failed") == 1
    assert {(r.benchmark, r.metric.unit) for r in records if r.outcome == "ok"} == {
        ("load", "s"),
        ("serve", "requests/s"),
    }
    (tmp_path / "again.jsonl").write_text(lines)
    summary = importing.run(demo, importing.Options("other", (tmp_path / "again.jsonl",), repo=tmp_path / "repo"), NOW)
    assert (summary.added.results, summary.added.failures, summary.revisions) == (12, 1, 4)


def test_csv_comes_in_again(demo: Database, tmp_path: Path) -> None:
    """The table's own columns are known to the importer."""
    (tmp_path / "out.csv").write_text(text(demo, "csv"))
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text())))
    assert [r["value"] for r in rows if r["benchmark"] == "serve"] == ["100.0", "99.0", "98.0", "97.0"]
    assert importing.run(demo, importing.Options("third", (tmp_path / "out.csv",)), NOW).added.results == 12


def test_a_cell_never_becomes_a_formula(sqlite_database: Database, tmp_path: Path) -> None:
    """A name that begins like a spreadsheet's formula is written as text."""
    (tmp_path / "t.csv").write_text("benchmark,value,unit,commit\n\"=cmd|' /C calc'!A0\",-1.5,s,abcdef1\n")
    importing.run(sqlite_database, importing.Options("demo", (tmp_path / "t.csv",)), NOW)
    row = next(csv.DictReader(io.StringIO(text(sqlite_database, "csv"))))
    assert row["benchmark"].startswith("'=")
    assert row["value"] == "-1.5"


def test_openmetrics_has_the_newest_value_of_each_series(demo: Database) -> None:
    """One line a series, at the last position, with its labels; the mark of the end is there."""
    lines = text(demo, "openmetrics").splitlines()
    assert lines[-1] == "# EOF"
    values = [line for line in lines if not line.startswith("#")]
    assert len(values) == 3
    assert any('benchmark="serve"' in v and " 97.0 " in v for v in values)


def test_github_action_benchmark_comes_in_again(demo: Database, tmp_path: Path) -> None:
    """Its history file holds every value in one of two lists, by direction."""
    doc = json.loads(text(demo, "github-action-benchmark"))
    assert {tool: len(runs) for tool, runs in doc["entries"].items()} == {
        "customSmallerIsBetter": 4,
        "customBiggerIsBetter": 4,
    }
    (tmp_path / "data.json").write_text(json.dumps(doc))
    assert importing.run(demo, importing.Options("fourth", (tmp_path / "data.json",)), NOW).added.results == 12


def test_parquet_holds_every_record(demo: Database, tmp_path: Path) -> None:
    """One row a record, with lists of samples."""
    pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is an extra")
    assert exporting.run(demo, "demo", "parquet", tmp_path / "out.parquet", NOW) == 13
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 13


def test_atom_names_regressions_for_ever_the_same(demo: Database) -> None:
    """A well-formed feed; an entry's identity does not change when its text does; no character breaks it."""
    with demo.transaction() as session:
        session.add(t.Regression(project_id=1, title="slower <& \x07 by 10 %", created_at=NOW, updated_at=NOW))
    feed = ET.fromstring(text(demo, "atom"))
    names = {"a": "http://www.w3.org/2005/Atom"}
    assert [e.text for e in feed.findall("a:entry/a:id", names)] == ["urn:groundspeed:demo:regression:1"]


def test_what_cannot_be_exported_is_told(demo: Database) -> None:
    """Unknown project, unknown format, and a folder asked of a stream."""
    with pytest.raises(NotFound, match="no project nope"):
        exporting.run(demo, "nope", "csv", io.StringIO(), NOW)
    with pytest.raises(Invalid, match="no export format doc"):
        exporting.run(demo, "demo", "doc", io.StringIO(), NOW)
    with pytest.raises(Invalid, match="standard output"):
        exporting.run(demo, "demo", "asv", io.StringIO(), NOW)
