"""The API's description: examples that work, cursors that lead on, answers that are not sent twice."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import jsonschema
import pytest

import demo_data
import web_server
from groundspeed.service.api.reference import EXAMPLES, operations
from groundspeed.service.db.engine import Database


@pytest.fixture(scope="module")
def http(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("reference")
    shutil.copyfile(sqlite_template, folder / "groundspeed.db")
    db = Database(f"sqlite:///{folder / 'groundspeed.db'}")
    demo_data.fill(db, demo_data.Shape(commits=20, machines=1, extra=0, keep_samples=False))
    with web_server.serve(web_server.app(db, folder)) as url, httpx.Client(base_url=url, timeout=30) as client:
        yield client


def test_every_message_has_an_example_that_its_schema_allows(http: httpx.Client) -> None:
    """The workers' protocol apart, which people do not write by hand (docs/jobs.md)."""
    document = http.get("/openapi.json").json()
    bodies = {
        key: operation["requestBody"]["content"]["application/json"]
        for key, operation in operations(document)
        if "application/json" in operation.get("requestBody", {}).get("content", {})
        and "workers" not in operation["tags"]
    }
    assert set(bodies) == set(EXAMPLES), "give these an example in api/reference.py, or take it away"
    for body in bodies.values():
        jsonschema.Draft202012Validator({**body["schema"], "components": document["components"]}).validate(
            body["example"]
        )


def test_every_example_is_understood(http: httpx.Client, tmp_path: Path) -> None:
    """Each is sent; what it names (a channel, an account …) need not exist, but nothing may be wrong with the message."""
    for key, body in EXAMPLES.items():
        method, _, path = key.partition(" ")
        path = path.replace("{slug}", "tinygpt").replace("{node}", "gpu-01").replace("{name}", "x")
        for name in ("job_id", "account_id", "channel_id", "regression_id"):
            path = path.replace(f"{{{name}}}", "1")
        here = {"repo_url": str(tmp_path)} if "repo_url" in body else {}  # no test needs the network
        reply = http.request(method, path, json={**body, **here})
        said = reply.json()
        assert reply.status_code < 500 or said["type"] == "unavailable", (key, said)  # a repository elsewhere is away
        assert said.get("title") != "The request is not understood.", (key, said)


def test_every_operation_says_what_it_does(http: httpx.Client) -> None:
    document = http.get("/openapi.json").json()
    assert [key for key, operation in operations(document) if not operation.get("summary")] == []
    page = http.get("/docs")
    assert page.status_code == 200
    assert "POST /api/v1/channels" in page.text
    assert "<script>" not in page.text


def test_cursors_lead_through_the_whole_list_once(http: httpx.Client) -> None:
    seen: list[int] = []
    cursor: str | None = ""
    while cursor is not None:
        query = f"&cursor={cursor}" if cursor else ""
        reply = http.get(f"/api/v1/projects/tinygpt/benchmarks?limit=3&sort=name{query}").json()
        seen += [card["series"]["id"] for card in reply["cards"]]
        cursor = reply["next_cursor"]
    assert len(seen) == len(set(seen)) == reply["total"] > 3
    assert http.get("/api/v1/audit?cursor=x").status_code == 422


def test_every_answer_is_safe_from_guessing_and_framing(http: httpx.Client) -> None:
    for path in ("/", "/api/v1/projects", "/healthz", "/openapi.json", "/nothing", "/docs", "/api/v1/projects/none"):
        headers = http.get(path).headers
        assert headers["x-content-type-options"] == "nosniff", path
        assert "default-src 'none'" in headers["content-security-policy"], path
        assert "frame-ancestors 'none'" in headers["content-security-policy"], path
        assert "unsafe" not in headers["content-security-policy"], path


def test_what_has_not_changed_keeps_the_headers_that_it_came_with(http: httpx.Client) -> None:
    """A browser lets those of a 304 replace the kept ones: a page's policy must not become that of data."""
    page = http.get("/")
    again = http.get("/", headers={"if-none-match": page.headers["etag"]})
    assert again.status_code == 304
    assert "content-security-policy" not in again.headers
