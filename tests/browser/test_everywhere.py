"""What holds on every page: accessible, nothing overflows, nothing complains, in both colours and on a narrow screen."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

import demo_data
import web_server
from groundspeed.service.db.engine import Database
from groundspeed.service.pages.render import POINTS
from page_addresses import addresses

from .conftest import Site, Tab, open_tab, sign_in

pytestmark = pytest.mark.browser


def paths(site: Site) -> list[str]:
    """A page of every view, further states of some, and what is not there."""
    d = site.demo
    more = [
        "/projects/tinygpt/graph?series=1,9,20", f"/projects/tinygpt/regressions/{d.regressions[-2]}",
        f"/projects/tinygpt/commits/{d.shas[len(d.shas) // 4]}", f"/projects/tinygpt/compare?base={d.shas[48]}&head={d.shas[49]}",
        "/projects/tinygpt/compare?by=node", "/projects/tinygpt/pulls/3", "/projects/kernels", "/projects/empty", "/docs",
    ]  # fmt: skip
    here = [site.url + path for path in [*addresses(d).values(), *more, "/nosuch"]]
    return [*here, *(site.front + path for path in ("/sign-in", "/account"))]


@pytest.fixture(scope="session")
def axe(root: Path) -> str:
    """The accessibility checker, of the version that the lock file names."""
    script = root / "web/node_modules/axe-core/axe.min.js"
    if not script.is_file():
        subprocess.run([sys.executable, str(root / "web/build.py"), "--check"], check=True)
    return script.read_text(encoding="utf-8")


AXE = """async (asked) => (await axe.run(document, {resultTypes: ["violations"], runOnly: asked})).violations
  .filter((v) => ["serious", "critical"].includes(v.impact))
  .map((v) => `${v.id}: ${v.nodes[0].html.slice(0, 160)} ${v.nodes[0].failureSummary.slice(0, 200)}`)"""
PARTS = 4
"""The pages in so many tests, so that each ends in time on a machine that is busy."""
EVERYTHING = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
OF_COLOURS_AND_WIDTH = {
    "type": "rule",
    "values": ["color-contrast", "link-in-text-block", "scrollable-region-focusable", "nested-interactive"],
}
"""The rules whose answer can be another one in dark and on a narrow screen."""


@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_serious_stands_in_the_way_of_anyone(browser: Browser, site: Site, axe: str, part: int) -> None:
    """On every page, light and wide, then dark and as on a phone: axe-core finds nothing serious, no script complains,
    and the page scrolls up and down only (wide tables scroll inside themselves).
    """
    context, tab = open_tab(browser, "", bypass_csp=True)
    sign_in(context, site)
    found: dict[str, list[str]] = {}
    wide: dict[str, int] = {}
    for path in paths(site)[part::PARTS]:
        tab.page.emulate_media(color_scheme="light")
        tab.page.set_viewport_size({"width": 1280, "height": 800})
        page = tab.open(path)
        if page.locator("[data-graph]").count():
            page.wait_for_selector("[data-graph][data-ready]")
        page.add_script_tag(content=axe)
        bad = page.evaluate(AXE, EVERYTHING)
        page.emulate_media(color_scheme="dark")
        page.set_viewport_size({"width": 380, "height": 800})
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        bad += page.evaluate(AXE, OF_COLOURS_AND_WIDTH)
        if bad:
            found[path] = bad
        if (across := page.evaluate("document.documentElement.scrollWidth")) > 380:
            wide[path] = across
    context.close()
    assert not found, json.dumps(found, indent=1)
    assert not wide
    assert set(tab.errors) <= {"Failed to load resource: the server responded with a status of 404 (Not Found)"}


def test_pages_read_without_script(browser: Browser, site: Site) -> None:
    """The graph is a picture, its points a table with links, the older ones a page further on; the grid has its sparklines; filters are plain forms."""
    context, tab = open_tab(browser, site.url, java_script_enabled=False)
    page = tab.open("/projects/tinygpt/series/1")
    expect(page.locator("svg.chart .dot")).to_have_count(len(site.demo.shas))
    rows = page.locator("table.points tbody tr")
    expect(rows).to_have_count(POINTS)
    page.get_by_role("link", name="older points").click()
    expect(rows).to_have_count(len(site.demo.shas) - POINTS)
    page = tab.open("/projects/tinygpt/benchmarks")
    expect(page.locator("svg.spark path")).to_have_count(len(site.demo.series))
    page.locator("input[name=q]").fill("latency_p50")
    page.get_by_role("button", name="Show").click()
    expect(page.locator(".card")).to_have_count(4)
    context.close()


def test_the_palette_finds_from_anywhere(tab: Tab, site: Site) -> None:
    page = tab.open("/fleet")
    page.keyboard.press("Control+k")
    page.keyboard.type("bus_band 67108864 a100")
    expect(page.locator("#hits li[role=option]")).to_have_count(1)
    page.keyboard.press("Enter")
    page.wait_for_url("**/projects/tinygpt/series/*")
    page.keyboard.press("Control+k")
    page.keyboard.type(site.demo.shas[3][:8])
    expect(page.locator("#hits li[role=option] .badge")).to_have_text(["revision"])
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/commits/{site.demo.shas[3]}")


def test_colours_are_chosen_and_kept(tab: Tab) -> None:
    page = tab.open("/")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    toggle = page.get_by_role("button", name="Change between")
    toggle.click()
    toggle.click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light


def test_a_comparison_sorts_and_filters(tab: Tab, site: Site) -> None:
    d = site.demo
    page = tab.open(f"/projects/tinygpt/compare?base={d.shas[48]}&head={d.shas[49]}")
    page.get_by_role("button", name="Change", exact=True).click()
    page.get_by_role("button", name="Change", exact=True).click()
    values = page.locator("#compared tbody tr td:nth-child(4)").evaluate_all(
        "cells => cells.map(c => c.dataset.value === '' ? -Infinity : Number(c.dataset.value))"
    )
    assert values == sorted(values, reverse=True)
    page.locator("input[data-filter]").fill("step_time regressed")
    expect(page.locator("#compared tbody tr:visible")).to_have_count(4)


def test_a_thousand_series_are_searched_and_scrolled(browser: Browser, tmp_path: Path) -> None:
    """The grid loads as one scrolls, to the last card, and finds while one types."""
    db = Database(f"sqlite:///{tmp_path / 'many.db'}")
    demo_data.create_tables(db)
    shape = demo_data.Shape(
        slug="many", name="Many", commits=6, machines=2, extra=490, live=False, keep_samples=False, keep_runs=False
    )
    made = demo_data.fill(db, shape)
    with web_server.serve(web_server.app(db, tmp_path)) as url:
        context, tab = open_tab(browser, url)
        page = tab.open("/projects/many/benchmarks")
        expect(page.locator(".card")).to_have_count(100)
        for _ in range(600):
            page.evaluate("scrollTo(0, document.body.scrollHeight)")
            page.wait_for_timeout(60)
            if page.locator(".card").count() == len(made.series):
                break
        expect(page.locator(".card")).to_have_count(len(made.series))
        assert len(made.series) >= 1000
        ids = page.locator(".card").evaluate_all("cards => cards.map(c => c.dataset.id)")
        assert len(set(ids)) == len(ids)
        page.locator("input[name=q]").fill("products m=128 h200")
        expect(page.locator("[data-grid-total]")).to_contain_text("31 series")
        expect(page.locator(".card")).to_have_count(31)
        expect(page).to_have_url(re.compile("q=products"))
        context.close()
        assert not tab.errors
    db.close()


def test_the_scripts_are_small(root: Path) -> None:
    """All JavaScript together is under 150 kB compressed, and strict types hold."""
    assert sum(p.stat().st_size for p in (root / "web/dist").glob("*.js.gz")) < 150_000
    subprocess.run([sys.executable, str(root / "web/build.py"), "--check"], check=True)
