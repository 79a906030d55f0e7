"""A site of files that any static host serves: the same pages, with links between those that are there."""

from __future__ import annotations

import html
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath

from groundspeed.service.db.engine import Database
from groundspeed.service.errors import Invalid
from groundspeed.service.pages import render
from groundspeed.service.pages.assets import web_root
from groundspeed.service.usecases.views import findings, graph, grid, overview, revision
from groundspeed.service.wire.views import View

MARK = ".groundspeed-site"
EVERYTHING = 10**6
_LINK = re.compile(r'\b(href|src)="(/[^"]*)"')
_PAGE = re.compile(r"^/(|projects/[^/]+(/(benchmarks|regressions(/\d+)?|series/\d+|commits/[0-9a-f]{40}))?)$")


@dataclass(frozen=True, slots=True)
class Written:
    """What an export wrote."""

    pages: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class _Page:
    path: str
    template: str
    model: View


def export(db: Database, slugs: tuple[str, ...], out: Path, now: datetime) -> Written:
    """Write the site of some projects (none named: of all) into ``out``, in place of an earlier one.

    Raises Invalid when ``out`` holds something else, NotFound for an unknown project. What stood there stays until
    the new site is complete.
    """
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / MARK).is_file())):
        raise Invalid(f"{out} holds something that is not a site of Groundspeed.", "Name an empty or a new folder.")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as folder:
        new = Path(folder) / "site"
        shutil.copytree(web_root() / "dist", new / "assets", ignore=shutil.ignore_patterns("*.json", "*.gz"))
        (new / MARK).write_text("1\n", encoding="utf-8")
        count = sum(_write(new, page) for page in _pages(db, slugs, now))
        size = sum(path.stat().st_size for path in new.rglob("*") if path.is_file())
        if out.exists():
            out.rename(Path(folder) / "old")
        new.rename(out)
    return Written(count, size)


def _pages(db: Database, slugs: tuple[str, ...], now: datetime) -> Iterator[_Page]:
    listed = overview.project_list(db, now)
    every = tuple(card.project.slug for card in listed.projects)
    chosen = slugs or every
    cards = tuple(card for card in listed.projects if card.project.slug in chosen)
    yield _Page("/", "projects.html", listed.model_copy(update={"projects": cards, "nodes": ()}))
    for slug in chosen:
        yield from _project(db, slug, now)


def _project(db: Database, slug: str, now: datetime) -> Iterator[_Page]:
    base = f"/projects/{slug}"
    front = overview.overview(db, slug, now).model_copy(update={"nodes": (), "activity": ()})
    yield _Page(base, "overview.html", front)
    cards = grid.grid(db, slug, grid.GridQuery(limit=EVERYTHING))
    yield _Page(f"{base}/benchmarks", "grid.html", cards)
    found = findings.regression_list(db, slug, kind="all", state="all", limit=EVERYTHING)
    yield _Page(f"{base}/regressions", "regressions.html", found)
    commits = {row.revision.sha: None for row in front.revisions}
    for row in found.rows:
        detail = findings.regression_detail(db, slug, row.id)
        yield _Page(f"{base}/regressions/{row.id}", "regression.html", detail)
        commits |= {suspect.sha: None for suspect in detail.suspects}
    for card in cards.cards:
        shown = graph.graph(db, slug, graph.GraphQuery((card.series.id,)))
        yield _Page(f"{base}/series/{card.series.id}", "graph.html", shown)
        commits |= dict.fromkeys(shown.revisions.sha)
    for sha in commits:
        yield _Page(f"{base}/commits/{sha}", "commit.html", revision.revision_page(db, slug, sha))


def _write(root: Path, page: _Page) -> int:
    text = render.render(page.template, page.model, path=page.path, static=True)
    target = root / page.path.lstrip("/") / "index.html"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(_LINK.sub(lambda m: _relative(page.path, m[1], m[2]), text), encoding="utf-8")
    return 1


def _relative(here: str, attribute: str, address: str) -> str:
    """An address as it is reached from ``here``; what the site does not hold is no link."""
    path = html.unescape(address).partition("?")[0]
    if path.startswith("/assets/"):
        target = PurePosixPath(path.lstrip("/"))
    elif _PAGE.match(path) and "?" not in address:
        target = PurePosixPath(path.lstrip("/")) / "index.html"
    else:
        return ""
    return f'{attribute}="{html.escape(os.path.relpath(target, here.lstrip("/") or "."), quote=True)}"'
