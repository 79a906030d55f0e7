"""``groundspeed db``: look after the database."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from groundspeed.cli import context
from groundspeed.cli.output import report_done, show_json

app = typer.Typer(no_args_is_help=True, help="The database: upgrade, backup, restore, export.")


class Form(StrEnum):
    jsonl = "jsonl"
    csv = "csv"


@app.command()
def upgrade(data: context.DataOption = None, json: context.JsonOption = False) -> None:
    """Bring the tables to this release's; a no-op the second time. `groundspeed up` does it by itself."""
    from groundspeed.service.db import migrate

    with context.database(context.settings_for(data)) as db:
        version = migrate.version(db)
    report_done(f"The tables are current (version {version}).", json, standing="current", version=version)


@app.command()
def check(data: context.DataOption = None, json: context.JsonOption = False) -> None:
    """Say how the database stands to this release; changes nothing. Exit status 1: an upgrade is due."""
    from groundspeed.service.db import migrate
    from groundspeed.service.db.engine import Database

    settings = context.settings_for(data)
    db = Database(settings.database)
    try:
        standing = migrate.check(db)
    finally:
        db.close()
    if json:
        show_json({"standing": standing})
        raise typer.Exit(0 if standing == "current" else 1)
    words = {"current": "current", "empty": "empty: `groundspeed db upgrade` makes the tables"}
    sys.stdout.write(
        f"The database is {words.get(standing, 'older: `groundspeed db upgrade` brings it up to date')}.\n"
    )
    raise typer.Exit(0 if standing == "current" else 1)


@app.command()
def backup(
    file: Annotated[Path, typer.Argument(help="File to write; it must not be there yet.")],
    data: context.DataOption = None,
    json: context.JsonOption = False,
) -> None:
    """Write every row to one file that either engine can be restored from. The service may run meanwhile."""
    from datetime import UTC, datetime

    from groundspeed.service.db import archive

    with context.database(context.settings_for(data)) as db:
        made = archive.backup(db, file, datetime.now(UTC))
    said = f"{made.total:,} rows of {len(made.rows)} tables are in {file}."
    report_done(said, json, file=str(file), rows=made.total, tables=dict(made.rows), made_at=made.made_at)


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="A file that `groundspeed db backup` made.")],
    data: context.DataOption = None,
    json: context.JsonOption = False,
) -> None:
    """Fill an empty database from a backup, of this release or an older one, and bring it up to date."""
    from groundspeed.service.db import archive
    from groundspeed.service.db.engine import Database

    settings = context.settings_for(data)
    context.make_folder(settings.data_dir)
    db = Database(settings.database)
    try:
        found = archive.restore(db, file)
    finally:
        db.close()
    said = f"{found.total:,} rows as of {found.made_at} are restored."
    report_done(said, json, file=str(file), rows=found.total, tables=dict(found.rows), made_at=found.made_at)


@app.command()
def export(
    file: Annotated[Path | None, typer.Argument(help="File to write; without it, standard output.")] = None,
    project: Annotated[str | None, typer.Option("--project", "-p", help="Only this project.")] = None,
    form: Annotated[Form, typer.Option("--format", help="One JSON object a line, or CSV.")] = Form.jsonl,
    raw: Annotated[bool, typer.Option("--samples", help="With the raw samples that are still kept.")] = False,
    data: context.DataOption = None,
) -> None:
    """Every result as a line that other tools read."""
    from groundspeed.service.usecases import export as exporting

    with context.database(context.settings_for(data)) as db:
        lines = exporting.export(db, project, form=form.value, raw=raw)
        if file is None:
            sys.stdout.writelines(lines)
            return
        with file.open("w", encoding="utf-8", newline="") as out:
            out.writelines(lines)
