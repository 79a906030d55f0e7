"""The static site: complete in itself, and readable from plain files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import demo_data
from groundspeed.service.db.engine import Database
from groundspeed.service.errors import Invalid
from groundspeed.service.pages import site


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Database:
    made = Database(f"sqlite:///{tmp_path_factory.mktemp('site') / 'demo.db'}")
    demo_data.create_tables(made)
    demo_data.fill(made, demo_data.Shape(commits=24, machines=1, extra=0, keep_samples=False))
    demo_data.fill(made, demo_data.Shape(slug="empty", name="Empty", commits=0, machines=0, extra=0, live=False))
    return made


def test_every_link_of_an_export_leads_to_a_file_of_it(db: Database, tmp_path: Path) -> None:
    """No link leaves the folder or points at nothing; the graph's data are in its page."""
    out = tmp_path / "site"
    written = site.export(db, (), out, demo_data.NOW)
    pages = list(out.rglob("index.html"))
    assert len(pages) == written.pages
    assert len(pages) > 24 + 12
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert "<form" not in text
        assert "/api/v1" not in text
        for address in re.findall(r'(?:href|src)="([^"#]+)"', text):
            target = (page.parent / address).resolve()
            assert target.is_file(), (page, address)
            assert target.is_relative_to(out)
    series = (out / "projects/tinygpt/series/1/index.html").read_text(encoding="utf-8")
    assert 'id="data"' in series
    assert "<svg" in series


def test_an_export_replaces_an_earlier_one_and_nothing_else(db: Database, tmp_path: Path) -> None:
    out = tmp_path / "site"
    site.export(db, ("tinygpt",), out, demo_data.NOW)
    (out / "stale.html").write_text("old")
    site.export(db, ("empty",), out, demo_data.NOW)
    assert not (out / "stale.html").exists()
    assert not (out / "projects/tinygpt").exists()
    assert (out / "projects/empty/index.html").is_file()
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years")
    with pytest.raises(Invalid, match="not a site"):
        site.export(db, (), mine, demo_data.NOW)
    assert (mine / "thesis.txt").read_text() == "years"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
