"""Steering work from the command line, against the database that the service uses."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from fleet import Fleet, fleet
from groundspeed.cli import tokens as token_commands
from groundspeed.cli import work
from groundspeed.service.db.engine import Database
from groundspeed.service.errors import Conflict, NotFound, Unauthorized
from groundspeed.service.usecases import tokens


@pytest.fixture
def world(sqlite_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    monkeypatch.setenv("GROUNDSPEED_DATABASE_URL", sqlite_database.url)
    monkeypatch.setenv("GROUNDSPEED_DATA_DIR", str(tmp_path / "data"))
    made = fleet(sqlite_database, tmp_path, 4)
    made.now = datetime.now(UTC)
    made.add(watch=False)
    return made


def ask(app: typer.Typer, *arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, catch_exceptions=True)


def said(app: typer.Typer, *arguments: str) -> str:
    done = ask(app, *arguments)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def test_jobs_are_listed_moved_cancelled_and_tried_again(world: Fleet) -> None:
    world.node()
    first, second, *_ = world.measure()
    assert said(work.job_app, "priority", str(second.id), "1") == f"Job {second.id} has priority 1.\n"
    listed = json.loads(said(work.job_app, "list", "--json"))
    assert [job["id"] for job in listed][:2] == [second.id, first.id]
    assert "0 jobs go first" in said(work.job_app, "show", str(second.id))
    assert said(work.job_app, "cancel", str(first.id), "--reason", "not now") == f"Job {first.id} is cancelled.\n"
    assert world.job(first.id).error == "not now"
    assert "not now" in said(work.job_app, "list", "--state", "cancelled")
    assert said(work.job_app, "retry", str(first.id)) == f"Job {first.id} waits again.\n"
    assert world.job(first.id).state == "queued"
    refused = ask(work.job_app, "retry", str(first.id))
    assert isinstance(refused.exception, Conflict)
    assert isinstance(ask(work.job_app, "cancel", "999").exception, NotFound)
    assert "jobs of request" in said(work.job_app, "cancel-request", str(first.request_id))
    assert {job.state for job in world.jobs()} == {"cancelled"}


def test_nodes_are_listed_drained_and_taken_back(world: Fleet) -> None:
    world.node("a", labels={"pool": "gpu"})
    assert said(work.node_app, "drain", "a", "--reason", "new driver") == "a is draining.\n"
    [seat] = json.loads(said(work.node_app, "list", "--json"))
    assert (seat["pool"], seat["state"], seat["state_reason"]) == ("gpu", "draining", "new driver")
    said(work.node_app, "activate", "a")
    assert "active" in said(work.node_app, "list")
    assert isinstance(ask(work.node_app, "drain", "nobody").exception, NotFound)


def test_the_status_tells_nodes_queues_and_ages(world: Fleet) -> None:
    world.node("a")
    world.measure()
    app = typer.Typer()
    app.command()(work.status)
    text = said(app)
    for words in ("on the database of http", "waiting for pool default", "slots of pool default", "oldest waiting"):
        assert words in text
    assert json.loads(said(app, "--json"))["pulse"]["waiting"] == {"default": 4}


def test_a_token_is_rotated_with_an_overlap(world: Fleet) -> None:
    app = typer.Typer()
    app.command("rotate")(token_commands.rotate)
    app.command("list")(token_commands.listed)
    now = datetime.now(UTC)
    old = tokens.create(world.db, tokens.New("w", "worker", "n1"), now)
    new = said(app, "rotate", "w", "--overlap-hours", "2").strip()
    assert tokens.authenticate(world.db, new, now) == tokens.authenticate(world.db, old, now), "the same reach"
    later = datetime.now(UTC) + timedelta(hours=2)
    assert tokens.authenticate(world.db, new, later).node == "n1"
    with pytest.raises(Unauthorized):
        tokens.authenticate(world.db, old, later)
    text = said(app, "list")
    assert text.count("node:n1") == 2
    assert new not in text
    assert isinstance(ask(app, "rotate", "nobody").exception, NotFound)
