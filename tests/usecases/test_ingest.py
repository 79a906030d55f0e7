"""Every run is kept once, and what cannot be kept is refused in words, on both engines."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.db.samples import pack, unpack
from groundspeed.service.errors import Forbidden, NotFound
from groundspeed.service.usecases import fingerprints
from groundspeed.service.usecases.ingest import ingest_runs
from groundspeed.service.wire import v1
from world import DRIVER, HARDWARE, NOW, World, run, samples


@pytest.fixture
def world(database: Database) -> World:
    world = World(database)
    world.commits(5)
    return world


@pytest.fixture
def attempt(world: World) -> str:
    return world.attempt(world.job(world.revisions[0], ["b=1", "b=2"]))


def test_a_run_is_kept_with_its_samples_conditions_and_place(world: World, attempt: str) -> None:
    report = run(
        samples=[
            samples("time", 3.0, 1.0, 2.0, 90.0, states=["valid", "valid", "valid", "rejected"]),
            samples("memory", 5e9),
        ],
        conditions={"steady": True, "trace": {"t_s": [0, 1], "clock_mhz": [1, 2]}},
        facts={"loss": float("nan")},
        phases_s={"import": 1.5},
        device_uuid="GPU-1",
        build=[{"layer": "build", "name": "numpy", "value": "2.1"}],
        artefacts=[{"kind": "kernel-table", "name": "k", "sha256": "a" * 64, "size_bytes": 3}],
    )
    ack = world.report(attempt, report)
    assert (ack.accepted, ack.already, ack.refused) == ((report.key,), (), {})
    [kept] = world.all(t.Run)
    assert (kept.outcome, kept.device_uuid, kept.facts, kept.conditions) == (
        "ok",
        "GPU-1",
        {"loss": None},
        {"steady": True},
    )
    assert kept.started_at == NOW - timedelta(seconds=10)
    assert kept.trace is not None
    assert kept.build_id is not None
    time, memory = world.all(t.Result)
    assert (time.value, time.spread, time.count, time.state) == (2.0, 1.0, 3, "valid")
    assert unpack(time.samples) == ([3.0, 1.0, 2.0, 90.0], ["valid", "valid", "valid", "rejected"])
    assert memory.value == 5e9
    [artefact] = world.all(t.Artefact)
    assert artefact.run_id == kept.id
    assert [(s.metric, s.unit, s.direction, s.params) for s in world.all(t.Series)] == [
        ("time", "s", -1, {"b": 1}),
        ("memory", "B", -1, {"b": 1}),
    ]


def test_the_same_report_again_changes_nothing(world: World, attempt: str) -> None:
    first = world.report(attempt, run(), run("b=2"))
    again = world.report(attempt, run("b=2", samples=[samples("time", 9.0)]), run())
    assert len(first.accepted) == 2
    assert again.accepted == ()
    assert {key.benchmark for key in again.already} == {"b=1", "b=2"}
    assert [result.value for result in world.all(t.Result)] == [1.0, 1.0]
    assert len(world.all(t.Outbox)) == 1


def test_one_key_twice_in_a_batch_is_kept_once(world: World, attempt: str) -> None:
    ack = world.report(attempt, run(), run())
    assert len(ack.accepted) == 1
    assert len(world.all(t.Run)) == 1


def test_another_attempt_is_told_that_the_run_is_there(world: World) -> None:
    job = world.job(world.revisions[0])
    first, second = world.attempt(job, 1, "expired"), world.attempt(job, 2)
    world.report(first, run())
    ack = world.report(second, run())
    assert ack.already == (run().key,)
    assert len(world.all(t.Run)) == 1


def test_a_late_run_of_an_expired_attempt_is_kept_and_says_so(world: World) -> None:
    job = world.job(world.revisions[0])
    late = world.attempt(job, 1, "expired")
    assert world.report(late, run()).accepted
    assert "already expired" in world.all(t.Run)[0].conditions["late"]


def test_many_reporters_at_once_keep_each_run_once_and_make_each_series_once(world: World) -> None:
    """Eight threads, two attempts of one job, the same forty keys in differing order: no error, no double."""
    keys = [f"b={i}" for i in range(40)]
    job = world.job(world.revisions[0], keys)
    attempts = [world.attempt(job, 1, "expired"), world.attempt(job, 2)]
    answers: list[v1.RunAck] = []
    errors: list[BaseException] = []

    def report(n: int) -> None:
        order = keys if n % 2 else keys[::-1]
        try:
            for start in range(0, 40, 10):
                answers.append(world.report(attempts[n % 2], *[run(key) for key in order[start : start + 10]]))
        except BaseException as error:  # noqa: BLE001 - shown by the assertion below
            errors.append(error)

    threads = [threading.Thread(target=report, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    accepted = Counter(key.benchmark for ack in answers for key in ack.accepted)
    assert accepted == Counter(keys)
    assert len(world.all(t.Run)) == len(world.all(t.Result)) == len(world.all(t.Series)) == 40
    assert len(world.all(t.Benchmark)) == len(world.all(t.Environment)) == 1


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (run("b=9"), "no benchmark of this key"),
        (run(side=1), "no side 1, only 0"),
        (run(plugin="inference"), "asked for plugin 'training'"),
        (run(replicate=-1), "replicate -1"),
        (run(replicate=10**30), "replicate"),
        (run(samples=[samples("time", 1.0, NAN)]), "sample 1 is nan"),
        (run(samples=[samples("rate", INF)]), "sample 0 is inf"),
        (run(samples=[samples("time", -1.0)]), "a time of -1.0 s cannot be"),
        (run(samples=[samples("ratio", 1e300)]), "beyond reason"),
        (run(samples=[samples("time", 1.0, 2.0, states=["valid"])]), "2 samples and 1 states"),
        (run(samples=[samples("time", values=())]), "no samples"),
        (run(samples=[samples("time"), samples("time")]), "stands twice"),
        (run(samples=[samples("time", params={"size": NAN})]), "parameter 'size' is nan"),
        (run(params={"b": 10**40}), "more than 63 bits"),
        (run(started_at=INF), "no time"),
        (run(started_at=-5.0), "no time"),
        (run(duration_s=NAN), "duration_s"),
        (run(phases_s={"import": -1.0}), "phase 'import'"),
        (run(evidence={"message": "x" * 2_000_000}), "evidence holds more"),
        (run(facts={"n": 10**5_000_000}), "facts holds more"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_is_refused_and_the_rest_of_the_batch_stands(
    world: World, attempt: str, bad: v1.RunReport, reason: str
) -> None:
    ack = world.report(attempt, bad, run("b=2"))
    [why] = ack.refused.values()
    assert reason in why
    assert list(ack.refused) == [f"{bad.key.side}/{bad.key.benchmark}/{bad.key.replicate}"]
    assert [key.benchmark for key in ack.accepted] == ["b=2"]
    assert [kept.benchmark_key for kept in world.all(t.Run)] == ["b=2"]


def test_a_deep_structure_is_refused(world: World, attempt: str) -> None:
    deep: dict = {}
    for _ in range(200):
        deep = {"d": deep}
    assert "evidence holds more" in next(iter(world.report(attempt, run(evidence=deep)).refused.values()))


def test_a_unit_that_changed_is_refused_with_what_to_do(world: World, attempt: str) -> None:
    world.report(attempt, run())
    other = world.attempt(world.job(world.revisions[1]))
    ack = world.report(other, run(samples=[samples("time", unit="ms")]))
    assert "raise the plugin's version" in ack.refused["0/b=1/0"]
    assert len(world.all(t.Run)) == 1


def test_a_failure_is_a_run_without_results(world: World, attempt: str) -> None:
    ack = world.report(attempt, run(outcome="oom", samples=[], evidence={"message": "CUDA out of memory\x00"}))
    assert ack.accepted
    [kept] = world.all(t.Run)
    assert (kept.outcome, kept.evidence["message"]) == ("oom", "CUDA out of memory\ufffd")
    assert world.all(t.SeriesMark) == []


def test_text_that_no_column_can_hold_is_kept_without_it(world: World, attempt: str) -> None:
    artefact = {"kind": "log", "name": "a\x00b", "sha256": "a" * 64, "size_bytes": 3}
    assert world.report(attempt, run(device_uuid="GPU-\x001", artefacts=[artefact])).accepted
    assert world.all(t.Run)[0].device_uuid in {"GPU-\ufffd1", "GPU-\x001"}


def test_the_numbers_of_a_wrong_run_do_not_count(world: World, attempt: str) -> None:
    """Fast and wrong is not fast."""
    world.report(attempt, run(outcome="wrong"))
    assert [result.state for result in world.all(t.Result)] == ["rejected"]


def test_ok_without_numbers_is_a_failure(world: World, attempt: str) -> None:
    world.report(attempt, run(samples=[]))
    [kept] = world.all(t.Run)
    assert kept.outcome == "failed"
    assert "no samples" in kept.evidence["message"]


def test_degraded_samples_count_only_when_none_is_valid(world: World, attempt: str) -> None:
    world.report(attempt, run(samples=[samples("time", 2.0, 4.0, states=["degraded", "rejected"])]))
    [result] = world.all(t.Result)
    assert (result.value, result.state) == (2.0, "degraded")


def test_an_unknown_attempt_and_another_nodes_attempt_are_errors(world: World, attempt: str) -> None:
    with pytest.raises(NotFound, match="no attempt nope"):
        world.report("nope", run())
    other = world.add(t.Node(name="n2"))
    with pytest.raises(Forbidden, match="node n1's"):
        world.report(attempt, run(), node=other)
    assert world.report(attempt, run(), node=world.node).accepted


def test_new_results_mark_their_series_and_ask_for_detection_in_the_same_transaction(
    world: World, attempt: str
) -> None:
    world.report(attempt, run(samples=[samples("time"), samples("memory")]))
    ids = [series.id for series in world.all(t.Series)]
    assert [mark.series_id for mark in world.all(t.SeriesMark)] == ids
    [message] = world.all(t.Outbox)
    assert (message.topic, message.payload) == ("groundspeed.control.analyse", {"series_ids": ids})


def test_a_commit_beside_the_branch_asks_for_no_detection(world: World) -> None:
    [head] = world.commits(1, on_branch=False)
    world.report(world.attempt(world.job([world.revisions[0], head])), run(side=1))
    assert world.all(t.SeriesMark) == []


def test_a_raised_version_is_a_new_series_linked_to_the_old(world: World, attempt: str) -> None:
    world.report(attempt, run())
    world.report(world.attempt(world.job(world.revisions[1])), run(plugin_version="2"))
    old, new = world.all(t.Benchmark)
    assert (old.version, new.version, new.previous_id) == ("1", "2", old.id)
    assert len(world.all(t.Series)) == 2


def test_defaults_are_filled_in_and_parameters_that_do_not_count_left_out(world: World, attempt: str) -> None:
    """Writing a default down in the configuration does not start a new series."""
    spec = {
        "params": [
            {"name": "b", "default": 8},
            {"name": "precision", "default": "fp32"},
            {"name": "seed", "series": False},
        ]
    }
    world.add(t.CatalogueEntry(node_id=None, plugin="training", spec={"params": []}))
    world.add(t.CatalogueEntry(node_id=world.node, plugin="training", spec=spec))
    world.report(attempt, run(params={"b": 1, "seed": 3}))
    world.report(world.attempt(world.job(world.revisions[1])), run(params={"b": 1.0, "precision": "fp32"}))
    [series] = world.all(t.Series)
    assert series.params == {"b": 1, "precision": "fp32"}


def test_an_environment_is_its_tracked_facets(world: World, attempt: str) -> None:
    noise = v1.Facet(layer="node", name="uptime", value="7", tracked=False)
    package = v1.Facet(layer="build", name="numpy", value="2")
    world.report(attempt, run(environment=[DRIVER, noise, package]), run("b=2", environment=[DRIVER]))
    [environment] = world.all(t.Environment)
    assert [facet["name"] for facet in environment.facets] == ["driver"]


def test_without_facets_a_run_has_its_nodes_environment(world: World, attempt: str) -> None:
    known = world.add(t.Environment(fingerprint="e", label="e"))
    with world.db.transaction() as session:
        session.get_one(t.Node, world.node).environment_id = known
    world.report(attempt, run(environment=[]))
    assert world.all(t.Run)[0].environment_id == known


def test_a_clock_that_is_ahead_is_tolerated_and_noted(world: World, attempt: str) -> None:
    world.report(attempt, run(started_at=(NOW + timedelta(hours=1)).timestamp()))
    assert world.all(t.Run)[0].conditions["clock_ahead_s"] == 3600.0


def test_nothing_of_a_batch_is_left_when_its_transaction_fails(world: World, attempt: str, monkeypatch) -> None:
    """What is remembered of committed rows is not poisoned by rows that were rolled back."""

    def dies(*_: object) -> None:
        raise RuntimeError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr("groundspeed.service.usecases.outbox.enqueue", dies)
        with pytest.raises(RuntimeError, match="power cut"):
            world.report(attempt, run())
    assert world.all(t.Run) == world.all(t.Series) == world.all(t.SeriesMark) == []
    assert world.report(attempt, run()).accepted
    assert len(world.all(t.Result)) == 1


def test_a_series_deleted_behind_our_back_is_made_again(world: World, attempt: str) -> None:
    world.report(attempt, run(outcome="wrong"))
    with world.db.transaction() as session:
        for table in (t.Result, t.Run, t.SeriesMark, t.Series, t.Benchmark):
            for row in world.all(table):
                session.delete(session.get_one(table, row.id))
            session.flush()
    assert world.report(attempt, run()).accepted
    assert len(world.all(t.Series)) == 1


def test_a_full_batch_of_refused_runs_is_no_error(world: World, attempt: str) -> None:
    ack = world.report(attempt, *[run("b=9", replicate=i) for i in range(100)])
    assert len(ack.refused) == 100


def test_an_empty_batch_is_acknowledged(world: World, attempt: str) -> None:
    assert ingest_runs(world.db, attempt, v1.RunBatch(runs=()), datetime.now(UTC)) == v1.RunAck()


def test_samples_survive_packing() -> None:
    values = [0.1, -3.0, 1e99, 5e-324]
    assert unpack(pack(values, ["valid", "degraded", "rejected", "valid"])) == (
        values,
        ["valid", "degraded", "rejected", "valid"],
    )
    for broken in (b"", b"x", pack([1.0])[:-1]):
        with pytest.raises(ValueError, match="not packed samples"):
            unpack(broken)


def test_fingerprints_stay_as_they_are() -> None:
    """A change of these would start every series anew."""
    assert fingerprints.hardware(HARDWARE)[:12] == "e0bfdc8c1db9"
    assert fingerprints.environment([DRIVER])[:12] == "dc8dfd2edbb2"
    assert fingerprints.series(7, {"b": 8.0, "on": True}, "time", "h")[:12] == "1c634670477b"
    assert fingerprints.series(7, {"on": True, "b": 8}, "time", "h")[:12] == "1c634670477b"
    assert fingerprints.series(7, {"on": 1, "b": 8}, "time", "h")[:12] != "1c634670477b"
