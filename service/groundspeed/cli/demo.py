"""``groundspeed demo``: measure the example (or a repository of yours) on this machine, watch it, and read the answer.

This is what ``make run`` calls.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from groundspeed.cli import answer, context, example, repository, up
from groundspeed.cli.output import console, show_json
from groundspeed.cli.progress import Progress, progress_for
from groundspeed.service.errors import Unavailable

if TYPE_CHECKING:
    from rich.console import Console

    from groundspeed.service.db.engine import Database
    from groundspeed.service.settings import Settings
    from groundspeed.service.usecases.standing import Standing

QUIET_S = 1.5
"""Nothing to do for so long, asked twice, means that all is done."""
STUCK_S = 30.0
"""A plugin that no worker has offered for so long does not come: the worker has started by then."""
INTERRUPTED = 130
"""Exit status of a run that was to end with the table and was stopped before."""


def demo(
    data: context.DataOption = None,
    repo: Annotated[
        str | None, typer.Option("--repo", help="A repository with a groundspeed.toml, instead of the example.")
    ] = None,
    commits: Annotated[str, typer.Option("--range", help="Measure the commits of a..b only.")] = "",
    once: Annotated[bool, typer.Option("--once", help="End with the table of findings when all is measured.")] = False,
    seed: Annotated[int | None, typer.Option(help="Another history of the example.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="The example without a change of performance.")] = False,
    length: Annotated[int, typer.Option("--commits", help="Length of the example's history.")] = example.COMMITS,
    allow_dirty: Annotated[
        bool, typer.Option(help="Measure the commits although there are changes that are not committed.")
    ] = False,
    host: up.HostOption = None,
    port: up.PortOption = None,
    json: Annotated[bool, typer.Option("--json", help="End with the findings as JSON for programs.")] = False,
) -> None:
    """Benchmark the history of the example, or of a repository, and show what changed."""
    settings = context.settings_for(data, host=host, port=port)
    out, once = console(quiet=json), once or json
    context.make_folder(settings.data_dir)
    if repo is None:
        place = str(example.prepare(settings.data_dir / "example", seed=seed, quiet=quiet, commits=length))
    else:
        place = repository.checked(repo, allow_dirty=allow_dirty)
    up.refuse_if_blocked(settings)
    with context.database(settings) as db, up.stop_on_signals() as stop:
        slug = _ask(settings, db, place, commits)
        with up.service(settings) as running:
            out.print(f"Groundspeed runs at {running.url}/projects/{slug}")
            watch = _Watch(db, slug, running, out, stop)
            if not watch.until_done():
                out.print("Stopping; the next start picks up where this one was.")
                raise typer.Exit(INTERRUPTED if once else 0)
            found = answer.load(db, slug)
            out.print(answer.render(found))
            if json:
                show_json(found)
            if once:
                out.print(f"`groundspeed up --data {settings.data_dir}` shows the graphs and goes on measuring.")
            else:
                out.print(
                    f"Look at {running.url}/projects/{slug}; new commits are measured as they come. Ctrl-C stops."
                )
                watch.until_stopped()


def _ask(settings: Settings, db: Database, place: str, commits: str) -> str:
    """Put the repository under watch and ask for its commits; the same again asks for nothing new."""
    from groundspeed.service.usecases import projects, requests

    now = datetime.now(UTC)
    mirrors = repository.mirrors(settings)
    new = projects.New(place, watch=True, poll_interval_s=settings.poll_interval_s)
    added = projects.add(db, mirrors, new, now)
    requests.create(db, mirrors, added.slug, requests.Asked(range=commits), now)
    return added.slug


@dataclass(slots=True)
class _Watch:
    """Follows the work of one project while the processes are kept running."""

    db: Database
    slug: str
    running: up.Running
    out: Console
    stop: threading.Event

    def until_done(self) -> bool:
        """True when all is measured and analysed, False when someone asked to stop."""
        with progress_for(self.out) as progress:
            quiet_since: float | None = None
            stuck_since: float | None = None
            while not self.stop.wait(up.POLL_S):
                self._keep_running(progress)
                now = self._show(progress)
                stuck_since = (stuck_since or time.monotonic()) if now.stuck else None
                if stuck_since is not None and time.monotonic() - stuck_since > STUCK_S:
                    raise Unavailable("Nothing goes on.", " ".join(now.trouble))
                if not now.idle:
                    quiet_since = None
                elif quiet_since is None:
                    quiet_since = time.monotonic()
                elif time.monotonic() - quiet_since > QUIET_S:
                    if not self._more_to_do():
                        return True
                    quiet_since = None
        return False

    def until_stopped(self) -> None:
        with progress_for(self.out) as progress:
            while not self.stop.wait(up.POLL_S):
                self._keep_running(progress)
                self._show(progress)

    def _show(self, progress: Progress) -> Standing:
        """Bring the display up to date."""
        from groundspeed.service.usecases import standing

        now = standing.standing(self.db, self.slug)
        progress.update(now, standing.finished(self.db, self.slug, progress.seen))
        return now

    def _more_to_do(self) -> bool:
        """Ask once more what is worth measuring: a message may still have been on its way."""
        from groundspeed.service.usecases import followup, standing

        followup.plan_for_slug(self.db, self.slug, datetime.now(UTC))
        return not standing.standing(self.db, self.slug).idle

    def _keep_running(self, progress: Progress) -> None:
        for death in self.running.supervisor.poll():
            progress.say(str(death))
            if death.deaths >= up.HOPELESS_DEATHS:
                raise Unavailable(
                    f"The {death.name} process keeps ending: {up.last_words(death.log)}",
                    f"Its log is {death.log}; correct what it says and start again.",
                )
