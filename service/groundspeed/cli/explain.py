"""``groundspeed explain SERIES@COMMIT``: why a point was flagged, and another was not."""

from __future__ import annotations

import sys
import textwrap
from typing import Annotated

import typer

from groundspeed.cli import kernels
from groundspeed.cli.context import DataOption, JsonOption, database, settings_for
from groundspeed.cli.output import harmless, show_json


def explain(
    point: Annotated[
        str,
        typer.Argument(
            metavar="SERIES@COMMIT",
            help="A series (number, or suite/metric) and a commit (hash, tag, or tip): train/step_time@1f3c9aa.",
        ),
    ],
    project: Annotated[str | None, typer.Option("--project", "-p", help="Only series of this project.")] = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Say why a commit was flagged in a series, or why not, in plain words."""
    from groundspeed.service.usecases import explain as usecase
    from groundspeed.service.usecases import naming

    series, commit = naming.split(point)
    with database(settings_for(data)) as db:
        found = usecase.explain(db, series, commit, project)
    if json:
        show_json(found)
        return
    width = 100 if sys.stdout.isatty() else 10_000
    lines = [textwrap.fill(text, width, break_long_words=False) for text in usecase.paragraphs(found)]
    lines += kernels.lines(found.kernels)
    sys.stdout.write(harmless("\n".join(lines)) + "\n")
