"""What a graph shows where results are missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect
from sqlmodel import col, select

from groundspeed.service.db import tables as t

from .conftest import Site, Tab
from .test_graph import RECORD, eventually_written, ready

pytestmark = pytest.mark.browser
UPRIGHT = """() => {
  const canvas = document.querySelector('.plot canvas'), ctx = canvas.getContext('2d'), over = document.querySelector('.u-over');
  const ratio = canvas.width / canvas.clientWidth, left = over.offsetLeft * ratio, wide = Math.round(over.clientWidth * ratio);
  const high = Math.round(over.clientHeight * ratio), data = ctx.getImageData(left, over.offsetTop * ratio, wide, high).data, found = [];
  for (let x = 0; x < wide; x++) {
    let n = 0;
    for (let y = 0; y < high; y++) { const i = 4 * (y * wide + x); if (data[i] < 60 && data[i + 1] > 50 && data[i + 1] < 110 && data[i + 2] > 120 && data[i + 3] > 150) n++; }
    if (n > high * 0.4) found.push(x / wide);
  }
  return found;
}"""


@contextmanager
def without(site: Site, series: int, revisions: list[int]) -> Iterator[None]:
    """A series that lacks the results of some commits."""
    gone = select(t.Result).where(col(t.Result.series_id) == series, col(t.Result.revision_id).in_(revisions))
    with site.db.transaction() as session:
        kept = [row.model_dump() for row in session.exec(gone).all()]
        for row in session.exec(gone).all():
            session.delete(row)
    assert kept
    yield
    with site.db.transaction() as session:
        session.add_all(t.Result(**row) for row in kept)


def test_the_line_is_broken_where_commits_were_left_out(tab: Tab, site: Site) -> None:
    """Between two points with many commits and no result between them there is no line, only dots."""
    kernels = site.kernels
    assert kernels
    first = min(kernels.series.values())
    with without(site, first, kernels.revisions[8:20]):
        page = tab.open(f"/projects/kernels/series/{first}?band=0")
        ready(page)
    inked = page.evaluate(
        """() => {
          const canvas = document.querySelector('.plot canvas'), ctx = canvas.getContext('2d');
          const over = document.querySelector('.u-over'), ratio = canvas.width / canvas.clientWidth;
          const left = over.offsetLeft * ratio, wide = over.clientWidth * ratio, count = (a, b) => {
            const data = ctx.getImageData(left + a * wide, over.offsetTop * ratio, (b - a) * wide, over.clientHeight * ratio).data;
            let n = 0;
            for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 120 && data[i + 2] > data[i] + 60) n++;
            return n;
          };
          return [count(0.32, 0.6), count(0.04, 0.2)];
        }"""
    )
    level = 2.2 * 0.28 * page.viewport_size["width"] if page.viewport_size else 0
    assert inked[1] > 400
    assert inked[0] < level * 2


def test_a_pin_stands_where_a_series_has_no_point(tab: Tab, site: Site) -> None:
    """At the commit's place in the order, with a word on it; of a commit that nobody knows that is said, too."""
    kernels = site.kernels
    assert kernels
    at = 9
    series = max(kernels.series.values())
    with without(site, series, kernels.revisions[at : at + 1]):
        tab.page.add_init_script(RECORD)
        page = tab.open(f"/projects/kernels/series/{series}?pins={kernels.shas[at][:12]},{kernels.shas[20][:12]}")
        ready(page)
        eventually_written(page, "A, no point here", "B")
        pins = page.locator(".pins")
        expect(pins).to_have_text(re.compile(f"A {kernels.shas[at][:8]}, no point here compare with B"))
        blue = page.evaluate(UPRIGHT)
        assert min(abs(x - at / (len(kernels.shas) - 1)) for x in blue) < 0.01
        page.get_by_role("button", name="Environments", exact=True).click()
        eventually_written(page, "A, no point here", "B")
        page = tab.open(f"/projects/kernels/series/{series}?pins={'f' * 12}")
        ready(page)
        expect(pins).to_have_text(re.compile("A ffffffff, not known here"))
