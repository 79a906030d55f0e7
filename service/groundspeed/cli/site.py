"""``groundspeed site``: the pages as files for a static host."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from groundspeed.cli import context
from groundspeed.cli.output import console, show_json

site_app = typer.Typer(no_args_is_help=True, help="A site of files that any static host serves.")


@site_app.callback()
def _site() -> None:
    """Keeps `export` a command of its own while it is the only one."""


@site_app.command("export")
def export(
    out: Annotated[Path, typer.Argument(help="Folder to write; an earlier site in it is replaced.")],
    project: Annotated[
        list[str] | None, typer.Option("--project", "-p", help="Only this project; may be given again.")
    ] = None,
    data: context.DataOption = None,
    json: context.JsonOption = False,
) -> None:
    """Write overview, benchmarks, graphs, regressions and commits as HTML files."""
    from groundspeed.service.pages import site

    with context.database(context.settings_for(data)) as db:
        written = site.export(db, tuple(project or ()), out, datetime.now(UTC))
    if json:
        show_json(written)
        return
    console().print(f"{written.pages} pages, {written.size_bytes / 1e6:.1f} MB, in {out}")
