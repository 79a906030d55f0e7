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
    expect(card).to_contain_text("device sm 1755 MHz")
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
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
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
    eventually_asked(page, "series", "1,,5(&|$)")
    legend.nth(0).get_by_role("button", name="hide").click()
    eventually_asked(page, "hide", "1(&|$)")
    page.locator("a[data-add]").first.click()
    expect(legend).to_have_count(3)
    page.get_by_role("button", name="Apart").click()
    expect(page.locator(".u-over")).to_have_count(3)


def test_two_points_are_pinned_and_compared(tab: Tab, site: Site) -> None:
    """The first with the keyboard alone: a mouse that rests over the plot would choose points between the keys."""
    page = tab.open("/projects/tinygpt/series/1")
    ready(page)
    page.locator("[data-plot]").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("p")
    expect(page.locator(".pins")).to_contain_text("A ")
    page.locator("[data-plot]").focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    page.locator(".hover-card").get_by_role("button", name="pin").click()
    page.get_by_role("link", name=re.compile("compare with B")).click()
    page.wait_for_url("**/compare?**")
    expect(page.locator("#compared tbody tr").first).to_be_visible()


def test_the_view_is_taken_along(tab: Tab) -> None:
    """As a picture, a drawing, a table, data, and as its address."""
    page = tab.open("/projects/tinygpt/series/1?y=log")
    ready(page)
    for kind, begins in {"PNG": b"\x89PNG", "SVG": b"<svg ", "CSV": b"series,", "JSON": b'{"project"'}.items():
        with page.expect_download() as waited:
            page.get_by_role("button", name=kind).click()
        content = waited.value.path().read_bytes()
        assert content.startswith(begins)
        assert len(content) > 3000
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == page.url


def eventually_written(page: Page, *words: str) -> None:
    """Each of these is drawn on the plot, after whatever was written before."""
    page.wait_for_function("(words) => words.every((word) => window.written.includes(word))", arg=list(words))
    page.evaluate("window.written.length = 0")


RECORD = """window.written = [];
const draw = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) { window.written.push(text); return draw.call(this, text, ...rest); };"""
CROSSES = """() => {
  const canvas = document.querySelector('.plot canvas'), ctx = canvas.getContext('2d'), over = document.querySelector('.u-over');
  const ratio = canvas.width / canvas.clientWidth, left = over.offsetLeft * ratio, wide = over.clientWidth * ratio, found = [];
  const row = ctx.getImageData(left, (over.offsetTop + over.clientHeight - 6) * ratio, wide, 1).data;
  for (let x = 0; x < wide; x++) if (row[4 * x + 3] > 200 && row[4 * x] > 150 && row[4 * x + 1] < 90) found.push(x / wide);
  return found;
}"""


def test_what_happened_stands_on_the_plot(tab: Tab, site: Site) -> None:
    """Environments, notes and pins are named, failures are crosses at their commits, doubtful points are hollow."""
    tab.page.add_init_script(RECORD)
    d = site.demo
    bandwidth = next(id_ for key, id_ in d.series.items() if "67108864" in key and key.endswith("/1"))
    page = tab.open(f"/projects/tinygpt/series/{bandwidth}?pins={d.shas[11][:12]},{d.shas[60][:12]}")
    ready(page)
    eventually_written(page, "driver 575.57.08, CUDA 12.8, torch 2.13", "Release 1.0", "A", "B")
    page.get_by_role("button", name="Environments", exact=True).click()
    eventually_written(page, "driver 570.86.15, CUDA 12.8, torch 2.13")
    page.get_by_role("button", name="Clear").click()
    eventually_asked(page, "pins", None)
    failing = next(
        id_ for key, id_ in d.series.items() if key.startswith("generate/latency_p50") and key.endswith("/0")
    )
    page = tab.open(f"/projects/tinygpt/series/{failing}?band=0")
    ready(page)
    page.wait_for_function(f"({CROSSES})().length")
    crosses, n = page.evaluate(CROSSES), len(d.shas)
    assert all(min(abs(x - at / (n - 1)) for at in (n // 4, n // 4 + 1)) < 0.008 for x in crosses)
    expect(page.locator("section", has=page.get_by_role("heading", name="Failures")).locator("li")).to_have_count(2)


def test_the_mouse_moves_along_and_the_keys_are_listed(tab: Tab) -> None:
    """Shift and drag pans, Ctrl and wheel zooms around the pointer, a question mark lists what there is."""
    page = tab.open("/projects/tinygpt/series/1?from=20&to=60")
    ready(page)
    x, y = point(page, 0.5)
    page.keyboard.down("Shift")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(point(page, 0.25)[0], y, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    eventually_asked(page, "from", "(29|30)")
    assert float(query(page)["to"][0]) - float(query(page)["from"][0]) == pytest.approx(40, abs=1)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -60)
    page.keyboard.up("Control")
    eventually_asked(page, "from", "(3[3-9])")
    page.locator("[data-plot]").focus()
    page.keyboard.press("]")
    eventually_asked(page, "from", "(4[0-9]|50)")
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    expect(keys).to_contain_text("logarithmic")
    page.keyboard.press("Escape")
    expect(keys).to_have_count(0)


def test_raw_samples_come_on_demand(tab: Tab) -> None:
    page = tab.open("/projects/tinygpt/series/1")
    ready(page)
    with page.expect_response(re.compile(r"/series/1/samples")) as waited:
        page.get_by_role("button", name="Samples", exact=True).click()
    assert len(waited.value.json()["value"]) > 1000
    eventually_asked(page, "samples", "1")


def test_a_box_chooses_commits_and_values_and_stands_in_the_address(tab: Tab) -> None:
    """A high box zooms both ways; its link shows the same part; a double click shows all again."""
    page = tab.open("/projects/tinygpt/series/1")
    ready(page)
    box = page.locator(".u-over").first.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.1, box["y"] + box["height"] * 0.05)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] * 0.5, steps=4)
    page.mouse.up()
    eventually_asked(page, "low")
    eventually_asked(page, "from")
    asked = {name: float(query(page)[name][0]) for name in ("from", "to", "low", "high")}
    assert asked["low"] < asked["high"]
    assert asked["to"] - asked["from"] < 30
    page.reload()
    ready(page)
    assert {name: float(query(page)[name][0]) for name in asked} == asked
    page.locator(".u-over").first.dblclick()
    eventually_asked(page, "low", None)
    eventually_asked(page, "from", None)


def test_parameters_choose_what_is_shown(tab: Tab) -> None:
    """A value that is pressed adds its series for every combination; pressed again it takes them off; colours stay."""
    page = tab.open("/projects/tinygpt/series/1")
    ready(page)
    legend = page.locator("[data-legend] li")
    facet = page.get_by_role("group", name="batch_size")
    facet.get_by_role("button", name="32").click()
    expect(legend).to_have_count(2)  # with the one precision that this batch size was measured at
    expect(page.get_by_role("group", name="precision").get_by_role("button", pressed=True)).to_have_count(2)
    assert legend.nth(0).get_attribute("class") == "s0"
    page.get_by_role("group", name="hardware").get_by_role("button", name="A100").click()
    expect(legend).to_have_count(4)
    expect(page).to_have_url(re.compile(r"/graph\?series=\d+(,\d+){3}$"))
    facet.get_by_role("button", name="8", exact=True).click()
    expect(legend).to_have_count(2)
    assert facet.get_by_role("button", name="32").is_disabled()  # the last value cannot be taken away


def test_time_and_cycles_take_each_others_place(tab: Tab, site: Site) -> None:
    page = tab.open("/projects/kernels/graph?series=" + str(site.cycles))
    ready(page)
    legend = page.locator("[data-legend] li")
    expect(legend).to_contain_text("device_cycles")
    page.get_by_role("button", name="Cycles", exact=True).click()
    expect(legend).to_contain_text("step_time")
    page.locator("[data-plot]").focus()
    page.keyboard.press("c")
    expect(legend).to_contain_text("device_cycles")
    expect(page.get_by_role("button", name="Cycles", exact=True)).to_have_attribute("aria-pressed", "true")


def test_values_are_relative_to_a_chosen_commit(tab: Tab, site: Site) -> None:
    """From the card of a point; the toolbar names the commit; the picture that is downloaded is relative to it too."""
    page = tab.open("/projects/tinygpt/series/1")
    ready(page)
    page.locator("[data-plot]").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    page.locator(".hover-card").get_by_role("button", name="relative to this").click()
    sha = site.demo.shas[-1]
    expect(page.locator("[data-toolbar]")).to_contain_text(f"to {sha[:8]}")
    eventually_asked(page, "ref", sha[:10])
    with page.expect_download() as waited:
        page.get_by_role("button", name="SVG").click()
    assert "+20 %" in waited.value.path().read_text()  # before the regression it was a fifth faster than at the end
    page.get_by_role("button", name="×").first.click()
    eventually_asked(page, "ref", None)


def test_small_multiples_keep_their_units_and_move_together(tab: Tab) -> None:
    page = tab.open("/projects/tinygpt/graph?series=1,2&small=1")
    ready(page)
    expect(page.locator(".plot-title")).to_have_count(2)
    assert page.get_by_role("button", name="Relative").get_attribute("aria-pressed") == "false"
    page.locator("[data-plot]").focus()
    page.keyboard.press("+")
    eventually_asked(page, "from")
    page.keyboard.press("]")
    page.keyboard.press("0")
    eventually_asked(page, "from", None)
