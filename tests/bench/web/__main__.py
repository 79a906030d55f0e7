"""``make bench-web``: how long pages take on the server and in a real Chromium, how many bytes and how much heap.

``COMMITS`` and ``SERIES`` (arguments, in this order) set the size; the defaults are those of the targets.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))

import httpx  # noqa: E402
from playwright.sync_api import Browser, sync_playwright  # noqa: E402

import demo_data  # noqa: E402 - found through the line above
import web_server  # noqa: E402
from groundspeed.service.db.engine import Database  # noqa: E402

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--enable-precise-memory-info",
]
TURNS = 15
PAINT = """() => new Promise(done => requestAnimationFrame(() => setTimeout(() => {
  const paint = performance.getEntriesByName('first-contentful-paint')[0];
  done([paint ? paint.startTime : -1, performance.memory.usedJSHeapSize,
    performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation')).reduce((sum, e) => sum + e.transferSize, 0)]);
}, 150)))"""


def main(commits: int, series: int) -> None:
    out = sys.stdout.write
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        db = Database(f"sqlite:///{folder / 'bench.db'}")
        demo_data.create_tables(db)
        small = {"live": False, "keep_samples": False, "keep_runs": False}
        demo_data.fill(db, demo_data.Shape(slug="long", commits=commits, machines=1, extra=0, **small))
        demo_data.fill(db, demo_data.Shape(slug="thousand", commits=1000, machines=1, extra=0, **small))
        wide = demo_data.fill(db, demo_data.Shape(slug="wide", commits=60, machines=4, extra=series // 4 - 12, **small))
        ten = ",".join(map(str, range(1, 11)))
        first = _first(db, "thousand")
        pages = {
            "series of 1,000 points": f"/projects/thousand/series/{first}",
            f"graph of 10 series x {commits:,} points": f"/projects/long/graph?series={ten}",
            f"grid of {len(wide.series):,} series": "/projects/wide/benchmarks",
            "overview": "/projects/wide",
        }
        with web_server.serve(web_server.app(db, folder)) as url, httpx.Client(base_url=url, timeout=60) as http:
            out(f"{'page':<42}{'server ms':>10}{'bytes':>10}{'paint ms':>10}{'heap MB':>9}{'moved':>10}\n")
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
                for label, path in pages.items():
                    server, size = _server(http, path)
                    paint, heap, moved = _browser(browser, url + path)
                    out(f"{label:<42}{server:>10.1f}{size:>10,}{paint:>10.0f}{heap / 1e6:>9.1f}{moved:>10,.0f}\n")
                browser.close()
        db.close()


def _first(db: Database, slug: str) -> int:
    from sqlalchemy import text

    with db.read() as session:
        query = text("select min(s.id) from series s join project p on p.id = s.project_id where p.slug = :slug")
        return int(session.execute(query, {"slug": slug}).scalar_one())


def _server(http: httpx.Client, path: str) -> tuple[float, int]:
    """(median milliseconds from request to the whole answer over loopback, bytes as sent) after a first turn."""
    http.get(path).raise_for_status()
    times = []
    for _ in range(TURNS):
        start = time.perf_counter()
        reply = http.get(path)
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times), int(reply.headers.get("content-length", len(reply.content)))


def _browser(browser: Browser, url: str) -> tuple[float, float, float]:
    """(first contentful paint in ms, heap in bytes, bytes moved), medians of five fresh contexts."""
    found: list[Any] = []
    for _ in range(5):
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        page.goto(url)
        found.append(page.evaluate(PAINT))
        context.close()
    return tuple(statistics.median(column) for column in zip(*found, strict=True))  # type: ignore[return-value]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5000, int(sys.argv[2]) if len(sys.argv) > 2 else 2000)
