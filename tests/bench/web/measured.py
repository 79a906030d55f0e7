"""Time, memory and bytes of what runs: a command, a server's answer, a page in a real Chromium."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin

import httpx
from playwright.sync_api import Browser, CDPSession

TURNS = 15
CONTEXTS = 5
NOTHING = "/api/v1/nothing"
_WRAPPER = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, flush=True)
sys.exit(code)
"""
_PAINT = """() => new Promise((done, fail) => {
  const end = performance.now() + 60000;
  const look = () => {
    const paint = performance.getEntriesByName('first-contentful-paint')[0];
    const moved = performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'));
    if (paint) done([paint.startTime, performance.memory.usedJSHeapSize, moved.reduce((sum, e) => sum + e.transferSize, 0)]);
    else if (performance.now() > end) fail(new Error('never painted'));
    else setTimeout(look, 10);
  };
  requestAnimationFrame(() => setTimeout(look, 50));
})"""
_READY = """([selector, least]) => new Promise((done, fail) => {
  const end = performance.now() + 60000;
  const look = () => {
    if (document.querySelectorAll(selector).length >= least) done(performance.now());
    else if (performance.now() > end) fail(new Error('never ready: ' + selector));
    else setTimeout(look, 4);
  };
  look();
})"""


class Command(NamedTuple):
    wall_s: float
    cpu_s: float
    peak_mb: int


class Served(NamedTuple):
    """From request to the whole answer over loopback (ms, median and best), the server's processor time for one (ms,
    mean), bytes as sent.
    """

    server_ms: float
    server_best_ms: float
    server_cpu_ms: float
    bytes: int


class Shown(NamedTuple):
    """First contentful paint and ready to be used (ms from the start of navigation), the browser's processor time until
    then (ms, all of its processes), heap, bytes moved: medians, and of the times also the best, which a busy machine
    disturbs least.
    """

    paint_ms: float
    paint_best_ms: float
    ready_ms: float
    ready_best_ms: float
    browser_cpu_ms: float
    heap_mb: float
    moved_kb: float


def spent_ms(pid: int) -> float:
    """Processor time of a process and of all it has started, those that have ended too, in steps of 10 ms."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return 0.0
    # Its own, and that of the children it has waited for.
    own = sum(map(int, fields[11:15])) * 1e3 / os.sysconf("SC_CLK_TCK")
    return own + sum(spent_ms(child) for child in children)


def command(words: list[str], folder: Path) -> Command:
    """Wall and CPU seconds and the largest resident set of a command with its children. Ends the run when it fails."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", _WRAPPER, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words[:5])} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Command(time.monotonic() - began, cpu, int(done.stdout.strip().splitlines()[-1]) // 1024)


def server(http: httpx.Client, path: str, pid: int) -> Served:
    """An answer of the server that is ``pid`` with its children, after a first turn."""
    http.get(path).raise_for_status()
    times = []
    before = spent_ms(pid)
    for _ in range(TURNS):
        start = time.perf_counter()
        reply = http.get(path)
        times.append((time.perf_counter() - start) * 1e3)
    spent = (spent_ms(pid) - before) / TURNS
    return Served(statistics.median(times), min(times), spent, reply.num_bytes_downloaded)


def page(browser: Browser, url: str, ready: str, least: int = 1) -> Shown:
    """A page in fresh contexts; ready when ``least`` elements match ``ready``.

    The tab has been at an address of the same server that holds nothing, so that the browser's starting of a process
    is not counted; nothing of the page is in its caches.
    """
    found: list[list[float]] = []
    inside = browser.new_browser_cdp_session()
    for _ in range(CONTEXTS):
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        tab = context.new_page()
        tab.goto(urljoin(url, NOTHING))
        before = _processes(inside)
        tab.goto(url)
        at = tab.evaluate(_READY, [ready, least])
        after = _processes(inside)
        paint, heap, moved = tab.evaluate(_PAINT)
        spent = sum(seconds - before.get(pid, 0.0) for pid, seconds in after.items())
        found.append([paint, at, spent * 1e3, heap / 1e6, moved / 1e3])
        context.close()
    inside.detach()
    paint, ready_at, cpu, heap, moved = ([row[i] for row in found] for i in range(5))
    middle = statistics.median
    return Shown(middle(paint), min(paint), middle(ready_at), min(ready_at), middle(cpu), middle(heap), middle(moved))


def _processes(inside: CDPSession) -> dict[int, float]:
    """Seconds of processor time of each process of a browser."""
    return {one["id"]: one["cpuTime"] for one in inside.send("SystemInfo.getProcessInfo")["processInfo"]}


def as_json(value: Any) -> str:
    return json.dumps(value, indent=2, default=lambda item: item._asdict())
