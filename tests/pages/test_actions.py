"""What the forms of the pages change, and who may do what."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

import demo_data
import web_server
from groundspeed.service.api.routes.views import VIEWS
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases import tokens

from .conftest import Site

NOW = datetime(2026, 3, 21, tzinfo=UTC)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A small service that these tests may change."""
    folder = tmp_path_factory.mktemp("actions")
    db = Database(f"sqlite:///{folder / 'demo.db'}")
    demo_data.create_tables(db)
    demo = demo_data.fill(db, demo_data.Shape(commits=40, machines=1, extra=0, keep_samples=False))
    with web_server.serve(web_server.app(db, folder)) as url, httpx.Client(base_url=url, timeout=60) as http:
        yield Site(db, url, demo, http)
    db.close()


def test_a_form_changes_a_regression_and_its_history_says_who(own: Site) -> None:
    path = f"/projects/tinygpt/regressions/{own.demo.regressions[0]}"
    form = {
        "state": "acknowledged",
        "assignee": "bo",
        "note": "looking\r\ninto it",
        "link": "https://example.org/1",
        "ignore_until": "",
    }
    reply = own.http.post(path, data=form, headers={"origin": own.url, "referer": own.url + path})
    assert (reply.status_code, reply.headers["location"]) == (303, path)
    row = own.http.get("/api/v1" + path).json()
    assert (row["row"]["state"], row["row"]["assignee"], row["row"]["note"]) == (
        "acknowledged",
        "bo",
        "looking\ninto it",
    )
    assert [entry["action"] for entry in row["history"]][-2:] == ["regression.edit", "regression.state"]
    assert "acknowledged" in own.html(path)


def test_several_are_moved_or_merged_at_once(own: Site) -> None:
    first, second = own.demo.regressions[-2:]
    where = "/projects/tinygpt/regressions"
    reply = own.http.post(where, data={"id": [first, second], "action": "in-progress"}, headers={"origin": own.url})
    assert reply.status_code == 303
    states = {r["id"]: r["state"] for r in own.http.get(f"/api/v1{where}?kind=all&state=all").json()["rows"]}
    assert states[first] == states[second] == "in-progress"
    own.http.post(where, data={"id": [first, second], "action": "merge"}, headers={"origin": own.url})
    states = {r["id"]: r["state"] for r in own.http.get(f"/api/v1{where}?kind=all&state=all").json()["rows"]}
    assert states[second] == "merged"


def test_programs_triage_with_the_same_rules(own: Site) -> None:
    path = f"/api/v1/projects/tinygpt/regressions/{own.demo.regressions[1]}"
    assert own.http.patch(path, json={"state": "accepted", "note": "known"}).json()["row"]["state"] == "accepted"
    wrong = own.http.patch(path, json={"state": "fixed"})
    assert (wrong.status_code, wrong.json()["type"]) == (409, "conflict")
    assert own.http.patch(path, json={"state": "nonsense"}).status_code == 422
    assert own.http.patch(path, json={"colour": "red"}).status_code == 422
    assert own.http.patch(path, json={"link": "javascript:alert(1)"}).status_code == 422


@pytest.mark.parametrize("origin", ["https://evil.example", "null", None])
def test_a_form_of_another_site_changes_nothing(own: Site, origin: str | None) -> None:
    path = f"/projects/tinygpt/regressions/{own.demo.regressions[0]}"
    headers = {"origin": origin} if origin else {}
    assert own.http.post(path, data={"assignee": "mallory"}, headers=headers).status_code == 403
    assert own.http.get("/api/v1" + path).json()["row"]["assignee"] != "mallory"


def test_a_job_is_cancelled_and_tried_again(own: Site) -> None:
    waiting = own.demo.jobs[-3]
    own.http.post(f"/jobs/{waiting}/cancel", headers={"origin": own.url})
    assert own.http.get(f"/api/v1/jobs/{waiting}").json()["row"]["state"] == "cancelled"
    own.http.post(f"/jobs/{waiting}/retry", headers={"origin": own.url})
    assert own.http.get(f"/api/v1/jobs/{waiting}").json()["row"]["state"] == "queued"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, dict[str, str]]]:
    """A service that others can reach, and a token for each role."""
    folder: Path = tmp_path_factory.mktemp("guarded")
    db = Database(f"sqlite:///{folder / 'demo.db'}")
    demo_data.create_tables(db)
    demo = demo_data.fill(db, demo_data.Shape(commits=20, machines=1, extra=0, keep_samples=False))
    demo_data.fill(db, demo_data.Shape(slug="other", commits=8, machines=1, extra=0, keep_samples=False, live=False))
    news = [tokens.New(role, role) for role in tokens.ROLES] + [tokens.New("worker", "worker", node="gpu-01")]
    news.append(tokens.New("scoped", "viewer", projects=("other",)))
    secrets = {new.name: tokens.create(db, new, NOW) for new in news}
    with (
        web_server.serve(web_server.app(db, folder, host="0.0.0.0")) as url,
        httpx.Client(base_url=url, timeout=60) as http,
    ):
        yield Site(db, url, demo, http), secrets
    db.close()


PATHS = {
    "/projects": "/projects", "/projects/{slug}": "/projects/tinygpt", "/projects/{slug}/benchmarks": "/projects/tinygpt/benchmarks",
    "/projects/{slug}/graph": "/projects/tinygpt/graph?series=1", "/projects/{slug}/series/{series_id}": "/projects/tinygpt/series/1",
    "/projects/{slug}/regressions": "/projects/tinygpt/regressions", "/projects/{slug}/regressions/{regression_id}": "/projects/tinygpt/regressions/1",
    "/projects/{slug}/commits/{sha}": "/projects/tinygpt/commits/{sha}", "/projects/{slug}/compare": "/projects/tinygpt/compare",
    "/projects/{slug}/runs": "/projects/tinygpt/runs", "/runs": "/runs", "/requests/{request_id}": "/requests/1", "/jobs/{job_id}": "/jobs/1",
    "/runs/{run_id}": "/runs/1", "/fleet": "/fleet", "/fleet/{name:path}": "/fleet/gpu-01", "/search": "/search?q=train",
    "/projects/{slug}/stragglers": "/projects/tinygpt/stragglers", "/campaigns": "/campaigns",
    "/projects/{slug}/pulls": "/projects/tinygpt/pulls", "/projects/{slug}/pulls/{number}": "/projects/tinygpt/pulls/3",
    "/campaigns/{name}": "/campaigns/driver-580",
    "/account": "/account", "/accounts": "/accounts", "/channels": "/channels", "/audit": "/audit",
}  # fmt: skip
EXTRA_READS = (
    "/projects/tinygpt/graph.csv?series=1",
    "/projects/tinygpt/compare.csv",
    "/projects/tinygpt/series/1/samples",
)


def test_a_token_for_one_project_sees_that_one(guarded: tuple[Site, dict[str, str]]) -> None:
    site, secrets = guarded
    mine = {"authorization": f"Bearer {secrets['scoped']}"}
    get = lambda path: site.http.get(path, headers=mine)  # noqa: E731
    listed = get("/api/v1/projects").json()
    assert [card["project"]["slug"] for card in listed["projects"]] == ["other"]
    assert get("/projects/other/benchmarks").status_code == 200
    hits = get("/api/v1/search?q=train").json()["hits"]
    assert hits
    assert {hit["url"].split("/")[2] for hit in hits} == {"other"}
    for view in VIEWS:
        path = PATHS[view.path].replace("{sha}", site.demo.shas[-1])
        if "tinygpt" in path or path.startswith(
            ("/runs", "/jobs", "/requests", "/fleet", "/account", "/audit", "/channels")
        ):
            assert get(f"/api/v1{path}").status_code == 403, path
    for path in (*EXTRA_READS, f"/attempts/{site.demo.running_attempt}/events", "/requests/1/events"):
        assert get(f"/api/v1{path}").status_code == 403, path
    assert get("/projects/tinygpt/graph.svg?series=1").status_code == 403
