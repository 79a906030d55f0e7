"""Text that wants to be a program, in every field that anybody can write: it is shown, and nothing more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page
from sqlalchemy import String, text
from sqlmodel import AutoString, SQLModel, col, select

import demo_campaign
import demo_data
import demo_people
import demo_pulls
import web_server
from groundspeed.service.api.routes.views import VIEWS
from groundspeed.service.db import tables as t
from groundspeed.service.db.campaign_tables import Campaign
from groundspeed.service.db.engine import Database

from .conftest import open_tab

pytestmark = pytest.mark.browser
HOSTILE = (
    "\"'><img src=x onerror=hacked()><script>hacked()</script></script><!--<svg onload=hacked()>"
    "</textarea></title></style>&lt;{{7*7}}${hacked()}\\u003cscript\u2028\u202e'-hacked()-'"
)
CLOSED = {
    "id", "slug", "sha", "sha256", "fingerprint", "state", "kind", "role", "role_from", "outcome", "reason", "trust",
    "event", "digest", "batch", "key", "cause", "answer", "stream", "idempotency_key", "guid", "clock", "series_class",
    "detector_version", "provider", "subject", "attempt_id", "gang", "delivery", "media_type", "error_kind", "tip_sha",
    "benchmark_key", "subject_type", "subject_id", "topic", "ignore_until", "secret", "target", "phase", "head_sha",
    "base_sha", "device_uuid",
}  # fmt: skip
"""Columns whose values the service chooses or checks itself. Every other column of text is filled with hostile text:
a new one is, too, without a word here.
"""
DOCUMENTS = {
    "auditentry.data", "buildsnapshot.facets", "environment.facets", "node.labels", "node.info", "revision.tags",
    "series.params", "run.params", "run.evidence", "run.facts", "request.payload", "hardware.facts", "device.facts",
}  # fmt: skip
KEPT = {"layer", "class", "kind", "type", "from", "to", "tracked"}
"""Keys of documents whose values are words of our own."""
HARMLESS = """() => {
  const scripts = [...document.scripts].filter((s) => !s.src && s.type !== "application/json");
  const handlers = [...document.querySelectorAll("*")].filter((e) => [...e.attributes].some((a) => a.name.startsWith("on")));
  const links = [...document.querySelectorAll("a[href], form[action]")].filter((e) => /^\\s*(javascript|data|vbscript):/i.test(e.getAttribute("href") ?? e.getAttribute("action")));
  const foreign = [...document.querySelectorAll("img")].filter((i) => (i.getAttribute("src") ?? "") === "x");
  return { hacked: window.wasHacked === true, found: [...scripts, ...handlers, ...links, ...foreign].map((e) => e.outerHTML.slice(0, 300)) };
}"""


def spoil(value: Any, key: str = "") -> Any:
    """The document with hostile text for every text in it that is not ours."""
    if isinstance(value, dict):
        return {name: spoil(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [spoil(one, key) for one in value]
    return HOSTILE if isinstance(value, str) and key not in KEPT else value


def spoil_all(db: Database) -> int:
    """Fill every open column of every table; returns how many columns that were."""
    columns = 0
    with db.engine.begin() as connection:
        for table in SQLModel.metadata.sorted_tables:
            place = "rowid" if "id" not in table.columns else "id"
            for column in table.columns:
                name = f"{table.name}.{column.name}"
                if isinstance(column.type, String | AutoString) and column.name not in CLOSED:
                    columns += 1
                    short = f"substr(:hostile, 1, {column.type.length - 12})" if column.type.length else ":hostile"
                    unique = f" || ' ' || {place}"
                    connection.execute(
                        text(
                            f'UPDATE "{table.name}" SET "{column.name}" = {short}{unique} WHERE "{column.name}" IS NOT NULL'
                        ),
                        {"hostile": HOSTILE},
                    )
                if name in DOCUMENTS:
                    columns += 1
                    for row in connection.execute(text(f'SELECT rowid, "{column.name}" FROM "{table.name}"')).all():
                        document = row[1] if not isinstance(row[1], str) else json.loads(row[1])
                        spoilt = json.dumps(spoil(document))
                        connection.execute(
                            text(f'UPDATE "{table.name}" SET "{column.name}" = :v WHERE rowid = :r'),
                            {"v": spoilt, "r": row[0]},
                        )
    return columns


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str]]]:
    """A service over such a database, and the address of every page."""
    folder = tmp_path_factory.mktemp("hostile")
    db = Database(f"sqlite:///{folder / 'demo.db'}")
    application = web_server.app(db, folder)  # imports every table
    demo_data.create_tables(db)
    demo = demo_data.fill(db, demo_data.Shape(commits=30, machines=1, extra=0))
    demo_campaign.add(db)
    demo_pulls.add(db)
    demo_people.add(db, now=datetime.now(UTC))
    regression = demo.regressions[0]
    assert spoil_all(db) > 40
    with db.transaction() as session:
        session.execute(
            text("UPDATE regression SET link = :link"), {"link": 'javascript:hacked()//https://"onclick="hacked()'}
        )
        session.execute(
            text("UPDATE auditentry SET subject_id = :id WHERE subject_type = 'regression'"), {"id": str(regression)}
        )
        node = session.exec(select(t.Node.name)).first() or ""
        run = session.exec(select(t.Run.id).where(col(t.Run.outcome) != "ok")).first() or 1
        attempt_job = session.exec(select(t.Attempt.job_id)).first()
        campaign = session.exec(select(Campaign.name)).one()
    values = {
        "{slug}": demo.slug, "{series_id}": "1", "{regression_id}": str(regression), "{sha}": demo.shas[-3],
        "{request_id}": str(demo.requests[-1]), "{job_id}": str(attempt_job), "{run_id}": str(run),
        "{name:path}": quote(node, safe=""), "{name}": quote(campaign, safe=""), "{number}": "12",
    }  # fmt: skip
    paths = []
    for view in VIEWS:
        path = view.page or view.path
        for name, value in values.items():
            path = path.replace(name, value)
        paths.append(
            path + {"/projects/{slug}/graph": "?series=1,2", "/search": "?q=" + quote(HOSTILE)}.get(view.path, "")
        )
    evil = quote(HOSTILE[:150])
    paths += [
        f"/projects/{demo.slug}/benchmarks?q={evil}",
        f"/projects/{demo.slug}/compare?base={evil}&head={evil}",
        f"/audit?actor={evil}",
        f"/search?q={quote('img')}",
        f"/{evil}",
        f"/projects/{evil}",
        f"/fleet/{evil}",
        f"/projects/{demo.slug}/compare?base={demo.shas[3]}&head={demo.shas[-2]}",
    ]
    with web_server.serve(application) as url:
        yield url, paths
    db.close()


def check(page: Page, path: str, wrong: list[str]) -> None:
    seen = page.evaluate(HARMLESS)
    if seen["hacked"] or seen["found"]:
        wrong.append(f"{path}: {seen}")


def test_hostile_text_is_shown_and_does_nothing(browser: Browser, hostile: tuple[str, list[str]]) -> None:
    """On every page, with scripts on: no injected element, no event, no request to elsewhere, nothing for the content
    security policy to stop; and the text itself can be read.
    """
    url, paths = hostile
    context, tab = open_tab(browser, url)
    page = tab.page
    page.add_init_script("window.hacked = () => { window.wasHacked = true; };")
    page.on("dialog", lambda dialog: wrong.append(f"a dialog: {dialog.message}"))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    wrong: list[str] = []
    shown = 0
    for path in paths:
        reply = page.goto(url + path)
        assert reply is not None
        if reply.status >= 500:
            wrong.append(f"{path}: status {reply.status}")
        page.wait_for_load_state("networkidle") if "graph" in path or "series" in path else None
        for place in page.locator(".u-over, svg.spark, [title]").all()[:2]:
            place.hover(force=True, timeout=30_000) if place.is_visible() else None
        check(page, path, wrong)
        shown += "onerror=hacked()" in page.inner_text("body")
    page.goto(url + "/")
    page.keyboard.press("Control+k")
    page.keyboard.type("hacked")
    page.wait_for_timeout(600)
    check(page, "the palette", wrong)
    context.close()
    assert not wrong, "\n".join(wrong)
    assert shown > 15
    assert [one for one in asked if not one.startswith((url, "data:", "blob:"))] == []
    policy = [error for error in tab.errors if "Content Security Policy" in error or "Content-Security-Policy" in error]
    assert policy == []


def test_hostile_text_stays_text_in_other_formats(hostile: tuple[str, list[str]]) -> None:
    import httpx

    url, _ = hostile
    with httpx.Client(base_url=url, timeout=60) as http:
        table = http.get("/api/v1/projects/tinygpt/graph.csv?series=1")
        assert (table.status_code, table.headers["content-type"].split(";")[0]) == (200, "text/csv")
        picture = http.get("/projects/tinygpt/graph.svg?series=1")
        assert "<script" not in picture.text
        assert "<img" not in picture.text
        assert "default-src 'none'" in picture.headers["content-security-policy"]
        feed = http.get("/projects/tinygpt/regressions.atom")
        assert (feed.status_code, feed.headers["content-type"]) == (200, "application/atom+xml")
        assert "<script" not in feed.text
        for path in ("/api/v1/projects", "/api/v1/search?q=img"):
            reply = http.get(path)
            assert reply.headers["content-type"] == "application/json"
            assert reply.headers["x-content-type-options"] == "nosniff"
