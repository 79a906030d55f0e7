"""How many results a second the service takes in over HTTP, beside the floor, singly and in batches of 100."""

from __future__ import annotations

import http.client
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from groundspeed.service.db import migrate
from groundspeed.service.db.engine import Database
from groundspeed.service.wire import v1
from world import DRIVER, World, run, samples

HERE = Path(__file__).parent
KEYS = [f"b={i}" for i in range(100)]
FACETS = [v1.Facet(layer="node", name=f"facet-{i}", value=str(i)) for i in range(12)]
VALUES = [0.1 + 1e-4 * i for i in range(20)]
TARGET = 3.0


@dataclass(frozen=True)
class Rate:
    """Results a second, the median of several turns, and processor time in milliseconds a message."""

    engine: str
    batch: int
    service: float
    floor: float
    service_ms: float
    floor_ms: float

    @property
    def ratio(self) -> float:
        return self.floor / self.service

    @property
    def ratio_of_processor_time(self) -> float:
        return self.service_ms / self.floor_ms


def measure(engine: str, url: str, floor_url: str, folder: Path, turns: int, singles: int, batches: int) -> list[Rate]:
    """Service and floor take turns, so that whatever else the machine does falls on both."""
    db = Database(url)
    migrate.upgrade(db)
    world = World(db)
    world.commits(1)
    attempt = world.attempt(world.job(world.revisions[0], KEYS))
    db.close()
    bodies = _Bodies()
    with _service(url, folder) as service, _floor(floor_url) as floor:
        sides = (service, f"/api/v1/attempts/{attempt}/runs"), (floor, "/runs")
        for side in sides:
            _post(*side, bodies.take(100, 1))
        found = []
        for size, count in ((1, singles), (100, batches)):
            turned: list[tuple[float, ...]] = []
            for _ in range(turns):
                sent = bodies.take(size, count)
                (taken, busy), (floor_taken, floor_busy) = (_post(*side, sent) for side in sides)
                turned.append(
                    (size * count / taken, size * count / floor_taken, 1e3 * busy / count, 1e3 * floor_busy / count)
                )
            found.append(Rate(engine, size, *(statistics.median(side) for side in zip(*turned, strict=True))))
        return found


class _Bodies:
    """Messages whose runs are all new."""

    def __init__(self) -> None:
        self.replicate = 0

    def take(self, size: int, count: int) -> list[bytes]:
        out = []
        for _ in range(count):
            self.replicate += 1
            runs = [
                run(
                    key, replicate=self.replicate, samples=[samples("time", *VALUES)], environment=[DRIVER, *FACETS],
                    conditions={"steady": True, "clock_sm_mhz": 1755, "temperature_c": 54}, facts={"torch": "2.13.0"},
                )
                for key in KEYS[:size]
            ]  # fmt: skip
            out.append(v1.RunBatch(runs=tuple(runs)).model_dump_json().encode())
        return out


@dataclass(frozen=True)
class Server:
    port: int
    pid: int

    def busy_s(self) -> float:
        """Processor time so far."""
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)


def _post(server: Server, path: str, bodies: list[bytes]) -> tuple[float, float]:
    """Seconds for all of them, one after another over one connection, and of processor time of the server."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    busy, start = server.busy_s(), time.perf_counter()
    for body in bodies:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read()
        assert response.status == 200, text[:500]
        assert b'"refused":{}' in text or b'"ok":true' in text, text[:500]
    taken = time.perf_counter() - start
    connection.close()
    return taken, server.busy_s() - busy


@contextmanager
def _service(url: str, folder: Path) -> Iterator[Server]:
    port = free_port()
    settings = {
        "GROUNDSPEED_DATABASE_URL": url,
        "GROUNDSPEED_DATA_DIR": str(folder / "data"),
        "GROUNDSPEED_PORT": str(port),
        "GROUNDSPEED_LOG_LEVEL": "ERROR",
    }
    with process([sys.executable, "-m", "groundspeed.service", "api"], settings, port) as pid:
        yield Server(port, pid)


@contextmanager
def _floor(url: str) -> Iterator[Server]:
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "--factory", "floor:app", "--port", str(port), "--no-access-log"]
    with process([*command, "--app-dir", str(HERE), "--log-level", "error"], {"FLOOR_DATABASE_URL": url}, port) as pid:
        yield Server(port, pid)


@contextmanager
def process(command: list[str], settings: dict[str, str], port: int) -> Iterator[int]:
    """Its process id, once it listens."""
    process = subprocess.Popen(command, env=os.environ | settings)
    try:
        deadline = time.monotonic() + 300
        while True:
            assert process.poll() is None, f"{command[2]} ended with status {process.returncode}"
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert time.monotonic() < deadline, f"{command[2]} does not listen"
                time.sleep(0.1)
        yield process.pid
    finally:
        process.terminate()
        process.wait(timeout=30)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
