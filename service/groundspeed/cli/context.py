"""What several commands need before they can begin: the settings of a data folder, and its database."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from groundspeed.service.db.engine import Database
    from groundspeed.service.settings import Settings

DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="Folder that holds everything the service writes.", show_default=".groundspeed"),
]
MapOption = Annotated[list[str] | None, typer.Option("--map", help="For tables: role=column, e.g. benchmark=test.")]
BenchOption = Annotated[str, typer.Option("--bench", "-b", help="Only names that this regular expression finds.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def settings_for(data: Path | None, **overrides: object) -> Settings:
    """Settings of the environment, with what the command line says on top. Raises ConfigError."""
    from groundspeed.service.settings import Settings

    given = {name: value for name, value in overrides.items() if value is not None}
    if data is not None:
        given["data_dir"] = data
    loaded = Settings.load(**given)
    return loaded.model_copy(update={"data_dir": loaded.data_dir.resolve()})


@contextmanager
def database(settings: Settings) -> Iterator[Database]:
    """The database, brought to the newest tables. Raises Conflict when a newer Groundspeed wrote it."""
    from groundspeed.service.db import migrate
    from groundspeed.service.db.engine import Database

    make_folder(settings.data_dir)
    db = Database(settings.database)
    try:
        migrate.upgrade(db)
        yield db
    finally:
        db.close()


def tell_unseen(db: Database, slug: str) -> None:
    """A line when results wait to be looked at: what a command shows may then change."""
    from groundspeed.cli.output import console
    from groundspeed.service.usecases import standing

    if left := standing.unseen(db, slug):
        console().print(
            f"{left} series have results that were not searched for changes yet: a running Groundspeed "
            "(`groundspeed up`) does that.",
            markup=False,
        )


def nobody_works(settings: Settings) -> bool:
    """Whether no Groundspeed runs that would do what waits; False with a database server, where it cannot be seen."""
    from groundspeed.cli import instance

    return not settings.database_url and instance.running(settings.data_dir) is None


def make_folder(folder: Path) -> None:
    """Create the data folder, readable by its owner alone. Raises Invalid when that cannot be."""
    from groundspeed.service.errors import Invalid

    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Invalid(
            f"The data folder {folder} cannot be made: {error.strerror}.",
            "Name another with --data, or correct what is in the way.",
        ) from None


def pattern_of(bench: str) -> re.Pattern[str]:
    """What ``--bench`` finds. Raises Invalid for what is no regular expression."""
    from groundspeed.service.errors import Invalid

    try:
        return re.compile(bench)
    except re.error as error:
        raise Invalid(f"--bench {bench!r} is no regular expression: {error}.", "Escape special characters.") from None


def project_of(db: Database, given: str | None) -> str:
    """The project that was named, or the only one. Raises NotFound, Invalid."""
    from groundspeed.service.usecases import lookup

    return lookup.only_project(db, given)
