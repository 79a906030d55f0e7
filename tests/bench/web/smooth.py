"""Whether a graph stays smooth while it is zoomed and moved: see ``frames.py``, which the browser tests use too."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Browser

import frames


def moved(browser: Browser, url: str) -> dict[str, Any]:
    """What a frame takes while the wheel zooms in and out, and while it moves the graph."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    tab.goto(url)
    tab.wait_for_selector("[data-graph][data-ready]")
    found = {kind: frames.moving(tab, kind)._asdict() for kind in ("zoom", "pan")}
    context.close()
    return found


def told(found: dict[str, Any]) -> str:
    return "; ".join(
        f"{kind} {row['median_ms']:.1f} ms a frame (95 %: {row['p95_ms']:.1f}), {row['cpu_ms']:.1f} ms CPU"
        for kind, row in found.items()
    )
