"""A series of 100,000 points: what is sent of it, what is seen, and that the graph stays smooth."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, Response, expect

import demo_data
import demo_long
import frames
import web_server
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases.views.history import thin

from .conftest import open_tab
from .test_graph import ready

pytestmark = pytest.mark.browser
A_FRAME_MS = 1000 / 60
SENT_BYTES = 100_000
"""Of a page, compressed; all points would be three megabytes."""


def test_many_points_are_thinned_without_losing_extremes() -> None:
    """What the server sends of a long series keeps its highest and lowest values and the ends of its changes."""
    values = [float((i * 7919) % 1000) for i in range(100_000)]
    values[12_345], values[67_890] = 5000.0, -5000.0
    kept = thin(values, {50_000, 50_001}, 2000)
    assert len(kept) <= 2000
    assert {0, 99_999, 12_345, 67_890, 50_000, 50_001} <= set(kept)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, demo_long.Long]]:
    """The address of a service, and the series in it."""
    folder = tmp_path_factory.mktemp("long")
    db = Database(f"sqlite:///{folder / 'long.db'}")
    demo_data.create_tables(db)
    made = demo_long.fill(db)
    with web_server.serve(web_server.app(db, folder)) as url:
        yield url, made
    db.close()


def drawn(page: Page) -> tuple[list[int], list[float]]:
    """Positions and values that the page was sent."""
    data = json.loads(page.locator("#data").text_content() or "{}")
    positions = np.cumsum(data["revisions"]["position"]["steps"])
    points = data["series"][0]["points"]
    return positions[np.cumsum(points["revision"]["steps"])].tolist(), points["value"]


def in_view(page: Page) -> tuple[int, int]:
    asked = parse_qs(urlsplit(page.url).query)
    return int(asked["from"][0]), int(asked["to"][0])


@pytest.mark.long
def test_a_hundred_thousand_points_stay_smooth(browser: Browser, long: tuple[str, demo_long.Long]) -> None:
    """The page is small and has every extreme and both sides of every change; a frame of zooming or moving takes less of
    the main thread than there is; where one zooms in, every commit is there in the end.
    """
    url, made = long
    context, tab = open_tab(browser, url)
    answers: list[Response] = []
    tab.page.on("response", lambda one: answers.append(one) if "/graph?" in one.url else None)
    page = tab.open(f"/projects/{made.slug}/series/{made.series}")
    ready(page)
    assert page.evaluate("performance.getEntriesByType('navigation')[0].transferSize") < SENT_BYTES
    positions, values = drawn(page)
    assert len(positions) <= 2000
    assert {made.lowest, made.highest, *made.changes, *(at - 1 for at in made.changes)} <= set(positions)
    assert min(values) == pytest.approx(made.values.min())
    assert max(values) == pytest.approx(made.values.max())
    for kind in ("zoom", "pan"):
        assert frames.moving(page, kind).cpu_ms < A_FRAME_MS, kind

    page.locator("[data-plot]").focus()
    page.keyboard.press("0")
    expect(page).not_to_have_url(re.compile("from="))
    for _ in range(11):
        page.keyboard.press("+")
    expect(page).to_have_url(re.compile("from="))
    low, high = in_view(page)
    assert 300 < high - low < 1000
    part = _answer(page, answers, f"from={low}&to={high}")
    assert len(part["series"][0]["points"]["value"]) == part["series"][0]["total"] == high - low + 1
    context.close()
    assert not tab.errors


def _answer(page: Page, answers: list[Response], query: str) -> Any:
    """What the service sent for a part, once it has."""
    for _ in range(600):
        found = [one for one in answers if query in one.url]
        if found:
            return found[-1].json()
        page.wait_for_timeout(100)
    raise AssertionError(f"{query} was not asked for: {[one.url for one in answers]}")
