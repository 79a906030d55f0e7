"""Run one command under a keeper: time limits, memory limit, output made harmless, and nothing left behind."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from groundspeed.plugins.gate import Gate
from groundspeed.workers.memory import MemoryWatch, oom_kills
from groundspeed.workers.output import TAIL_BYTES, LineReader, tail
from groundspeed.workers.progress import ProgressTail

KEEPER = Path(__file__).with_name("keeper.py")
TICK_S = 0.25
STACKS_S = 4.0
"""How long the processes of a hung command get to write their stacks."""
KILL_S = 15.0
_CHUNK = 1 << 16

Cause = Literal["exited", "wall", "no-progress", "memory", "stopped", "not-started"]
OnLine = Callable[[str, str], None]
"""Called with the stream ("stdout", "stderr", "progress") and one line."""


@dataclass(frozen=True, slots=True)
class Command:
    """What to run and within which limits."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    stdin: str = ""
    wall_s: float = 600.0
    no_progress_s: float | None = None
    """Silence (no output, no progress line) longer than this ends the command; None: silence is fine."""
    progress_path: Path | None = None
    memory_limit_bytes: int = 0
    memory_always: bool = False
    """Whether to look at the memory even while the machine has plenty."""
    log_bytes: int = 256 * 1024
    rlimits: Mapping[str, int] = field(default_factory=dict)
    cpus: tuple[int, ...] = ()
    nice: int = 0
    gate: Gate | None = None
    """What it waits at before it uses the device: its time limits begin when that opens."""


@dataclass(slots=True)
class Ended:
    """How a command ended. ``status`` is the exit status, negative for a signal; None when it never ran."""

    cause: Cause
    status: int | None = None
    error: str = ""
    wall_s: float = 0.0
    max_rss_bytes: int = 0
    stdout_tail: str = ""
    stderr_tail: str = ""
    stacks: str = ""
    last_progress: str = ""
    swept: int = 0
    """Processes it left behind, which were killed."""
    unkillable: int = 0
    kernel_oom: bool = False

    @property
    def ok(self) -> bool:
        return self.cause == "exited" and self.status == 0


def run(command: Command, on_line: OnLine, stop: threading.Event | None = None) -> Ended:
    """Run to the end; a set ``stop`` ends it at once. Returns in any case, with everything it started gone."""
    with tempfile.TemporaryFile() as stdin:
        stdin.write(command.stdin.encode())
        stdin.seek(0)
        kept = _Kept(command, on_line, stdin)
        try:
            return kept.watch(stop or threading.Event())
        finally:
            kept.close()


class _Kept:
    """One command while it runs."""

    def __init__(self, command: Command, on_line: OnLine, stdin: IO[bytes]) -> None:
        self._command = command
        status_read, status_write = os.pipe()
        control_read, self._control = os.pipe()
        self._started = time.monotonic()
        self._oom_before = oom_kills()
        config = {
            "argv": command.argv,
            "cwd": str(command.cwd),
            "status_fd": status_write,
            "control_fd": control_read,
            "rlimits": dict(command.rlimits),
            "cpus": command.cpus,
            "nice": command.nice,
        }
        try:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(KEEPER), json.dumps(config)],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(command.env),
                pass_fds=(status_write, control_read),
                start_new_session=True,
            )
        except BaseException:
            os.close(status_read)
            os.close(self._control)
            raise
        finally:
            os.close(status_write)
            os.close(control_read)
        self._status = os.fdopen(status_read, "rb", buffering=0)
        self._status_text = b""
        self._streams = {
            self._keeper.stdout: LineReader(lambda line: on_line("stdout", line), command.log_bytes),
            self._keeper.stderr: LineReader(lambda line: on_line("stderr", line), command.log_bytes),
        }
        self._progress = ProgressTail(command.progress_path, lambda line: on_line("progress", line))
        self._alive_at = self._started
        self._memory = MemoryWatch(self._keeper.pid, command.memory_limit_bytes, always=command.memory_always)
        self._stderr_at_abort: int | None = None
        self._selector = selectors.DefaultSelector()
        for source in (*self._streams, self._status):
            assert source is not None
            os.set_blocking(source.fileno(), False)
            self._selector.register(source, selectors.EVENT_READ)

    def watch(self, stop: threading.Event) -> Ended:
        cause: Cause = "exited"
        while self._status in self._selector_files():
            self._read(TICK_S)
            reason = self._reason_to_end(stop)
            if reason is not None:
                cause = reason
                self._end(with_stacks=reason in {"wall", "no-progress"})
                break
        deadline = time.monotonic() + 1.0  # output that is still in the pipes
        while self._selector_files() and time.monotonic() < deadline:
            self._read(0.05)
        self._progress.poll()
        return self._ended(cause)

    def close(self) -> None:
        """Closing the control pipe makes the keeper kill what may be left."""
        self._selector.close()
        with contextlib.suppress(OSError):
            os.close(self._control)
        try:
            self._keeper.wait(KILL_S)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait()
        self._status.close()
        for source, reader in self._streams.items():
            reader.close()
            if source is not None:
                source.close()

    def _selector_files(self) -> list[Any]:
        return [key.fileobj for key in self._selector.get_map().values()]

    def _read(self, timeout_s: float) -> None:
        flooded = False
        for key, _ in self._selector.select(timeout_s):
            source: Any = key.fileobj
            try:
                chunk = os.read(key.fd, _CHUNK)
            except BlockingIOError:
                continue
            if not chunk:
                self._selector.unregister(source)
            elif source is self._status:
                self._status_text += chunk
            else:
                reader = self._streams[source]
                reader.feed(chunk)
                flooded |= reader.exhausted
                self._alive_at = time.monotonic()
        if flooded:
            time.sleep(0.01)  # the pipe fills, so that a flood slows down whoever pours it and nobody else

    def _reason_to_end(self, stop: threading.Event) -> Cause | None:
        if self._status not in self._selector_files():
            return None
        now = time.monotonic()
        if self._progress.poll():
            self._alive_at = now
        if stop.is_set():
            return "stopped"
        began = self._began()
        if began is not None and now - began > self._command.wall_s:
            return "wall"
        silent_s = self._command.no_progress_s
        if silent_s is not None and began is not None and now - max(self._alive_at, began) > silent_s:
            return "no-progress"
        if self._command.memory_limit_bytes and self._memory.exceeded():
            return "memory"
        return None

    def _began(self) -> float | None:
        """From when its limits count; None: it still waits at its gate."""
        gate = self._command.gate
        return self._started if gate is None else gate.opened_s

    def _end(self, *, with_stacks: bool) -> None:
        self._stderr_at_abort = self._streams[self._keeper.stderr].total_bytes
        if with_stacks:
            self._say(b"a")
            self._read_until_status(STACKS_S)
        self._say(b"k")
        self._read_until_status(KILL_S)

    def _read_until_status(self, limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        while self._status in self._selector_files() and time.monotonic() < deadline:
            self._read(0.1)

    def _say(self, word: bytes) -> None:
        with contextlib.suppress(OSError):  # the keeper has just ended by itself
            os.write(self._control, word)

    def _ended(self, cause: Cause) -> Ended:
        said: dict[str, Any] = {}
        for line in self._status_text.splitlines():
            said.update(json.loads(line))
        stderr = self._streams[self._keeper.stderr]
        since = stderr.total_bytes if self._stderr_at_abort is None else self._stderr_at_abort
        written = min(stderr.total_bytes - since, TAIL_BYTES)
        after = oom_kills()
        return Ended(
            cause="not-started" if "error" in said else cause,
            status=os.waitstatus_to_exitcode(said["status"]) if "status" in said else None,
            error=said.get("error", ""),
            wall_s=time.monotonic() - (self._began() or self._started),
            max_rss_bytes=max(said.get("max_rss_bytes", 0), self._memory.peak_bytes),
            stdout_tail=tail(self._streams[self._keeper.stdout].tail),
            stderr_tail=tail(stderr.tail),
            stacks=tail(stderr.tail[-written:]) if written else "",
            last_progress=self._progress.last,
            swept=said.get("swept", 0),
            unkillable=said.get("unkillable", 0),
            kernel_oom=after is not None and self._oom_before is not None and after > self._oom_before,
        )
