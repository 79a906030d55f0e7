"""A whole service under fire: real PostgreSQL, real Redis, every process of the service, several workers."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
from celery import Celery

from databases import PostgresServer
from groundspeed.service.db import migrate
from groundspeed.service.db.engine import Database
from processes import Process, RedisServer, Service, until

CONFIG = """\
[project]
name = "chaos"

[[suite]]
name = "a"
plugin = "chaos"
params = { n = [1, 2] }

[[suite]]
name = "b"
plugin = "chaos"
params = { n = 3 }
replicates = 2
"""
EXPECTED = [("a", "n=1", 0), ("a", "n=2", 0), ("b", "n=3", 0), ("b", "n=3", 1)]
"""What one commit owes: suite, benchmark, replicate. Written here, not read from the service."""
PER_COMMIT_JOBS = 2


def history(path: Path, commits: int) -> list[str]:
    """A repository of that many commits, by fast-import; shas oldest first."""
    path.mkdir(parents=True)
    lines = []
    for i in range(commits):
        who = f"Ada <ada@example.org> {1_700_000_000 + 60 * i} +0000"
        message, content = f"Change {i}", f"{i}\n"
        lines.append(f"commit refs/heads/main\nauthor {who}\ncommitter {who}\ndata {len(message)}\n{message}\n")
        if i == 0:
            lines.append(f"M 644 inline groundspeed.toml\ndata {len(CONFIG)}\n{CONFIG}\n")
        lines.append(f"M 644 inline n.txt\ndata {len(content)}\n{content}\n")
    _git(path, "init", "-q", "-b", "main")
    _git(path, "fast-import", "--quiet", text="".join(lines))
    return _git(path, "rev-list", "--reverse", "main").split()


def _git(path: Path, *arguments: str, text: str = "") -> str:
    done = subprocess.run(["git", *arguments], cwd=path, input=text, capture_output=True, text=True, check=True)
    return done.stdout


class World:
    """Everything that can be killed, and how it comes back.

    ``pace`` below 1 shortens every pause; the API's first absence lasts ``outage_s`` when that is given.
    """

    def __init__(self, folder: Path, seed: int, workers: int = 3, pace: float = 1.0, outage_s: float = 0.0) -> None:
        self.folder = folder
        self.pace = pace
        self.outage_s = outage_s
        self.longest_outage_s = 0.0
        self.random = random.Random(seed)
        self.log: list[str] = []
        (folder / "redis").mkdir(parents=True)
        (folder / "data").mkdir()
        # A folder of its own: the server runs as another user, who must be able to reach it.
        # What is committed must be in its log when it is killed, as on any server run in earnest.
        self.postgres = PostgresServer(Path(tempfile.mkdtemp(prefix="gs-chaos-pg-")), {"synchronous_commit": "on"})
        self.postgres.start()
        self.redis = RedisServer(folder / "redis", keep=True)
        self.redis.start()
        self.database = Database(self.postgres.create())
        migrate.upgrade(self.database)
        self.service = Service(
            folder / "data",
            database_url=self.database.engine.url.render_as_string(hide_password=False),
            broker_url=self.redis.url,
            beat="false",
            lease_s=f"{8 * pace:g}",
            heartbeat_s=f"{2 * pace:g}",
            retry_delay_s="0.5",
            max_attempts="20",
            hint_after_s="5",
            log_level="WARNING",
        )
        self.service.start("api", "control", "beat")
        self.workers = [self._worker(i) for i in range(workers)]
        for worker in self.workers:
            worker.start()
        self.begin = time.monotonic()

    def _worker(self, index: int, **more: str) -> Process:
        environment = {
            "GROUNDSPEED_WORKER_DATA_DIR": str(self.folder / f"worker{index}"),
            "GROUNDSPEED_WORKER_NODE": f"n{index}",
            "GROUNDSPEED_WORKER_API_URL": self.service.url,
            "GROUNDSPEED_WORKER_BROKER_URL": self.redis.url,
            "GROUNDSPEED_WORKER_IDLE_POLL_S": "2",
            "GROUNDSPEED_WORKER_GRACE_S": "3",
            "GROUNDSPEED_LOG_LEVEL": "WARNING",
            **more,
        }
        return Process([str(Path(__file__).with_name("worker.py"))], environment, self.folder / f"worker{index}.log")

    def say(self, what: str) -> None:
        self.log.append(f"{time.monotonic() - self.begin:6.1f} s  {what}")

    # --- what goes wrong ---------------------------------------------------------------------------------------------

    def harms(self) -> dict[str, Callable[[], None]]:
        """Every kind of harm by name; each leaves everything running again."""
        return {
            "worker killed": self.kill_worker,
            "worker stopped by SIGTERM": self.stop_worker,
            "benchmark process killed": self.kill_benchmark,
            "control worker killed": lambda: self._killed("control"),
            "API killed": lambda: self._killed("api"),
            "beat killed": lambda: self._killed("beat"),
            "Redis restarted with its data": self.restart_redis,
            "Redis restarted without data": self.wipe_redis,
            "PostgreSQL restarted": self.restart_postgres,
            "API unreachable": self.unreachable,
            "every hint delivered twice": self.deliver_again,
            "spool disk full": self.full_spool,
        }

    def kill_worker(self) -> None:
        worker = self.random.choice(self.workers)
        worker.kill()
        worker.start()

    def stop_worker(self) -> None:
        worker = self.random.choice(self.workers)
        with suppress(subprocess.TimeoutExpired):
            worker.stop(20)
        worker.kill()
        worker.start()

    def kill_benchmark(self) -> None:
        end = time.monotonic() + 3
        while time.monotonic() < end:
            for worker in self.workers:
                with suppress(psutil.Error):
                    for child in psutil.Process(worker.process.pid).children():  # type: ignore[union-attr]
                        if child.name() == "sh":
                            child.kill()
                            return
            time.sleep(0.005)

    def _killed(self, name: str) -> None:
        self.service.parts[name].kill()
        self.service.parts[name].start()

    def restart_redis(self) -> None:
        self.redis.kill()
        self.redis.start()

    def wipe_redis(self) -> None:
        self.redis.wipe()
        self.redis.kill()
        self.redis.start()

    def restart_postgres(self) -> None:
        self.random.choice([self.postgres.stop, self.postgres.kill])()
        time.sleep(self.pace * self.random.uniform(0, 2))
        self.postgres.start()

    def unreachable(self) -> None:
        """The process is there and does not answer, as behind a broken network. In a long absence the rest goes wrong
        too.
        """
        seconds, self.outage_s = self.outage_s or self.pace * self.random.uniform(2, 6), 0.0
        api = self.service.parts["api"].process
        assert api is not None
        os.kill(api.pid, signal.SIGSTOP)
        begin = time.monotonic()
        while (left := begin + seconds - time.monotonic()) > 0:
            time.sleep(min(left, 10.0))
            if left > 20.0:
                meanwhile = self.random.choice([self.kill_worker, self.stop_worker, self.restart_redis])
                self.say(f"meanwhile: {meanwhile.__name__}")
                meanwhile()
        os.kill(api.pid, signal.SIGCONT)
        self.longest_outage_s = max(self.longest_outage_s, time.monotonic() - begin)

    def deliver_again(self) -> None:
        app = Celery(broker=self.redis.url, set_as_current=False)
        with app.connection_for_write() as connection:
            for job_id in range(1, 60):
                payload = {"job_id": job_id, "pool": "default"}
                app.send_task("groundspeed.run_job", kwargs=payload, queue="bench.default", connection=connection)

    def full_spool(self) -> None:
        """One worker comes back with a spool that holds next to nothing, and later with the old one."""
        index = self.random.randrange(len(self.workers))
        self.workers[index].kill()
        small = self._worker(index, GROUNDSPEED_WORKER_SPOOL_MAX_BYTES="4096").start()
        time.sleep(6 * self.pace)
        small.kill()
        self.workers[index].start()

    # --- the ordinary part -------------------------------------------------------------------------------------------

    def supervise(self) -> None:
        """Start what has ended by itself, as compose's ``restart: unless-stopped`` does."""
        for name, part in [*self.service.parts.items(), *((f"worker{i}", w) for i, w in enumerate(self.workers))]:
            if not part.alive:
                self.say(f"{name} had ended and is started again")
                part.start()

    def ask(self, path: str, body: dict[str, object]) -> dict[str, object]:
        """As a client that repeats what got no answer."""

        def once() -> dict[str, object] | None:
            self.supervise()
            try:
                reply = httpx.post(f"{self.service.url}/api/v1{path}", json=body, timeout=60)
            except httpx.TransportError:
                return None
            if reply.status_code >= 500:
                return None
            assert reply.status_code == 201, reply.text
            answer: dict[str, object] = reply.json()
            return answer

        found: dict[str, object] = until(once, 240, 0.3, f"an answer to {path}")
        return found

    def end(self) -> None:
        for worker in self.workers:
            worker.end()
        self.service.end()
        self.database.close()
        self.redis.kill()
        self.postgres.stop()
        shutil.rmtree(self.postgres.folder, ignore_errors=True)


def said(world: World, lines: int = 25) -> str:
    """The ends of all logs, for a failure's message."""
    parts = [world.service.said()[-4000:]]
    for index, worker in enumerate(world.workers):
        parts.append(f"--- worker{index}\n" + "\n".join(worker.said().splitlines()[-lines:]))
    return "\n".join([*world.log, *parts])


if __name__ == "__main__":
    sys.exit("this is a part of tests/chaos/run.py")
