"""What results say is found on arrival, stored once, keeps its identity, and is one regression a cause."""

from __future__ import annotations

import math
from datetime import timedelta

import numpy as np
import pytest
from sqlalchemy import update
from sqlmodel import col

from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.domain.detect import detect
from groundspeed.service.domain.plan import suspects
from groundspeed.service.usecases import series as stored
from groundspeed.service.usecases.analyse import analyse, analyse_dirty
from histories import LATER, history, replicate, spans
from world import DRIVER, NOW, World, run, samples


@pytest.fixture
def world(database: Database) -> World:
    return World(database)


def test_a_step_becomes_a_change_point_and_a_regression(world: World) -> None:
    history(world, time=(1.0, 20, 1.2))
    assert analyse_dirty(world.db, LATER) == 1
    [change] = world.all(t.ChangePoint)
    assert change.ratio_low < 1.2 < change.ratio_high
    assert change.ratio == pytest.approx(1.2, rel=0.01)
    assert change.kind == "regression"
    assert change.detail["level_before"] == pytest.approx(1.0, rel=0.01)
    assert spans(world) == [("regression", "new", 19, 20)]
    assert world.all(t.Regression)[0].title.startswith("train: time +")
    [series] = world.all(t.Series)
    assert 0.001 < series.noise["point"] < 0.01
    assert series.detector_version
    assert series.last_result_at is not None
    assert [entry.action for entry in world.all(t.AuditEntry)] == ["regression.found"]


def test_a_quiet_series_has_no_finding(world: World) -> None:
    history(world, time=(1.0, 0, 1.0))
    analyse_dirty(world.db, LATER)
    assert world.all(t.ChangePoint) == world.all(t.Regression) == []


def test_marks_are_taken_and_a_second_look_changes_nothing(world: World) -> None:
    history(world, time=(1.0, 20, 1.2))
    analyse_dirty(world.db, LATER)
    assert world.all(t.SeriesMark) == []
    assert analyse_dirty(world.db, LATER) == 0
    before = [(row.id, row.updated_at) for row in world.all(t.ChangePoint) + world.all(t.Regression)]
    audits = len(world.all(t.AuditEntry))
    analyse(world.db, [world.all(t.Series)[0].id, 999], LATER + timedelta(days=1))
    assert [(row.id, row.updated_at) for row in world.all(t.ChangePoint) + world.all(t.Regression)] == before
    assert len(world.all(t.AuditEntry)) == audits


def test_metrics_that_move_at_one_commit_are_one_regression_and_an_improvement_is_another(world: World) -> None:
    history(world, time=(1.0, 20, 1.2), memory=(1e9, 20, 1.3))
    history(world, suite="infer", time=(2.0, 12, 0.8), rate=(5.0, 12, 1.25))
    analyse_dirty(world.db, LATER)
    assert sorted(spans(world)) == [("improvement", "new", 11, 12), ("regression", "new", 19, 20)]
    members = {row.id: [] for row in world.all(t.Regression)}
    for change in world.all(t.ChangePoint):
        members[change.regression_id].append(change.id)
    assert sorted(map(len, members.values())) == [2, 2]
    titles = [row.title for row in world.all(t.Regression)]
    assert any(title.startswith("train: memory +") and title.endswith("and 1 more") for title in titles)


def test_a_metric_that_is_not_gated_is_charted_and_makes_no_regression(world: World) -> None:
    world.commits(30)
    for x in range(30):
        attempt = world.attempt(world.job(world.revisions[x]))
        world.report(attempt, run(samples=[samples("time", 1.0 + 0.001 * (x % 3) + (x > 15), gate=False)]))
    world.db.known.clear()
    analyse_dirty(world.db, LATER)
    assert len(world.all(t.ChangePoint)) == 1
    assert world.all(t.Regression) == []


def test_a_provisional_change_asks_for_follow_ups_once_and_replicates_confirm_the_same_row(world: World) -> None:
    history(world, commits=22, time=(1.0, 20, 1.2))
    analyse_dirty(world.db, LATER)
    [change] = world.all(t.ChangePoint)
    assert change.state == "provisional"
    asked = [m.payload for m in world.all(t.Outbox) if m.topic == "groundspeed.control.followup"]
    assert asked == [{"project_id": world.project}]
    replicate(world, 19, 3)
    replicate(world, 20, 3, level=1.2)
    analyse_dirty(world.db, LATER)
    [confirmed] = world.all(t.ChangePoint)
    assert (confirmed.id, confirmed.state, confirmed.regression_id) == (change.id, "confirmed", change.regression_id)


def test_what_was_confirmed_and_triaged_keeps_its_row_when_history_moves_it_by_a_commit(world: World) -> None:
    world.commits(40)
    rng = np.random.default_rng(3)
    level = lambda x: (1.3 if x >= 20 else 1.0) * float(np.exp(0.003 * rng.standard_normal()))  # noqa: E731
    for x in [x for x in range(40) if x not in {19, 20}]:
        world.measure(world.revisions[x], time=level(x))
    analyse_dirty(world.db, LATER)
    assert spans(world) == [("regression", "new", 18, 21)]
    with world.db.transaction() as session:
        regression = session.get_one(t.Regression, 1)
        regression.state, regression.assignee, regression.notified_at = "acknowledged", "ada", NOW
    for x in (19, 20):
        world.measure(world.revisions[x], time=level(x))
    analyse_dirty(world.db, LATER)
    assert spans(world) == [("regression", "acknowledged", 19, 20)]
    assert world.all(t.Regression)[0].notified_at == NOW
    assert len(world.all(t.ChangePoint)) == 1


def test_a_change_that_more_data_refutes_is_withdrawn_and_comes_back_as_itself(world: World) -> None:
    history(world, commits=21, time=(1.0, 20, 1.2))
    analyse_dirty(world.db, LATER)
    assert [row.state for row in world.all(t.ChangePoint)] == ["provisional"]
    replicate(world, 20, 7)
    analyse_dirty(world.db, LATER)
    [change] = world.all(t.ChangePoint)
    assert change.state == "withdrawn"
    assert spans(world)[0][:2] == ("regression", "withdrawn")
    with world.db.transaction() as session:
        session.execute(update(t.Result).where(col(t.Result.revision_id) == world.revisions[20]).values(value=1.2))
    analyse(world.db, [change.series_id], LATER)
    [again] = world.all(t.ChangePoint)
    assert (again.id, again.state != "withdrawn") == (change.id, True)
    assert spans(world)[0][:2] == ("regression", "new")


@pytest.mark.parametrize("together", [False, True], ids=["as they come", "together"])
def test_bisection_that_parts_two_causes_parts_their_regressions(
    world: World, monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    """Seen from afar one suspect range, seen closely two commits."""
    world.commits(41)
    rng = np.random.default_rng(5)

    def measure(x: int) -> None:
        noise = np.exp(0.002 * rng.standard_normal(2))
        world.measure(
            world.revisions[x],
            time=float((1.3 if x >= 18 else 1.0) * noise[0]),
            memory=float((1.4e9 if x >= 22 else 1e9) * noise[1]),
        )

    def look() -> None:
        if together:
            with world.db.transaction() as session:
                session.execute(update(t.SeriesMark).values(revision_id=None))
        analyse_dirty(world.db, LATER)

    if together:
        monkeypatch.setattr("groundspeed.service.usecases.analyse.MANY", 1)
    far = [x for x in range(41) if not 15 < x < 25]
    for x in far:
        measure(x)
    look()
    assert spans(world) == [("regression", "new", 15, 25)]
    for x in range(16, 25):
        measure(x)
    look()
    assert sorted(spans(world)) == [("regression", "new", 17, 18), ("regression", "new", 21, 22)]


def test_a_level_that_is_reached_again_is_a_recovery(world: World) -> None:
    history(world, commits=40, time=(1.0, 10, 1.2))
    with world.db.transaction() as session:
        late = world.revisions[25:]
        session.execute(
            update(t.Result).where(col(t.Result.revision_id).in_(late)).values(value=col(t.Result.value) / 1.2)
        )
    analyse_dirty(world.db, LATER)
    assert sorted(spans(world)) == [("improvement", "new", 24, 25), ("regression", "recovered", 9, 10)]
    assert "reached again" in str([entry.data for entry in world.all(t.AuditEntry)])


def test_commits_beside_the_branch_are_no_part_of_history(world: World) -> None:
    history(world, time=(1.0, 0, 1.0))
    for revision in world.commits(10, on_branch=False):
        world.measure(revision, time=5.0)
    series = world.all(t.Series)[0].id
    analyse(world.db, [series], LATER)
    assert world.all(t.ChangePoint) == []


def test_numbers_of_wrong_runs_and_degraded_samples_do_not_decide(world: World) -> None:
    history(world, time=(1.0, 0, 1.0))
    wrong = world.attempt(world.job(world.revisions[29]))
    world.report(wrong, run(outcome="wrong", samples=[samples("time", 0.1)]))
    degraded = world.attempt(world.job(world.revisions[28]))
    world.report(degraded, run(samples=[samples("time", 9.0, states=["degraded"])]))
    with world.db.read() as session:
        loaded = stored.load_series(session, 1)
    assert {p.x: len(p.values) for p in loaded.data.points}[29] == 1
    assert max(value for p in loaded.data.points for value in p.values) < 1.1


def test_a_failed_commit_is_a_gap_that_is_not_asked_for_again(world: World) -> None:
    world.commits(40)
    rng = np.random.default_rng(5)
    for x in [x for x in range(40) if not 18 <= x <= 21]:
        world.measure(world.revisions[x], time=float((1.3 if x >= 20 else 1.0) * np.exp(0.002 * rng.standard_normal())))
    for x in (19, 20):
        failed = world.attempt(world.job(world.revisions[x]))
        world.report(failed, run(outcome="oom", samples=[]))
    with world.db.read() as session:
        loaded = stored.load_series(session, 1)
    assert {p.x: p.outcome for p in loaded.data.points if not p.values} == {19: "oom", 20: "oom"}
    detection = detect(loaded.data, loaded.config)
    asked = {one.x for one in suspects(detection, loaded.data) if one.why == "bisect"}
    assert not asked & {19, 20}


def test_an_environment_change_on_one_commit_is_the_environments_doing(world: World) -> None:
    history(world, commits=20, time=(1.0, 0, 1.0))
    newer = DRIVER.model_copy(update={"value": "580.9"})
    rng = np.random.default_rng(5)
    world.commits(15)
    for x in [19, *range(20, 35)]:
        for _ in range(4 if x == 19 else 1):
            attempt = world.attempt(world.job(world.revisions[x]))
            value = 1.2 * float(np.exp(0.003 * rng.standard_normal()))
            world.report(attempt, run(environment=[newer], samples=[samples("time", value)]))
    replicate(world, 19, 3)
    analyse_dirty(world.db, LATER)
    [change] = world.all(t.ChangePoint)
    [regression] = world.all(t.Regression)
    assert (change.cause, regression.cause) == ("environment", "environment")
    assert change.before_revision_id == change.after_revision_id == world.revisions[19]
    assert change.environment_from_id != change.environment_to_id


def test_a_series_that_crosses_zero_has_a_difference_and_no_ratio(world: World) -> None:
    world.commits(40)
    rng = np.random.default_rng(5)
    for x in range(40):
        world.measure(world.revisions[x], ratio=float((3.0 if x >= 20 else -2.0) + 0.05 * rng.standard_normal()))
    analyse_dirty(world.db, LATER)
    [change] = world.all(t.ChangePoint)
    assert (change.ratio, change.ratio_low) == (None, None)
    assert change.difference == pytest.approx(5.0, rel=0.05)
    assert world.all(t.Regression)[0].title == f"train: ratio {change.difference:+.3g} 1"


def test_numbers_without_scatter_are_analysed(world: World) -> None:
    """A counter that never varies and then steps: infinitely strong, stored as a number."""
    world.commits(30)
    for x in range(30):
        world.measure(world.revisions[x], memory=1000.0 if x < 15 else 1100.0)
    analyse_dirty(world.db, LATER)
    [change] = world.all(t.ChangePoint)
    assert math.isfinite(change.strength)
    assert change.ratio == pytest.approx(1.1)
