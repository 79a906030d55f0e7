"""A real asv history, imported: what asv itself called a regression is found from the first page in three clicks."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, expect

import demo_data
import web_server
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases import importing
from groundspeed.service.usecases.analyse import analyse_dirty

from .conftest import open_tab

pytestmark = pytest.mark.browser


class Geocat(NamedTuple):
    url: str
    regressions: dict[str, str]
    """The commit at which asv found it, by benchmark; from the site that asv itself published in its day."""


@pytest.fixture(scope="module")
def geocat(tmp_path_factory: pytest.TempPathFactory, shared_data: Path, sqlite_template: Path) -> Iterator[Geocat]:
    folder = tmp_path_factory.mktemp("asv")
    with tarfile.open(shared_data / "asv/geocat.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    published = folder / "geocat" / "published"
    commits = json.loads((published / "index.json").read_text())["revision_to_hash"]
    listed = json.loads((published / "regressions.json").read_text())["regressions"]
    theirs = {
        name: commits[str(jump[1])] for name, _path, _params, _index, _last, _best, jumps in listed for jump in jumps
    }
    shutil.copyfile(sqlite_template, folder / "geocat.db")
    db = Database(f"sqlite:///{folder / 'geocat.db'}")
    graph = shared_data / "asv/commits/geocat.tsv.gz"
    options = importing.Options("geocat", (folder / "geocat" / "results",), graph=graph, processes=-1)
    importing.run(db, options, demo_data.NOW)
    analyse_dirty(db, demo_data.NOW)
    with web_server.serve(web_server.app(db, folder)) as url:
        yield Geocat(url, theirs)
    db.close()


def test_what_asv_found_is_three_clicks_away(browser: Browser, geocat: Geocat) -> None:
    """For each: the open regressions of the project, the one at asv's commit, its series: there the change begins."""
    assert len(geocat.regressions) == 10
    context, tab = open_tab(browser, geocat.url)
    page = tab.open("/")
    page.get_by_role("row", name="geocat").locator("a.effect").click()  # 1
    listed = page.url
    for benchmark, sha in geocat.regressions.items():
        page.goto(listed)
        at_commit = page.locator("table.regressions tbody tr").filter(has=page.locator(f'a.commit[href$="{sha}"]'))
        at_commit.first.locator("a.series-link").click()  # 2
        page.locator("a.series-link").filter(has_text=benchmark + " ").first.click()  # 3
        expect(page.get_by_role("heading", level=1)).to_contain_text(benchmark)
        change = page.locator("section", has=page.get_by_role("heading", name="Changes")).locator("tbody tr")
        found = change.filter(has=page.locator(f'td:first-child a.commit[href$="{sha}"]'))
        expect(found.locator(".effect.worse")).to_have_text(re.compile(r"^[+×]"))
    context.close()
    assert not tab.errors


def test_imported_machines_are_no_workers(browser: Browser, geocat: Geocat) -> None:
    context, tab = open_tab(browser, geocat.url)
    page = tab.open("/fleet")
    expect(page.locator("[data-imported] li")).to_contain_text(["import:asv:"])
    expect(page.get_by_text("No machine has registered yet.")).to_be_visible()
    page = tab.open("/projects/geocat/benchmarks?sort=change")
    expect(page.locator(".card").first.locator(".effect")).to_be_visible()
    context.close()
