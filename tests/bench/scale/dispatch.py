"""From a committed job to a worker's hand, beside a no-op Celery task: the same Redis, the same Celery worker."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import redis

from groundspeed.service.control import app as control
from groundspeed.service.control.relay import Relay
from groundspeed.service.db import migrate
from groundspeed.service.db.engine import Database
from groundspeed.service.settings import Settings
from groundspeed.service.usecases import outbox
from groundspeed.service.wire.hints import RUN_JOB
from processes import RedisServer

TARGET = 2.0
TURNS = 5


@dataclass(frozen=True)
class Dispatch:
    """Milliseconds one by one, and messages a second in a heap, until the worker's own code runs."""

    name: str
    p50_ms: float
    p99_ms: float
    per_second: float


def measure(url: str, folder: Path, singles: int = 300, heap: int = 500) -> list[Dispatch]:
    """The floor sends a no-op task; ours commits a message to the outbox, from where the relay sends it. In turns.

    Ours twice: from the commit on, which is what a job waits that is there, and with the transaction itself, which a
    bare task does not have.
    """
    database = Database(url)
    migrate.upgrade(database)
    with tempfile.TemporaryDirectory(dir=folder) as own:
        server = RedisServer(Path(own))
        server.start()
        app = control.configure(Settings.load(data_dir=folder / "dispatch", database_url=url, broker_url=server.url))
        relay = Relay(database)
        relay.start()
        hands = subprocess.Popen([sys.executable, str(Path(__file__).with_name("hands.py")), server.url])
        arrived = redis.Redis.from_url(server.url, socket_timeout=180)
        try:

            def floor(i: int) -> None:
                app.send_task("floor.noop", kwargs={"job_id": i, "pool": "floor"}, queue="bench.floor")

            def ours(i: int) -> None:
                with database.transaction() as session:
                    outbox.enqueue(session, RUN_JOB, {"job_id": i, "pool": "default"})

            def since_commit(i: int) -> float:
                ours(i)
                return time.monotonic()

            sides: dict[str, tuple[Callable[[int], float | None], str]] = {
                "no-op Celery task": (floor, "floor"),
                "job, from its commit on": (since_commit, "default"),
                "job, with its commit": (ours, "default"),
            }
            took: dict[str, list[float]] = {name: [] for name in sides}
            rates: dict[str, list[float]] = {name: [] for name in sides}
            for turn in range(TURNS + 1):
                for name, (send, pool) in sides.items():
                    one, rate = _turn(send, arrived, f"arrived.{pool}", singles // TURNS, heap)
                    if turn:  # the first one warms both up
                        took[name] += one
                        rates[name].append(rate)
        finally:
            hands.terminate()
            hands.wait(20)
            relay.stop()
            outbox.forget_sent(database, datetime.now(UTC))
            database.close()
            arrived.close()
            server.kill()
    return [
        Dispatch(name, statistics.median(times), sorted(times)[int(0.99 * len(times))], statistics.median(rates[name]))
        for name, times in took.items()
    ]


def _turn(
    send: Callable[[int], float | None], arrived: redis.Redis, key: str, singles: int, heap: int
) -> tuple[list[float], float]:
    """Milliseconds of each of ``singles`` sent one by one, and messages a second of ``heap`` at once."""
    took = []
    for i in range(singles):
        begin = time.monotonic()
        begin = send(i) or begin
        took.append(1000 * max(_last(arrived, key, 1) - begin, 0.0))
    begin = time.monotonic()
    for i in range(heap):
        send(i)
    return took, heap / (_last(arrived, key, heap) - begin)


def _last(arrived: redis.Redis, key: str, count: int) -> float:
    """When the last of so many arrived, by the worker's clock, which is the machine's."""
    latest = 0.0
    for _ in range(count):
        found = arrived.blpop([key], timeout=120)
        assert found is not None, "a message did not arrive within two minutes"
        latest = max(latest, float(found[1].split()[1]))  # type: ignore[index]
    return latest
