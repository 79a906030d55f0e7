"""What people decide about regressions: ignoring for a while, several at once, owners, and the feed of them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from sqlalchemy import update
from sqlmodel import col

from groundspeed.service.config.model import OwnerSection
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.errors import Conflict, Invalid
from groundspeed.service.pages import feed
from groundspeed.service.repo import Mirrors
from groundspeed.service.usecases import ignoring, owning, regressions, several
from groundspeed.service.usecases.views import findings
from repositories import GitRepo
from slow_history import LATER, confirm, recover, slow_since_commit_20
from world import NOW, World

YEARS = timedelta(days=3650)


@pytest.fixture
def world(sqlite_database: Database) -> World:
    return slow_since_commit_20(sqlite_database)


def test_ignoring_ends_with_a_commit_or_another_environment(world: World) -> None:
    next_one = world.commits(1)[0]
    sha = world.all(t.Revision)[-1].sha
    regressions.edit(world.db, 1, {"ignore_until": sha[:9]}, LATER, actor="ada")
    assert world.all(t.Regression)[0].ignore_until == f"commit {sha}"
    assert ignoring.wake(world.db, LATER) == 0
    world.measure(next_one, time=1.2)
    assert ignoring.wake(world.db, LATER) == 1
    regressions.edit(world.db, 1, {"ignore_until": "environment"}, LATER, actor="ada")
    world.measure(next_one, time=1.2)
    assert ignoring.wake(world.db, LATER) == 0  # the same one
    other = world.add(t.Environment(fingerprint="f" * 64, label="driver 600"))
    with world.db.transaction() as session:
        newest = world.all(t.Result)[-1]
        session.execute(update(t.Result).where(col(t.Result.id) == newest.id).values(environment_id=other))
        came = LATER + timedelta(minutes=1)
        session.execute(update(t.Run).where(col(t.Run.id) == newest.run_id).values(created_at=came))
    assert ignoring.wake(world.db, LATER) == 1
    for named, woken in (("driver 700", 0), ("driver 600", 1)):
        regressions.edit(world.db, 1, {"ignore_until": f"environment {named}"}, LATER, actor="ada")
        assert ignoring.wake(world.db, LATER) == woken, named
    for wrong in ("tomorrow", "2001-01-01", "commit x", "abc"):
        with pytest.raises(Invalid):
            regressions.edit(world.db, 1, {"ignore_until": wrong}, LATER, actor="ada")


def test_several_at_once_say_what_could_not_be_done(world: World) -> None:
    recover(world)
    ids = [row.id for row in world.all(t.Regression)]
    assert len(ids) == 2
    several.act(world.db, ids, "assign", LATER, actor="ada", assignee="bo")
    assert {row.assignee for row in world.all(t.Regression)} == {"bo"}
    regressions.set_state(world.db, ids[0], "fixed", LATER, actor="ada")
    with pytest.raises(Conflict, match="1 were changed, 1 not"):
        several.act(world.db, ids, "accepted", LATER, actor="ada")
    for wrong in ("recovered", "explode", ""):
        with pytest.raises(Invalid):
            several.act(world.db, ids, wrong, LATER, actor="ada")


def test_the_owner_follows_from_the_files_that_changed(tmp_path: Path, sqlite_database: Database) -> None:
    rules = [
        OwnerSection(path="**", owner="all"),
        OwnerSection(path="src/attention/**", owner="ada"),
        OwnerSection(path="*.md", owner=""),
    ]
    assert owning.owner_of(["src/attention/a.py", "src/attention/b.py", "x.py"], rules) == "ada"
    assert owning.owner_of(["x.py", "y.py", "src/attention/b.py"], rules) == "all"
    assert owning.owner_of(["README.md", "docs/a.md"], rules) == ""
    assert owning.owner_of([], rules) == ""


def test_a_regression_gets_its_owner_from_the_repository(tmp_path: Path, sqlite_database: Database) -> None:
    origin = GitRepo(tmp_path / "origin")
    owner = '[[owner]]\npath = "src/**"\nowner = "ada@example.org"\n'
    origin.write("groundspeed.toml", f'[project]\nname = "tiny"\n[[suite]]\nname = "s"\nplugin = "training"\n{owner}')
    base = origin.commit("base")
    origin.write("src/a.py", "slow")
    head = origin.commit("slow")
    world = World(sqlite_database)
    with world.db.transaction() as session:
        session.execute(update(t.Project).values(repo_url=str(tmp_path / "origin"), tip_sha=head))
    before, after = (
        world.add(t.Revision(project_id=world.project, sha=s, position=i)) for i, s in enumerate((base, head))
    )
    id_ = world.add(t.Regression(project_id=world.project, before_revision_id=before, after_revision_id=after))
    world.add(
        t.AuditEntry(
            actor="groundspeed", action="regression.confirmed", subject_type="regression", subject_id=str(id_), at=NOW
        )
    )
    mirrors = Mirrors(tmp_path / "mirrors")
    assert [owning.assign(world.db, mirrors, NOW), owning.assign(world.db, mirrors, NOW)] == [1, 0]
    assert world.all(t.Regression)[0].assignee == "ada@example.org"
    assert [(e.actor, e.action) for e in world.all(t.AuditEntry)][-1] == ("groundspeed", "regression.edit")


def test_the_feed_is_xml_whatever_commits_are_called(world: World) -> None:
    with world.db.transaction() as session:
        session.execute(update(t.Revision).values(title="]]><script>\x00\x0b&'\"", author="\x01<b>"))
        session.execute(update(t.Regression).values(title="a < b & \x08 c"))
    confirm(world)
    body = feed.atom(findings.regression_list(world.db, "tiny", state="all"), "https://perf.example.org")
    root = ET.fromstring(body)
    name = "{http://www.w3.org/2005/Atom}"
    [entry] = root.findall(f"{name}entry")
    assert entry.findtext(f"{name}id") == "https://perf.example.org/projects/tiny/regressions/1"
    assert "<script>" in (entry.findtext(f"{name}summary") or "")
    assert root.findtext(f"{name}updated") == entry.findtext(f"{name}updated")
