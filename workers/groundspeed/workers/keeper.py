"""A tiny process between the worker and one command, so that nothing the command starts outlives it.

Run by path with ``python -I -S`` (it must start fast): standard library alone, nothing of ours is imported.
The keeper is a *subreaper*: whatever the command forks, daemonised twice or moved to a session of its own, becomes
the keeper's child when its parent goes, and is found and killed. It answers to a control pipe: ``a`` has every
descendant abort (Python processes write their stacks), ``k`` kills them, and end of file (the worker died) kills
them too.

Arguments: one JSON object {"argv", "cwd", "status_fd", "control_fd", "rlimits": {name: value}, "cpus": [..], "nice"}.
Writes JSON lines to ``status_fd``: {"pid"}, {"error"}, {"status", "max_rss_bytes", "swept", "unkillable"}.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
SWEEP_LIMIT_S = 10.0
ABORT_PAUSE_S = 0.15


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _parents() -> dict[int, int]:
    """Parent by process, of all that can be seen; zombies left out."""
    found: dict[int, int] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - pathlib would double the start-up time
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:  # noqa: PTH123 - pathlib would double the start-up time
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if fields[0] not in {b"Z", b"X"}:
            found[int(entry)] = int(fields[1])
    return found


def descendants(root: int) -> list[int]:
    """All living processes below ``root``, deepest last."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents().items():
        children.setdefault(parent, []).append(pid)
    order = [root]
    for pid in order:
        order.extend(children.get(pid, []))
    return order[1:]


def _signal_all(number: int, pause_s: float = 0.0) -> int:
    """Signal every descendant, deepest first; returns how many there were."""
    pids = descendants(os.getpid())
    for pid in reversed(pids):
        try:
            os.kill(pid, number)
        except OSError:
            continue
        if pause_s:
            time.sleep(pause_s)
    return len(pids)


def _start(config: dict[str, Any], status_fd: int, control_fd: int) -> int:
    """Fork and execute the command in a session of its own; returns its pid."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write_end)
        error = os.read(read_end, 4096)
        os.close(read_end)
        if error:
            os.write(status_fd, json.dumps({"error": error.decode(errors="replace")}).encode() + b"\n")
        return pid
    try:
        os.close(read_end)
        os.set_inheritable(write_end, False)
        _prepare(config, status_fd, control_fd)
        os.execvpe(config["argv"][0], config["argv"], os.environ)  # noqa: S606 - a list, no shell
    except BaseException as error:  # noqa: BLE001 - between fork and exec: report whatever it was and end
        os.write(write_end, f"{config['argv'][0]}: {error}".encode()[:4000])
    os._exit(127)


def _prepare(config: dict[str, Any], status_fd: int, control_fd: int) -> None:
    os.setsid()
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.close(status_fd)
    os.close(control_fd)
    for name, value in {"RLIMIT_CORE": 0, **config.get("rlimits", {})}.items():
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]  # may be lowered, never raised
        allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (allowed, allowed))
    if config.get("cpus"):
        os.sched_setaffinity(0, config["cpus"])
    if config.get("nice"):
        os.nice(config["nice"])
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:  # noqa: PTH123 - as above
            file.write("900")  # when memory runs out, the benchmark goes and not the worker
    except OSError:
        pass
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    os.chdir(config["cwd"])


def _reap(main: int) -> dict[str, int] | None:
    """Collect all that have ended; the end of the command itself is returned when it is among them."""
    ended: dict[str, int] | None = None
    while True:
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        if pid == main:
            ended = {"status": status, "max_rss_bytes": usage.ru_maxrss * 1024}


def _sweep(main: int) -> tuple[int, int]:
    """Kill and reap all that is left; returns (killed, not killable)."""
    killed, deadline = 0, time.monotonic() + SWEEP_LIMIT_S
    while True:
        left = _signal_all(signal.SIGKILL)
        killed = max(killed, left)
        _reap(main)
        if left == 0 or time.monotonic() > deadline:
            return killed, left
        time.sleep(0.01)


def _watch(main: int, control_fd: int, wakeup_fd: int) -> dict[str, int]:
    """Wait for the command's end, obeying the control pipe; returns how it ended."""
    watched = [control_fd, wakeup_fd]
    while True:
        ended = _reap(main)
        if ended is not None:
            return ended
        ready, _, _ = select.select(watched, [], [], 5.0)
        if wakeup_fd in ready:
            os.read(wakeup_fd, 4096)
        if control_fd in ready:
            word = os.read(control_fd, 1)
            if word == b"a":
                _signal_all(signal.SIGABRT, ABORT_PAUSE_S)
            else:
                _signal_all(signal.SIGKILL)
            if not word:
                watched = [wakeup_fd]


def main() -> int:
    config = json.loads(sys.argv[1])
    status_fd, control_fd = config["status_fd"], config["control_fd"]
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a Ctrl-C is for the worker, which then speaks through the pipe
    wakeup_read, wakeup_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    pid = _start(config, status_fd, control_fd)
    os.write(status_fd, json.dumps({"pid": pid}).encode() + b"\n")
    # What the command reads and writes is its own: holding it here would hide its end from the worker.
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    ended = _watch(pid, control_fd, wakeup_read)
    swept, unkillable = _sweep(pid)
    ended |= {"swept": swept, "unkillable": unkillable}
    try:
        os.write(status_fd, json.dumps(ended).encode() + b"\n")
    except OSError:
        return 1  # the worker is gone; its command is too
    return 0


if __name__ == "__main__":
    sys.exit(main())
