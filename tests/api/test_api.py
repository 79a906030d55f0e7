"""The API over real HTTP: the whole life of a job, who may do what, limits, and errors in one form."""

from __future__ import annotations

import errno
import hashlib
import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from sqlmodel import select

from fleet import START, Fleet, fleet, registration
from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import KernelTable, Project
from groundspeed.service.usecases import receiving, tokens
from groundspeed.service.wire import v1
from processes import until
from web_server import app, serve
from world import run


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Fleet:
    world = fleet(database, tmp_path)
    world.add(watch=False)
    return world


@pytest.fixture
def api(world: Fleet, tmp_path: Path) -> Iterator[httpx.Client]:
    limits = {"max_body_bytes": 200_000, "max_artefact_bytes": 1000}
    with (
        serve(app(Database(world.db.url), tmp_path / "data", **limits)) as url,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        yield client


@pytest.fixture
def guarded(sqlite_database: Database, tmp_path: Path) -> Iterator[httpx.Client]:
    """A service that could be reached from elsewhere: nobody is let in without a token."""
    with (
        serve(app(Database(sqlite_database.url), tmp_path / "data", host="0.0.0.0")) as url,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        yield client


@pytest.fixture
def local(sqlite_database: Database, tmp_path: Path) -> Iterator[httpx.Client]:
    """A service without a project."""
    with serve(app(Database(sqlite_database.url), tmp_path / "data")) as url, httpx.Client(base_url=url) as client:
        yield client


def post(api: httpx.Client, path: str, message: v1.Wire | dict[str, object], **headers: str) -> httpx.Response:
    body = (
        message.model_dump_json()
        if isinstance(message, v1.Wire)
        else httpx.Request("POST", "http://x", json=message).content
    )
    return api.post(f"/api/v1{path}", content=body, headers={"content-type": "application/json", **headers})


def asking(node: str = "n1") -> v1.ClaimRequest:
    return v1.ClaimRequest(protocol=v1.PROTOCOL, node=node, delivery="d")


def test_a_job_from_asking_to_its_last_result(api: httpx.Client, world: Fleet) -> None:
    assert post(api, "/workers/register", registration()).json()["accepted"]
    beat = post(api, "/workers/n1/heartbeat", v1.NodeHeartbeat(protocol=v1.PROTOCOL)).json()
    assert (beat["state"], beat["reason"]) == ("active", "")
    ref = post(api, "/projects/toy/requests", {"range": "HEAD~1..HEAD"})
    assert (ref.status_code, ref.json()["created"]) == (201, True)
    assert post(api, "/projects/toy/requests", {"range": "HEAD~1..HEAD"}).json()["created"] is False
    world.plan(world_ref(ref.json()["id"]))
    claimed = post(api, "/workers/n1/next", asking()).json()
    assert post(api, f"/jobs/{claimed['job']['job_id']}/claim", asking()).json() == claimed
    attempt = claimed["attempt_id"]
    line = v1.LogLine(seq=0, at=1.0, stream="stdout", text="hello\0")
    assert post(api, f"/attempts/{attempt}/log", v1.LogBatch(lines=(line,))).json()["ok"]
    assert post(api, f"/attempts/{attempt}/heartbeat", v1.AttemptHeartbeat(phase="run")).json()["verdict"] == "continue"
    key = claimed["job"]["benchmarks"][0]["key"]
    report = run(key, plugin="training", plugin_version=version(), params=claimed["job"]["benchmarks"][0]["params"])
    ack = post(api, f"/attempts/{attempt}/runs", v1.RunBatch(runs=(report,)))
    assert ack.json()["accepted"] == [{"side": 0, "benchmark": key, "replicate": 0}], ack.text
    assert post(api, f"/attempts/{attempt}/runs", v1.RunBatch(runs=(report,))).json()["already"]
    assert post(api, f"/attempts/{attempt}/finish", v1.FinishRequest(state="succeeded")).json()["ok"]
    assert api.get(f"/api/v1/requests/{ref.json()['id']}").json()["row"]["state"] == "done"


def version() -> str:
    from groundspeed.service.usecases import catalogue

    return catalogue.shipped()["training"].version


def world_ref(request_id: int) -> object:
    from groundspeed.service.usecases.requests import Ref

    return Ref(request_id, "pending", created=True)


def test_an_artefact_is_checked_limited_and_never_shown_as_a_page(api: httpx.Client, world: Fleet) -> None:
    """A token for another project does not get it."""
    world.node()
    world.measure("HEAD~1..HEAD")
    attempt = world.next().attempt_id
    body = b"<script>alert(1)</script>"
    sha = hashlib.sha256(body).hexdigest()
    key = world.jobs()[0].spec["benchmarks"][0]["key"]
    ref = {"kind": "kernel-table", "name": "k.html", "sha256": sha, "size_bytes": len(body), "media_type": "text/html"}
    report = run(key, plugin="training", plugin_version=version(), artefacts=[ref])
    post(api, f"/attempts/{attempt}/runs", v1.RunBatch(runs=(report,)))
    assert api.get(f"/api/v1/attempts/{attempt}/artefacts/{sha}").status_code == 404
    wrong = api.put(f"/api/v1/attempts/{attempt}/artefacts/{sha}", content=b"else")
    assert (wrong.status_code, wrong.json()["type"]) == (422, "invalid")
    assert api.put(f"/api/v1/attempts/{attempt}/artefacts/{'0' * 64}", content=b"x" * 2000).status_code == 413
    assert api.put(f"/api/v1/attempts/{attempt}/artefacts/{sha}", content=body).json()["ok"]
    found = api.get(f"/api/v1/attempts/{attempt}/artefacts/{sha}")
    assert (found.content, found.headers["content-type"]) == (body, "application/octet-stream")
    assert found.headers["content-disposition"].startswith("attachment")
    assert api.put(f"/api/v1/attempts/none/artefacts/{sha}", content=body).status_code == 404
    with world.db.read() as session:
        assert session.exec(select(KernelTable.why)).all() == ["the kernel table is no JSON"]
    with world.db.transaction() as session:
        session.add(Project(slug="other", name="Other", repo_url="x", watch=False, created_at=START))
    for project, status in (("other", 403), ("toy", 200)):
        secret = tokens.create(world.db, tokens.New(project, "viewer", projects=(project,)), START)
        own = {"authorization": f"Bearer {secret}"}
        assert api.get(f"/api/v1/attempts/{attempt}/artefacts/{sha}", headers=own).status_code == status


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/projects/toy/requests", {"rang": "a..b"}, 422, "rang: Extra inputs are not permitted"),
        ("/projects/toy/requests", {"range": "nope..HEAD"}, 422, "has no commit 'nope'"),
        ("/projects/none/requests", {}, 404, "There is no project 'none'"),
        ("/projects", {"repo_url": "/nowhere"}, 422, "/nowhere is not a folder"),
        ("/jobs/99/cancel", {}, 404, "There is no job 99"),
        ("/requests/99/cancel", {}, 404, "There is no request 99"),
        ("/nodes/none/state", {"state": "draining"}, 404, "There is no node 'none'"),
        ("/jobs/999999999999999999999999/retry", {}, 422, ""),
        ("/attempts/none/heartbeat", {"phas": ""}, 422, "phas"),
        ("/nothing", {}, 404, "Not Found"),
    ],
)
def test_every_error_says_what_is_wrong_in_one_form(
    api: httpx.Client, path: str, body: dict[str, object], status: int, said: str
) -> None:
    reply = post(api, path, body)
    assert reply.status_code == status, reply.text
    problem = v1.Problem.model_validate_json(reply.content)
    assert said in f"{problem.title} {problem.detail}"
    assert reply.headers["content-type"] == "application/problem+json"


def test_hostile_bodies_are_refused_in_words(api: httpx.Client) -> None:
    for body in (b"\xff\xfe", b"{", b"[" * 100_000, b'{"range": ' + b'"a' * 1000, b"null", b'{"range": "\\ud800"}'):
        reply = api.post("/api/v1/projects/toy/requests", content=body, headers={"content-type": "application/json"})
        assert reply.status_code in {400, 413, 422}, (body[:20], reply.text)
        v1.Problem.model_validate_json(reply.content)
    large = api.post("/api/v1/projects/toy/requests", content=b"x" * 300_000)
    assert large.status_code == 413

    def endless() -> Iterator[bytes]:
        yield from (b"x" * 50_000 for _ in range(10))

    assert api.post("/api/v1/projects/toy/requests", content=endless()).status_code == 413


@pytest.mark.parametrize("path", ["/webhooks/github", "/api/v1/projects/toy/results"])
def test_a_body_that_is_cut_is_no_fault_of_ours(
    local: httpx.Client, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    def lines() -> list[logging.LogRecord]:
        return [one for one in caplog.records if f"POST {path}" in one.getMessage()]

    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{{"
    with caplog.at_level(logging.INFO):
        with socket.create_connection((local.base_url.host, local.base_url.port or 0)) as peer:
            peer.sendall(head.encode())
        until(lines)
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING] == []


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (OSError(errno.ENOSPC, "full"), 503, "The service's disk is full."),
        (OSError(errno.EROFS, "read-only"), 503, "The service's disk cannot be used: Read-only file system."),
        (FileNotFoundError(errno.ENOENT, "none"), 500, "failed in the service (FileNotFoundError)"),
    ],
)
def test_a_disk_that_refuses_is_told_in_words(
    local: httpx.Client, monkeypatch: pytest.MonkeyPatch, error: OSError, status: int, said: str
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(receiving, "receive", refused)
    reply = local.post("/api/v1/projects/toy/results", content=b"{}")
    assert (reply.status_code, said in reply.json()["title"]) == (status, True)


def test_a_page_of_another_site_cannot_use_a_loopback_service(api: httpx.Client) -> None:
    rebound = api.get("/api/v1/projects", headers={"host": "evil.example"})
    assert (rebound.status_code, rebound.json()["type"]) == (403, "forbidden")
    foreign = post(api, "/projects/toy/requests", {}, origin="https://evil.example")
    assert foreign.status_code == 403
    assert post(api, "/projects/toy/requests", {}, origin="http://[bad").status_code == 403
    assert post(api, "/projects/toy/requests", {}, origin=str(api.base_url)).status_code == 201


def test_beyond_loopback_every_route_but_health_needs_a_token(guarded: httpx.Client) -> None:
    paths = guarded.get("/openapi.json").json()["paths"]
    assert len(paths) > 25
    open_ones = set()
    for path, methods in paths.items():
        for method in methods:
            filled = path.replace("{sha256}", "0" * 64).replace("{job_id}", "1").replace("{", "").replace("}", "")
            if guarded.request(method, filled, json={}).status_code != 401:
                open_ones.add(path)
    assert open_ones <= {"/healthz", "/readyz", "/metrics"} | {p for p in paths if p.startswith("/hooks")}
    assert guarded.get("/").status_code == 401
    assert guarded.get("/healthz").json() == {"status": "ok"}
    assert guarded.get("/readyz").json() == {"status": "ready"}


def test_tokens_reach_as_far_as_their_role_and_node(guarded: httpx.Client, sqlite_database: Database) -> None:
    def token(name: str, role: str, **more: object) -> dict[str, str]:
        secret = tokens.create(sqlite_database, tokens.New(name, role, **more), START)  # type: ignore[arg-type]
        return {"authorization": f"Bearer {secret}"}

    worker, viewer, operator = token("w", "worker", node="n1"), token("v", "viewer"), token("o", "operator")
    assert post(guarded, "/workers/register", registration("n1"), **worker).status_code == 200
    assert post(guarded, "/workers/register", registration("n2"), **worker).status_code == 403
    assert post(guarded, "/workers/n1/next", asking("n2"), **worker).status_code == 403
    assert guarded.get("/api/v1/projects", headers=worker).status_code == 403
    assert guarded.get("/api/v1/projects", headers=viewer).status_code == 200
    assert post(guarded, "/nodes/n1/state", {"state": "draining"}, **viewer).status_code == 403
    assert post(guarded, "/workers/register", registration("n1"), **operator).status_code == 403
    assert post(guarded, "/nodes/n1/state", {"state": "draining"}, **operator).status_code == 200
    tokens.revoke(sqlite_database, "v", START)
    assert guarded.get("/api/v1/projects", headers=viewer).status_code == 401
    expired = token("x", "admin", expires_at=START)
    assert guarded.get("/api/v1/projects", headers=expired).status_code == 401


def test_only_the_digest_of_a_token_is_kept(sqlite_database: Database) -> None:
    secret = tokens.create(sqlite_database, tokens.New("t", "admin"), START)
    assert tokens.authenticate(sqlite_database, secret, START).role == "admin"
    path = Path(sqlite_database.engine.url.database or "")
    held = b"".join(p.read_bytes() for p in path.parent.glob(f"{path.name}*"))
    assert hashlib.sha256(secret.encode()).hexdigest().encode() in held
    assert secret.encode() not in held


def test_a_worker_of_another_protocol_is_told_so_and_gets_no_jobs(api: httpx.Client, world: Fleet) -> None:
    reply = post(api, "/workers/register", registration(protocol=v1.PROTOCOL + 1)).json()
    assert not reply["accepted"]
    assert f"speaks protocol {v1.PROTOCOL + 1}, the service {v1.PROTOCOL}: upgrade the service" in reply["reason"]
    claim = post(api, "/workers/n1/next", {"protocol": v1.PROTOCOL + 1, "node": "n1"}).json()
    assert (claim["attempt_id"], "upgrade the service" in claim["reason"]) == (None, True)


def test_metrics_tell_what_waits(api: httpx.Client, world: Fleet) -> None:
    world.measure()
    text = api.get("/metrics").text
    assert 'groundspeed_jobs{state="queued"} 6.0' in text
    assert "groundspeed_oldest_queued_seconds" in text
