"""``groundspeed import``: results of other tools into the service's own store."""

from __future__ import annotations

import gc
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from groundspeed.cli.context import DataOption, JsonOption, MapOption, database, nobody_works, settings_for
from groundspeed.cli.output import console, harmless, show_json

if TYPE_CHECKING:
    from groundspeed.service.db.engine import Database
    from groundspeed.service.usecases.beforehand import Beforehand
    from groundspeed.service.usecases.import_summary import Summary

_LINE_EVERY_S = 2.0


def import_results(
    paths: Annotated[list[Path], typer.Argument(help="Files, folders or archives of results.", show_default=False)],
    project: Annotated[str, typer.Option("--project", "-p", help="Name of the project; made when there is none.")],
    form: Annotated[str, typer.Option("--format", help="Force a format; by default each file's content tells.")] = "",
    mapping: MapOption = None,
    repo: Annotated[Path | None, typer.Option(help="Git repository that gives the order of commits.")] = None,
    graph: Annotated[Path | None, typer.Option(help="Commit graph file that gives it instead.")] = None,
    branch: Annotated[str, typer.Option(help="Branch of --repo.", show_default="HEAD")] = "",
    commit: Annotated[str, typer.Option(help="Commit of results that name none.")] = "",
    when: Annotated[str, typer.Option("--time", help="Time of results that name none (ISO 8601).")] = "",
    project_from: Annotated[
        str, typer.Option(help="Of sources that hold several projects: the one to take; * takes all.")
    ] = "",
    analyse: Annotated[
        bool | None,
        typer.Option(
            "--analyse/--no-analyse",
            help="Search for changes at once, or leave it to a running Groundspeed.",
            show_default="at once when none runs here",
        ),
    ] = None,
    as_json: JsonOption = False,
    data: DataOption = None,
) -> None:
    """Import results of asv, pytest-benchmark, nccl-tests and twenty other tools; again adds nothing.

    Exit status 0: imported; 1: some files were refused; 2: nothing could be done.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy and scipy start threads, that nothing here has work for
    from groundspeed.service.process import rare_collection
    from groundspeed.service.usecases.import_sources import Sources

    with rare_collection(), Sources(tuple(paths)) as sources:
        sources.begin()  # what follows takes a while to load
        from groundspeed.service.errors import Invalid
        from groundspeed.service.formats.times import parse_time
        from groundspeed.service.usecases import importing
        from groundspeed.service.usecases.beforehand import Beforehand
        from groundspeed.service.usecases.columns import columns

        gc.freeze()  # modules are not looked through when something is collected
        moment = parse_time(when) if when else None
        if when and moment is None:
            raise Invalid(f'--time "{when}" is no time.', "Give one like 2026-01-31T12:00:00Z.")
        options = importing.Options(
            project, tuple(paths), form, columns(mapping or ()), commit.lower(), moment, repo, graph, branch,
            project_from=project_from,
        )  # fmt: skip
        progress = _Progress(quiet=as_json)
        settings = settings_for(data)
        here = nobody_works(settings) if analyse is None else analyse
        with database(settings) as db, Beforehand() as early:
            summary = importing.run(db, options, datetime.now(UTC), progress, sources, early if here else None)
            seconds = time.monotonic() - progress.began
            if here:
                _analyse(db, progress, early)
    if as_json:
        show_json(as_dict(summary))
    else:
        _tell(summary, seconds)
        _tell_what_next(summary, here=here)
    if summary.refused:
        raise typer.Exit(1)


def _analyse(db: Database, progress: _Progress, early: Beforehand) -> None:
    """Search what waits for it, a thousand series at a time."""
    from groundspeed.service.usecases import analyse

    done = 0
    while found := analyse.analyse_dirty(db, datetime.now(UTC), early=early):
        done += found
        progress.say(f"{done} series were searched for changes")


def as_dict(summary: Summary) -> dict[str, object]:
    """The summary for programs."""
    return {
        "project": summary.project, "files": summary.files, "values": summary.read, "results": summary.added.results,
        "runs": summary.added.runs, "failures": summary.added.failures, "already": summary.added.already,
        "series": summary.series, "revisions": summary.revisions, "unplaced": summary.unplaced, "order": summary.order,
        "skipped": [
            {"reason": reason, "count": found.count, "where": [str(w) for w in found.where]}
            for reason, found in summary.skipped.items()
        ],
        "refused": [str(error) for error in summary.refused],
    }  # fmt: skip


class _Progress:
    """One line that is written over on a terminal; nothing when piped."""

    def __init__(self, *, quiet: bool) -> None:
        self.began = time.monotonic()
        self._quiet = quiet or not sys.stderr.isatty()
        self._told = 0.0

    def __call__(self, summary: Summary, name: str) -> None:
        now = time.monotonic()
        if self._quiet or now - self._told < _LINE_EVERY_S / 10:
            return
        self._told = now
        self.say(f"{summary.files} files, {summary.read} values  {name[-60:]}")

    def say(self, line: str) -> None:
        """Write over what stands there."""
        if not self._quiet:
            sys.stderr.write(f"\r\x1b[K{harmless(line)}")
            sys.stderr.flush()


def _tell(summary: Summary, seconds: float) -> None:
    out = console()
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    added = summary.added
    out.print(
        f"{added.results} results of {added.runs} runs from {summary.files} files in {seconds:.1f} s, "
        f"{added.already} runs were there already, {added.failures} runs failed or were skipped by their tool.",
        markup=False,
    )
    out.print(
        f"{summary.series} series have news; {summary.revisions} commits, ordered by {summary.order}.", markup=False
    )
    if summary.unplaced:
        out.print(
            f"{summary.unplaced} commits are not on the branch: their results are kept, but not charted.", markup=False
        )
    for reason, found in sorted(summary.skipped.items(), key=lambda entry: -entry[1].count):
        out.print(f"skipped {found.count} × {reason}: {', '.join(map(str, found.where[:3]))}", markup=False)
    for error in summary.refused:
        out.print(f"refused {error}", markup=False)


def _tell_what_next(summary: Summary, *, here: bool) -> None:
    name = summary.project
    if summary.series and not here:
        console().print("A running Groundspeed (`groundspeed up`) searches them for changes.", markup=False)
    elif summary.series:
        console().print(
            f"They were searched for changes: `groundspeed findings {name}` lists what was found, `groundspeed up` "
            "shows the graphs.",
            markup=False,
        )
