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
    """Results a second, the median of several turns."""

    engine: str
    batch: int
    service: float
    floor: float

    @property
    def ratio(self) -> float:
        return self.floor / self.service


def measure(engine: str, url: str, floor_url: str, folder: Path, turns: int, singles: int, batches: int) -> list[Rate]:
    """Service and floor take turns, so that whatever else the machine does falls on both."""
    db = Database(url)
    migrate.upgrade(db)
    world = World(db)
    world.commits(1)
    attempt = world.attempt(world.job(world.revisions[0], KEYS))
    db.close()
    bodies = _Bodies()
    with _service(url, folder) as service, _floor(floor_url, folder) as floor:
        path = f"/api/v1/attempts/{attempt}/runs"
        _post(service, path, bodies.take(100, 1))
        _post(floor, "/runs", bodies.take(100, 1))
        found = []
        for size, count in ((1, singles), (100, batches)):
            rates: list[tuple[float, float]] = []
            for _ in range(turns):
                sent = bodies.take(size, count)
                rates.append((size * count / _post(service, path, sent), size * count / _post(floor, "/runs", sent)))
            found.append(Rate(engine, size, *(statistics.median(side) for side in zip(*rates, strict=True))))
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


def _post(port: int, path: str, bodies: list[bytes]) -> float:
    """Seconds for all of them, one after another over one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    start = time.perf_counter()
    for body in bodies:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read()
        assert response.status == 200, text[:500]
        assert b'"refused":{}' in text or b'"ok":true' in text, text[:500]
    taken = time.perf_counter() - start
    connection.close()
    return taken


@contextmanager
def _service(url: str, folder: Path) -> Iterator[int]:
    port = free_port()
    settings = {
        "GROUNDSPEED_DATABASE_URL": url,
        "GROUNDSPEED_DATA_DIR": str(folder / "data"),
        "GROUNDSPEED_PORT": str(port),
        "GROUNDSPEED_LOG_LEVEL": "ERROR",
    }
    with process([sys.executable, "-m", "groundspeed.service", "api"], settings, port):
        yield port


@contextmanager
def _floor(url: str, folder: Path) -> Iterator[int]:
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "--factory", "floor:app", "--port", str(port), "--no-access-log"]
    with process([*command, "--app-dir", str(HERE), "--log-level", "error"], {"FLOOR_DATABASE_URL": url}, port):
        yield port


@contextmanager
def process(command: list[str], settings: dict[str, str], port: int) -> Iterator[None]:
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
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
