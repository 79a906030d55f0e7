"""One running Groundspeed per data folder: the lock that says so, and the port that it listens on."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import random
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from groundspeed.service.errors import Conflict, Invalid

LOCK = "up.lock"
QUIET_PORTS = range(20_000, 32_000)
"""Linux gives none of these to programs that ask for any port: nobody takes one before the service listens on it."""


@contextmanager
def only_one(data_dir: Path) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Hold the folder's lock; whoever comes second is told who holds it. The lock ends with the process.

    Gives a function that notes facts (the address) for that message and for ``groundspeed status``.
    """
    file = os.open(data_dir / LOCK, os.O_RDWR | os.O_CREAT, 0o600)

    def note(facts: dict[str, Any]) -> None:
        text = json.dumps({"pid": os.getpid(), **facts})
        os.ftruncate(file, 0)
        os.pwrite(file, text.encode(), 0)

    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise _held(data_dir) from None
        note({})
        yield note
        os.ftruncate(file, 0)
    finally:
        os.close(file)


def running(data_dir: Path) -> dict[str, Any] | None:
    """What the lock file says of the Groundspeed that runs on a folder; None when none does."""
    path = data_dir / LOCK
    try:
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return _facts(path)
            return None
    except FileNotFoundError:
        return None


def _facts(path: Path) -> dict[str, Any]:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _held(data_dir: Path) -> Conflict:
    facts = _facts(data_dir / LOCK)
    who = f" (process {facts['pid']}, {facts.get('url', 'starting')})" if "pid" in facts else ""
    return Conflict(
        f"Groundspeed already runs on {data_dir}{who}.",
        "Use that one (`groundspeed project add` and `groundspeed run` give it work), stop it with Ctrl-C where it "
        "runs, or give this one another folder with --data (`make run DATA=folder`).",
    )


def free_port(host: str, port: int) -> int:
    """``port`` if it can be listened on, a free one for 0. Raises Invalid when it is taken or not allowed."""
    found = _probed(host, port)
    for one in [] if port else random.sample(QUIET_PORTS, 50):
        with contextlib.suppress(Invalid):
            return _probed(host, one)
    return found


def _probed(host: str, port: int) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            raise _refused(host, port, error) from None
        return int(probe.getsockname()[1])


def _refused(host: str, port: int, error: OSError) -> Invalid:
    if error.errno == errno.EADDRINUSE:
        return Invalid(
            f"Port {port} of {host} is taken by another program.",
            "Stop that one, or choose a port with --port (0 takes any free one).",
        )
    if error.errno == errno.EACCES:
        return Invalid(f"Port {port} may not be listened on by this user.", "Choose one above 1023 with --port.")
    return Invalid(f"{host}:{port} cannot be listened on: {error.strerror}.", "Check --host and --port.")
