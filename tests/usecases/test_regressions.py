"""Triage: allowed moves only, each with its audit entry; what people put together stays together."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.errors import Conflict, Invalid, NotFound
from groundspeed.service.usecases import regressions
from groundspeed.service.usecases.analyse import analyse
from groundspeed.service.usecases.triage import BY_MACHINE_ALONE, PEOPLE, TRANSITIONS
from world import NOW, World

LATER = NOW + timedelta(hours=1)


@pytest.fixture
def world(database: Database) -> World:
    """Memory grows at commit 9 and time at commit 20."""
    world = World(database)
    world.commits(30)
    for x, revision in enumerate(world.revisions):
        wobble = 1 + 0.001 * (x % 3)
        world.measure(revision, memory=(1.3e9 if x >= 9 else 1e9) * wobble, time=(1.2 if x >= 20 else 1.0) * wobble)
    analyse(database, [row.id for row in world.all(t.Series)], LATER)
    assert len(world.all(t.Regression)) == 2
    return world


def audit(world: World) -> list[tuple[str, str, dict]]:
    return [(e.actor, e.action, e.data) for e in world.all(t.AuditEntry) if e.action != "regression.found"]


def test_a_state_is_changed_with_who_and_why(world: World) -> None:
    regressions.set_state(world.db, 1, "acknowledged", LATER, actor="ada", why="looking")
    regressions.set_state(world.db, 1, "acknowledged", LATER, actor="bo")
    assert world.all(t.Regression)[0].state == "acknowledged"
    assert audit(world) == [("ada", "regression.state", {"from": "new", "to": "acknowledged", "why": "looking"})]


def test_states_that_may_not_follow_are_refused_with_those_that_may(world: World) -> None:
    regressions.set_state(world.db, 1, "fixed", LATER, actor="ada")
    with pytest.raises(
        Conflict, match=r"is fixed: it cannot become accepted\. It can become: new, acknowledged, in-progress"
    ):
        regressions.set_state(world.db, 1, "accepted", LATER, actor="ada")
    for state in (*BY_MACHINE_ALONE, "gone"):
        with pytest.raises(Invalid, match="Use one of: new, ack"):
            regressions.set_state(world.db, 1, state, LATER, actor="ada")
    with pytest.raises(NotFound, match="no regression 99"):
        regressions.set_state(world.db, 99, "new", LATER, actor="ada")
    assert world.all(t.Regression)[0].state == "fixed"


def test_every_state_is_in_the_table_and_in_the_docs(root: Path) -> None:
    assert set(TRANSITIONS) == {*PEOPLE, *BY_MACHINE_ALONE}
    text = (root / "docs/triage.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z-]+) \| ([a-z, -]+) \|$", text, re.MULTILINE)
    assert {name: tuple(to.split(", ")) for name, to in rows if name != "from"} == TRANSITIONS


def test_owner_note_link_and_patience_are_edited_and_audited(world: World) -> None:
    regressions.edit(
        world.db,
        1,
        {"assignee": " bo ", "note": "seen", "link": "https://x.y/1", "ignore_until": "2099-01-31"},
        LATER,
        actor="ada",
    )
    regressions.edit(world.db, 1, {"assignee": "bo"}, LATER, actor="ada")
    row = world.all(t.Regression)[0]
    assert (row.assignee, row.note, row.link, row.ignore_until) == ("bo", "seen", "https://x.y/1", "2099-01-31")
    [(actor, action, data)] = audit(world)
    assert (actor, action, data["to"]["assignee"], data["from"]["assignee"]) == ("ada", "regression.edit", "bo", "")
    regressions.edit(world.db, 1, {"note": ""}, LATER, actor="ada")
    assert world.all(t.Regression)[0].note == ""


@pytest.mark.parametrize("link", ["javascript:alert(1)", "ftp://x", "x"])
def test_a_link_that_is_none_is_refused(sqlite_database: Database, link: str) -> None:
    with pytest.raises(Invalid, match="is no link"):
        regressions.edit(sqlite_database, 1, {"link": link}, LATER, actor="ada")


def test_a_field_that_is_none_is_refused(sqlite_database: Database) -> None:
    with pytest.raises(Invalid, match=r"no field 'state'\. Use: assignee"):
        regressions.edit(sqlite_database, 1, {"state": "new"}, LATER, actor="ada")


def test_a_note_that_is_too_long_is_refused(sqlite_database: Database) -> None:
    with pytest.raises(Invalid, match="Shorten it to 10000"):
        regressions.edit(sqlite_database, 1, {"note": "x" * 10_001}, LATER, actor="ada")


def test_a_merge_holds_whatever_is_recomputed(world: World) -> None:
    first, second = world.all(t.Regression)
    regressions.merge(world.db, [second.id], first.id, LATER, actor="ada")
    analyse(world.db, [row.id for row in world.all(t.Series)], LATER)
    target, source = sorted(world.all(t.Regression), key=lambda row: row.id != first.id)
    assert (source.state, source.merged_into_id) == ("merged", target.id)
    assert {change.regression_id for change in world.all(t.ChangePoint)} == {target.id}
    assert "and 1 more" in target.title
    assert ("ada", "regression.merge", {"merged": [second.id]}) in audit(world)
    with pytest.raises(Conflict, match="merged already"):
        regressions.merge(world.db, [second.id], first.id, LATER, actor="ada")


def test_a_merge_across_projects_or_with_itself_is_refused(world: World) -> None:
    other = world.add(t.Project(slug="o", name="o", repo_url="r"))
    foreign = world.add(t.Regression(project_id=other))
    with pytest.raises(Conflict, match="another project's"):
        regressions.merge(world.db, [foreign], 1, LATER, actor="ada")
    with pytest.raises(Invalid, match="nothing to merge"):
        regressions.merge(world.db, [1], 1, LATER, actor="ada")


def test_a_split_holds_whatever_is_recomputed_and_keeps_the_triage(world: World) -> None:
    regressions.merge(world.db, [2], 1, LATER, actor="ada")
    regressions.edit(world.db, 1, {"assignee": "bo"}, LATER, actor="ada")
    regressions.set_state(world.db, 1, "acknowledged", LATER, actor="ada")
    changes = world.all(t.ChangePoint)
    new = regressions.split(world.db, 1, [changes[1].id], LATER, actor="ada")
    analyse(world.db, [row.id for row in world.all(t.Series)], LATER)
    assert [change.regression_id for change in world.all(t.ChangePoint)] == [1, new]
    row = next(row for row in world.all(t.Regression) if row.id == new)
    assert (row.state, row.assignee) == ("acknowledged", "bo")
    assert "more" not in row.title
    assert row.after_revision_id == changes[1].after_revision_id


def test_a_split_of_all_none_or_strange_change_points_is_refused(world: World) -> None:
    first, second = world.all(t.ChangePoint)
    for ids, error in (([], Invalid), ([first.id], Invalid), ([second.id], NotFound)):
        with pytest.raises(error):
            regressions.split(world.db, first.regression_id, ids, LATER, actor="ada")
