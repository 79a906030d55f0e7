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
from measured import Command, command, spent_ms

import demo_long
from groundspeed.service.db.engine import Database

PROJECT = "history"
SETTLE_S = 3600.0


class Arrival(NamedTuple):
    """Seconds from sending a result to the service's word that it has it, to its being on its series' page, and to the
    page saying what changed there; what it says; processor seconds of the service until then, with the pages that were
    asked for meanwhile.
    """

    acknowledged_s: float
    point_s: float
    verdict_s: float
    verdict: str
    cpu_s: float


class Service(NamedTuple):
    """A running service: where, and the process that started it."""

    url: str
    pid: int


def bring_in(history: History, data: Path, project: str = PROJECT) -> Command:
    words = [
        sys.executable, "-m", "groundspeed.cli", "import", str(history.tree), "--project", project,
        "--repo", str(history.repo), "--data", str(data), "--json", "--no-analyse",
    ]  # fmt: skip
    return command(words, history.folder)


def put_long(data: Path) -> None:
    """Beside what was imported, a project with a series of very many points."""
    db = Database(f"sqlite:///{data / 'groundspeed.db'}")
    demo_long.fill(db)
    db.close()


@contextlib.contextmanager
def up(data: Path) -> Iterator[Service]:
    """The running service (API, pages and control worker; no benchmark worker)."""
    log = data / "bench.log"
    words = [sys.executable, "-m", "groundspeed.cli", "up", "--no-worker", "--port", "0", "--data", str(data)]
    with log.open("w") as out:
        process = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        yield Service(_address(process, log), process.pid)
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


def arrival(history: History, service: Service, benchmark: int, series: int) -> Arrival:
    """Posts a new result (half as slow again as the commit before) and loads its series' page until it tells of it."""
    page, file = f"/projects/{PROJECT}/series/{series}", history.new[benchmark]
    with httpx.Client(base_url=service.url, timeout=60) as http:
        if _says(http.get(page).text, history.newest) != (False, ""):
            raise SystemExit(f"{page} knows the new result before it has come")
        spent, began = spent_ms(service.pid), time.perf_counter()
        where = {"name": file.name, "format": "asv"}
        reply = http.post(f"/api/v1/projects/{PROJECT}/results", content=file.read_bytes(), params=where)
        if reply.status_code != 201 or reply.json()["results"] != 1:
            raise SystemExit(f"the new result was not taken in: {reply.status_code} {reply.text[:500]}")
        acknowledged = time.perf_counter() - began
        point = None
        while time.perf_counter() - began < 120:
            there, verdict = _says(http.get(page).text, history.newest)
            at = time.perf_counter() - began
            point = at if point is None and there else point
            if point is not None and verdict:
                return Arrival(acknowledged, point, at, verdict, (spent_ms(service.pid) - spent) / 1e3)
            time.sleep(0.005)
    raise SystemExit(f"no verdict on the page within two minutes (point shown: {point is not None})")


def _says(page: str, sha: str) -> tuple[bool, str]:
    """Whether a series' page has a point at a commit, and the state of the change that it names there, if any."""
    changes, _, points = page.partition("<h2>Points")
    row = re.search(rf"<tr><td><a[^>]*/commits/{sha}.*?</tr>", changes.partition("<h2>Changes")[2], re.DOTALL)
    state = re.search(r'class="badge (provisional|confirmed)"', row[0]) if row else None
    return f"/commits/{sha}" in points, state[1] if state else ""
