"""One filled database and one server for all tests of pages, which only read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

import demo_campaign
import demo_data
import demo_people
import demo_pulls
import web_server
from groundspeed.service.db.engine import Database


@dataclass
class Site:
    db: Database
    url: str
    demo: demo_data.Filled
    http: httpx.Client

    def html(self, path: str) -> str:
        reply = self.http.get(path)
        assert reply.status_code == 200, (path, reply.text[:500])
        return reply.text


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A service over two projects with a history and one without."""
    folder = tmp_path_factory.mktemp("pages")
    db = Database(f"sqlite:///{folder / 'demo.db'}")
    demo_data.create_tables(db)
    demo = demo_data.fill(db)
    long = demo_data.Shape(
        slug="kernels",
        name="Attention kernels with a very long project name indeed",
        commits=30,
        machines=1,
        extra=0,
        seed=3,
        live=False,
    )
    demo_data.fill(db, long)
    demo_data.fill(db, demo_data.Shape(slug="empty", name="Empty", commits=0, machines=0, extra=0, live=False))
    demo_campaign.add(db)
    demo_pulls.add(db)
    demo_people.add(db)
    with web_server.serve(web_server.app(db, folder)) as url, httpx.Client(base_url=url, timeout=60) as http:
        yield Site(db, url, demo, http)
    db.close()


@pytest.fixture(scope="session")
def web(root: Path) -> Path:
    return root / "web"
