"""A thousand simulated nodes and twenty thousand jobs: planned from a real repository, told to a real broker, claimed,
kept alive, reported and ended over real HTTP, each node on a connection of its own.

Scheduler processor time is what deciding costs: planning, dispatch (outbox to broker), the tick's repairs, and in the
API the answers to claims, signs of life and ends, from the moment a message is understood to its commit. It is read
from the clocks of the threads that do it (the API's own metrics). HTTP, JSON and the storing of results are not in it;
they are in the processor time of the whole API process, which is told beside it, as is PostgreSQL's.
"""

from __future__ import annotations

import asyncio
import os
import re
import resource
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import httpx
import psutil
from simulated import Connection
from sqlalchemy import func, select

from databases import PostgresServer
from fleet import fleet
from groundspeed.service.control import app as control
from groundspeed.service.db import migrate
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.settings import Settings
from groundspeed.service.usecases import jobs, leases, outbox, planning
from groundspeed.service.wire import v1
from processes import RedisServer, free_port
from world import run

TARGET_MS = 2.0
SUITES = 20
ALONE = 500
"""Jobs that a single node runs one after another: what a message costs when there is none to share a batch with."""
NODE_BEAT_S, TICK_S = 10.0, 5.0
SERVED = ("claim", "heartbeat", "node heartbeat", "finish")
HEAD = """\
[project]
name = "toy"

"""
SUITE = """\
[[suite]]
name = "s{0:02d}"
plugin = "training"
target = "bench:make"
params = {{ b = 1 }}

"""


@dataclass
class Phase:
    """``parts`` processor milliseconds a job by use case, in the API; ``batches`` messages answered together."""

    name: str
    jobs: int
    seconds: float
    parts: dict[str, float]
    batches: dict[str, float]
    api_ms: float
    store_ms: float


@dataclass
class Simulated:
    nodes: int
    jobs: int
    done: int = 0
    twice: int = 0
    lost: int = 0
    """Leases that ended because the simulation was too slow for its signs of life, and questions without an answer."""
    plan_ms: float = 0.0
    dispatch_ms: float = 0.0
    tick_ms: float = 0.0
    phases: list[Phase] = field(default_factory=list)
    claims_s: list[float] = field(default_factory=list)

    def scheduler_ms(self, phase: Phase) -> float:
        return self.plan_ms + self.dispatch_ms + self.tick_ms + sum(phase.parts.values())

    def quantile_ms(self, q: float) -> float:
        ordered = sorted(self.claims_s)
        return 1000 * ordered[min(int(q * len(ordered)), len(ordered) - 1)]


def measure(server: PostgresServer, folder: Path, nodes: int, jobs_: int) -> Simulated:
    """Half of the jobs are only scheduled (claim, sign of life, end), half bring a result too, some are run alone."""
    url = server.create()
    db = Database(url)
    migrate.upgrade(db)
    redis_folder = folder / "redis"
    redis_folder.mkdir()
    broker = RedisServer(redis_folder)
    broker.start()
    data = folder / "nodes"
    data.mkdir()
    control.configure(Settings.load(data_dir=data, database_url=url, broker_url=broker.url))
    port = free_port()
    environment = os.environ | {"GROUNDSPEED_DATABASE_URL": url, "GROUNDSPEED_DATA_DIR": str(data),
                                "GROUNDSPEED_PORT": str(port), "GROUNDSPEED_LOG_LEVEL": "WARNING",
                                "GROUNDSPEED_BROKER_URL": broker.url, "OMP_NUM_THREADS": "1",
                                "GROUNDSPEED_LEASE_S": "600", "GROUNDSPEED_HEARTBEAT_S": "60"}  # fmt: skip
    with (folder / "api.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", "groundspeed.service", "api"], env=environment, stderr=log)
    found = Simulated(nodes, jobs_)
    try:
        _wait(port)
        asyncio.run(_run(found, db, folder, port, process.pid, server))
    except BaseException:
        sys.stderr.write((folder / "api.log").read_text(errors="replace")[-5000:])
        raise
    finally:
        process.kill()
        process.wait()
        broker.kill()
    with db.read() as session:
        found.done = session.execute(select(func.count()).where(t.Job.state == "done")).scalar_one()
        ended = Counter(session.scalars(select(t.Attempt.job_id).where(t.Attempt.state == "succeeded")))
    found.twice = sum(count > 1 for count in ended.values())
    db.close()
    return found


async def _run(found: Simulated, db: Database, folder: Path, port: int, api: int, server: PostgresServer) -> None:
    connections = [Connection(port, f"node-{i:04d}") for i in range(found.nodes)]
    await asyncio.gather(*(_register(one) for one in connections))
    found.plan_ms = _planned(db, folder, found.jobs)
    found.dispatch_ms = _dispatched(db, found.jobs)
    ticks = Ticks(db)
    ticks.start()
    stop = asyncio.Event()
    beats = [
        asyncio.create_task(_live(Connection(port, one.node), one, i, found, stop)) for i, one in enumerate(connections)
    ]
    gauge = Gauge(port, api, server)
    half = (found.jobs - ALONE) // 2
    plan = (
        ("all nodes", connections, half, False),
        ("all nodes, with results", connections, found.jobs - ALONE - half, True),
        ("one node alone", connections[:1], ALONE, False),
    )
    for name, ours, count, results in plan:
        left = [count]
        gauge.begin()
        begin = time.perf_counter()
        await asyncio.gather(*(_node(one, left, found, results=results) for one in ours))
        found.phases.append(gauge.end(name, count, time.perf_counter() - begin))
    stop.set()
    await asyncio.gather(*beats)
    ticks.stop()
    found.tick_ms = 1000 * ticks.spent_s / found.jobs


def _planned(db: Database, folder: Path, count: int) -> float:
    """Processor milliseconds a job of planning one request for all of them, with what git takes."""
    commits = -(-count // SUITES)
    config = HEAD + "".join(SUITE.format(i) for i in range(SUITES))
    world = fleet(db, folder / "repo", 1, config)
    _grow(world.repo.path, commits)
    world.now = datetime.now(UTC)
    world.add(watch=False)
    before = _processor_s()
    ref = world.ask(f"HEAD~{commits}..HEAD")
    made = planning.plan_request(db, world.mirrors, ref.id, world.now)
    spent = 1000 * (_processor_s() - before) / max(made.jobs, 1)
    assert made.jobs >= count, world.request(ref.id).error
    with db.transaction() as session:
        extra = session.scalars(select(t.Job.id).order_by(t.Job.id.desc()).limit(made.jobs - count)).all()  # type: ignore[union-attr]
    for job_id in extra:
        jobs.cancel(db, job_id or 0, world.now, actor="bench")
    return spent


def _grow(path: Path, commits: int) -> None:
    """So many commits more, in one process."""
    text = "".join(
        f"commit refs/heads/main\ncommitter Ada <ada@example.org> {1_800_000_000 + i} +0000\ndata 1\nx"
        + ("\nfrom refs/heads/main^0" if not i else "")
        + f"\nM 100644 inline n.txt\ndata {len(str(i))}\n{i}\n\n"
        for i in range(commits)
    )
    subprocess.run(["git", "fast-import", "--quiet"], cwd=path, input=text.encode(), check=True)
    subprocess.run(["git", "reset", "-q", "--hard", "main"], cwd=path, check=True)


def _dispatched(db: Database, count: int) -> float:
    """Processor milliseconds a job of handing every hint to the broker."""
    before = time.process_time()
    while outbox.relay(db, control.send, datetime.now(UTC), limit=500, left=-outbox.LEFT_BEHIND):
        pass
    return 1000 * (time.process_time() - before) / count


class Ticks(threading.Thread):
    """What the control worker's tick does for scheduling, as often as it does."""

    def __init__(self, db: Database) -> None:
        super().__init__(daemon=True)
        self._db, self._over, self.spent_s = db, threading.Event(), 0.0

    def run(self) -> None:
        while not self._over.wait(TICK_S):
            begin, now = time.thread_time(), datetime.now(UTC)
            leases.expire(self._db, now, leases.Policy())
            jobs.announce_forgotten(self._db, now, 300.0)
            outbox.relay(self._db, control.send, now)
            outbox.forget_sent(self._db, now)
            self.spent_s += time.thread_time() - begin

    def stop(self) -> None:
        self._over.set()
        self.join()


class Gauge:
    """Processor time of the API's parts, of the API and of PostgreSQL, between two moments."""

    def __init__(self, port: int, api: int, server: PostgresServer) -> None:
        self._url = f"http://127.0.0.1:{port}/metrics"
        self._api = psutil.Process(api)
        assert server.process is not None
        self._server = psutil.Process(server.process.pid)
        self._store: dict[int, float] = {}
        """Of its processes when they were last seen: some end."""
        self._before: tuple[dict[str, dict[str, float]], float, float]

    def begin(self) -> None:
        self._before = self._read()

    def end(self, name: str, count: int, seconds: float) -> Phase:
        parts, api, store = self._read()
        before, api_before, store_before = self._before

        def more(what: str) -> dict[str, float]:
            return {part: parts[what].get(part, 0.0) - before[what].get(part, 0.0) for part in SERVED}

        asked, batches = more("messages"), more("batches")
        return Phase(
            name,
            count,
            seconds,
            {part: 1000 * spent / count for part, spent in more("seconds").items()},
            {part: asked[part] / batches[part] for part in SERVED if batches[part]},
            1000 * (api - api_before) / count,
            1000 * (store - store_before) / count,
        )

    def _read(self) -> tuple[dict[str, dict[str, float]], float, float]:
        text = httpx.get(self._url, timeout=120).text
        parts: dict[str, dict[str, float]] = {"seconds": {}, "messages": {}, "batches": {}}
        for what, part, value in re.findall(
            r'^groundspeed_scheduler_(\w+)_total\{part="([^"]+)"\} (\S+)', text, re.MULTILINE
        ):
            parts[what][part] = float(value)
        for one in (self._server, *self._server.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                self._store[one.pid] = _cpu_s(one)
        return parts, _cpu_s(self._api), sum(self._store.values())


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _processor_s() -> float:
    """Of this process and of the programs that it has run."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


async def _register(one: Connection) -> None:
    message = v1.RegisterRequest(
        protocol=v1.PROTOCOL,
        node=one.node,
        worker_version="0",
        hardware=v1.HardwareSpec(cpu_model="simulated", cpu_count=1),
        catalogue=(v1.PluginSpec(name="training", version="1", params=(v1.ParamSpec(name="b", type="int"),)),),
    )
    assert (await one.post("/workers/register", message))["accepted"]


async def _live(one: Connection, worker: Connection, index: int, found: Simulated, stop: asyncio.Event) -> None:
    """A node's own signs of life, which come every ten seconds whatever it does."""
    pause = NODE_BEAT_S * (index % found.nodes) / found.nodes
    while True:
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)
            one.close()
            return
        alive = v1.NodeHeartbeat(protocol=v1.PROTOCOL, attempts=tuple(worker.attempts))
        beat = await one.post(f"/workers/{one.node}/heartbeat", alive)
        assert beat["state"] == "active", beat
        pause = NODE_BEAT_S


async def _node(one: Connection, left: list[int], found: Simulated, *, results: bool) -> None:
    """Runs jobs for as long as any are left; one that it has lost is left again, as for a worker."""
    while left[0] > 0:
        left[0] -= 1
        if not await _job(one, found, results=results):
            left[0] += 1
            found.lost += 1
            await asyncio.sleep(0.5)
            assert found.lost < found.jobs, "jobs are lost for ever"


async def _job(one: Connection, found: Simulated, *, results: bool) -> bool:
    asking = v1.ClaimRequest(protocol=v1.PROTOCOL, node=one.node, delivery=uuid.uuid4().hex)
    begin = time.perf_counter()
    claim = await one.post(f"/workers/{one.node}/next", asking)
    found.claims_s.append(time.perf_counter() - begin)
    if claim["attempt_id"] is None:
        return False
    attempt = str(claim["attempt_id"])
    one.attempts.add(attempt)
    beat = await one.post(f"/attempts/{attempt}/heartbeat", v1.AttemptHeartbeat(phase="run"))
    if results and beat["verdict"] == "continue":
        ack = await one.post(f"/attempts/{attempt}/runs", v1.RunBatch(runs=(run(),)))
        assert ack["accepted"] or ack["already"], ack
    ended = await one.post(f"/attempts/{attempt}/finish", v1.FinishRequest(state="succeeded"))
    one.attempts.discard(attempt)
    return bool(ended["ok"])


def _wait(port: int) -> None:
    end = time.monotonic() + 300
    while time.monotonic() < end:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=2).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise TimeoutError("the API did not start")


def report(found: Simulated, say: Callable[[str], None]) -> None:
    """The figures, and what they are held against."""
    seconds = sum(phase.seconds for phase in found.phases)
    say(
        f"\n{found.nodes} nodes, {found.jobs} jobs: {found.done} done, {found.twice} twice, {found.lost} lost on the way, {seconds:.0f} s"
    )
    say(f"a claim takes {found.quantile_ms(0.5):.0f} ms (p50), {found.quantile_ms(0.99):.0f} ms (p99)")
    say(f"\n{'processor time, ms a job':<28}" + "".join(f"{phase.name:>26}" for phase in found.phases))
    for name, value in (("plan", found.plan_ms), ("dispatch", found.dispatch_ms), ("tick", found.tick_ms)):
        say(f"{name:<28}" + f"{value:>26.2f}" * len(found.phases))
    for part in SERVED:
        say(f"{part:<28}" + "".join(_with_batch(phase, part) for phase in found.phases))
    say(f"{'scheduler in all':<28}" + "".join(f"{found.scheduler_ms(phase):>26.2f}" for phase in found.phases))
    say(f"{'API process, with HTTP':<28}" + "".join(f"{phase.api_ms:>26.2f}" for phase in found.phases))
    say(f"{'PostgreSQL':<28}" + "".join(f"{phase.store_ms:>26.2f}" for phase in found.phases))
    say("in brackets: messages answered together")
    worst = max(found.scheduler_ms(phase) for phase in found.phases[:2])
    verdict = "" if worst <= TARGET_MS else f"  over the target of {TARGET_MS:g}"
    say(f"{'scheduler ms a job':<42}{worst:>10.2f}{verdict}")


def _with_batch(phase: Phase, part: str) -> str:
    share = f" ({phase.batches[part]:.1f})" if part in phase.batches else ""
    return f"{phase.parts[part]:.2f}{share}".rjust(26)
