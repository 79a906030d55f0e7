"""The graph in a real browser: what is drawn, and what each control does."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from .conftest import Site, Tab

pytestmark = pytest.mark.browser


def ready(page: Page) -> None:
    page.wait_for_selector("[data-graph][data-ready='1']")


def query(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def eventually_asked(page: Page, name: str, value: str | None = "") -> None:
    """The address comes to hold the parameter with that value ("": any; None: not at all), a moment after the change."""
    if value is None:
        expect(page).not_to_have_url(re.compile(rf"[?&]{name}="))
    else:
        expect(page).to_have_url(re.compile(rf"[?&]{name}={value}"))


def point(page: Page, share: float) -> tuple[float, float]:
    """A place of the plot, as a share of its width, in the middle of its height."""
    box = page.locator(".u-over").first.bounding_box()
    assert box
    return box["x"] + box["width"] * share, box["y"] + box["height"] / 2


def test_the_change_is_drawn_at_its_commit(tab: Tab, site: Site) -> None:
    """Over the plot, a red triangle stands exactly at the commit that made the series slower, and nowhere else."""
    page = tab.open("/projects/tinygpt/series/1")
    ready(page)
    at = int(0.62 * len(site.demo.shas)) / (len(site.demo.shas) - 1)
    red = page.evaluate(
        """() => {
          const canvas = document.querySelector('.plot canvas'), ctx = canvas.getContext('2d');
          const over = document.querySelector('.u-over'), ratio = canvas.width / canvas.clientWidth;
          const left = over.offsetLeft * ratio, y = Math.round((over.offsetTop - 4) * ratio), found = [];
          const row = ctx.getImageData(0, y, canvas.width, 1).data;
          for (let x = 0; x < canvas.width; x++)
            if (row[4 * x + 3] > 200 && row[4 * x] > 150 && row[4 * x + 1] < 80) found.push((x - left) / (over.clientWidth * ratio));
          return found;
        }"""
    )
    assert red
    assert max(abs(x - at) for x in red) < 0.008
    assert page.locator("section:has(h2:text('Changes')) tbody tr").count() == 1


def test_a_point_explains_itself_and_leads_on(tab: Tab, site: Site) -> None:
    """Hovering shows commit, author, value, environment and conditions; a click keeps the card with links."""
    page = tab.open("/projects/tinygpt/series/1")
    ready(page)
    page.locator("[data-plot]").focus()
    page.keyboard.press("ArrowLeft")
    card = page.locator(".hover-card")
    expect(card).to_be_visible()
    sha = site.demo.shas[-1]
    expect(card).to_contain_text(sha[:10])
    expect(card).to_contain_text("samples/s")
    expect(card).to_contain_text("driver 570.86.15")
    expect(card).to_contain_text("device sm mhz 1755")
    page.keyboard.press("ArrowLeft")
    expect(card).to_contain_text(site.demo.shas[-2][:10])
    page.keyboard.press("Enter")
    expect(card.get_by_role("link", name=re.compile(r"^run \d+"))).to_be_visible()
    page.keyboard.press("Escape")
    page.mouse.move(*point(page, 0.3))
    box = page.locator(".u-over").first.bounding_box()
    assert box
    hovered = False
    for y in range(10, int(box["height"]), 12):
        page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + y)
        hovered = hovered or card.is_visible()
    assert hovered


def test_controls_change_the_address_and_the_address_brings_them_back(tab: Tab) -> None:
    """Log, relative, spread, order and zoom stand in a short link that restores the whole state."""
    page = tab.open("/projects/tinygpt/graph?series=1,2")
    ready(page)
    page.get_by_role("button", name="Log").click()
    page.get_by_role("button", name="Spread").click()
    page.get_by_role("button", name="Dates").click()
    eventually_asked(page, "x", "date")
    assert query(page)["y"] == ["log"]
    assert query(page)["band"] == ["0"]
    page.get_by_role("button", name="Commits").click()
    x1, y = point(page, 0.25)
    x2, _ = point(page, 0.5)
    page.mouse.move(x1, y)
    page.mouse.down()
    page.mouse.move(x2, y, steps=5)
    page.mouse.up()
    eventually_asked(page, "from")
    low, high = int(query(page)["from"][0]), int(query(page)["to"][0])
    assert 17 <= low <= 21
    assert 37 <= high <= 41
    link = page.url
    assert len(link) < 120
    page.goto("about:blank")
    page.goto(link)
    ready(page)
    assert page.get_by_role("button", name="Log").get_attribute("aria-pressed") == "true"
    assert page.get_by_role("button", name="Spread").get_attribute("aria-pressed") == "false"
    page.locator("[data-plot]").focus()
    page.keyboard.press("0")
    eventually_asked(page, "from", None)
    page.keyboard.press("x")
    page.keyboard.press("x")
    eventually_asked(page, "x", "environment")
    page.keyboard.press("+")
    eventually_asked(page, "from")


def test_series_are_added_hidden_and_removed_without_recolouring(tab: Tab) -> None:
    """A series keeps its colour whatever happens to the others."""
    page = tab.open("/projects/tinygpt/graph?series=1,2,5")
    ready(page)
    legend = page.locator("[data-legend] li")
    expect(legend).to_have_count(3)
    assert legend.nth(2).get_attribute("class") == "s2"
    assert page.get_by_role("button", name="Relative").get_attribute("aria-pressed") == "true"  # the units differ
    legend.nth(1).get_by_role("button", name=re.compile("off the graph")).click()
    expect(legend).to_have_count(2)
    assert legend.nth(1).get_attribute("class") == "s2"
    assert query(page)["series"] == ["1,,5"]
    legend.nth(0).get_by_role("button", name="hide").click()
    assert query(page)["hide"] == ["1"]
    page.locator("a[data-add]").first.click()
    expect(legend).to_have_count(3)
    page.get_by_role("button", name="Apart").click()
    expect(page.locator(".u-over")).to_have_count(3)


def test_two_points_are_pinned_and_compared(tab: Tab, site: Site) -> None:
    page = tab.open("/projects/tinygpt/series/1")
    ready(page)
    page.locator("[data-plot]").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    page.locator(".hover-card").get_by_role("button", name="pin").click()
    page.locator("[data-plot]").focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    page.locator(".hover-card").get_by_role("button", name="pin").click()
    page.get_by_role("link", name=re.compile("compare with B")).click()
    page.wait_for_url("**/compare?**")
    expect(page.locator("#compared tbody tr").first).to_be_visible()


@pytest.mark.parametrize("kind", ["PNG", "SVG", "CSV", "JSON"])
def test_the_view_is_downloaded(tab: Tab, kind: str) -> None:
    page = tab.open("/projects/tinygpt/series/1")
    ready(page)
    with page.expect_download() as waited:
        page.get_by_role("button", name=kind).click()
    content = waited.value.path().read_bytes()
    begins = {"PNG": b"\x89PNG", "SVG": b"<svg ", "CSV": b"series,", "JSON": b'{"project"'}[kind]
    assert content.startswith(begins)
    assert len(content) > 3000


def test_raw_samples_come_on_demand(tab: Tab) -> None:
    page = tab.open("/projects/tinygpt/series/1")
    ready(page)
    with page.expect_response(re.compile(r"/series/1/samples")) as waited:
        page.get_by_role("button", name="Samples").click()
    assert len(waited.value.json()["value"]) > 1000
    eventually_asked(page, "samples", "1")
