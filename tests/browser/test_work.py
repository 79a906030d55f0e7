"""What people do on the pages: compare, triage, look into a run, note, cancel and try again; each in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect

import demo_data
import web_server
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.db.forge_tables import ForgeRepository, PullRequest

from .conftest import Site, Tab, open_tab

pytestmark = pytest.mark.browser
TRACE, TRACE_NAME = b'{"traceEvents": [], "note": "<script>document.title = 1</script>"}', "step trace.json"
"""A file that a run leaves: whatever is in it, it is saved and never shown as a page."""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A service of these tests alone: they change what it holds."""
    folder = tmp_path_factory.mktemp("work")
    db = Database(f"sqlite:///{folder / 'demo.db'}")
    demo_data.create_tables(db)
    demo = demo_data.fill(db, demo_data.Shape(commits=40, extra=4))
    with db.transaction() as session:
        repository = ForgeRepository(project_id=demo.project_id, forge_id=1, full_name="acme/tinygpt")
        session.add(repository)
        session.flush()
        session.add(PullRequest(repository_id=repository.id or 0, number=42, title="Rotary embeddings", author="ada"))
        attempt = session.get_one(t.Attempt, demo.running_attempt)
        session.add(
            t.Artefact(
                attempt_id=attempt.id, sha256="0" * 64, kind="kernel-table", name="kernels.json", size_bytes=4096,
                stored=False,
            )
        )  # fmt: skip
        session.add(
            t.Artefact(
                attempt_id=attempt.id, sha256=sha256(TRACE).hexdigest(), kind="trace", name=TRACE_NAME,
                size_bytes=len(TRACE), stored=False,
            )
        )  # fmt: skip
        hardware = session.get_one(t.Node, 1).hardware_id
        session.add(
            t.Node(name="import:asv:i7", state="draining", hardware_id=hardware, labels={}, registered_at=demo_data.NOW)
        )
    with web_server.serve(web_server.app(db, folder)) as url:
        yield Site(db, url, demo)
    db.close()


@pytest.fixture
def desk(browser: Browser, own: Site) -> Iterator[Tab]:
    context, made = open_tab(browser, own.url)
    yield made
    context.close()
    assert not made.errors


def test_the_overview_says_what_is_new_what_runs_and_what_went_silent(desk: Tab, own: Site) -> None:
    page = desk.open("/projects/tinygpt")
    expect(page.locator("table.commits tbody tr")).to_have_count(20)
    expect(page.locator("table.regressions tbody tr").first).to_be_visible()
    expect(page.get_by_role("heading", name="Under way")).to_be_visible()
    expect(page.locator(".strip-list li")).to_have_count(3)
    expect(page.locator(".strip-list")).not_to_contain_text("import:")
    page.locator("table.regressions a.series-link").first.click()
    expect(page.get_by_role("heading", name=re.compile(r"^Regression \d+"))).to_be_visible()


def test_two_nodes_are_chosen_and_compared(desk: Tab) -> None:
    """Another kind asks again and offers what there is of it; the answer has intervals, dots, differences and a CSV."""
    page = desk.open("/projects/tinygpt/compare")
    page.locator("select[name=by]").select_option("node")
    page.wait_for_url("**/compare?by=node")
    page.locator("select[name=base]").select_option("gpu-01")
    page.locator("select[name=head]").select_option("gpu-01b")
    page.get_by_role("button", name="Compare").click()
    rows = page.locator("#compared tbody tr")
    expect(rows.filter(has_text="bus_bandwidth").first).to_be_visible()
    assert page.locator("#compared svg.forest .centre").count() > 5
    assert page.locator("#compared svg.strip circle").count() > 20
    expect(page.locator("summary", has_text="Conditions that differ")).to_be_visible()
    with page.expect_download() as waited:
        page.get_by_role("link", name="CSV").click()
    assert waited.value.path().read_text().startswith("series,suite,metric")


@pytest.mark.parametrize("kind", ["environment", "run"])
def test_environments_and_runs_are_offered(desk: Tab, kind: str) -> None:
    page = desk.open(f"/projects/tinygpt/compare?by={kind}")
    if kind == "environment":
        options = page.locator("select[name=base]").locator("option").evaluate_all("all => all.map(o => o.value)")
        first, second = options[1:3]
    else:
        offered = page.locator("#choices option").evaluate_all("all => all.map(o => o.value)")
        first, second = offered[0], offered[1]
    page.goto(f"{desk.url}/projects/tinygpt/compare?by={kind}&base={first}&head={second}")
    expect(page.locator("#compared tbody tr").first).to_be_visible()
    if kind == "run":  # of a single process its samples are drawn
        assert page.locator("#compared tbody tr").first.locator("svg.strip circle").count() >= 24
    if kind == "environment":
        expect(page.get_by_role("heading", name="Environment")).to_be_visible()


def test_regressions_are_triaged_one_by_one_and_together(desk: Tab, own: Site) -> None:
    """State, owner, note and link of one; a state for several; each move is in the history with who made it."""
    page = desk.open("/projects/tinygpt/regressions")
    rows = page.locator("table.regressions tbody tr")
    count = rows.count()
    rows.nth(0).get_by_role("checkbox").check()
    rows.nth(1).get_by_role("checkbox").check()
    page.locator("select[name=action]").select_option("acknowledged")
    page.get_by_role("button", name="Do it").click()
    expect(page.locator("table.regressions .badge.acknowledged")).to_have_count(2)
    expect(rows).to_have_count(count)
    rows.nth(0).locator("a.series-link").click()
    page.get_by_label("State").select_option("in-progress")
    page.get_by_label("Assignee").fill("ada")
    page.get_by_label("Link").fill("https://example.org/issues/7")
    page.get_by_label("Note", exact=True).fill("Looks like the fused kernel.\nBisecting.")
    page.get_by_label("Ignore until").fill(f"{datetime.now(UTC) + timedelta(days=30):%Y-%m-%d}")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".lead .badge")).to_contain_text(["in progress"])
    expect(page.locator("p.note")).to_contain_text("fused kernel")
    expect(page.get_by_role("link", name="https://example.org/issues/7")).to_be_visible()
    expect(page.locator("section", has=page.get_by_role("heading", name="History"))).to_contain_text("ada")
    assert page.locator("svg.spark .mark.regression").count() > 1  # each series with its step
    page.goto(desk.url + "/projects/tinygpt/regressions")
    expect(rows).to_have_count(count - 1)  # the one that is ignored has left the queue
    rows.nth(0).get_by_role("checkbox").check()
    page.locator("select[name=action]").select_option("ignore")
    page.get_by_role("textbox", name="Ignore until").fill("environment")
    page.get_by_role("button", name="Do it").click()
    expect(rows).to_have_count(count - 2)
    page.get_by_role("navigation", name="State").get_by_role("link", name="ignored").click()
    expect(rows).to_have_count(2)
    rows.nth(0).get_by_role("checkbox").check()
    page.locator("select[name=action]").select_option("assign")
    page.get_by_role("textbox", name="Assignee").fill("bo")
    page.get_by_role("button", name="Do it").click()
    expect(rows.filter(has_text="bo")).to_have_count(1)


def test_states_that_nobody_chooses_are_found_where_there_are_any(desk: Tab, own: Site) -> None:
    """Withdrawn and merged are filters as soon as something is in them, and never offered as a move."""
    page = desk.open("/projects/tinygpt/regressions")
    assert page.get_by_role("navigation", name="State").get_by_text("withdrawn").count() == 0
    with own.db.transaction() as session:
        session.add(t.Regression(project_id=own.demo.project_id, kind="regression", state="withdrawn", title="gone"))
    page.reload()
    page.get_by_role("navigation", name="State").get_by_role("link", name="withdrawn").click()
    expect(page.locator("table.regressions tbody tr")).to_have_count(1)
    moves = page.locator("select[name=action] option").evaluate_all("all => all.map(o => o.value)")
    assert not {"withdrawn", "merged", "recovered"} & set(moves)


def test_a_note_at_a_commit_stands_in_every_graph(desk: Tab, own: Site) -> None:
    sha = own.demo.shas[20]
    page = desk.open(f"/projects/tinygpt/commits/{sha}")
    page.get_by_text("Write a note at this commit").click()
    page.get_by_label("Note").fill("New compiler <b>")
    page.get_by_role("button", name="Add").click()
    expect(page.locator("[data-notes] li")).to_have_text(["New compiler <b>"])
    page = desk.open("/projects/tinygpt/series/1")
    page.wait_for_selector("[data-graph][data-ready]")
    shown = page.evaluate("JSON.parse(document.querySelector('#data').textContent).events.map(e => e.title)")
    assert "New compiler <b>" in shown


def test_a_run_shows_samples_and_conditions_on_one_time_axis(desk: Tab) -> None:
    page = desk.open("/runs/1")
    chart = page.get_by_role("img", name=re.compile("conditions over the run"))
    for words in ("sm", "power", "temperature"):
        expect(chart.locator("text.name", has_text=words).first).to_be_attached()
    assert chart.locator("circle.dot").count() == 24
    assert chart.locator(".phase.measure rect").count() == 1
    expect(page.locator("dl.facts").first).to_contain_text("not known: cpufreq cannot be read")
    expect(page.locator("pre.command")).to_contain_text("python -m groundspeed.plugins.child")
    page.get_by_text("Samples as a list").first.click()
    expect(page.locator(".samples-list").first).to_contain_text("samples/s")


def test_a_job_is_cancelled_and_tried_again(desk: Tab, own: Site) -> None:
    """Its plan, its place in the queue, its files and its log are there; cancelling asks nothing more."""
    running = own.demo.jobs[-4]
    page = desk.open(f"/jobs/{running}")
    page.get_by_text("What it measures").click()
    expect(page.locator("details[open] .params").first).to_contain_text("batch_size=8")
    expect(page.get_by_role("heading", name="Files")).to_be_visible()
    files = page.locator("section", has=page.get_by_role("heading", name="Files")).locator("li")
    expect(files).to_contain_text(["kernels.json not here yet", f"{TRACE_NAME} not here yet"])
    attempt = f"{own.url}/api/v1/attempts/{own.demo.running_attempt}/artefacts"
    sent = httpx.put(f"{attempt}/{sha256(TRACE).hexdigest()}", content=TRACE, timeout=60)
    assert sent.json()["ok"], sent.text
    page.reload()
    with page.expect_download() as waited:
        files.get_by_role("link", name=TRACE_NAME).click()
    assert waited.value.suggested_filename == TRACE_NAME
    assert waited.value.path().read_bytes() == TRACE
    expect(files.filter(has_text=TRACE_NAME)).to_contain_text(f"trace, {len(TRACE)}")
    expect(files.filter(has_text="kernels.json")).to_contain_text("not here yet")
    page = desk.open(f"/jobs/{own.demo.jobs[-3]}")
    expect(page.locator(".lead")).to_contain_text("in the queue")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".lead .badge").first).to_have_text("cancelled")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".lead .badge").first).to_have_text("queued")


def test_the_fleet_keeps_imported_machines_apart(desk: Tab) -> None:
    page = desk.open("/fleet")
    expect(page.locator("table.list tbody tr")).to_have_count(3)
    expect(page.locator("[data-imported] li")).to_have_count(1)
    assert page.locator("table.heat td").count() > 20
    page.locator("table.list").get_by_role("link", name="gpu-01b").click()
    expect(page.get_by_role("heading", name="Hygiene")).to_be_visible()
    expect(page.get_by_role("heading", name="Environments it has had")).to_be_visible()


def test_an_unknown_address_is_a_page_with_a_way_on(browser: Browser, own: Site) -> None:
    context, tab = open_tab(browser, own.url)
    page = tab.open("/no/such/thing")
    expect(page.get_by_role("heading", name="There is nothing at this address.")).to_be_visible()
    page.get_by_role("main").get_by_role("link", name="search").click()
    expect(page.locator("dialog.palette[open]")).to_be_visible()
    reply = page.request.get(f"{own.url}/api/v1/no/such/thing")
    assert reply.status == 404
    assert reply.headers["content-type"].startswith("application/problem+json")
    context.close()


def test_a_pull_request_is_found_by_its_number(desk: Tab) -> None:
    page = desk.open("/")
    page.keyboard.press("Control+k")
    page.keyboard.type("#42")
    expect(page.locator("#hits li[role=option]")).to_have_count(1)
    page.keyboard.press("Enter")
    page.wait_for_url("**/projects/tinygpt/pulls/42")


def test_the_keyboard_alone_leads_everywhere(desk: Tab) -> None:
    """The first stop skips to the content; every stop shows where it is; a table's head sorts by the keyboard."""
    page = desk.open("/projects/tinygpt/compare?by=node&base=gpu-01&head=gpu-01b")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.wait_for_function("document.activeElement.id === 'main'")
    page.get_by_role("button", name="Change", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.locator("th[aria-sort=ascending]")).to_have_text("Change")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"


@pytest.mark.parametrize("path", ["/projects/tinygpt", "/projects/tinygpt/series/1", "/runs/1"])
def test_a_page_prints_what_it_says_and_nothing_to_press(desk: Tab, path: str) -> None:
    page = desk.open(path)
    page.emulate_media(media="print")
    expect(page.get_by_role("heading").first).to_be_visible()
    for gone in ("header.top", "footer", "[data-toolbar]", ".facets-panel", "main button"):
        for element in page.locator(gone).all():
            expect(element).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_a_static_site_works_from_files(browser: Browser, own: Site, tmp_path: Path) -> None:
    """Exported pages, served by a file server: cards are found, a graph draws and zooms, nothing asks for a server."""
    from groundspeed.service.pages import site as export

    export.export(own.db, ("tinygpt",), tmp_path / "site", demo_data.NOW)
    with web_server.files(tmp_path / "site") as url:
        context, tab = open_tab(browser, url)
        page = tab.open("/index.html")
        page.get_by_role("link", name="TinyGPT").first.click()
        page.get_by_role("link", name="Benchmarks").click()
        cards = page.locator(".card:visible")
        page.locator("input[data-cards]").fill("links a100")
        expect(cards).to_have_count(3)
        cards.first.click()
        page.wait_for_selector("[data-graph][data-ready]")
        page.locator("[data-plot]").focus()
        page.keyboard.press("ArrowLeft")
        expect(page.locator(".hover-card")).to_be_visible()
        context.close()
        assert not tab.errors
