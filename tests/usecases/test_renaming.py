"""A benchmark that was renamed goes on: one history, one analysis, whatever is measured under the old name later."""

from __future__ import annotations

from datetime import timedelta

import pytest

from groundspeed.service.config import checks
from groundspeed.service.config.model import ProjectConfig
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases import naming, renaming
from groundspeed.service.usecases.analyse import analyse_dirty
from groundspeed.service.usecases.views import graph, grid
from groundspeed.service.usecases.views.revision import revision_page
from world import NOW, World, run, samples, sha

LATER = NOW + timedelta(hours=1)


def history(database: Database, rule: dict[str, str]) -> World:
    """Twenty commits, slower from the fifth on; the last eight were measured under the new name."""
    world = World(database, config={"rename": [rule]})
    for x, revision in enumerate(world.commits(20)):
        level = (1.2 if x >= 5 else 1.0) + 0.001 * (x * 7 % 5)
        name, suite = ("few", "training") if x >= 12 else ("small", "train")
        if rule.get("suite"):
            attempt = world.attempt(world.job(revision))
            world.report(attempt, run(samples=[samples("time", level, params={"benchmark": name})]))
        else:
            world.measure(revision, suite=suite, time=level)
    return world


RULES = [{"before": "train", "after": "training"}, {"suite": "train", "before": "small", "after": "few"}]


@pytest.mark.parametrize("rule", RULES, ids=["suite", "inside"])
def test_the_old_series_goes_on_as_the_new(database: Database, rule: dict[str, str]) -> None:
    world = history(database, rule)
    analyse_dirty(world.db, LATER)
    (change,) = world.all(t.ChangePoint)
    seen = [revision_page(world.db, "tiny", sha(f"True-{x}")).renamed for x in (11, 12, 13)]
    assert [[(one.before, one.after) for one in found] for found in seen] == [[], [(rule["before"], rule["after"])], []]
    assert renaming.carry_over(world.db, world.request, LATER) == 1
    assert renaming.carry_over(world.db, world.request, LATER) == 0, "there is nothing new to carry over"
    old, new = world.all(t.Series)
    assert (old.continued_by_id, new.continued_by_id) == (new.id, None)
    assert {one.series_id for one in world.all(t.Result)} == {new.id}
    analyse_dirty(world.db, LATER)
    (after,) = world.all(t.ChangePoint, t.ChangePoint.state != "withdrawn")
    assert (after.id, after.series_id) == (change.id, new.id), "what was shown keeps its identity"
    assert len(world.all(t.AuditEntry, t.AuditEntry.action == "series.renamed")) == 1
    assert [card.series.id for card in grid.grid(world.db, "tiny", grid.GridQuery()).cards] == [new.id]


def test_what_comes_later_follows_and_what_is_reported_under_both_names_stays(sqlite_database: Database) -> None:
    world = history(sqlite_database, RULES[1])
    renaming.carry_over(world.db, world.request, LATER)
    world.report(
        world.attempt(world.job(world.revisions[3])),
        run(samples=[samples("time", 1.0, params={"benchmark": "small"})]),
    )
    both = [samples("time", 1.0, params={"benchmark": name}) for name in ("small", "few")]
    world.report(world.attempt(world.job(world.revisions[4])), run(samples=both))
    assert renaming.carry_over(world.db, world.request, LATER) == 1
    old, new = world.all(t.Series)
    assert [one.series_id for one in world.all(t.Result)].count(old.id) == 1
    assert len(world.all(t.Result, t.Result.series_id == new.id)) == 22
    assert renaming.carry_over(world.db, world.request, LATER) == 0


def test_a_rename_that_is_taken_back(sqlite_database: Database) -> None:
    """By an entry the other way round, or by the old name alone; an older request that is planned again says nothing."""
    world = history(sqlite_database, RULES[0])
    renaming.carry_over(world.db, world.request, LATER)
    old, new = world.all(t.Series)

    def listed() -> list[int]:
        return sorted(card.series.id for card in grid.grid(world.db, "tiny", grid.GridQuery()).cards)

    def shown(series: int) -> list[tuple[int, int]]:
        drawn = graph.graph(world.db, "tiny", graph.GraphQuery((series,))).series
        return [(one.series.id, one.total) for one in drawn]

    assert shown(old.id) == shown(new.id) == [(new.id, 20)], "its address leads to what it goes on as"
    with world.db.read() as session:
        assert [naming.find_series(session, name).id for name in ("train/time", "training/time")] == [new.id, new.id]
    world.measure(world.revisions[19], suite="train", time=1.2)
    analyse_dirty(world.db, LATER)
    assert listed() == [old.id, new.id], "what came under the old name is seen"
    assert shown(old.id) == [(old.id, 1)]
    back = {"rename": [{"before": "training", "after": "train"}]}
    request = t.Request(
        project_id=world.project, kind="push", idempotency_key="2", state="running", config=back
    )  # fmt: skip
    assert renaming.carry_over(world.db, world.add(request), LATER) == 1
    analyse_dirty(world.db, LATER)
    assert renaming.carry_over(world.db, world.request, LATER) == 0
    assert listed() == [old.id]
    assert shown(old.id) == shown(new.id) == [(old.id, 20)]


def test_only_what_names_a_benchmark_is_renamed(sqlite_database: Database) -> None:
    """Another parameter may have the same word for a value."""
    world = World(sqlite_database, config={"rename": [RULES[1]]})
    for revision, mode in zip(world.commits(2), ("small", "few"), strict=True):
        one = samples("time", 1.0, params={"benchmark": "other", "mode": mode})
        world.report(world.attempt(world.job(revision)), run(samples=[one]))
    assert renaming.carry_over(world.db, world.request, LATER) == 0


def test_another_version_or_unit_is_another_series(sqlite_database: Database) -> None:
    world = World(sqlite_database, config={"rename": [RULES[0]]})
    before, after = world.commits(2)
    world.measure(before, suite="train", time=1.0, rate=5.0)
    attempt = world.attempt(world.job(after, suite="training"))
    world.report(attempt, run(plugin_version="2", samples=[samples("time", 1.0)]))
    assert renaming.carry_over(world.db, world.request, LATER) == 0
    with world.db.transaction() as session:
        session.get_one(t.Request, world.request).kind = "pull_request"
    assert renaming.carry_over(world.db, world.request, LATER) == 0


@pytest.mark.parametrize(
    ("renames", "says"),
    [
        ([{"before": "train", "after": "x"}], "suite 'train' is still there"),
        ([{"before": "a", "after": "b"}, {"before": "a", "after": "c"}], "can have one other name"),
        ([{"before": "a", "after": "b"}, {"before": "b", "after": "c"}], "'b' was renamed as well"),
        ([{"suite": "trian", "before": "a", "after": "b"}], "no suite 'trian'. Did you mean 'train'?"),
    ],
)
def test_a_rename_that_cannot_be_is_named(renames: list[dict[str, str]], says: str) -> None:
    suite = [{"name": "train", "plugin": "training"}]
    config = ProjectConfig.model_validate({"project": {"name": "x"}, "suite": suite, "rename": renames})
    assert any(says in mistake.message for mistake in checks.mistakes(config))
