"""A thousand simulated nodes and twenty thousand jobs: real HTTP claims, signs of life, reports and ends."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil
from sqlalchemy import func, insert, select

from groundspeed.service.db import migrate
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.wire import v1
from world import NOW, World, run

CONNECTIONS = 64
SPEC = v1.JobSpec(
    job_id=0,
    project="p",
    repo_url="/nowhere",
    tip_sha="0" * 40,
    suite="s",
    sides=(),
    build=v1.BuildSpec(),
    benchmarks=(v1.BenchmarkSpec(key="b=1", plugin="training", params={"b": 1}),),
).model_dump(mode="json", exclude={"job_id", "sides", "done"})
TARGET_MS = 2.0


@dataclass
class Simulated:
    """``cpu_ms`` of the API process a job, by kind of message where it was told apart."""

    nodes: int
    jobs: int
    done: int = 0
    twice: int = 0
    seconds: float = 0.0
    scheduling_ms: float = 0.0
    with_results_ms: float = 0.0
    claims_s: list[float] = field(default_factory=list)

    def quantile_ms(self, q: float) -> float:
        ordered = sorted(self.claims_s)
        return 1000 * ordered[min(int(q * len(ordered)), len(ordered) - 1)]


def measure(url: str, folder: Path, nodes: int, jobs: int) -> Simulated:
    """Half of the jobs are only scheduled (claim, sign of life, end), half bring a result too."""
    db = Database(url)
    migrate.upgrade(db)
    world = World(db)
    world.commits(1)
    template = world.job(world.revisions[0], ["b=1"])
    _queue(db, template, jobs)
    found = Simulated(nodes, jobs)
    port = _free_port()
    environment = os.environ | {"GROUNDSPEED_DATABASE_URL": url, "GROUNDSPEED_DATA_DIR": str(folder / "nodes"),
                                "GROUNDSPEED_PORT": str(port), "GROUNDSPEED_LOG_LEVEL": "WARNING",
                                "GROUNDSPEED_BROKER_URL": "filesystem://", "OMP_NUM_THREADS": "1"}  # fmt: skip
    process = subprocess.Popen([sys.executable, "-m", "groundspeed.service", "api"], env=environment)
    try:
        _wait(port)
        asyncio.run(_simulate(found, port, psutil.Process(process.pid)))
    finally:
        process.terminate()
        process.wait(20)
    with db.read() as session:
        found.done = session.execute(select(func.count()).where(t.Job.state == "done")).scalar_one()
        ended = Counter(session.scalars(select(t.Attempt.job_id).where(t.Attempt.state == "succeeded")))
    found.twice = sum(count > 1 for count in ended.values())
    db.close()
    return found


def _queue(db: Database, template: int, jobs: int) -> None:
    """Copies of one job, told to nobody: a node that asks finds them."""
    with db.transaction() as session:
        like = session.get_one(t.Job, template)
        side = session.scalars(select(t.JobSide).where(t.JobSide.job_id == template)).one()
        fields = like.model_dump(exclude={"id"}) | {"state": "queued", "created_at": NOW, "hinted_at": NOW}
        fields["requirements"] = {"plugins": ["training"]}
        fields["spec"] = SPEC
        for start in range(0, jobs, 1000):
            rows = [fields | {"key": f"simulated {i}"} for i in range(start, min(start + 1000, jobs))]
            session.execute(insert(t.Job), rows)
        ids = session.scalars(select(t.Job.id).where(t.Job.key.startswith("simulated"))).all()  # type: ignore[attr-defined]
        plain = side.model_dump(exclude={"id", "job_id"})
        session.execute(insert(t.JobSide), [plain | {"job_id": job_id} for job_id in ids])
        session.delete(side)
        session.flush()
        session.delete(like)


async def _simulate(found: Simulated, port: int, server: psutil.Process) -> None:
    limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/api/v1", limits=limits, timeout=120) as http:
        names = [f"node-{i:04d}" for i in range(found.nodes)]
        await asyncio.gather(*(_register(http, name) for name in names))
        begin = time.perf_counter()
        half = found.jobs // 2
        for results, count in ((False, half), (True, found.jobs - half)):
            left = [count]
            before = server.cpu_times()
            await asyncio.gather(*(_node(http, name, left, found, results=results) for name in names))
            after = server.cpu_times()
            spent = 1000 * (after.user + after.system - before.user - before.system) / count
            if results:
                found.with_results_ms = spent
            else:
                found.scheduling_ms = spent
        found.seconds = time.perf_counter() - begin


async def _register(http: httpx.AsyncClient, name: str) -> None:
    message = v1.RegisterRequest(
        protocol=v1.PROTOCOL,
        node=name,
        worker_version="0",
        hardware=v1.HardwareSpec(cpu_model="simulated", cpu_count=1),
        catalogue=(v1.PluginSpec(name="training", version="1"),),
    )
    assert (await _post(http, "/workers/register", message))["accepted"]


async def _node(http: httpx.AsyncClient, name: str, left: list[int], found: Simulated, *, results: bool) -> None:
    while left[0] > 0:
        left[0] -= 1
        asking = v1.ClaimRequest(protocol=v1.PROTOCOL, node=name, delivery=uuid.uuid4().hex)
        begin = time.perf_counter()
        claim = await _post(http, f"/workers/{name}/next", asking)
        found.claims_s.append(time.perf_counter() - begin)
        attempt = claim["attempt_id"]
        assert attempt, claim["reason"]
        beat = await _post(http, f"/attempts/{attempt}/heartbeat", v1.AttemptHeartbeat(phase="run"))
        assert beat["verdict"] == "continue"
        if results:
            ack = await _post(http, f"/attempts/{attempt}/runs", v1.RunBatch(runs=(run(),)))
            assert ack["accepted"], ack
        assert (await _post(http, f"/attempts/{attempt}/finish", v1.FinishRequest(state="succeeded")))["ok"]


async def _post(http: httpx.AsyncClient, path: str, message: v1.Wire) -> dict[str, object]:
    body = message.model_dump_json()
    while True:
        try:
            reply = await http.post(path, content=body, headers={"content-type": "application/json"})
            break
        except httpx.TransportError:  # as a worker does: every message may be repeated
            await asyncio.sleep(0.2)
    assert reply.status_code == 200, reply.text
    answer: dict[str, object] = reply.json()
    return answer


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _wait(port: int) -> None:
    end = time.monotonic() + 300
    while time.monotonic() < end:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=2).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise TimeoutError("the API did not start")
