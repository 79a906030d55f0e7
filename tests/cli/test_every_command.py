"""What holds for every command there is: help, JSON for programs, a place in the documentation, completion."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from groundspeed.cli import main
from groundspeed.service.errors import NotFound

DOCS = Path(__file__).resolve().parents[2] / "docs"
WITHOUT_JSON = {
    "worker": "runs until it is stopped; its log is JSON lines",
    "up": "runs until it is stopped; `status --json` tells of it",
    "github setup": "is a dialogue with a browser",
    "config schema": "prints JSON and nothing else",
    "db export": "writes JSON lines or CSV",
}


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """(words, command) of everything that can be run."""
    if hasattr(command, "commands"):
        for name, child in command.commands.items():
            yield from leaves(child, (*path, name))
    else:
        yield " ".join(path), command


def root() -> Any:
    if not any(entry.name == "init" for entry in main.app.registered_commands):
        main._register()
    return typer.main.get_command(main.app)


COMMANDS = dict(leaves(root()))


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main.app, list(arguments), catch_exceptions=False)


def test_every_command_has_help_and_json_or_a_reason() -> None:
    """Help comes without touching anything; what tells something tells it to programs too."""
    for words, command in COMMANDS.items():
        shown = command.get_help(command.make_context(words, [], resilient_parsing=True))
        assert shown.startswith("Usage:"), words
        assert "\x1b" not in shown, words
        assert command.help.strip(), words
        options = {option for parameter in command.params for option in parameter.opts}
        assert ("--json" in options) != (words in WITHOUT_JSON), (words, WITHOUT_JSON.get(words, "has no --json"))
    shown = run("job", "--help")
    assert (shown.exit_code, "cancel" in shown.output) == (0, True)


def test_every_command_stands_in_the_documentation() -> None:
    """By its name after `groundspeed`, or alone in code; exit codes are told of commands that exist."""
    text = "\n".join(path.read_text() for path in DOCS.glob("*.md"))
    missing = [
        words
        for words in COMMANDS
        if not re.search(rf"(?:groundspeed {re.escape(words)}\b|`{re.escape(words)}\b)", text)
    ]
    assert missing == []
    named = re.findall(r"^\| (`.*?) \|", (DOCS / "exit-codes.md").read_text(), re.MULTILINE)
    words = {re.sub(r" --.*", "", word) for row in named for word in re.findall(r"`([^`]+)`", row)}
    assert words <= set(COMMANDS)


@pytest.mark.parametrize("words", ["nosuch", "import --nosuch", "db restore", "compare a", "job show x"])
def test_a_wrong_call_ends_with_2_and_says_how(words: str) -> None:
    shown = run(*words.split())
    assert shown.exit_code == 2
    assert "Usage: " in shown.output
    assert "Traceback" not in shown.output


def test_what_changes_something_says_so_in_json(tmp_path: Path) -> None:
    """One object on standard output, nothing else there."""
    data, file = ("--data", str(tmp_path / "d")), tmp_path / "backup"
    repository = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", "-b", "trunk", str(repository)], check=True)

    def said(*arguments: str) -> Any:
        shown = run(*arguments, "--json")
        assert shown.exit_code == 0, shown.output
        return json.loads(shown.stdout)

    assert said("init", str(repository))["written"][0] == "groundspeed.toml"
    assert said("db", "upgrade", *data)["standing"] == "current"
    assert said("event", "BIOS changed", *data)["events"]
    secret = said("token", "create", "ci", *data)["token"]
    assert said("token", "rotate", "ci", *data)["token"] not in {"", secret}
    made = said("db", "backup", str(file), *data)
    assert made["rows"] > 1
    assert said("db", "restore", str(file), "--data", str(tmp_path / "other"))["rows"] == made["rows"]
    with pytest.raises(NotFound):
        run("node", "drain", "nosuch", *data, "--json")


@pytest.mark.parametrize("shell", ["bash", *(pytest.param(name, marks=pytest.mark.long) for name in ("zsh", "fish"))])
def test_shells_complete_commands(shell: str) -> None:
    """The script for the shell, and what a half-typed command becomes."""

    def asked(what: str, **more: str) -> str:
        environment = os.environ | {"_GROUNDSPEED_COMPLETE": f"{what}_{shell}"} | more
        command = [
            sys.executable,
            "-c",
            "import sys; sys.argv = ['groundspeed']; from groundspeed.cli.main import main; main()",
        ]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout

    typed = {
        "COMP_WORDS": "groundspeed regr",
        "COMP_CWORD": "1",
        "_TYPER_COMPLETE_ARGS": "groundspeed regr",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    assert "groundspeed" in asked("source")
    assert "regressions" in asked("complete", **typed)
