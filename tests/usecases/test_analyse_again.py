"""Analysis that is repeated, runs beside another, or follows what was changed by hand."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from sqlalchemy import delete, update
from sqlmodel import col

from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.domain.detect import detect
from groundspeed.service.usecases import grouping, regressions
from groundspeed.service.usecases import series as stored
from groundspeed.service.usecases.analyse import analyse, analyse_dirty
from histories import LATER, history, replicate, spans
from world import World


@pytest.fixture
def world(database: Database) -> World:
    return World(database)


def facts(world: World) -> list[tuple[Any, ...]]:
    """What detection stored, but for identities and times."""
    return [
        (
            c.before_revision_id,
            c.after_revision_id,
            c.state,
            c.kind,
            c.cause,
            c.ratio,
            c.ratio_low,
            c.ratio_high,
            c.detail,
        )
        for c in world.all(t.ChangePoint)
    ]


def test_commit_by_commit_and_all_at_once_say_the_same(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """New results are added to what is known; only the commits that they lie on are read."""
    world.commits(60)
    rng = np.random.default_rng(9)
    sizes: list[int] = []
    original = detect

    def counting(data: Any, config: Any, state: Any = None) -> Any:
        sizes.append(len(data.points))
        return original(data, config, state)

    monkeypatch.setattr("groundspeed.service.usecases.analyse.detect", counting)
    order = [*range(0, 60, 2), *range(59, 0, -2), 30, 31, 31, 30]
    for x in order:
        world.measure(world.revisions[x], time=float((1.2 if x >= 31 else 1.0) * np.exp(0.003 * rng.standard_normal())))
        analyse_dirty(world.db, LATER)
    assert sizes == [1] * len(order)
    step_by_step = [row for row in facts(world) if row[2] != "withdrawn"]
    analyse(world.db, [1], LATER)
    assert sizes[-1] == 60
    assert [row for row in facts(world) if row[2] != "withdrawn"] == step_by_step
    assert spans(world)[-1][2:] == (30, 31)


def test_a_threshold_that_changes_is_applied_to_all_of_history(world: World) -> None:
    history(world, time=(1.0, 20, 1.2))
    analyse_dirty(world.db, LATER)
    config = {"thresholds": {"time": 0.5}}
    world.add(t.Request(project_id=world.project, kind="push", idempotency_key="2", config=config))
    world.measure(world.revisions[29], time=1.2)
    analyse_dirty(world.db, LATER)
    assert [row.state for row in world.all(t.ChangePoint)] == ["withdrawn"]


def test_commits_that_move_on_the_branch_are_looked_at_from_scratch(world: World) -> None:
    """A forced push takes the slow commits off the branch: what was found on them is withdrawn."""
    history(world, time=(1.0, 20, 1.2))
    analyse_dirty(world.db, LATER)
    gone = world.revisions[20:]
    with world.db.transaction() as session:
        session.execute(update(t.Revision).where(col(t.Revision.id).in_(gone)).values(position=None))
        assert stored.positions_changed(session, gone) == [1]
    analyse_dirty(world.db, LATER)
    assert [row.state for row in world.all(t.ChangePoint)] == ["withdrawn"]


CONFIG: dict[str, Any] = {
    "thresholds": {"time": 0.3, "memory": 0.2, "bytes": 0.9},
    "suite": [{"name": "train", "thresholds": {"time": 0.05}}, {"name": "infer"}],
}


@pytest.mark.parametrize(
    ("suite", "metric", "kind", "expected"),
    [
        ("train", "time", "time", 0.05),
        ("train", "step", "time", 0.05),
        ("infer", "time", "time", 0.3),
        ("infer", "memory", "bytes", 0.2),
        ("infer", "host_peak", "bytes", 0.9),
        ("infer", "rate", "rate", None),
        ("unknown", "time", "time", 0.3),
    ],
)
def test_the_nearest_threshold_counts(suite: str, metric: str, kind: str, expected: float | None) -> None:
    assert stored.threshold(CONFIG, suite, metric, kind) == expected


def test_a_change_below_the_configured_threshold_is_none(database: Database) -> None:
    world = World(database, config={"thresholds": {"time": 0.3}, "suite": [{"name": "train"}]})
    history(world, time=(1.0, 20, 1.2))
    analyse_dirty(world.db, LATER)
    assert world.all(t.ChangePoint) == []
    assert world.all(t.Series)[0].threshold == 0.3


def test_a_pull_requests_configuration_does_not_count(database: Database) -> None:
    world = World(database, config={"thresholds": {"time": 0.3}})
    world.add(
        t.Request(
            project_id=world.project, kind="pull_request", idempotency_key="2", config={"thresholds": {"time": 1.0}}
        )
    )
    world.add(t.Request(project_id=world.project, kind="followup", idempotency_key="3"))
    with world.db.read() as session:
        assert stored.latest_config(session, world.project) == {"thresholds": {"time": 0.3}}


def test_analyses_at_once_make_one_change_point_and_one_regression(world: World) -> None:
    history(world, time=(1.0, 20, 1.2), memory=(1e9, 20, 1.3), rate=(9.0, 20, 0.8))
    ids = [row.id for row in world.all(t.Series)]
    errors: list[BaseException] = []

    def work(n: int) -> None:
        try:
            analyse(world.db, ids[n % 3 :] + ids[: n % 3], LATER)
        except BaseException as error:  # noqa: BLE001 - shown by the assertion below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(world.all(t.ChangePoint)) == 3
    assert len(world.all(t.Regression)) == 1


def test_a_result_that_comes_during_an_analysis_is_not_overlooked(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its mark stays, whatever the analysis saw."""
    if database.is_sqlite:
        pytest.skip("SQLite has one writer: nothing comes during an analysis")
    world = World(database)
    history(world, commits=3, time=(1.0, 9, 1.0))
    world.commits(1)

    def meanwhile(*arguments: Any) -> Any:
        world.measure(world.revisions[3], time=1.0)
        return original(*arguments)

    original = detect
    monkeypatch.setattr("groundspeed.service.usecases.analyse.detect", meanwhile)
    analyse_dirty(world.db, LATER)
    assert len(world.all(t.SeriesMark)) == 1


def test_what_a_person_decides_during_an_analysis_stands(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The analysis would withdraw a new regression; meanwhile somebody has taken it up."""
    if database.is_sqlite:
        pytest.skip("SQLite has one writer: nobody decides during an analysis")
    world = World(database)
    history(world, commits=21, time=(1.0, 20, 1.2))
    analyse_dirty(world.db, LATER)
    replicate(world, 20, 7)

    def meanwhile(*arguments: Any) -> Any:
        found = original(*arguments)
        regressions.set_state(world.db, 1, "acknowledged", LATER, actor="ada")
        return found

    original = detect
    monkeypatch.setattr("groundspeed.service.usecases.analyse.detect", meanwhile)
    analyse_dirty(world.db, LATER)
    assert [row.state for row in world.all(t.ChangePoint)] == ["withdrawn"]
    assert spans(world)[0][1] == "acknowledged"


def test_who_merges_during_an_analysis_waits_for_it(
    postgres_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it does not wait for them: both write the same change points."""
    world = World(postgres_database)
    history(world, commits=16, time=(1.0, 11, 1.2), memory=(1e9, 5, 1.3))
    analyse_dirty(world.db, LATER)
    replicate(world, 12, 1, level=1.2)
    errors: list[BaseException] = []

    def merge() -> None:
        try:
            regressions.merge(world.db, [1], 2, LATER, actor="ada")
        except BaseException as error:  # noqa: BLE001 - shown by the assertion below
            errors.append(error)

    def meanwhile(*arguments: Any) -> None:
        person.start()
        person.join(0.3)  # as far as it comes: it waits, or the analysis would have to
        assert person.is_alive()
        original(*arguments)

    person, original = threading.Thread(target=merge), grouping.regroup
    monkeypatch.setattr("groundspeed.service.usecases.grouping.regroup", meanwhile)
    analyse_dirty(world.db, LATER)
    person.join()
    assert errors == []
    assert [(c.regression_id, c.pinned) for c in world.all(t.ChangePoint)] == [(2, True)] * 2
    assert {row.id: row.state for row in world.all(t.Regression)} == {1: "merged", 2: "new"}


def test_many_series_together_are_told_the_same_as_one_by_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fresh, and again over what is known."""
    history(world, time=(1.0, 20, 1.2), memory=(5.0, 12, 1.1), rate=(3.0, 12, 0.8))
    replicate(world, 5, 3)  # one series has several results at a commit

    def told() -> Any:
        ledgers = [(s.noise, s.series_class, s.threshold, s.state, s.detector_version) for s in world.all(t.Series)]
        causes = [(r.title, r.cause, r.notified_at is None) for r in world.all(t.Regression)]
        members = sorted((c.series_id, c.regression_id) for c in world.all(t.ChangePoint))
        history_ = sorted((a.action, a.subject_id, str(a.data)) for a in world.all(t.AuditEntry))
        return ledgers, sorted(facts(world)), spans(world), causes, members, history_

    ids = [one.id or 0 for one in world.all(t.Series)]
    assert analyse(world.db, ids, LATER) == 3
    alone = told()
    kept = [one.id for one in world.all(t.ChangePoint)]
    assert len(alone[1]) == 3
    monkeypatch.setattr("groundspeed.service.usecases.analyse.MANY", 1)
    assert analyse(world.db, ids, LATER) == 3
    assert told() == alone
    assert [one.id for one in world.all(t.ChangePoint)] == kept
    with world.db.transaction() as session:
        for table in (t.ChangePoint, t.AuditEntry, t.Regression):
            session.execute(delete(table))
    analyse(world.db, ids, LATER)
    assert told()[:4] == alone[:4]


@pytest.mark.parametrize(("many", "anew"), [(20, []), (1, []), (1, [2])], ids=["few", "many", "one anew"])
def test_a_step_that_moves_in_two_series_at_once_stays_in_its_regression(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch, many: int, anew: list[int]
) -> None:
    """The commit that was slow is measured again, and is fast: whoever took up the regression is not told of another."""
    monkeypatch.setattr("groundspeed.service.usecases.analyse.MANY", many)
    world = World(sqlite_database)
    history(world, commits=26, time=(1.0, 20, 1.2), memory=(1e9, 20, 1.3))
    analyse_dirty(world.db, LATER)
    regressions.set_state(world.db, 1, "acknowledged", LATER, actor="ada")
    for nth in range(5):
        world.measure(world.revisions[20], time=1.0 + 0.001 * nth, memory=1e9 - 1e6 * nth)
    for one in anew:
        world.add(t.SeriesMark(series_id=one))
    analyse_dirty(world.db, LATER)
    assert spans(world) == [("regression", "acknowledged", 20, 21)]
    assert [c.regression_id for c in world.all(t.ChangePoint)] == [1, 1]
