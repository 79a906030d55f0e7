"""``groundspeed export``: everything out again, in formats that other tools read."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from groundspeed.cli.context import DataOption, JsonOption, database, settings_for
from groundspeed.cli.output import console, show_json

_HELP = "asv, csv, jsonl, parquet, openmetrics, github-action-benchmark or atom."


def export_results(
    project: Annotated[str, typer.Argument(help="Name of the project.", show_default=False)],
    form: Annotated[str, typer.Option("--format", "-f", help=_HELP)] = "csv",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File or folder.", show_default="standard output")
    ] = None,
    as_json: JsonOption = False,
    data: DataOption = None,
) -> None:
    """Export a project's results. An asv tree is a folder on which `asv publish` and `asv compare` work."""
    from groundspeed.service.errors import Invalid
    from groundspeed.service.usecases import exporting

    if as_json and out is None:
        raise Invalid("--json tells what was written to --out.", "Give --out, or --format jsonl for results as JSON.")
    with database(settings_for(data)) as db:
        count = exporting.run(db, project, form, out if out is not None else sys.stdout, datetime.now(UTC))
    if as_json:
        show_json({"project": project, "format": form, "out": str(out), "results": count})
    elif out is not None:
        console().print(f"{count} results written to {out}", markup=False)
