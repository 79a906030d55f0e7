"""Groundspeed over the history, as a user runs it: the command that imports, then ``groundspeed up`` and requests."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from history import History
from measured import Command, command

PROJECT = "history"
SETTLE_S = 3600.0


class Arrival(NamedTuple):
    """Seconds from sending a result to its being on its series' page, and to the page showing what changed there."""

    acknowledged_s: float
    point_s: float
    verdict_s: float
    verdict: str


def bring_in(history: History, data: Path, project: str = PROJECT) -> Command:
    words = [
        sys.executable, "-m", "groundspeed.cli", "import", str(history.tree), "--project", project,
        "--repo", str(history.repo), "--data", str(data), "--json",
    ]  # fmt: skip
    return command(words, history.folder)


@contextlib.contextmanager
def up(data: Path) -> Iterator[str]:
    """The address of the running service (API, pages and control worker; no benchmark worker)."""
    log = data / "bench.log"
    words = [sys.executable, "-m", "groundspeed.cli", "up", "--no-worker", "--port", "0", "--data", str(data)]
    with log.open("w") as out:
        process = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        yield _address(process, log)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        found = re.search(r"http://[\d.]+:\d+", log.read_text(errors="replace"))
        if found:
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{found[0]}/api/v1/projects", timeout=5).status_code == 200:
                    return found[0]
        time.sleep(0.2)
    raise SystemExit(f"groundspeed up did not start:\n{log.read_text(errors='replace')[-3000:]}")


def query(data: Path, sql: str, *values: Any) -> list[Any]:
    with contextlib.closing(sqlite3.connect(f"file:{data / 'groundspeed.db'}?mode=ro", uri=True, timeout=60)) as db:
        return db.execute(sql, values).fetchall()


def settled(data: Path) -> float:
    """Seconds until every series has been analysed."""
    began = time.monotonic()
    while query(data, "select 1 from seriesmark limit 1"):
        if time.monotonic() - began > SETTLE_S:
            raise SystemExit("the history was not analysed within an hour")
        time.sleep(0.5)
    return time.monotonic() - began


def arrival(history: History, url: str, series: int) -> Arrival:
    """Posts the one new result (half as slow again as the commit before) and watches its series' page."""
    path = f"/projects/{PROJECT}/series/{series}"
    with httpx.Client(base_url=url, timeout=60) as http:
        before = http.get(f"/api/v1{path}").json()
        known = {change["after"]["sha"] for one in before["series"] for change in one["changes"]}
        began = time.perf_counter()
        reply = http.post(
            f"/api/v1/projects/{PROJECT}/results",
            content=history.new.read_bytes(),
            params={"name": history.new.name, "format": "asv"},
        )
        if reply.status_code != 201 or reply.json()["results"] != 1:
            raise SystemExit(f"the new result was not taken in: {reply.status_code} {reply.text[:500]}")
        acknowledged = time.perf_counter() - began
        point = None
        while time.perf_counter() - began < 120:
            page = http.get(path).text
            if point is None and history.newest[:10] in page:
                point = time.perf_counter() - began
            shown = http.get(f"/api/v1{path}").json()["series"][0]["changes"]
            fresh = [change for change in shown if change["after"]["sha"] not in known]
            if fresh and point is not None:
                return Arrival(acknowledged, point, time.perf_counter() - began, fresh[0]["state"])
            time.sleep(0.01)
    raise SystemExit(f"no verdict on the page within two minutes (point shown: {point is not None})")
