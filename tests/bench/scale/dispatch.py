"""From a committed job to a worker's hand, beside a Celery message that nobody had to decide about: same Redis."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from groundspeed.service.control import app as control
from groundspeed.service.control.relay import Relay
from groundspeed.service.db import migrate
from groundspeed.service.db.engine import Database
from groundspeed.service.settings import Settings
from groundspeed.service.usecases import jobs, outbox
from processes import RedisServer

TARGET = 2.0


@dataclass(frozen=True)
class Dispatch:
    """Milliseconds one by one, and messages a second in a heap."""

    name: str
    p50_ms: float
    p99_ms: float
    per_second: float


def measure(url: str, folder: Path, singles: int = 300, heap: int = 1500) -> list[Dispatch]:
    """The floor sends a no-op task; ours commits a message to the outbox, from where the relay sends it."""
    database = Database(url)
    migrate.upgrade(database)
    with tempfile.TemporaryDirectory(dir=folder) as own:
        redis = RedisServer(Path(own))
        redis.start()
        app = control.configure(Settings.load(data_dir=folder / "dispatch", database_url=url, broker_url=redis.url))
        relay = Relay(database)
        relay.start()
        try:
            with app.connection_for_read() as connection:
                queue = connection.SimpleQueue("bench.default", no_ack=True)

                def floor(i: int) -> None:
                    app.send_task(jobs.RUN_JOB, kwargs={"job_id": i, "pool": "default"}, queue="bench.default")

                def ours(i: int) -> None:
                    with database.transaction() as session:
                        outbox.enqueue(session, jobs.RUN_JOB, {"job_id": i, "pool": "default"})

                found = [
                    _turn("no-op Celery task", floor, queue, singles, heap),
                    _turn("groundspeed", ours, queue, singles, heap),
                ]
                queue.close()
        finally:
            relay.stop()
            outbox.forget_sent(database, datetime.now(UTC))
            database.close()
            redis.kill()
    return found


def _turn(name: str, send: Callable[[int], None], queue: object, singles: int, heap: int) -> Dispatch:
    for i in range(10):
        send(i)
        queue.get(timeout=20)  # type: ignore[attr-defined]
    took = []
    for i in range(singles):
        begin = time.perf_counter()
        send(i)
        queue.get(timeout=20)  # type: ignore[attr-defined]
        took.append(1000 * (time.perf_counter() - begin))
    begin = time.perf_counter()
    for i in range(heap):
        send(i)
    for _ in range(heap):
        queue.get(timeout=60)  # type: ignore[attr-defined]
    seconds = time.perf_counter() - begin
    return Dispatch(name, statistics.median(took), sorted(took)[int(0.99 * len(took))], heap / seconds)
