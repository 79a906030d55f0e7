"""The receiver over real HTTP: what is authentic, what is a replay, and that nothing a forge sends breaks anything."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from forge.github_server.server import SECRET, deliver, sign
from groundspeed.service.db import forge_tables as f
from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import Project
from groundspeed.service.forge.events import read_event
from groundspeed.service.usecases.pulls import deliveries, standing
from web_server import app, serve
from world import NOW

OLDER = "the secret before"


@dataclass
class Receiver:
    db: Database
    url: str
    http: httpx.Client

    def rows(self) -> list[f.Delivery]:
        from sqlmodel import select

        with self.db.read() as session:
            return list(session.exec(select(f.Delivery).order_by(f.Delivery.id)))  # type: ignore[arg-type]

    def work(self) -> list[f.Delivery]:
        for row in self.rows():
            deliveries.process(self.db, row.id or 0, read_event, NOW)
        return self.rows()

    def post(self, body: bytes, **headers: str) -> httpx.Response:
        given = {
            "X-GitHub-Event": "ping", "X-GitHub-Delivery": str(uuid.uuid4()), "X-Hub-Signature-256": sign(body),
            "Content-Type": "application/json",
        }  # fmt: skip
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.post("/webhooks/github", content=body, headers=given)


@pytest.fixture
def receiver(database: Database, tmp_path: Path) -> Iterator[Receiver]:
    settings = {"github_webhook_secret": f"{OLDER}, {SECRET}", "max_body_bytes": 1000, "max_webhook_bytes": 3_000_000}
    with (
        serve(app(Database(database.url), tmp_path / "data", host="0.0.0.0", **settings)) as url,
        httpx.Client(base_url=url, timeout=60) as http,
    ):
        yield Receiver(database, url, http)


@pytest.fixture
def quick(sqlite_database: Database, tmp_path: Path) -> Iterator[Receiver]:
    settings = {"github_webhook_secret": SECRET, "max_webhook_bytes": 3_000_000}
    with (
        serve(app(Database(sqlite_database.url), tmp_path / "data", host="0.0.0.0", **settings)) as url,
        httpx.Client(base_url=url, timeout=60) as http,
    ):
        yield Receiver(sqlite_database, url, http)


def test_what_is_signed_with_either_secret_is_stored_once(receiver: Receiver) -> None:
    body = b'{"zen": "one"}'
    assert deliver(receiver.url, "ping", body, guid="1").json() == {"delivery": "1", "state": "stored"}
    assert deliver(receiver.url, "ping", body, guid="1").json()["state"] == "known"
    assert deliver(receiver.url, "ping", body, guid="2").json()["state"] == "known", "the id is not signed"
    assert deliver(receiver.url, "ping", b'{"zen": "two"}', guid="3", secret=OLDER).json()["state"] == "stored"
    assert [row.state for row in receiver.work()] == ["done", "done"]
    assert deliver(receiver.url, "ping", body, guid="4").json()["state"] == "known", "also after it was worked on"


@pytest.mark.parametrize(
    "signature",
    ["", "sha256=", "sha256=" + "0" * 64, sign(b"{}")[:-1], sign(b"{}", "another"), sign(b"{} "), "sha1=abc", "ÿ"],
)
def test_forged_and_truncated_signatures_are_refused_before_anything_is_read(quick: Receiver, signature: str) -> None:
    given = signature.encode("latin-1")
    headers = {"X-GitHub-Event": "ping", "X-GitHub-Delivery": "1", "X-Hub-Signature-256": given}
    answer = quick.http.post("/webhooks/github", content=b"{}", headers=headers)  # type: ignore[arg-type]
    assert answer.status_code == 401
    assert quick.rows() == []


def test_a_missing_signature_a_changed_body_and_the_old_digest_are_refused(quick: Receiver) -> None:
    headers = {"X-GitHub-Event": "ping", "X-GitHub-Delivery": "1"}
    assert quick.http.post("/webhooks/github", content=b"{}", headers=headers).status_code == 401
    assert quick.post(b"{} ", X_Hub_Signature_256=sign(b"{}")).status_code == 401
    headers["X-Hub-Signature"] = "sha1=" + "0" * 40
    assert quick.http.post("/webhooks/github", content=b"{}", headers=headers).status_code == 401


def test_without_a_secret_everything_is_refused(sqlite_database: Database, tmp_path: Path) -> None:
    with serve(app(Database(sqlite_database.url), tmp_path / "data")) as url:
        for secret in ("", SECRET):
            answer = deliver(url, "ping", b"{}", secret=secret)
            assert (answer.status_code, "no secret is set" in answer.json()["title"]) == (401, True)


def test_a_body_over_the_limit_and_headers_that_name_nothing_are_refused(quick: Receiver) -> None:
    assert quick.post(b" " * 3_000_001).status_code == 413
    assert quick.post(b"{}", X_GitHub_Event="").status_code == 422
    assert quick.post(b"{}", X_GitHub_Delivery="x" * 101).status_code == 422
    assert quick.rows() == []


def test_a_form_carries_the_same(quick: Receiver) -> None:
    body = urlencode({"payload": json.dumps({"zen": "a form"})}).encode()
    assert quick.post(body, Content_Type="application/x-www-form-urlencoded").status_code == 202
    assert [(row.state, row.reason) for row in quick.work()] == [("done", "ping")]


ODD: list[tuple[str, bytes]] = [
    ("push", b""),
    ("push", b"null"),
    ("push", b"[" * 100_000),
    ("push", b"\xff\xfe"),
    ("push", b'{"ref": "\\ud800", "repository": 1}'),
    ("push", b'{"ref": NaN}'),
    ("pull_request", b'{"action": "opened"}'),
    ("x" * 100, b"{}"),
    ("push<script>", b"{}"),
]


@pytest.mark.parametrize(("event", "body"), ODD, ids=range(len(ODD)))
def test_signed_nonsense_is_kept_with_its_reason_and_breaks_nothing(quick: Receiver, event: str, body: bytes) -> None:
    assert deliver(quick.url, event, body).status_code == 202
    (row,) = quick.work()
    assert row.state in {"malformed", "ignored"}
    assert row.reason
    told = standing.standing(quick.db).unread
    assert told == ((f"delivery {row.guid} ({row.event}): {row.reason}",) if row.state == "malformed" else ())


@pytest.mark.data
def test_every_recorded_payload_is_taken_and_has_its_effect(receiver: Receiver, shared_data: Path) -> None:
    """Signed as they would be, for a repository that is a project; once more, they change nothing."""
    with receiver.db.transaction() as session:
        session.add(Project(slug="hello", name="hello", repo_url="https://github.com/Codertocat/Hello-World"))
        session.add(Project(slug="packit", name="packit", repo_url="git@github.com:packit/hello-world.git"))
    files = sorted((shared_data / "webhooks").rglob("*.json"))
    assert len(files) > 50
    for file in files:
        name = file.parent.name if file.parent.name != "packit" else packit_event(json.loads(file.read_text()))
        answer = deliver(receiver.url, name, file.read_bytes(), client=receiver.http, guid=file.name[:90] + name)
        assert answer.status_code == 202, (file, answer.text)
    rows = receiver.work()
    assert {row.state for row in rows} <= {"done", "ignored"}, [
        (r.event, r.reason) for r in rows if r.state not in ("done", "ignored")
    ]
    assert sum(row.state == "done" for row in rows) > 25
    assert all(row.body is None for row in rows)
    before = snapshot(receiver.db)
    assert before["forgerepository"]
    assert before["pullrequest"]
    for file in files:
        name = file.parent.name if file.parent.name != "packit" else packit_event(json.loads(file.read_text()))
        assert deliver(receiver.url, name, file.read_bytes(), client=receiver.http).json()["state"] == "known"
    receiver.work()
    assert snapshot(receiver.db) == before


def packit_event(payload: dict[str, Any]) -> str:
    """The recordings of this App lie in one folder, named by what they are about."""
    if "pull_request" in payload:
        return "pull_request"
    if "check_run" in payload:
        return "check_run"
    if "comment" in payload:
        return "issue_comment"
    if "release" in payload:
        return "release"
    return "push" if "ref" in payload else "installation"


def snapshot(db: Database) -> dict[str, list[Any]]:
    from sqlmodel import select

    tables = (f.ForgeRepository, f.PullRequest, f.ForgeAction)
    with db.read() as session:
        return {
            table.__tablename__: [row.model_dump() for row in session.exec(select(table).order_by(table.id))]  # type: ignore[attr-defined]
            for table in tables
        }
