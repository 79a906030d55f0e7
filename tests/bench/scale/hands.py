"""A Celery worker that notes when a task reaches it: the same for a no-op task and for a job's hint."""

from __future__ import annotations

import sys
import time
import warnings
from contextlib import suppress

import redis
from celery import Celery

QUEUES = ("bench.default", "bench.floor")


def main(url: str) -> None:
    app = Celery("hands", broker=url, set_as_current=False)
    app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=1, task_acks_late=True, accept_content=["json"])
    client = redis.Redis.from_url(url)

    def note(job_id: int, pool: str = "") -> None:
        client.rpush(f"arrived.{pool}", f"{job_id} {time.monotonic()}")

    app.task(name="groundspeed.run_job")(note)
    app.task(name="floor.noop")(note)
    warnings.filterwarnings("ignore", message="You're running the worker with superuser")
    worker = app.Worker(
        queues=list(QUEUES), pool="threads", concurrency=1, loglevel="ERROR", quiet=True, hostname="hands@%h",
        without_gossip=True, without_mingle=True, without_heartbeat=True,
    )  # fmt: skip
    with suppress(SystemExit):
        worker.start()


if __name__ == "__main__":
    main(sys.argv[1])
