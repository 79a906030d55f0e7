"""Pictures of the pages, looked at once and kept in docs/screenshots; a page that comes to look different fails.

They are the baselines: a pixel differs when its colours are more than 60 (of 765) apart, and at most 2 % of the pixels
may. Fonts are those of Debian's fonts-dejavu-core, which the tests install with Chromium; other fonts differ more.
``GROUNDSPEED_SHOTS=write`` takes them anew: look at each before it is committed.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

import demo_campaign
import demo_data
import demo_people
import demo_pulls
import web_server
from groundspeed.service.api import access
from groundspeed.service.db.engine import Database

from .conftest import Site, front_of, open_tab, sign_in

pytestmark = [pytest.mark.browser, pytest.mark.long]
SHOTS: dict[str, tuple[str, dict[str, Any]]] = {
    "projects": ("/", {}),
    "overview": ("/projects/tinygpt", {}),
    "overview-dark": ("/projects/tinygpt", {"color_scheme": "dark"}),
    "overview-380": ("/projects/tinygpt", {"width": 380}),
    "benchmarks": ("/projects/tinygpt/benchmarks", {}),
    "benchmarks-dark-380": ("/projects/tinygpt/benchmarks", {"width": 380, "color_scheme": "dark"}),
    "series-slow": ("/projects/tinygpt/series/1", {}),
    "series-slow-dark": ("/projects/tinygpt/series/1", {"color_scheme": "dark"}),
    "series-380": ("/projects/tinygpt/series/1", {"width": 380}),
    "series-without-script": ("/projects/tinygpt/series/1", {"java_script_enabled": False}),
    "series-environment": ("/projects/tinygpt/graph?series={bandwidth}", {}),
    "graph-many": ("/projects/tinygpt/graph?series=1,2,5,7&band=0", {}),
    "graph-apart": ("/projects/tinygpt/graph?series=1,2,5,7&small=1", {}),
    "graph-environments": ("/projects/tinygpt/graph?series={bandwidth}&x=environment&samples=1", {}),
    "graph-log-box-dark": (
        "/projects/tinygpt/graph?series=1,2&y=log&from=10&to=60&low=0.8&high=1.3",
        {"color_scheme": "dark"},
    ),
    "thousand-series": ("/projects/many/benchmarks?sort=change", {}),
    "thousand-series-dark": ("/projects/many/benchmarks?q=products", {"color_scheme": "dark"}),
    "compare": ("/projects/tinygpt/compare?base={before}&head={slow}", {}),
    "compare-nodes-dark": (
        "/projects/tinygpt/compare?by=node&base=gpu-01&head=gpu-01b",
        {"color_scheme": "dark"},
    ),
    "compare-380": ("/projects/tinygpt/compare?base={before}&head={slow}", {"width": 380}),
    "regressions": ("/projects/tinygpt/regressions", {}),
    "regression": ("/projects/tinygpt/regressions/4", {}),
    "commit": ("/projects/tinygpt/commits/{slow}", {}),
    "runs": ("/projects/tinygpt/runs", {}),
    "job": ("/jobs/{job}", {}),
    "run": ("/runs/1", {"full": True}),
    "run-dark-380": ("/runs/1", {"width": 380, "color_scheme": "dark", "full": True}),
    "job-380": ("/jobs/{job}", {"width": 380}),
    "fleet": ("/fleet", {}),
    "fleet-dark-380": ("/fleet", {"width": 380, "color_scheme": "dark"}),
    "node": ("/fleet/gpu-01b", {}),
    "long-names": ("/projects/attention", {}),
    "long-names-380": ("/projects/attention/benchmarks", {"width": 380}),
    "empty": ("/projects/empty", {}),
    "empty-benchmarks": ("/projects/empty/benchmarks", {}),
    "regressions-380": ("/projects/tinygpt/regressions", {"width": 380}),
    "not-found-dark": ("/no/such/page", {"color_scheme": "dark"}),
    "search": ("/search?q=batch", {}),
    "palette": ("/fleet", {"press": "Control+k", "type": "bus_band"}),
    "graph-failures": ("/projects/tinygpt/series/{failing}", {}),
    "graph-keys": ("/projects/tinygpt/series/1", {"click": "button[title='Keys (?)']"}),
    "graph-card": ("/projects/tinygpt/series/1", {"focus": "[data-plot]", "press": "ArrowLeft"}),
    "regression-380": ("/projects/tinygpt/regressions/4", {"width": 380}),
    "request": ("/requests/{request}", {}),
    "stragglers": ("/projects/tinygpt/stragglers", {}),
    "pulls": ("/projects/tinygpt/pulls", {}),
    "pull": ("/projects/tinygpt/pulls/12", {}),
    "pull-dark-380": ("/projects/tinygpt/pulls/12", {"width": 380, "color_scheme": "dark"}),
    "campaigns": ("/campaigns", {}),
    "campaign": ("/campaigns/driver-580", {"full": True}),
    "campaign-dark-380": ("/campaigns/driver-580", {"width": 380, "color_scheme": "dark"}),
    "sign-in": ("/sign-in", {"front": "nobody"}),
    "account": ("/account", {"front": "admin"}),
    "account-dark-380": ("/account", {"front": "admin", "width": 380, "color_scheme": "dark"}),
    "accounts": ("/accounts", {"front": "admin"}),
    "channels": ("/channels", {"front": "admin"}),
    "audit": ("/audit", {"front": "admin"}),
    "docs": ("/docs", {}),
}
DIFFER = """async ([a, b]) => {
  const load = async (data) => createImageBitmap(await (await fetch('data:image/png;base64,' + data)).blob());
  const [one, two] = [await load(a), await load(b)];
  if (one.width !== two.width || one.height !== two.height) return 1;
  const pixels = (image) => {
    const ctx = new OffscreenCanvas(image.width, image.height).getContext('2d');
    ctx.drawImage(image, 0, 0);
    return ctx.getImageData(0, 0, image.width, image.height).data;
  };
  const [x, y] = [pixels(one), pixels(two)];
  let differ = 0;
  for (let i = 0; i < x.length; i += 4) if (Math.abs(x[i] - y[i]) + Math.abs(x[i + 1] - y[i + 1]) + Math.abs(x[i + 2] - y[i + 2]) > 60) differ++;
  return differ / (x.length / 4);
}"""


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The demonstration data at a time that stands still."""
    folder = tmp_path_factory.mktemp("shots")
    db = Database(f"sqlite:///{folder / 'demo.db'}")
    demo_data.create_tables(db)
    demo = demo_data.fill(db)
    long = "Attention kernels with a very long project name indeed, as some are"
    demo_data.fill(
        db, demo_data.Shape(slug="attention", name=long, commits=30, machines=1, extra=0, seed=3, live=False)
    )
    demo_data.fill(db, demo_data.Shape(slug="empty", name="Empty", commits=0, machines=0, extra=0, live=False))
    many = demo_data.Shape(
        slug="many", name="Many", commits=24, machines=2, extra=490, live=False, keep_samples=False, keep_runs=False
    )
    demo_data.fill(db, many)
    demo_campaign.add(db)
    demo_pulls.add(db)
    cookie = demo_people.add(db)
    application = web_server.app(db, folder)
    application.dependency_overrides[access.now] = lambda: demo_data.NOW
    with web_server.serve(application) as url, front_of(db, folder, demo_data.NOW) as front:
        yield Site(db, url, demo, front=front, cookie=cookie)
    db.close()


def address(site: Site, path: str) -> str:
    shas, n = site.demo.shas, len(site.demo.shas)
    bandwidth = next(id_ for key, id_ in site.demo.series.items() if "67108864" in key and key.endswith("/1"))
    failing = next(id_ for key, id_ in site.demo.series.items() if key.startswith("generate/") and key.endswith("/0"))
    slow = int(0.62 * n)
    return path.format(
        slow=shas[slow], before=shas[slow - 1], job=site.demo.jobs[-4], bandwidth=bandwidth, failing=failing,
        request=site.demo.requests[-1],
    )  # fmt: skip


def take(page: Page, url: str, options: dict[str, Any]) -> bytes:
    page.goto(url)
    if options.get("java_script_enabled", True):
        if page.locator("[data-graph]").count():
            page.wait_for_selector("[data-graph][data-ready='1']")
        page.wait_for_load_state("networkidle") if not page.locator("body[data-live]").count() else None
    if "focus" in options:
        page.locator(options["focus"]).focus()
    if "press" in options:
        page.keyboard.press(options["press"])
    if "click" in options:
        page.click(options["click"])
    if "type" in options:
        page.keyboard.type(options["type"])
    page.wait_for_timeout(400)
    return page.screenshot(animations="disabled", caret="hide", full_page=options.get("full", False))


OURS = {"width", "full", "front", "focus", "press", "click", "type"}


@pytest.mark.parametrize("name", SHOTS)
def test_the_page_looks_as_it_was_judged(browser: Browser, still: Site, root: Path, name: str) -> None:
    path, options = SHOTS[name]
    width, front = options.get("width", 1280), options.get("front")
    url = still.front if front else still.url
    context, tab = open_tab(browser, url, **{k: x for k, x in options.items() if k not in OURS})
    if front == "admin":
        sign_in(context, still)
    tab.page.set_viewport_size({"width": width, "height": 900 if width > 400 else 800})
    tab.page.clock.install(time=demo_data.NOW)
    tab.page.clock.resume()
    taken = take(tab.page, url + address(still, path), options)
    context.close()
    kept = root / "docs/screenshots" / f"{name}.png"
    if os.environ.get("GROUNDSPEED_SHOTS") == "write":
        kept.write_bytes(taken)
    plain, other = open_tab(browser, still.url)
    other.page.goto("about:blank")
    share = other.page.evaluate(DIFFER, [base64.b64encode(b).decode() for b in (taken, kept.read_bytes())])
    plain.close()
    assert share < 0.02, f"{share:.1%} of the pixels differ"
