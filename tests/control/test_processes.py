"""The service's processes as they are run: embedded (SQLite, files) and distributed (PostgreSQL, Redis, own beat)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from databases import PostgresServer
from fleet import Fleet, fleet, registration
from groundspeed.service.__main__ import main
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases import outbox
from groundspeed.service.wire.hints import RUN_JOB
from processes import Process, RedisServer, Service, until


@pytest.fixture
def embedded(sqlite_database: Database, tmp_path: Path) -> Iterator[Service]:
    (tmp_path / "data").mkdir()
    service = Service(tmp_path / "data", database_url=sqlite_database.url, hint_after_s="1")
    yield service
    service.end()


@pytest.fixture
def distributed(postgres_database: Database, redis_server: RedisServer, tmp_path: Path) -> Iterator[Service]:
    (tmp_path / "data").mkdir()
    url = postgres_database.engine.url.render_as_string(hide_password=False)
    settings = {"database_url": url, "broker_url": redis_server.url, "beat": "false", "hint_after_s": "1"}
    service = Service(tmp_path / "data", **settings, log_format="json")
    yield service
    service.end()


def project(database: Database, tmp_path: Path) -> Fleet:
    world = fleet(database, tmp_path, 4)
    world.add(poll_interval_s=0.2)
    return world


def test_embedded_a_push_becomes_jobs_and_hints_without_anybody_asking(
    embedded: Service, sqlite_database: Database, tmp_path: Path
) -> None:
    world = project(sqlite_database, tmp_path)
    embedded.start("control")
    until(lambda: len(world.jobs()) == 4, what="the history is queued")
    new = world.repo.commit("Pushed")
    until(lambda: any(job.key == f"train@{new[:16]}" for job in world.jobs()), what=embedded.said())
    hints = tmp_path / "data" / "broker" / "messages"
    until(lambda: len(list(hints.glob("*.bench.default.msg"))) >= 5, what="every job has a hint for workers")
    embedded.parts["control"].kill()
    last = world.repo.commit("Pushed while nobody was there")
    embedded.start("control")
    until(lambda: any(job.key == f"train@{last[:16]}" for job in world.jobs()), what=embedded.said())
    assert len(world.jobs()) == 6
    assert embedded.parts["control"].stop() == 0


def test_embedded_what_a_worker_left_behind_is_queued_again(
    embedded: Service, sqlite_database: Database, tmp_path: Path
) -> None:
    """The reaper is the control worker's tick; the lease here ended long ago by the real clock."""
    world = project(sqlite_database, tmp_path)
    world.node()
    [job] = world.measure("HEAD~1..HEAD")
    lost = world.next()
    assert lost.attempt_id
    embedded.start("control")
    until(lambda: world.job(job.id).state == "queued", what=embedded.said())
    assert world.attempt(lost.attempt_id).state == "expired"


def test_distributed_hints_reach_redis_and_are_repaired_after_it_lost_everything(
    distributed: Service, postgres_database: Database, redis_server: RedisServer, tmp_path: Path
) -> None:
    world = project(postgres_database, tmp_path)
    distributed.start("control", "beat")
    until(lambda: len(world.jobs()) == 4, what=distributed.said())
    with redis.Redis.from_url(redis_server.url) as client:
        until(lambda: client.llen("bench.default") >= 4, what="hints are in Redis")
        message = json.loads(client.lindex("bench.default", 0))
        assert (message["content-type"], message["headers"]["task"]) == ("application/json", RUN_JOB)
        redis_server.wipe()
        until(lambda: client.llen("bench.default") >= 4, what="the waiting jobs are announced again")
    redis_server.kill()
    with postgres_database.transaction() as session:
        outbox.enqueue(session, RUN_JOB, {"job_id": 1, "pool": "late"})
    redis_server.start()
    with redis.Redis.from_url(redis_server.url) as client:
        until(lambda: client.llen("bench.late") == 1, what=distributed.said())
    assert [part.stop() for part in distributed.parts.values()] == [0, 0]


def test_the_api_ends_cleanly_and_tells_requests_apart(distributed: Service, postgres_database: Database) -> None:
    import httpx

    distributed.start("api")
    reply = httpx.post(
        f"{distributed.url}/api/v1/workers/register",
        content=registration().model_dump_json(),
        headers={"content-type": "application/json", "x-request-id": "mine-1"},
        timeout=60,
    )
    assert (reply.status_code, reply.headers["x-request-id"]) == (200, "mine-1")
    api = distributed.parts["api"]
    assert api.stop() == 0
    lines = [json.loads(line) for line in api.said().splitlines()]
    [line] = [line for line in lines if line.get("request") == "mine-1"]
    assert (line["message"], line["status"], line["worker"]) == ("POST /api/v1/workers/register", 200, "register")


@pytest.mark.parametrize(
    ("command", "settings", "said"),
    [
        (
            "api",
            {"GROUNDSPEED_HOST": "0.0.0.0"},
            "no token to protect it. Make one first: groundspeed token create NAME",
        ),
        ("api", {"GROUNDSPEED_PORT": "high"}, "GROUNDSPEED_PORT: input should be a valid integer"),
        ("api", {"GROUNDSPEED_DATABASE_URL": "sqlite:////tmp/none-such/x.db"}, "none-such"),
        ("dance", {}, "Name one of: api, control, beat, migrate"),
    ],
)
def test_what_cannot_start_says_why_in_one_paragraph(
    sqlite_database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    settings: dict[str, str],
    said: str,
) -> None:
    environment = {"GROUNDSPEED_DATA_DIR": str(tmp_path), "GROUNDSPEED_DATABASE_URL": sqlite_database.url} | settings
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert main([command]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1


def test_migrate_makes_the_workers_first_token_known_once(postgres_server: PostgresServer, tmp_path: Path) -> None:
    from datetime import UTC, datetime

    from groundspeed.service.errors import Unauthorized
    from groundspeed.service.usecases import tokens

    url = postgres_server.create()
    try:
        for secret in ("first-secret-of-workers", "first-secret-of-workers", "second-secret-of-workers"):
            environment = {
                "GROUNDSPEED_DATA_DIR": str(tmp_path),
                "GROUNDSPEED_DATABASE_URL": url,
                "GROUNDSPEED_BOOTSTRAP_WORKER_TOKEN": secret,
            }
            process = Process(["-m", "groundspeed.service", "migrate"], environment, tmp_path / "log").start()
            assert process.process is not None
            assert process.process.wait(240) == 0, process.said()
        db = Database(url)
        assert tokens.authenticate(db, secret, datetime.now(UTC)).role == "worker"
        with pytest.raises(Unauthorized):
            tokens.authenticate(db, "first-secret-of-workers", datetime.now(UTC))
        db.close()
    finally:
        postgres_server.drop(url)
