"""Whether a graph stays smooth: the time from frame to frame while it is zoomed and moved."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Browser

FRAMES = 60
_ZOOM = """frames => new Promise(done => {
  const over = document.querySelector('.u-over'), box = over.getBoundingClientRect(), took = [];
  let last = performance.now(), n = 0;
  const turn = () => {
    const now = performance.now();
    if (n) took.push(now - last);
    last = now;
    if (n++ >= frames) return done(took);
    const init = {bubbles: true, cancelable: true, ctrlKey: true, deltaY: n % 20 < 10 ? -8 : 8, clientX: box.x + box.width * 0.6, clientY: box.y + box.height / 2};
    over.dispatchEvent(new MouseEvent('mousemove', init));
    over.dispatchEvent(new WheelEvent('wheel', init));
    requestAnimationFrame(turn);
  };
  requestAnimationFrame(turn);
})"""


def zooming(browser: Browser, url: str) -> dict[str, Any]:
    """Milliseconds between frames, median and 95th percentile, while the wheel zooms in and out."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    tab.goto(url)
    tab.wait_for_selector("[data-graph][data-ready]")
    took = sorted(tab.evaluate(_ZOOM, FRAMES))
    context.close()
    return {"median_ms": round(took[len(took) // 2], 1), "p95_ms": round(took[int(0.95 * len(took))], 1)}
