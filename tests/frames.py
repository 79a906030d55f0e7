"""Whether a graph stays smooth: what a frame takes while it is zoomed and moved, by the clock and of the processor."""

from __future__ import annotations

from typing import NamedTuple

from playwright.sync_api import Page

FRAMES = 60
_MOVE = """([frames, kind]) => new Promise(done => {
  const over = document.querySelector('.u-over'), box = over.getBoundingClientRect(), took = [];
  const at = {bubbles: true, cancelable: true, clientX: box.x + box.width * 0.6, clientY: box.y + box.height / 2};
  let last = performance.now(), n = 0;
  const turn = () => {
    const now = performance.now(), back = n % 20 >= 10;
    if (n) took.push(now - last);
    last = now;
    if (n++ >= frames) return done(took);
    over.dispatchEvent(new MouseEvent('mousemove', at));
    over.dispatchEvent(new WheelEvent('wheel', kind === 'zoom' ? {...at, ctrlKey: true, deltaY: back ? 8 : -8} : {...at, deltaX: back ? -30 : 30}));
    requestAnimationFrame(turn);
  };
  requestAnimationFrame(turn);
})"""


class Frames(NamedTuple):
    """Milliseconds from frame to frame, median and 95th percentile, and of the page's main thread for one (mean)."""

    median_ms: float
    p95_ms: float
    cpu_ms: float


def moving(page: Page, kind: str) -> Frames:
    """While the wheel zooms in and out (``zoom``) or moves the graph to and fro (``pan``), a turn of it in every frame."""
    inside = page.context.new_cdp_session(page)
    inside.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent() -> float:
        found = {one["name"]: one["value"] for one in inside.send("Performance.getMetrics")["metrics"]}
        return 1e3 * float(found["TaskDuration"])

    before = spent()
    took = sorted(page.evaluate(_MOVE, [FRAMES, kind]))
    cpu = (spent() - before) / FRAMES
    inside.detach()
    return Frames(round(took[len(took) // 2], 1), round(took[int(0.95 * len(took))], 1), round(cpu, 1))
