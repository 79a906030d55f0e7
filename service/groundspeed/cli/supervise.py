"""Keeps a set of child processes running: started in order, restarted with a growing pause, stopped cleanly.

Each child leads a session of its own, so a Ctrl-C reaches the supervisor alone, which then stops the children in order.
Should the supervisor itself be killed, the kernel sends them SIGTERM. What even that leaves behind is written down and
ended by the next start.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
STEADY_AFTER_S = 60.0
"""A child that lived for so long starts with the shortest pause again."""
LOG_LIMIT_BYTES = 10_000_000


@dataclass(frozen=True, slots=True)
class Part:
    """One process to keep running. ``grace_s``: how long after SIGTERM it may take to end."""

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    grace_s: float = 10.0


@dataclass(slots=True)
class Child:
    """A part and how it fares."""

    part: Part
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    deaths: int = 0
    """In a row, without a steady life between."""
    due_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Death:
    """A child ended by itself; it comes back after ``pause_s``."""

    name: str
    status: int
    deaths: int
    pause_s: float
    log: Path

    def __str__(self) -> str:
        how = f"was killed by signal {-self.status}" if self.status < 0 else f"ended with status {self.status}"
        return f"{self.name} {how}; it is started again in {self.pause_s:.0f} s (its words are in {self.log})"


@dataclass(slots=True)
class Supervisor:
    """``record`` is the file that names the running children, for a start after a crash."""

    parts: Sequence[Part]
    record: Path
    clock: Callable[[], float] = time.monotonic
    children: list[Child] = field(default_factory=list)

    def start(self) -> None:
        end_leftovers(self.record)
        self.children = [Child(part) for part in self.parts]
        for child in self.children:
            self._spawn(child)

    def poll(self) -> list[Death]:
        """Notice who died, start who is due; call this a few times a second."""
        now = self.clock()
        deaths = []
        for child in self.children:
            if child.process is None:
                if now >= child.due_at:
                    self._spawn(child)
            elif (status := child.process.poll()) is not None:
                deaths.append(self._bury(child, status, now))
        return deaths

    def stop(self) -> None:
        """Ask each child in reverse order to end, wait, and kill what is left of its group."""
        for child in reversed(self.children):
            if child.process is not None:
                _end(child.process, child.part.grace_s)
                child.process = None
        self.record.unlink(missing_ok=True)

    def pids(self) -> dict[str, int]:
        """Process ids of those that run."""
        return {c.part.name: c.process.pid for c in self.children if c.process is not None}

    def _bury(self, child: Child, status: int, now: float) -> Death:
        _kill_group(child.process.pid if child.process else 0)
        child.process = None
        child.deaths = 1 if now - child.started_at >= STEADY_AFTER_S else child.deaths + 1
        pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (child.deaths - 1))
        child.due_at = now + pause
        return Death(child.part.name, status, child.deaths, pause, child.part.log)

    def _spawn(self, child: Child) -> None:
        part = child.part
        part.log.parent.mkdir(parents=True, exist_ok=True)
        _turn_over(part.log)
        with part.log.open("ab") as log:
            child.process = subprocess.Popen(
                part.arguments,
                env=dict(part.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent(),  # noqa: PLW1509 - only the main thread runs when children start
            )
        child.started_at = self.clock()
        self._write_record()

    def _write_record(self) -> None:
        rows = [[pid, start] for pid in self.pids().values() if (start := start_time(pid)) is not None]
        temporary = self.record.with_suffix(".tmp")
        temporary.write_text(json.dumps(rows), encoding="utf-8")
        temporary.replace(self.record)


def end_leftovers(record: Path, grace_s: float = 10.0) -> int:
    """End what an earlier supervisor left running; returns how many there were.

    A process is known by its id and the moment it was started, so a number that another process has now is left alone.
    """
    try:
        rows = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0
    alive = [int(pid) for pid, start in rows if start_time(int(pid)) == start]
    for pid in alive:
        _signal(pid, signal.SIGTERM)
    end = time.monotonic() + grace_s
    while time.monotonic() < end and any(start_time(pid) is not None for pid in alive):
        time.sleep(0.05)
    for pid in alive:
        _kill_group(pid)
    record.unlink(missing_ok=True)
    return len(alive)


def start_time(pid: int) -> int | None:
    """When a living process was started, in ticks since boot; None for one that is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def _end(process: subprocess.Popen[bytes], grace_s: float) -> None:
    _signal(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(grace_s)
    _kill_group(process.pid)
    process.wait()


def _signal(pid: int, what: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, what)


def _kill_group(pid: int) -> None:
    if pid > 0:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def _turn_over(log: Path) -> None:
    """Keep one older log, so that a child which dies for ever does not fill the disk."""
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > LOG_LIMIT_BYTES:
            log.replace(log.with_suffix(".old.log"))


def _die_with_parent() -> Callable[[], None] | None:
    """For the child, before it becomes the program: SIGTERM when the supervisor dies. Linux only."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def ask() -> None:
        prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(0)

    return ask
