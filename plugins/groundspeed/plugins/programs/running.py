"""One run of a program that may hang, fork, flood its output or write binary: it always ends, with all it started.

The program is in a session of its own and dies with this process. What it leaves behind comes to this process (which
makes itself a subreaper) and is killed. Output is read all the time and kept at both ends only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

KEPT_BYTES = 4 << 20
"""Of each end of each stream."""
LINGER_S = 0.5
"""How long streams may stay open after the program itself has ended."""
SWEEP_S = 10.0
POLL_S = 0.05
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_prctl: Callable[..., object] = getattr(ctypes.CDLL(None), "prctl", lambda *_: None)
"""Linux alone has it. Looked up here: after a fork another thread may hold the loader's lock for ever."""


@dataclass(slots=True)
class Kept:
    """Both ends of a stream."""

    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    total: int = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = KEPT_BYTES - len(self.head)
        self.head += data[:room]
        self.tail += data[room:] if room > 0 else data
        if len(self.tail) > 2 * KEPT_BYTES:
            del self.tail[:-KEPT_BYTES]

    def text(self) -> str:
        """Bytes that are no UTF-8 are replaced; a gap is told in its place."""
        tail = bytes(self.tail[-KEPT_BYTES:])
        missing = self.total - len(self.head) - len(tail)
        gap = f"\n[{missing} bytes left out]\n".encode() if missing else b""
        return (bytes(self.head) + gap + tail).decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Bounds:
    """When a program is ended. 0: no bound."""

    timeout_s: float = 300.0
    silence_s: float = 0.0
    output_bytes: int = 256 << 20
    processes: int = 4096


@dataclass(slots=True)
class Ended:
    """How it went. ``status`` as subprocess has it; times in seconds; ``peak_rss_bytes`` of the largest process."""

    status: int = 0
    cause: Literal["", "timeout", "silence", "output", "processes"] = ""
    wall_s: float = 0.0
    user_s: float = 0.0
    system_s: float = 0.0
    peak_rss_bytes: int = 0
    stdout: Kept = field(default_factory=Kept)
    stderr: Kept = field(default_factory=Kept)
    left_behind: int = 0
    """Processes that it had started and that still ran when it had ended; they were killed."""


def run(argv: list[str], *, cwd: Path, env: Mapping[str, str], bounds: Bounds, alive: Callable[[str], None]) -> Ended:
    """``alive`` is called about once a second. Raises OSError when the program cannot be started."""
    become_subreaper()
    ended = Ended()
    begin = time.perf_counter()
    process = subprocess.Popen(
        argv, cwd=cwd, env=dict(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True, preexec_fn=die_with_parent,  # noqa: PLW1509 - one call, looked up before
    )  # fmt: skip
    try:
        _follow(process, ended, bounds, begin, alive)
    finally:
        ended.left_behind = sweep(process, ended)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    return ended


def _follow(
    process: subprocess.Popen[bytes], ended: Ended, bounds: Bounds, begin: float, alive: Callable[[str], None]
) -> None:
    """Reads until the program has ended or a bound is passed."""
    assert process.stdout is not None
    assert process.stderr is not None
    with selectors.DefaultSelector() as selector:
        for stream, kept in ((process.stdout, ended.stdout), (process.stderr, ended.stderr)):
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ, kept)
        last_output = told = begin
        gone_at: float | None = None
        while True:
            now = time.perf_counter()
            if _read_some(selector):
                last_output = now
            if gone_at is None and _reap(process, ended):
                gone_at, ended.wall_s = now, now - begin
            if gone_at is not None and (not selector.get_map() or now - gone_at > LINGER_S):
                return
            if gone_at is None:
                ended.cause = passed(bounds, now - begin, now - last_output, ended)
                if not ended.cause and bounds.processes and now - told > 1.0 and len(descendants()) > bounds.processes:
                    ended.cause = "processes"
                if ended.cause:
                    ended.wall_s = now - begin
                    return
            if now - told > 1.0:
                told = now
                alive(f"running for {now - begin:.0f} s, {ended.stdout.total + ended.stderr.total} bytes of output")


def passed(
    bounds: Bounds, running_s: float, silent_s: float, ended: Ended
) -> Literal["", "timeout", "silence", "output"]:
    """The bound that has been passed."""
    if bounds.timeout_s and running_s > bounds.timeout_s:
        return "timeout"
    if bounds.silence_s and silent_s > bounds.silence_s:
        return "silence"
    if bounds.output_bytes and ended.stdout.total + ended.stderr.total > bounds.output_bytes:
        return "output"
    return ""


def _read_some(selector: selectors.BaseSelector) -> bool:
    if not selector.get_map():
        time.sleep(POLL_S)
        return False
    seen = False
    for key, _ in selector.select(POLL_S):
        try:
            data = os.read(key.fd, 1 << 16)
        except BlockingIOError:
            continue
        if data:
            seen = True
            key.data.add(data)
        else:
            selector.unregister(key.fileobj)
    return seen


def _reap(process: subprocess.Popen[bytes], ended: Ended) -> bool:
    """Whether the program has ended; its resources include those of the children that it waited for."""
    pid, status, usage = os.wait4(process.pid, os.WNOHANG)
    if pid == 0:
        return False
    ended.status = process.returncode = os.waitstatus_to_exitcode(status)
    ended.user_s, ended.system_s = usage.ru_utime, usage.ru_stime
    ended.peak_rss_bytes = usage.ru_maxrss if sys.platform == "darwin" else usage.ru_maxrss * 1024
    return True


def sweep(process: subprocess.Popen[bytes], ended: Ended) -> int:
    """Kills the program and everything that it started; returns how many were left besides it."""
    until = time.perf_counter() + SWEEP_S
    seen: set[int] = set()
    while time.perf_counter() < until:
        left = descendants()
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for pid in left:
            seen.add(pid)
            # Stopped first, so that it cannot start others while they are being found.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGSTOP)
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if process.returncode is None:
            _reap(process, ended)
        if process.returncode is not None:
            _reap_orphans()
        if process.returncode is not None and not left:
            break
        time.sleep(0.01)
    return len(seen - {process.pid})


def _reap_orphans() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def descendants() -> list[int]:
    """Every process below this one that still runs, from /proc."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            after = path.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if after and after[0] != "Z":
            parents.setdefault(int(after[1]), []).append(int(path.parent.name))
    return list(_below(os.getpid(), parents))


def _below(pid: int, parents: Mapping[int, list[int]]) -> Iterable[int]:
    for child in parents.get(pid, ()):
        yield child
        yield from _below(child, parents)


def become_subreaper() -> None:
    """Orphans below this process come to it and not to init (Linux)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> None:
    """In the new process: the kernel kills it when this one dies, however it dies."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
