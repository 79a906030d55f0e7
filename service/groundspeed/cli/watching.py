"""``groundspeed watch``: how far the work is, until nothing is left."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from groundspeed.cli.context import DataOption, JsonOption, database, nobody_works, settings_for
from groundspeed.cli.output import console, show_json
from groundspeed.service.errors import Unavailable

POLL_S = 0.5


def watch(
    project: Annotated[str | None, typer.Argument(help="Only this project's work.", show_default="all")] = None,
    once: Annotated[bool, typer.Option("--once", help="Say how it stands and end.")] = False,
    timeout: Annotated[float | None, typer.Option(min=0.0, help="Give up after so many seconds.")] = None,
    as_json: JsonOption = False,
    data: DataOption = None,
) -> None:
    """Follow measuring as it goes: a progress bar on a terminal, lines when piped; ends when all is measured and seen.

    Exit status 0: nothing is left to do; 1: jobs have failed, or it gave up waiting; 2: it could not be done.
    """
    from groundspeed.cli.progress import progress_for
    from groundspeed.service.usecases import standing

    began = time.monotonic()
    settings = settings_for(data)
    with database(settings) as db:
        now = standing.standing(db, project)
        if not (now.idle or once) and nobody_works(settings):
            raise Unavailable(
                f"Work is waiting, and no Groundspeed runs on {settings.data_dir} to do it.",
                "Start one with `groundspeed up`, then ask again; --once says how it stands.",
            )
        if not once:
            with progress_for(console(quiet=as_json)) as progress:
                progress.update(now, standing.finished(db, project, progress.seen))
                while not now.idle and (timeout is None or time.monotonic() - began < timeout):
                    time.sleep(POLL_S)
                    now = standing.standing(db, project)
                    progress.update(now, standing.finished(db, project, progress.seen))
    failed = sum(now.jobs.get(state, 0) for state in ("failed", "poison"))
    if as_json:
        show_json({"idle": now.idle, "jobs": now.jobs, "requests": now.requests, "running": now.running,
                   "unseen": now.unseen, "unsent": now.unsent, "trouble": now.trouble})  # fmt: skip
    else:
        words = ", ".join(f"{n} {state}" for state, n in sorted(now.jobs.items())) or "no jobs"
        console().print(f"{'Nothing is left to do' if now.idle else 'Not done'}: {words}.", markup=False)
        for trouble in now.trouble:
            console().print(trouble, markup=False)
    if failed or not (now.idle or once):
        raise typer.Exit(1)
