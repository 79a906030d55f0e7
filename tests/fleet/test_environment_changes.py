"""A node whose environment changed is measured again, and a step of code and environment together is parted."""

from __future__ import annotations

from pathlib import Path

import pytest

from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.domain.attribution import AFTER, BEFORE, BY_CODE, BY_ENVIRONMENT, attribute
from groundspeed.service.usecases import environment_changes, events, planning
from groundspeed.service.usecases.views import compare, findings
from groundspeed.service.wire import v1
from rack import Rack, rack

LEVEL = [1.0, 1.002, 0.999, 1.001]


def times(factor: float) -> list[float]:
    return [factor * value for value in LEVEL]


@pytest.mark.parametrize(
    ("cells", "cause"),
    [
        ({BEFORE: times(1), BY_ENVIRONMENT: times(1), AFTER: times(1.05)}, "code"),
        ({BEFORE: times(1), BY_ENVIRONMENT: times(1.05), AFTER: times(1.05)}, "environment"),
        ({BEFORE: times(1), BY_ENVIRONMENT: times(1.05), AFTER: times(1.1)}, "both"),
        ({BEFORE: times(1), BY_CODE: times(1.05), AFTER: times(1.05)}, "code"),
        ({BEFORE: times(1), BY_CODE: times(1), AFTER: times(1.05)}, "environment"),
        ({BEFORE: times(1), AFTER: times(1.05)}, "unknown"),
        ({BEFORE: times(1), BY_CODE: [1.05], AFTER: times(1.05)}, "unknown"),
        ({AFTER: times(1)}, "unknown"),
    ],
)
def test_the_missing_corner_says_which_it_was(cells: dict, cause: str) -> None:
    assert attribute(cells).cause == cause


@pytest.fixture
def one(sqlite_database: Database, tmp_path: Path) -> Rack:
    """Three nodes that have measured both commits of the project."""
    made = rack(sqlite_database, tmp_path, 3)
    made.fleet.measure()
    made.work()
    return made


def asked(one: Rack) -> list[t.Request]:
    with one.db.read() as session:
        return list(session.query(t.Request).filter_by(kind="environment").order_by(t.Request.id))


def test_a_changed_driver_asks_for_the_last_head_again_on_that_node(one: Rack) -> None:
    node = measured_on(one)
    one.upgrade(node)
    assert environment_changes.plan(one.db, one.fleet.now) == 1
    assert environment_changes.plan(one.db, one.fleet.now) == 0
    [request] = asked(one)
    assert request.payload["node"] == node
    assert request.payload["shas"] == [one.fleet.shas[-1]]
    assert "node gpu.driver: 570.86.15 → 580.65.06" in request.payload["why"]
    planning.plan_request(one.db, one.fleet.mirrors, request.id, one.fleet.now)
    jobs = one.fleet.jobs(request.id)
    assert {job.requirements["node"] for job in jobs} == {node}
    assert {b["replicates"] for job in jobs for b in job.spec["benchmarks"]} == {4}


def measured_on(one: Rack) -> str:
    """A node that has measured the newest commit."""
    with one.db.read() as session:
        newest = session.query(t.Revision.id).filter_by(sha=one.fleet.shas[-1]).scalar_subquery()
        run = session.query(t.Run).filter(t.Run.revision_id == newest).first()
        return session.get_one(t.Node, run.node_id).name


def test_a_node_in_a_campaign_is_left_to_it(one: Rack) -> None:
    one.create(hold="manual")
    one.upgrade(measured_on(one))
    assert environment_changes.plan(one.db, one.fleet.now) == 0


def test_a_step_of_both_asks_for_the_old_commit_in_the_new_environment(one: Rack) -> None:
    node = measured_on(one)
    one.upgrade(node)
    with one.db.transaction() as session:
        old = session.query(t.Environment).filter_by(id=1).one()
        new = session.query(t.Node).filter_by(name=node).one().environment_id
        first, second = (session.query(t.Revision).filter_by(sha=sha).one().id for sha in one.fleet.shas)
        series = session.query(t.Series).first()
        session.query(t.Result).filter_by(revision_id=second).delete()  # it was measured in the new one only
        point = t.ChangePoint(
            series_id=series.id, before_revision_id=first, after_revision_id=second, environment_from_id=old.id,
            environment_to_id=new, kind="regression", cause="both", state="provisional",
        )  # fmt: skip
        session.add(point)
        session.flush()
        point_id = point.id
    environment_changes.plan(one.db, one.fleet.now)
    [request] = [r for r in asked(one) if r.idempotency_key.startswith("attribute:")]
    assert request.payload["shas"] == [one.fleet.shas[0]]
    assert request.payload["node"] == node
    told = environment_changes.explain(one.db, point_id)
    assert (told["cause"], told["cells"]) == ("unknown", {"old commit, old environment": 1})
    assert f"{node} can measure the old commit in the new environment, which is on its way" in told["reason"]
    assert told["difference"] == ["node gpu.driver: 570.86.15 → 580.65.06"]
    with one.db.transaction() as session:
        session.add(t.Regression(id=7, project_id=1, kind="regression", after_revision_id=second))
        session.flush()
        session.get_one(t.ChangePoint, point_id).regression_id = 7
    (step,) = findings.regression_detail(one.db, "toy", 7).environments
    assert (step.cause, step.difference) == ("unknown", ("node gpu.driver: 570.86.15 → 580.65.06",))
    with one.db.transaction() as session:
        session.query(t.Node).update({"environment_id": None})
    assert (
        "cannot be known: no node has either environment any more"
        in environment_changes.explain(one.db, point_id)["reason"]
    )


def test_a_comparison_lists_what_differs_of_machine_and_build_and_what_is_unknown(
    one: Rack, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = measured_on(one)
    one.upgrade(node)
    unread = {"layer": "node", "name": "gpu0.vbios", "value": None, "reason": "Not Supported"}
    resolved = {"layer": "build", "name": "loaded.nccl", "value": "2.27.7"}
    report = one._run
    monkeypatch.setattr(one, "_run", lambda *asked: brought(report(*asked), unread, resolved))
    environment_changes.plan(one.db, one.fleet.now)
    planning.plan_request(one.db, one.fleet.mirrors, asked(one)[0].id, one.fleet.now)
    assert one.work() > 0
    with one.db.read() as session:
        runs = session.query(t.Run).order_by(t.Run.id).all()
    first, last = runs[0], runs[-1]
    shown = compare.compare(one.db, "toy", compare.CompareQuery(str(first.id), str(last.id), by="run"))
    told = {f"{one.layer} {one.name}": (one.base, one.head) for one in shown.environment}
    assert told["build loaded.nccl"] == (None, "2.27.7")
    assert told["node gpu0.vbios"] == (None, "unknown: Not Supported")


def brought(report: v1.RunReport, unread: dict[str, object], resolved: dict[str, object]) -> v1.RunReport:
    facets = (*report.environment, v1.Facet.model_validate(unread))
    return report.model_copy(update={"environment": facets, "build": (v1.Facet.model_validate(resolved),)})


def test_what_a_runbook_tells_shows_on_the_graphs(one: Rack) -> None:
    one.machines["n01"].labels = {"rack": "7"}
    one.register("n01")
    told = events.Told("BIOS changed on rack 7", where={"rack": "7"}, at=one.fleet.now)
    ids = events.tell(one.db, told, one.fleet.now, actor="runbook")
    assert events.tell(one.db, told, one.fleet.now, actor="runbook") == ids
    everywhere = events.Told("Power maintenance", at=one.fleet.now)
    events.tell(one.db, everywhere, one.fleet.now, actor="runbook")
    from groundspeed.service.db import reads

    with one.db.read() as session:
        titles = [event.title for event in reads.events_of_project(session, 1)]
    assert titles.count("BIOS changed on rack 7") == 1
    assert "Power maintenance" in titles
