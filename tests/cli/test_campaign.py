"""A campaign from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from groundspeed.cli import campaign, main
from groundspeed.service.errors import Invalid, NotFound
from rack import CONFIG, Machine, nodes
from repositories import toy


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with a project and three nodes."""
    from datetime import UTC, datetime

    from groundspeed.cli import context

    repo, _ = toy(tmp_path / "repo", 2, CONFIG)
    folder = tmp_path / "data"
    with context.database(context.settings_for(folder)) as db:
        for i in range(3):
            machine = Machine(f"n{i}", labels={"rack": "7"})
            nodes.register(db, machine.registration(), datetime.now(UTC), 10.0)
    ran = CliRunner().invoke(main.app, ["project", "add", str(repo.path), "--data", str(folder)])
    assert ran.exit_code == 0, ran.output
    return folder


def run(data: Path, *arguments: str) -> str:
    result = CliRunner().invoke(campaign.app, [*arguments, "--data", str(data)], catch_exceptions=False)
    assert result.exit_code in {0, 1}, result.output
    return result.output


def test_create_show_decide_and_report(data: Path) -> None:
    said = run(
        data, "create", "up", "--project", "toy", "--change", "gpu.driver=580", "--where", "rack=7", "--waves", "1"
    )
    assert "begins with the baselines of 3 nodes" in said
    assert "canary: n0" in said
    assert "gpu.driver → 580" in run(data, "list")
    shown = json.loads(run(data, "show", "up", "--json"))
    assert (shown["state"], shown["phase"], shown["counts"]) == ("running", "baseline", {"waiting": 3})
    assert "no verdict yet" in run(data, "report", "up")
    assert ": waits for the node to be alive and fit" in run(data, "show", "up")
    assert run(data, "report", "up", "--format", "csv").count("\nnode,") == 3
    assert "<h1>Campaign up</h1>" in run(data, "report", "up", "--format", "html")
    assert "was aborted; 0 jobs were cancelled" in run(data, "abort", "up", "--why", "no")
    assert "is running again" in run(data, "resume", "up")
    assert "0 of 0 devices stand out" in run(data, "stragglers", "toy")


def test_check_ends_with_one_until_it_is_go(data: Path) -> None:
    said = run(data, "create", "up", "--project", "toy", "--change", "gpu.drivr=580", "--node", "n0")
    assert "needs 3 nodes at least: of 1 it can only be not enough evidence" in said
    assert "None of these nodes tells a facet 'gpu.drivr' so far. Did you mean 'gpu.driver'?" in said
    result = CliRunner().invoke(campaign.app, ["report", "up", "--check", "--data", str(data)])
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--change", "driver"), "Write NAME=VALUE"),
        (("--change", "d=1", "--waves", "a"), "'a' is no number"),
        (("--change", "d=1", "--hold", "maybe"), "Use auto or manual"),
        (("--change", "d=1", "--where", "rack=9"), "No node fits rack=9"),
    ],
)
def test_what_cannot_be_is_said_in_words(data: Path, more: tuple[str, ...], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        run(data, "create", "x", "--project", "toy", *more)


def test_an_unknown_campaign_and_project_are_named(data: Path) -> None:
    with pytest.raises(NotFound, match="no campaign 'x'"):
        run(data, "show", "x")
    with pytest.raises(NotFound, match="no project 'x'"):
        run(data, "stragglers", "x")


def test_a_runbook_tells_of_what_it_did(data: Path) -> None:
    main._register()
    told = CliRunner().invoke(main.app, ["event", "BIOS changed on rack 7", "--where", "rack=7", "--data", str(data)])
    assert told.output == "Noted (3 events).\n"
