"""Shows how far the measuring is: a live bar on a terminal, plain lines when piped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

if TYPE_CHECKING:
    from rich.console import Console

    from groundspeed.service.usecases.standing import Standing, Step

BAD = {"failed": "failed", "poison": "given up", "cancelled": "cancelled"}
LIFE_S = 15.0
"""A plain log gets a line at least so often."""


class Progress:
    """``seen`` are the jobs that were shown as ended."""

    def __init__(self, out: Console, bar: Bar | None) -> None:
        self._out = out
        self._bar = bar
        self._task = bar.add_task("starting", total=None) if bar is not None else None
        self.seen: set[int] = set()
        self._first = True
        self._told: set[str] = set()
        self._spoke_at = time.monotonic()

    def update(self, now: Standing, ended: list[Step]) -> None:
        """Show the new standing and the jobs that have ended since."""
        done = now.total - now.open
        for step in ended:
            self.seen.add(step.job_id)
            place = len(self.seen)
            if not self._first or step.state in BAD:
                self.say(f"[{place:>3}/{now.total}] {_ended(step)}")
        if self._first and ended:
            self.say(f"{len(ended)} measurements are there already")
        self._first = False
        for trouble in now.trouble:
            if trouble not in self._told:
                self._told.add(trouble)
                self.say(trouble)
        text = _now(now)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, total=now.total or None, completed=done, description=text)
        elif time.monotonic() - self._spoke_at > LIFE_S and not now.idle:
            self.say(f"[{done:>3}/{now.total}] {text}")

    def say(self, line: str) -> None:
        """A line that stays."""
        self._spoke_at = time.monotonic()
        (self._bar.console if self._bar is not None else self._out).print(line, markup=False)


@contextmanager
def progress_for(out: Console) -> Iterator[Progress]:
    """Live where a person looks, plain where a file or a pipe does."""
    if not out.is_terminal:
        yield Progress(out, None)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=out, transient=True) as bar:
        yield Progress(out, bar)


def _ended(step: Step) -> str:
    how = f"{step.seconds:.1f} s"
    if step.state in BAD:
        how = f"{BAD[step.state]}: {step.error.splitlines()[0] if step.error else 'no reason given'}"
    elif step.failed:
        how += f"  {step.failed} without a number: {step.error}"
    reason = "" if step.reason == "measure" else f" ({step.reason})"
    return f"{step.sha[:9]} {step.suite}{reason}  {step.title[:50]}  {how}"


def _now(now: Standing) -> str:
    if now.running:
        step = now.running[0]
        return f"{step.sha[:9]} {step.suite}: {step.message or step.phase or 'starting'}"[:60]
    if now.open:
        return "waiting for the worker"
    if now.unseen or now.unsent:
        return "looking for changes"
    return "planning" if not now.idle else "all measured"
