"""The very commands of compose.yaml as processes against real servers; nodes that die for good or are told to go."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from sqlalchemy import select

from databases import PostgresServer
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from processes import Process, RedisServer, free_port, until
from repositories import GitRepo

TOKEN = "worker-token-of-this-test-0123456789"
GIVEN = {"POSTGRES_PASSWORD": "unused", "GROUNDSPEED_WORKER_TOKEN": TOKEN, "GRAFANA_PASSWORD": "unused"}
QUICK = {"LEASE_S": "5", "HEARTBEAT_S": "1", "RETRY_DELAY_S": "0.5", "HINT_AFTER_S": "2", "TICK_S": "0.5"}
PLUGIN = """
import time
from groundspeed.plugins.spi import Direction, Kind, Measured, Metric, Needs

class Plugin:
    name = "slow"
    version = "1"
    description = "takes a second"
    timing = "self-timed"
    params = ()
    needs = Needs(target=False)
    def metrics(self):
        return (Metric("seconds", "s", Direction.LOWER, Kind.TIME),)
    def run(self, context):
        for _ in range(10):
            context.progress("working"); time.sleep(0.12)
        yield Measured("seconds", [1.0, 1.0, 1.0])

PLUGIN = Plugin()
"""
CONFIG = '[project]\nname = "watched"\n\n[[suite]]\nname = "s"\nplugin = "slow"\n'
COMMITS = 6


def filled(text: str) -> str:
    """``${NAME}``, ``${NAME:-default}`` and ``${NAME:?message}`` as compose fills them in."""

    def one(match: re.Match[str]) -> str:
        name, _, rest = match[1].partition(":")
        return GIVEN.get(name) or rest.removeprefix("-")

    return re.sub(r"\$\{([^}]+)\}", one, text)


@dataclass
class Compose:
    """Services of compose.yaml as processes here: what differs is where the servers are and where the data lies."""

    root: Path
    folder: Path
    database: str
    port: int = field(default_factory=free_port)
    redis_port: int = field(default_factory=free_port)
    running: dict[str, Process] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.services: dict[str, Any] = yaml.safe_load((self.root / "compose.yaml").read_text())["services"]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def here(self, text: str, name: str) -> str:
        for there, place in {
            "postgresql+psycopg://groundspeed:unused@postgres:5432/groundspeed": self.database,
            "redis://redis:6379": f"redis://127.0.0.1:{self.redis_port}",
            "http://api:8750": self.url,
            "http://127.0.0.1:8750": self.url,
        }.items():
            text = text.replace(there, place)
        return str(self.folder / name) if text == "/data" else text

    def environment(self, service: str, name: str) -> dict[str, str]:
        given = self.services[service].get("environment", {})
        settings = {f"GROUNDSPEED_{key}": value for key, value in QUICK.items()}
        return settings | {key: self.here(filled(str(value)), name) for key, value in given.items()}

    def start(self, service: str, name: str = "", **more: str) -> Process:
        name = name or service
        (self.folder / name).mkdir(exist_ok=True)
        command = [filled(word) for word in self.services[service]["command"]]
        programs = {"python": sys.executable, "groundspeed": str(Path(sys.executable).with_name("groundspeed"))}
        process = Process(command, self.environment(service, name) | more, self.folder / f"{name}.log")
        process.arguments = [programs.get(command[0], command[0]), *command[1:]]
        self.running[name] = process
        return process.start()

    def start_redis(self) -> None:
        """The command as it stands, of the wheel's program, in a folder and at a port of its own."""
        (self.folder / "redis").mkdir()
        command = list(self.services["redis"]["command"])
        program = RedisServer(self.folder / "redis").program.with_name(command[0])
        own = ["--port", str(self.redis_port), "--bind", "127.0.0.1", "--dir", str(self.folder / "redis")]
        process = Process([], {}, self.folder / "redis.log")
        process.arguments = [str(program), *command[1:], *own]
        self.running["redis"] = process.start()

    def healthy(self, service: str) -> bool:
        """The service's own health check."""
        kind, *command = self.services[service]["healthcheck"]["test"]
        assert kind == "CMD"
        command = [self.here(filled(word), service) for word in command]
        program = sys.executable if command[0] == "python" else command[0]
        return subprocess.run([program, *command[1:]], capture_output=True, check=False).returncode == 0

    def said(self) -> str:
        return "\n".join(f"--- {name}\n{process.said()[-2500:]}" for name, process in self.running.items())


@pytest.fixture
def compose(root: Path, tmp_path: Path, postgres_server: PostgresServer) -> Iterator[Compose]:
    url = postgres_server.create()
    made = Compose(root, tmp_path, url)
    yield made
    for process in made.running.values():
        process.end()
    postgres_server.drop(url)


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A distribution with one plugin, as pip would have left it."""
    site = Path(tempfile.mkdtemp(prefix="gs-site-"))
    info = site / "slow_bench-1.0.dist-info"
    info.mkdir()
    (site / "slow_bench.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: slow-bench\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[groundspeed.benchmarks]\nslow = slow_bench:PLUGIN\n")
    names = ("METADATA", "entry_points.txt", "RECORD")
    (info / "RECORD").write_text("slow_bench.py,,\n" + "".join(f"{info.name}/{name},,\n" for name in names))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH")))))
    yield
    shutil.rmtree(site)


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("plugin")
def test_every_service_as_it_is_written_and_jobs_survive_their_nodes(compose: Compose, tmp_path: Path) -> None:
    """Node a is killed for good in the middle of a job, node b is told to go in the middle of one (a spot instance),
    node c comes: every commit has exactly one result, and nobody was asked to do anything.
    """
    repo = GitRepo(tmp_path / "repo")
    repo.write("groundspeed.toml", CONFIG)
    shas = [repo.commit(f"Change {i}") for i in range(COMMITS)]
    compose.start_redis()
    migrate = compose.start("migrate")
    assert migrate.process is not None
    assert migrate.process.wait(240) == 0, migrate.said()
    for name in ("api", "control", "beat"):
        compose.start(name, GROUNDSPEED_PORT=str(compose.port))
    until(lambda: compose.healthy("api"), 240, what=compose.said())
    db = Database(compose.database)
    try:
        secret = _token(compose)
        asked = {"repo_url": str(repo.path), "branch": "main", "watch": True}
        headers = {"Authorization": f"Bearer {secret}"}
        assert httpx.post(f"{compose.url}/api/v1/projects", json=asked, timeout=120).status_code == 401
        for node in ("a", "b"):
            compose.start("worker", node, GROUNDSPEED_WORKER_NODE=node, GROUNDSPEED_WORKER_IDLE_POLL_S="1")
        until(lambda: _nodes(db) == {"a", "b"}, 240, what=compose.said())
        reply = httpx.post(f"{compose.url}/api/v1/projects", json=asked, headers=headers, timeout=120)
        assert reply.status_code == 201, reply.text

        until(lambda: _phase(db, "a") == "run", 240, what=compose.said())
        compose.running["a"].kill()
        until(lambda: _phase(db, "b") == "run", 240, what=compose.said())
        assert compose.running["b"].stop() == 0, compose.running["b"].said()
        compose.start("worker", "c", GROUNDSPEED_WORKER_NODE="c", GROUNDSPEED_WORKER_IDLE_POLL_S="1")
        until(lambda: _ended(db), 240, what=compose.said())

        with db.read() as session:
            states = set(session.scalars(select(t.Job.state)))
            ends = {(node, state) for node, state in session.execute(
                select(t.Node.name, t.Attempt.state).join(t.Attempt, t.Attempt.node_id == t.Node.id)
            ).tuples()}  # fmt: skip
            results = list(session.scalars(select(t.Revision.sha).join(t.Run, t.Run.revision_id == t.Revision.id)))
        assert states == {"done"}
        assert ("a", "expired") in ends
        assert ("b", "released") in ends
        assert ("c", "succeeded") in ends
        assert sorted(results) == sorted(shas), "one result a commit: none lost, none twice"
    finally:
        db.close()
    statuses = {name: compose.running[name].stop() for name in ("api", "control", "beat", "c")}
    assert set(statuses.values()) == {0}, compose.said()


def _token(compose: Compose) -> str:
    """As an operator makes one inside the api container."""
    program = str(Path(sys.executable).with_name("groundspeed"))
    command = [program, "token", "create", "operator", "--role", "operator"]
    environment = os.environ | compose.environment("api", "api")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _nodes(db: Database) -> set[str]:
    with db.read() as session:
        return set(session.scalars(select(t.Node.name)))


def _phase(db: Database, node: str) -> str:
    with db.read() as session:
        query = select(t.Attempt.phase).join(t.Node, t.Node.id == t.Attempt.node_id)
        return next(iter(session.scalars(query.where(t.Node.name == node, t.Attempt.state == "running"))), "")


def _ended(db: Database) -> bool:
    with db.read() as session:
        states = list(session.scalars(select(t.Job.state)))
    return len(states) == COMMITS and not set(states) & {"queued", "running"}
