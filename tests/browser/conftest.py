"""A real Chromium over a real server. `make test` uses the one it finds, else Debian's package when it may install it."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from sqlmodel import col, select

import demo_campaign
import demo_data
import demo_people
import demo_pulls
import web_server
from groundspeed.service.api import access
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
PATIENCE_MS = 60_000
"""How long a state is waited for: nothing here depends on how busy the machine is."""
expect.set_options(timeout=PATIENCE_MS)
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@lru_cache(maxsize=1)
def chromium() -> str | None:
    """The path of a Chromium; installs Debian's when there is none and this is root."""
    found = _installed()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        with Path(tempfile.gettempdir(), "groundspeed-test-chromium.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes want it; apt-get refuses all but one
            found = _installed() or _install()
    return found


def _installed() -> str | None:
    return os.environ.get("GROUNDSPEED_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


def _install() -> str | None:
    apt = ["apt-get", "-qq", "-o", "Acquire::Retries=5", "-o", "DPkg::Lock::Timeout=120"]
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", "chromium", "fonts-dejavu-core"]):
        subprocess.run([*apt, *command], env=env, check=False, capture_output=True, timeout=280)
    return shutil.which("chromium")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = chromium()
    if path is None:
        message = "no Chromium: install one (apt-get install chromium), or name it in GROUNDSPEED_CHROMIUM"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield started
        started.close()


@dataclass
class Site:
    db: Database
    url: str
    demo: demo_data.Filled
    kernels: demo_data.Filled | None = None
    cycles: int = 0
    """The series of ``kernels`` that counts clock cycles."""
    front: str = ""
    """Address of the same service where people sign in."""
    cookie: str = ""
    """Of an admin who is signed in there."""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[Site]:
    """The service with its built scripts over a believable history."""
    subprocess.run([shutil.which("python") or "python", str(root / "web" / "build.py")], check=True) if not (
        root / "web/dist/manifest.json"
    ).is_file() else None
    folder = tmp_path_factory.mktemp("browser")
    db = Database(f"sqlite:///{folder / 'demo.db'}")
    demo_data.create_tables(db)
    demo = demo_data.fill(db)
    kernels = demo_data.fill(
        db,
        demo_data.Shape(
            slug="kernels",
            name="Attention kernels with a very long project name indeed",
            commits=30,
            machines=1,
            extra=0,
            seed=3,
            live=False,
        ),
    )
    demo_data.fill(db, demo_data.Shape(slug="empty", name="Empty", commits=0, machines=0, extra=0, live=False))
    demo_campaign.add(db)
    demo_pulls.add(db)
    cookie = demo_people.add(db)
    cycles = _count_cycles(db, kernels.project_id)
    with web_server.serve(web_server.app(db, folder)) as url, front_of(db, folder) as front:
        yield Site(db, url, demo, kernels, cycles, front, cookie)
    db.close()


@contextmanager
def front_of(db: Database, folder: Path, now: datetime | None = None) -> Iterator[str]:
    """The address of a service over ``db`` that people sign in to; ``now`` makes its time stand still."""
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    application = web_server.app(db, folder, host="0.0.0.0", public_url=address, **demo_people.SIGN_IN)
    if now is not None:
        application.dependency_overrides[access.now] = lambda: now
    with web_server.serve(application, listener) as url:
        yield url


def _count_cycles(db: Database, project: int) -> int:
    """Gives the first series of step times of a project one that counts the clock's cycles; returns its id."""
    with db.transaction() as session:
        wanted = select(t.Series).where(col(t.Series.project_id) == project, col(t.Series.metric) == "step_time")
        time = session.exec(wanted.order_by(col(t.Series.id))).first()
        assert time
        made = t.Series(
            **time.model_dump(exclude={"id", "fingerprint", "metric", "unit", "kind", "clock", "gate"}),
            fingerprint=f"cycles-{time.id}", metric="device_cycles", unit="1", kind="counter", clock="cycles", gate=False,
        )  # fmt: skip
        session.add(made)
        session.flush()
        for row in session.exec(select(t.Result).where(t.Result.series_id == time.id)).all():
            copied = row.model_dump(exclude={"id", "series_id", "value", "spread"})
            session.add(t.Result(**copied, series_id=made.id, value=row.value * 1.755e9, spread=row.spread * 1.755e9))
        return made.id or 0


@dataclass
class Tab:
    """A page that remembers what went wrong in it."""

    page: Page
    url: str
    errors: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        self.page.goto(self.url + path)
        return self.page


def open_tab(browser: Browser, url: str, **options: Any) -> tuple[BrowserContext, Tab]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
    context.set_default_timeout(PATIENCE_MS)
    tab = Tab(context.new_page(), url)
    tab.page.on("console", lambda message: tab.errors.append(message.text) if message.type == "error" else None)
    tab.page.on("pageerror", lambda error: tab.errors.append(str(error)))
    return context, tab


def sign_in(context: BrowserContext, site: Site) -> None:
    """As the admin of the demonstration, without asking a provider."""
    context.add_cookies([{"name": "groundspeed", "value": site.cookie, "url": site.front}])


@pytest.fixture
def tab(browser: Browser, site: Site) -> Iterator[Tab]:
    """A fresh tab; the test fails when its scripts complained."""
    context, made = open_tab(browser, site.url)
    yield made
    context.close()
    assert not made.errors
