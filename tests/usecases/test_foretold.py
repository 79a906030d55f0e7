"""A regression that was accepted on its pull request alerts nobody when it comes back as a change point."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from sqlalchemy import update

from groundspeed.service.db import forge_tables as f
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases.analyse import analyse_dirty
from world import NOW, World, sha

LATER = NOW + timedelta(hours=1)
HEAD = sha("False-99")


def accepted(world: World, *, merged: bool = True, ratio: float = 1.2, metric: str = "time") -> None:
    """Pull request 7 with a head that its gate found slower, accepted by ada."""
    repository = world.add(f.ForgeRepository(forge_id=1, full_name="a/b", project_id=world.project))
    world.add(
        f.PullRequest(
            repository_id=repository, number=7, merged=merged, state="closed", head_sha=HEAD, accepted_sha=HEAD,
            accepted_by="ada", accepted_reason="the new sampler does more work",
        )
    )  # fmt: skip
    head = world.add(t.Revision(project_id=world.project, sha=HEAD, committed_at=NOW, title="Sampler"))
    series = next(row for row in world.all(t.Series) if row.metric == metric)
    world.add(
        t.Verdict(
            job_id=1, series_id=series.id, base_revision_id=world.revisions[0], head_revision_id=head,
            answer="regressed" if ratio > 1 else "improved", ratio=ratio,
        )
    )  # fmt: skip


def history(world: World, start: int, end: int, at: int = 20, ratio: float = 1.2) -> None:
    rng = np.random.default_rng(start)
    for x in range(start, end):
        world.measure(
            world.revisions[x], time=(ratio if x >= at else 1.0) * float(np.exp(0.003 * rng.standard_normal()))
        )


@pytest.fixture
def world(sqlite_database: Database) -> World:
    """Nineteen commits are measured; the twentieth will bring pull request 7."""
    world = World(sqlite_database)
    world.commits(30)
    history(world, 0, 19)
    analyse_dirty(world.db, LATER)
    return world


@pytest.mark.parametrize(
    "merge",
    [{"parents": [sha("x"), HEAD]}, {"title": "Sampler (#7)"}, {"sha": HEAD}],
    ids=["merge", "squash", "forward"],
)
def test_the_change_point_of_an_accepted_pull_request_starts_out_accepted(
    world: World, merge: dict[str, object]
) -> None:
    accepted(world)
    with world.db.transaction() as session:
        if "sha" in merge:  # the very head is on the branch: what the gate measured is that commit
            session.execute(update(t.Verdict).values(head_revision_id=world.revisions[20]))
            session.execute(update(t.Revision).where(t.Revision.sha == HEAD).values(sha=sha("other")))
        session.execute(update(t.Revision).where(t.Revision.id == world.revisions[20]).values(**merge))
    history(world, 19, 30)
    analyse_dirty(world.db, LATER)
    [regression] = world.all(t.Regression)
    assert (regression.state, regression.note) == ("accepted", "the new sampler does more work")
    assert regression.notified_at is not None
    [change] = world.all(t.ChangePoint)
    assert change.detail["foretold"]["pull"] == 7
    moves = [entry.data for entry in world.all(t.AuditEntry) if entry.action == "regression.state"]
    assert [(m["from"], m["to"]) for m in moves] == [("new", "accepted")]
    assert "pull request #7" in moves[0]["why"]
    audits = len(world.all(t.AuditEntry))
    world.measure(world.revisions[29], time=1.2)
    analyse_dirty(world.db, LATER)
    assert (len(world.all(t.AuditEntry)), len(world.all(t.Regression))) == (audits, 1)


@pytest.mark.parametrize(
    ("changes", "ratio", "title"),
    [
        ({"merged": False}, 1.2, "Sampler (#7)"),
        ({}, 1.9, "Sampler (#7)"),
        ({"ratio": 0.8}, 1.2, "Sampler (#7)"),
        ({}, 1.2, "Sampler (#17)"),
    ],
    ids=["not merged", "much larger", "the other way", "another pull request"],
)
def test_what_was_not_announced_alerts(world: World, changes: dict[str, float], ratio: float, title: str) -> None:
    accepted(world, **changes)  # type: ignore[arg-type]
    with world.db.transaction() as session:
        session.execute(update(t.Revision).where(t.Revision.id == world.revisions[20]).values(title=title))
    history(world, 19, 30, ratio=ratio)
    analyse_dirty(world.db, LATER)
    assert [row.state for row in world.all(t.Regression)] == ["new"]
    assert world.all(t.Regression)[0].notified_at is None


def test_a_regression_with_a_member_that_nobody_announced_alerts(world: World) -> None:
    accepted(world)
    with world.db.transaction() as session:
        session.execute(update(t.Revision).where(t.Revision.id == world.revisions[20]).values(title="Sampler (#7)"))
    rng = np.random.default_rng(2)
    for x in range(30):
        slow = 1.2 if x >= 20 else 1.0
        noise = np.exp(0.003 * rng.standard_normal(2))
        world.measure(world.revisions[x], memory=float(1e9 * slow * noise[1]), time=float(slow * noise[0]))
    analyse_dirty(world.db, LATER)
    [regression] = world.all(t.Regression)
    assert len(world.all(t.ChangePoint)) == 2
    assert regression.state == "new"
