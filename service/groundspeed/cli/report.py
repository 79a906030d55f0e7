"""``groundspeed report``: one line in a CI job sends its results to a service."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from groundspeed.cli.output import console, show_json

if TYPE_CHECKING:
    from groundspeed.service.wire.imports import Imported

_COMMIT_VARIABLES = (
    "GITHUB_SHA",
    "CI_COMMIT_SHA",
    "GIT_COMMIT",
    "BUILDKITE_COMMIT",
    "CIRCLE_SHA1",
    "BUILD_SOURCEVERSION",
)


def report(
    paths: Annotated[list[Path], typer.Argument(help="Result files; - is standard input.", show_default=False)],
    project: Annotated[str, typer.Option("--project", "-p", envvar="GROUNDSPEED_PROJECT", help="Name of the project.")],
    url: Annotated[str, typer.Option(envvar="GROUNDSPEED_URL", help="The service.")] = "http://127.0.0.1:8750",
    form: Annotated[str, typer.Option("--format", help="Force a format; by default the content tells.")] = "",
    mapping: Annotated[
        list[str] | None,
        typer.Option("--map", envvar="GROUNDSPEED_MAP", help="For tables: role=column, e.g. benchmark=test."),
    ] = None,
    commit: Annotated[str, typer.Option(help="Commit that was measured.", show_default="from the CI job or git")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Send results of any known format to a service. The token is read from GROUNDSPEED_TOKEN.

    Exit status 0: all are there; 1: parts were refused; 2: nothing could be sent.
    """
    from groundspeed.client import Client
    from groundspeed.service.errors import Invalid
    from groundspeed.service.wire.imports import Imported

    sha = (commit or commit_of_this_job()).lower()
    if sha and not re.fullmatch("[0-9a-f]{7,64}", sha):
        raise Invalid(
            f"{sha!r} is no commit.", "--commit takes its hash, or at least the first seven characters of it."
        )
    for path in paths:
        if str(path) != "-" and not path.is_file():
            raise Invalid(f"There is no file {path}.", "Give what the benchmark tool has written.")
    replies: list[Imported] = []
    errors: list[Invalid] = []
    with Client(url, token=os.environ.get("GROUNDSPEED_TOKEN", "")) as service:
        for path in paths:
            body = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
            name = path.name if str(path) != "-" else "stdin"
            try:
                replies.append(service.report(project, body, name=name, form=form, commit=sha, mapping=mapping or ()))
            except Invalid as error:  # this file; the others go on
                errors.append(error)
                replies.append(
                    Imported(
                        results=0, runs=0, failures=0, already=0, refused=(f"{error.title} {error.advice}".strip(),)
                    )
                )
    if len(errors) == len(paths):
        raise errors[0]
    if as_json:
        show_json(replies)
    else:
        for path, reply in zip(paths, replies, strict=True):
            console().print(f"{path}: {_words(reply)}", markup=False)
    if any(reply.refused for reply in replies):
        raise typer.Exit(1)


def commit_of_this_job() -> str:
    """The commit that a CI system names, else that of the git checkout here; empty when there is neither.

    Of a pull request it is the head, not the merge that GitHub and GitLab make of it for the job.
    """
    named = _head_of_pull_request() or os.environ.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA", "")
    for name in _COMMIT_VARIABLES:
        named = named or os.environ.get(name, "")
    if named:
        return named
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _head_of_pull_request() -> str:
    path = os.environ.get("GITHUB_EVENT_PATH", "")
    if not path or not os.environ.get("GITHUB_EVENT_NAME", "").startswith("pull_request"):
        return ""
    try:
        event = json.loads(Path(path).read_text(encoding="utf-8"))
        return str(event["pull_request"]["head"]["sha"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def _words(reply: Imported) -> str:
    text = f"{reply.results} results"
    if reply.failures:
        text += f", {reply.failures} failures"
    if reply.already:
        text += f"; {reply.already} runs were there already"
    for left in reply.skipped:
        text += f"; skipped {left.count} × {left.reason} ({', '.join(left.where[:2])})"
    return text + "".join(f"; refused {error}" for error in reply.refused)
