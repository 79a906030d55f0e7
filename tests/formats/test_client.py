"""The command line and the client: results go in by one line, over HTTP or on the machine itself, and come out again."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
from sqlalchemy import func, select
from typer.testing import CliRunner

from formats import trees
from groundspeed.cli.exporting import export_results
from groundspeed.cli.importing import import_results
from groundspeed.cli.report import commit_of_this_job, report
from groundspeed.client import OPERATIONS, Client
from groundspeed.service.db import engine
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.errors import GroundspeedError, Invalid, NotFound, Unavailable
from groundspeed.service.usecases import importing, receiving
from web_server import app, serve

NOW = datetime(2026, 1, 2, tzinfo=UTC)
HYPERFINE = json.dumps(
    {"results": [{"command": "sort big", "mean": 1.5, "times": [1.4, 1.5, 1.6], "user": 1.0, "system": 0.1}]}
)
commands = typer.Typer()
commands.command("import")(import_results)
commands.command("export")(export_results)
commands.command("report")(report)


def invoke(*words: object) -> tuple[int, str]:
    """Exit status and standard output; what is logged goes to standard error."""
    result = CliRunner().invoke(commands, [str(w) for w in words])
    if isinstance(result.exception, GroundspeedError):
        raise result.exception
    return result.exit_code, result.stdout


def test_import_and_export_by_command(tmp_path: Path) -> None:
    """A tree goes in with a summary in words or JSON, again adds nothing, and comes out as a tree."""
    count = trees.write_tree(tmp_path / "results", trees.repository(tmp_path / "repo", 3))
    base = ("import", tmp_path / "results", "-p", "demo", "--data", tmp_path / "data", "--repo", tmp_path / "repo")
    code, text = invoke(*base)
    assert (code, f"{count} results of" in text) == (0, True)
    code, text = invoke(*base, "--json")
    assert (json.loads(text)["results"], json.loads(text)["order"]) == (0, "the git repository repo")
    code, text = invoke("export", "demo", "-f", "asv", "-o", tmp_path / "out", "--data", tmp_path / "data")
    assert (code, f"{count} results written" in " ".join(text.split())) == (0, True)
    code, text = invoke("export", "demo", "-f", "jsonl", "--data", tmp_path / "data")
    assert text.count('"groundspeed.result.v1"') >= count


def test_a_table_needs_a_mapping_and_takes_one(tmp_path: Path) -> None:
    """Unknown columns are refused with the columns and what a mapping is; with it the values come in their unit."""
    (tmp_path / "t.csv").write_text("who,lat_ms,sha\na,12.5,abcdef1\nb,,abcdef1\n")
    code, text = invoke("import", tmp_path / "t.csv", "-p", "demo", "--data", tmp_path / "data")
    assert code == 1
    assert "t.csv:1" in text
    words = ("--map", "benchmark=who", "--map", "metric=lat_ms:ms", "--map", "commit=sha")
    code, text = invoke("import", tmp_path / "t.csv", "-p", "demo", "--data", tmp_path / "data", "--json", *words)
    assert (code, json.loads(text)["results"], json.loads(text)["failures"]) == (0, 1, 1)
    (tmp_path / "h.json").write_text('{"results": [{"command": "sleep 0", "mean": 0.1, "times": [0.1, 0.1]}]}')
    (tmp_path / "none.csv").write_text("one,two\nx,1\n")
    files = [tmp_path / name for name in ("t.csv", "h.json", "none.csv")]
    code, text = invoke("import", *files, "-p", "demo", "--data", tmp_path / "other", "--json", *words)
    told = json.loads(text)
    assert (code, told["results"], len(told["refused"])) == (1, 2, 1)
    assert "none.csv:1: has no column lat_ms, sha, who." in told["refused"][0]
    with pytest.raises(Invalid, match="no role of a column"):
        invoke("import", tmp_path / "t.csv", "-p", "demo", "--data", tmp_path / "data", "--map", "colour=who")


@pytest.fixture
def service(sqlite_database: Database, tmp_path: Path) -> Iterator[str]:
    """The real application on a free port, with a project called demo."""
    (tmp_path / "seed.csv").write_text("benchmark,value,unit,commit\nseed,1,s,abcdef1\n")
    importing.run(sqlite_database, importing.Options("demo", (tmp_path / "seed.csv",)), NOW)
    with serve(app(sqlite_database, tmp_path / "service")) as address:
        yield address


def test_a_ci_job_reports_in_one_line(
    service: str, sqlite_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit comes from the job; posting the same file again, packed this time, adds nothing."""
    monkeypatch.setenv("GITHUB_SHA", "AB" * 20)
    for name in ("GITHUB_EVENT_NAME", "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "h.json").write_text(HYPERFINE)
    (tmp_path / "h.json.gz").write_bytes(gzip.compress(HYPERFINE.encode()))
    code, text = invoke("report", tmp_path / "h.json", "-p", "demo", "--url", service, "--json")
    assert (code, json.loads(text)[0]["results"]) == (0, 3)
    code, text = invoke("report", tmp_path / "h.json.gz", "-p", "demo", "--url", service, "--json")
    assert (json.loads(text)[0]["results"], json.loads(text)[0]["already"]) == (0, 1)
    with sqlite_database.read() as session:
        shas = set(session.scalars(select(t.Revision.sha)))
        runs = session.execute(select(func.count()).select_from(t.Run)).scalar_one()
    assert (shas, runs) == ({"abcdef1", "ab" * 20}, 2)


def test_what_a_service_refuses_is_told_in_its_words(service: str, tmp_path: Path) -> None:
    """No such project; a file of no known format, with its line; a file that is not there."""
    (tmp_path / "h.json").write_text(HYPERFINE)
    (tmp_path / "junk.txt").write_text("junk\n")
    with pytest.raises(NotFound, match="There is no project nope"):
        invoke("report", tmp_path / "h.json", "-p", "nope", "--url", service)
    with pytest.raises(Invalid, match=r"junk\.txt:1: no known format"):
        invoke("report", tmp_path / "junk.txt", "-p", "demo", "--url", service)
    (tmp_path / "t.csv").write_text("who,lat_ms,sha\na,12.5,abcdef1\n")
    table = ("report", tmp_path / "t.csv", "-p", "demo", "--url", service)
    with pytest.raises(Invalid, match="for a table give --map"):
        invoke(*table)
    with pytest.raises(Invalid, match='"colour" is no role of a column'):
        invoke(*table, "--map", "colour=who")
    code, text = invoke(*table, "--map", "benchmark=who", "--map", "metric=lat_ms:ms", "--map", "commit=sha")
    assert (code, ": 1 results" in text) == (0, True)
    with pytest.raises(Invalid, match="There is no file"):
        invoke("report", tmp_path / "none.json", "-p", "demo", "--url", service)
    with pytest.raises(Invalid, match="no address of a service"):
        invoke("report", tmp_path / "h.json", "-p", "demo", "--url", "perf.example.org")
    code, text = invoke(
        "report", tmp_path / "junk.txt", tmp_path / "h.json", "-p", "demo", "--url", service, "--commit", "abcdef1"
    )
    assert code == 1
    assert re.search(r"junk\.txt: 0 results.*refused .*no known format", text)
    assert "h.json: 3 results\n" in text


def test_every_call_of_the_client_is_in_the_description(sqlite_database: Database, tmp_path: Path) -> None:
    """Method, path, parameters, body and answer of each operation are those of the OpenAPI document."""
    described = app(sqlite_database, tmp_path / "service").openapi()["paths"]
    assert len(OPERATIONS) > 15
    for one in OPERATIONS:
        operation = described[one.path][one.method.lower()]
        (answer,) = [r for code, r in operation["responses"].items() if code.startswith("2")]
        assert answer["content"]["application/json"]["schema"]["$ref"].endswith(f"/{one.answer.__name__}"), one.path
        known = {p["name"] for p in operation["parameters"]} if "parameters" in operation else set()
        assert set(one.query) <= known, one.path
        if one.body is not None:
            sent = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
            assert sent.endswith(f"/{one.body.__name__}"), one.path


def test_the_client_reads_what_it_has_sent(service: str) -> None:
    """Through a real server: results go in, and projects, series, commits, graphs, comparisons and searches come out typed."""
    with Client(service) as client:
        assert client.report("demo", HYPERFINE.encode(), name="h.json", commit="abcdef2").results == 3
        assert [card.project.slug for card in client.projects().projects] == ["demo"]
        card = next(c for c in client.benchmarks("demo").cards if c.series.suite == "sort big" and c.series.unit == "s")
        assert client.commit("demo", "abcdef2").results
        assert client.compare("demo", "abcdef1", "abcdef2").counts == {"never-compared": 4}
        assert client.series("demo", card.series.id).series[0].series.id == card.series.id
        assert client.regressions("demo").rows == ()
        with pytest.raises(NotFound, match="There is no project"):
            client.overview("no such?")


def test_a_service_that_is_away_is_told_after_some_tries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four tries, then one sentence with the address."""
    waits: list[float] = []
    monkeypatch.setattr("groundspeed.client.client.sleep", waits.append)
    (tmp_path / "h.json").write_text(HYPERFINE)
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9"):
        invoke("report", tmp_path / "h.json", "-p", "demo", "--url", "http://127.0.0.1:9")
    assert waits == [1.0, 2.0, 4.0]


def test_of_a_pull_request_the_head_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GITHUB_SHA is the merge that nobody will find again; a broken event file is passed over."""
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"head": {"sha": "cd" * 20}}}))
    monkeypatch.setenv("GITHUB_SHA", "ab" * 20)
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(event))
    monkeypatch.setenv("GITHUB_EVENT_NAME", "push")
    monkeypatch.delenv("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA", raising=False)
    assert commit_of_this_job() == "ab" * 20
    monkeypatch.setenv("GITHUB_EVENT_NAME", "pull_request")
    assert commit_of_this_job() == "cd" * 20
    event.write_text("[")
    assert commit_of_this_job() == "ab" * 20


def test_the_commit_comes_from_git_when_no_job_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a checkout it is HEAD; elsewhere there is none."""
    for name in (
        "GITHUB_EVENT_NAME",
        "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA",
        "GITHUB_SHA",
        "CI_COMMIT_SHA",
        "GIT_COMMIT",
        "BUILDKITE_COMMIT",
        "CIRCLE_SHA1",
        "BUILD_SOURCEVERSION",
    ):
        monkeypatch.delenv(name, raising=False)
    sha = trees.repository(tmp_path / "repo", 1)[0]
    monkeypatch.chdir(tmp_path / "repo")
    assert commit_of_this_job() == sha
    monkeypatch.chdir(tmp_path)
    assert commit_of_this_job() == ""


def test_a_post_to_an_unknown_project_makes_none(sqlite_database: Database) -> None:
    """A mistyped name in a CI job does not become a project."""
    with pytest.raises(NotFound, match="no project typo"):
        receiving.receive(sqlite_database, "typo", "x.json", HYPERFINE.encode(), NOW)


def test_a_first_upload_keeps_nobody_from_reading(sqlite_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service's readers do not wait for a large one, as those of a store that a command fills do."""
    with sqlite_database.transaction() as session:
        session.add(t.Project(slug="demo", name="demo", repo_url=""))
    kept_out = []
    monkeypatch.setattr(engine, "_write_once", lambda _: kept_out.append(1))
    monkeypatch.setattr(receiving, "FEW_BYTES", 0)
    added = receiving.receive(sqlite_database, "demo", "x.json", HYPERFINE.encode(), NOW, commit="ab" * 20).added
    assert (added.results > 0, kept_out) == (True, [])
