"""Ranks that die, stop, hang or compute something wrong: the result names the rank and keeps what was measured."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import signal
import time
import types
from pathlib import Path

import psutil
import pytest
from tests.plugins.conftest import metric

from groundspeed.plugins import collectives
from groundspeed.plugins.distributed import rank as rank_of
from groundspeed.plugins.distributed import sweep as sweep_of
from groundspeed.plugins.distributed.ranks import START_S, Rank, RankFailed, Ranks
from groundspeed.plugins.gate import Gate
from groundspeed.plugins.outcomes import classify
from groundspeed.plugins.protocol import ChildReport, Limits
from groundspeed.plugins.spi import Context, Outcome, SampleState, TimedOut, Unsupported, WrongResult

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]
ENTRY = "groundspeed.plugins.distributed.sweep:entry"


def sweep(tmp_path, fault, rank, silence_s=60.0, world=2):
    """(bytes of the points that rank 0 measured, what was raised)."""
    payload = {"collective": "all_reduce", "dtype": "float32", "min_bytes": 1024, "max_bytes": 4096, "factor": 2,
               "launch": "eager", "buffers": "plain", "rotate_bytes": 1, "samples": 5, "seconds_per_size": 0.0,
               "fault": {"kind": fault, "rank": rank, "bytes": 4096}}  # fmt: skip
    context = Context("cpu", {}, None, tmp_path, lambda _: None)
    points, raised = [], None
    with Ranks(context, ENTRY, world, payload, silence_s) as ranks:
        try:
            for number, event in ranks.run():
                if number == 0 and event["event"] == "point":
                    points.append(event["bytes"])
        except (RankFailed, TimedOut, WrongResult) as error:
            raised = error
    return points, raised


def test_a_rank_that_hangs_is_named_by_its_stack_and_the_curve_so_far_is_kept(tmp_path):
    points, raised = sweep(tmp_path, "hang", 1, silence_s=15.0)
    assert isinstance(raised, TimedOut)
    assert points == [1024, 2048]
    assert raised.evidence["rank"] == 1
    assert "rank 1 of 2 holds up the others, last at 'all_reduce of 4096 bytes'" in str(raised)
    stacks = {one["rank"]: one["stderr_tail"] for one in raised.evidence["ranks"]}
    assert all(one["collectives"].keys() & {"last", "unavailable"} for one in raised.evidence["ranks"])
    assert raised.evidence["hints"][0]["code"] == "hang"
    assert "_plant" in stacks[1]
    assert "all_reduce" in stacks[0]


def test_a_rank_that_is_killed_is_named_and_not_the_one_that_complains(tmp_path):
    points, raised = sweep(tmp_path, "SIGKILL", 1)
    assert isinstance(raised, RankFailed)
    assert points == [1024, 2048]
    assert raised.evidence["rank"] == 1
    assert "rank 1 of 2 was killed by SIGKILL" in str(raised)


def test_what_a_rank_refuses_is_refused_and_memory_that_ran_out_keeps_every_ranks_words(tmp_path, monkeypatch):
    """Without processes: what a rank writes of an exception, and what the benchmark's process makes of it."""
    context = Context("cpu", {}, None, tmp_path, lambda _: None)
    asleep = types.SimpleNamespace(poll=lambda: None, pid=os.getpid())
    for number in range(2):
        (tmp_path / f"{number}.jsonl").touch()
    several = [Rank(number, asleep, tmp_path / f"{number}.jsonl", tmp_path / f"{number}.stderr") for number in range(2)]
    ranks = Ranks(context, ENTRY, 2, {}, ranks=several)
    spec = {"rank": 1, "world_size": 2, "device": "cpu", "payload": {}, "events": str(tmp_path / "1.jsonl")}
    monkeypatch.setattr("sys.argv", ["rank", json.dumps(spec)])
    monkeypatch.setattr("signal.pthread_sigmask", lambda *_: None)
    monkeypatch.setattr("threading.Thread", lambda **_: types.SimpleNamespace(start=lambda: None))
    for raised in (Unsupported("no such layer"), MemoryError("of 3 GiB")):
        monkeypatch.setattr(rank_of, "_run", lambda *_, raised=raised: (_ for _ in ()).throw(raised))
        assert rank_of.main() == 1
    refused, out_of_memory = several[1].new_events()
    with pytest.raises(Unsupported, match="no such layer"):
        ranks._raise_if_bad(several[1], refused)
    with pytest.raises(RankFailed) as caught:
        ranks._raise_if_bad(several[1], out_of_memory)
    assert classify(caught.value) is Outcome.OOM
    assert (caught.value.evidence["rank"], len(caught.value.evidence["ranks"])) == (1, 2)
    assert "rank 1 of 2: MemoryError: of 3 GiB" in str(caught.value)


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ("SIGSTOP", TimedOut, "rank 1 of 2 is stopped"),
        ("SIGSEGV", RankFailed, "rank 1 of 2 was killed by SIGSEGV"),
        ("wrong", WrongResult, "rank 1: planted wrong value at 4096 bytes"),
    ],
)
def test_other_ends(tmp_path, fault, kind, words):
    points, raised = sweep(tmp_path, fault, 1, silence_s=15.0)
    assert isinstance(raised, kind)
    assert points == [1024, 2048]
    assert words in str(raised)


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "rank", "kind", "words"),
    [
        ("SIGKILL", 5, RankFailed, "rank 5 of 8 was killed by SIGKILL"),
        ("SIGSTOP", 7, TimedOut, "rank 7 of 8 is stopped"),
        ("hang", 3, TimedOut, "rank 3 of 8 holds up the others"),
        ("wrong", 6, WrongResult, "rank 6: planted wrong value at 4096 bytes"),
    ],
)
def test_one_of_eight_ranks_ends_the_run_with_its_name_and_the_curve_so_far(tmp_path, fault, rank, kind, words):
    points, raised = sweep(tmp_path, fault, rank, silence_s=30.0, world=8)
    assert isinstance(raised, kind), raised
    assert points == [1024, 2048]
    assert raised.evidence["rank"] == rank
    assert words in str(raised)
    assert len(raised.evidence["ranks"]) == 8


@pytest.mark.long
def test_the_slow_one_of_eight_ranks_is_named_and_the_run_goes_on(child):
    """It takes 0.6 s a step more than the others, alone and in lockstep."""
    params = {"parallel": "ddp", "world_size": 8, "seconds": 0.3, "batch_size": 2, "silence_s": 240.0}
    limits = Limits(wall_s=900.0, no_progress_s=600.0)
    target = "tests.bench.gpu.slow_rank:gpt_small"
    report = child.run(
        "distributed-training", target, params, env={"GS_SLOW_RANK": "6", "GS_SLOW_S": "0.15"}, limits=limits, paths=(str(ROOT),)
    )  # fmt: skip
    assert report.outcome == "ok", report.evidence
    assert report.facts["straggler"] == 6
    assert "rank 6" in report.conditions["labels"]["straggler"]
    assert metric(report, "step_time", ranks=8).values


@pytest.mark.long
@pytest.mark.parametrize(
    ("plugin", "target", "metric_name"),
    [
        ("collectives", None, "latency"),
        ("distributed-training", "groundspeed.plugins.models.training:gpt_small", "scaling_efficiency"),
    ],
)
def test_ranks_of_a_process_that_is_started_ahead_wait_with_it(child, plugin, target, metric_name):
    """They have joined no group before the gate opens, and a process that is given up takes them with it."""
    for given_up in (True, False):
        params = {"min_bytes": 1024, "max_bytes": 4096, "samples": 5} if target is None else {"seconds": 0.1}
        spec = child.spec(plugin, target, params, limits=Limits(), gate="")
        gate = Gate(Path(spec.report_path).with_name("gate"))
        process = child.start(dataclasses.replace(spec, gate=str(gate.path)))
        try:
            wait_for_gate(process, Path(spec.progress_path))
            ranks = psutil.Process(process.pid).children()
            assert len(ranks) == (2 if target is None else 3)
            assert not list(Path(spec.workdir).glob("rendezvous*[0-9]"))
            if given_up:
                gate.close()
                process.wait(60)
                assert ChildReport.from_json(Path(spec.report_path).read_text()).outcome == "failed"
                assert not psutil.wait_procs(ranks, timeout=30)[1]
                continue
            gate.open()
            process.wait(300)
            report = ChildReport.from_json(Path(spec.report_path).read_text())
            assert report.outcome == "ok", report.evidence
            assert {one.metric for one in report.metrics} >= {metric_name}
        finally:
            gate.close()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def wait_for_gate(process, progress):
    until = time.monotonic() + 240
    while not (progress.exists() and '"gate"' in progress.read_text()):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)


def test_ranks_tell_of_a_hang_before_the_process_is_ended_that_watches_them():
    defaults = {one.name: one.default for one in collectives.PLUGIN.params}
    assert max(START_S, defaults["silence_s"]) < Limits().no_progress_s


def test_every_collective_is_right_and_timed_over_buffers_that_take_turns(tmp_path):
    payload = {"dtype": "float32", "min_bytes": 1000, "max_bytes": 4000, "factor": 4, "launch": "queued",
               "buffers": "plain", "rotate_bytes": 12_500, "samples": 5, "seconds_per_size": 0.0}  # fmt: skip
    context = Context("cpu", {}, None, tmp_path, lambda _: None)
    with Ranks(context, "tests.plugins.entries_for_ranks:every_collective", 2, payload, 60.0) as ranks:
        points = [(event["bytes"], len(event["seconds"])) for rank, event in ranks.run()
                  if rank == 0 and event["event"] == "point"]  # fmt: skip
    assert points == [(1000, 5), (4000, 5)] * len(sweep_of.COLLECTIVES)


@pytest.mark.parametrize(("size", "rotate_bytes", "copies"), [(1000, 1, 1), (1000, 3 * 1024, 3), (8, 4 * 512 - 1, 3)])
def test_operations_take_turns_over_as_many_buffers_as_fit_each_begun_as_an_allocation_would(
    size, rotate_bytes, copies
):
    payload = {"dtype": "float16", "rotate_bytes": rotate_bytes}
    shape = sweep_of.Shape.of(payload, size, sweep_of.RankContext(0, 2, "cpu", {}, io.StringIO()))
    buffers, starts = shape.full(shape.count, 0), []
    operation = shape.operation(lambda one: starts.append(one.data_ptr()), lambda one: one.fill_(1), buffers)
    sweep_of.repeat(operation, copies + 1)
    operation.verify()
    assert len(set(starts)) == copies
    assert starts[-1] == starts[0]
    assert all((start - starts[0]) % 512 == 0 for start in starts)
    assert buffers.sum() == shape.count  # of the next one alone
    assert buffers[1 % copies].sum() == shape.count


@pytest.mark.parametrize(
    ("device", "launch", "timed"),
    [("cpu", "queued", sweep_of.host_timed), ("cuda:1", "queued", sweep_of.queue_timed),
     ("cuda:0", "graph", sweep_of.graph_timed), ("xpu:0", "queued", sweep_of.event_timed)],
)  # fmt: skip
def test_how_a_row_is_timed_depends_on_the_device_and_on_what_was_asked(device, launch, timed):
    assert sweep_of.way_of_timing(device, launch) is timed


def test_buffers_can_be_registered_only_where_there_is_nccl(tmp_path):
    params = {one.name: one.default for one in collectives.PLUGIN.params} | {"buffers": "registered"}
    with pytest.raises(Unsupported, match="buffers=registered: needs NCCL"):
        collectives.make_ranks(Context("cpu", params, None, tmp_path, lambda _: None))


class Stream:
    """A device of one stream, and a host that takes a while to queue an operation on it. Event as torch's."""

    def __init__(self, launching_s, running_s):
        self.given, self.host_s, self.free_s = [], 0.0, 0.0
        self.launching_s, self.running_s = launching_s, running_s
        stream = self

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self):
                stream.given.append("event")
                self.at_s = max(stream.host_s, stream.free_s)

            def query(self):
                stream.given.append("asked")
                return self.at_s <= stream.host_s

            def synchronize(self):
                stream.given.append("end")
                stream.host_s = max(stream.host_s, self.at_s)

            def elapsed_time(self, other):
                return (other.at_s - self.at_s) * 1e3

        self.Event = Event

    def run(self):
        self.given.append("run")
        self.host_s += self.launching_s
        self.free_s = max(self.host_s, self.free_s) + self.running_s

    def sleep(self, cycles):
        self.given.append("wait")
        self.free_s = max(self.host_s, self.free_s) + cycles / sweep_of.FASTEST_CLOCK_HZ


@pytest.fixture
def rows_of(monkeypatch):
    """What samples a row of operations on a stream."""

    def made(stream, launch, repeats=3):
        monkeypatch.setattr("torch.cuda.Event", stream.Event)
        monkeypatch.setattr("torch.cuda.synchronize", lambda: None)
        monkeypatch.setattr("torch.cuda._sleep", stream.sleep)
        monkeypatch.setattr(sweep_of, "agree", lambda seconds, _context: seconds)
        monkeypatch.setattr(sweep_of, "_launching_s", lambda _operation, count: count * stream.launching_s)
        operation = sweep_of.Operation(stream.run, lambda: None, lambda: stream.given.append("reset"))
        return sweep_of.TIMED[launch](operation, repeats, sweep_of.RankContext(0, 2, "cuda:0", {}, io.StringIO()))

    return made


@pytest.mark.parametrize(("launch", "first"), [("queued", ["wait", "run"]), ("eager", ["run"])])
def test_a_row_is_timed_behind_an_operation_that_is_not(rows_of, launch, first):
    stream = Stream(1e-6, 2e-3)
    row = rows_of(stream, launch)()
    assert row == (pytest.approx(2e-3), False, 0.0, 0.0)
    assert stream.given == ["reset", *first, "event", "run", "run", "run", "event", "asked", "end"]


def test_a_row_that_the_host_queued_too_late_is_told_where_it_was_to_be_queued_before_it_runs(rows_of):
    """A launch of 2 ms before an operation of 10 us: the device has nothing to do in between."""
    stream = Stream(1e-5, 1e-5)
    sample = rows_of(stream, "queued")
    stream.launching_s = 2e-3
    late = sample()
    stream.launching_s = 1e-5
    assert (late.late, late.seconds > 1e-4) == (True, True)
    assert sample() == (pytest.approx(1e-5), False, 0.0, 0.0)
    assert not rows_of(Stream(2e-3, 1e-5), "eager")().late


def test_samples_of_a_late_host_count_as_degraded_and_those_of_a_stranger_not_at_all():
    worth = {1.0: SampleState.VALID, 2.0: SampleState.VALID, 3.0: SampleState.REJECTED}
    context = Context("cuda:0", {}, None, Path(), lambda _: None, state_between=lambda begin, _took: worth[begin])
    point = {"bytes": 8192, "begin_s": [1.0, 2.0, 3.0], "took_s": [0.1] * 3, "late": [False, True, True]}
    late = {1024: 4}
    states = collectives.states_of(point, context, late)
    assert states == (SampleState.VALID, SampleState.DEGRADED, SampleState.REJECTED)
    assert "4 of 1024 bytes, 1 of 8192 bytes" in context.labels["host_late"]
    assert context.facts["late_rows"] == 5
    (bus, *_) = collectives.values(8192, [1e-5] * 3, 2, 1.0, states, gate=None)
    assert list(bus.states) == list(states)
