"""The drivers that prove things on GPUs: every job is one that its plugin takes, and their arithmetic is right."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

import pytest
from tests.bench.gpu import analysis, children, collectives_beside, kernels_named, lines, plans

from groundspeed.plugins import params as parameters
from groundspeed.plugins.protocol import Limits
from groundspeed.plugins.registry import load

BUSY = {"metric": "device_busy_time", "unit": "s", "direction": -1, "kind": "time", "gate": True, "clock": "device"}


def report(tag, value, **more):
    metrics = [{**BUSY, "params": {}, "states": ["valid"], "values": [value] * 5}]
    return {"tag": tag, "outcome": "ok", "metrics": metrics, "conditions": {}, "evidence": {},
            "phases_s": {"import": 2.0, "warmup": 1.0, "measure": 3.0, "profile": 1.0}, "wall_s": 10.0, **more}  # fmt: skip


def pool(tag, count, level, cv, seed):
    chance = random.Random(seed)
    return [report(tag, level * (1 + cv * chance.gauss(0, 1))) for _ in range(count)]


@pytest.mark.parametrize("small", [False, True])
def test_every_job_is_one_that_its_plugin_takes(small):
    for one in plans.everything():
        job = plans.shrunk(one) if small else one
        plugin = load(job["plugin"])
        parameters.resolve(plugin.name, plugin.params, job["params"])
        assert bool(job["target"]) or not plugin.needs.target, job
        assert set(job["limits"]) <= set(Limits.__dataclass_fields__)
        assert set(job) <= {"tag", "plugin", "target", "params", "limits", "devices", "timeout_s", "env"}
        if job["target"] and "workloads" not in job["target"]:
            module, _, name = job["target"].partition(":")
            assert hasattr(__import__(module, fromlist=[name]), name), job["target"]


def test_every_line_is_in_the_documentation_with_its_command(root):
    text = (root / "docs" / "measurement.md").read_text()
    for name in lines.LINES:
        assert f"`{name}`" in text, f"docs/measurement.md does not say how to repeat {name}"


def test_the_time_is_shared_out_among_the_lines_and_what_one_leaves_the_next_get():
    assert set(lines.WEIGHTS) == set(lines.LINES)
    assert lines.share_of("same", ["overhead"], 600) == pytest.approx(470)
    assert lines.share_of("overhead", [], 300) == 300


def test_an_a_a_of_equal_processes_finds_no_difference_and_uses_each_process_once():
    (row,) = analysis.same_with_itself(pool("gpt", 60, 15e-3, 3e-4, 1))
    assert row["false"] == 0
    assert row["comparisons"] >= 8
    assert row["pairs"] <= 30
    assert row["largest_effect"] < 0.002


def test_planted_delays_are_found_trial_by_trial():
    reports = pool("gpt +0 %", 72, 15e-3, 3e-4, 1) + pool("gpt +0.5 %", 72, 15.075e-3 * 1.001, 3e-4, 2)
    (row,) = analysis.sensitivity(reports, "gpt +0 %", ["gpt +0.5 %", "gpt +1 %"], "device_busy_time")
    assert (row["blocks"], row["found"], row["wrong_way"]) == (24, 24, 0)
    assert row["gate_called"] == row["gate_trials"] >= 10
    assert row["effect_of_all"] == pytest.approx(0.006, abs=3e-4)
    habits = [{**one, "habits": {"do_bench": 1.0 + 0.1 * (index % 2)}} for index, one in enumerate(reports)]
    (row,) = analysis.sensitivity(habits, "gpt +0 %", ["gpt +0.5 %"], "do_bench")
    assert row["found"] < row["blocks"]


def test_what_was_planted_is_read_off_the_trace():
    spun = [report("gpt +1.0 %", 10.1e-3, spin=[{"name": "spin_kernel", "time_per_step_s": 1e-4}])]
    (row,) = analysis.planted([*spun, report("gpt +1.0 %", 1.0, outcome="failed")])
    assert row["planted_share"] == pytest.approx(0.01)


def test_comparisons_are_counted_by_suite():
    rows = analysis.in_all(pool("gpt", 30, 15e-3, 3e-4, 1) + pool("gemm", 12, 1e-3, 3e-4, 2))
    assert [(row["tag"], row["comparisons"], row["false"]) for row in rows] == [
        ("gpt", 5, 0), ("gemm", 2, 0), ("in all", 7, 0)]  # fmt: skip
    assert analysis.in_all([]) == []


def test_spread_overhead_and_tables():
    reports = pool("gpt", 10, 1.0, 0.01, 1)
    (row,) = analysis.spread(reports)
    assert 0.003 < row["cv"] < 0.02
    (row,) = analysis.overhead([{**one, "turn_s": 8.0} for one in reports])
    assert row["overhead_share"] == pytest.approx(0.5)
    assert row["share_beside_warmup"] == pytest.approx(3 / 8)
    assert row["outside_s"] == pytest.approx(3.0)
    text = analysis.markdown([{"tag": "a|b", "cv": 0.0123, "median": 1.5}])
    assert "| a\\|b | 1.230% | 1.5 |" in text


def test_shares_are_of_what_the_same_pool_measured():
    rows = [
        {"tag": "copy", "metric": "bandwidth", "median": 4e12, "unit": "B/s"},
        {"tag": "gemm", "metric": "flops_sustained", "median": 6e14, "unit": "FLOP/s"},
        {"tag": "attention", "metric": "device_flops", "median": 3e14, "unit": "FLOP/s"},
        {"tag": "kernel", "metric": "bandwidth", "median": 3e12, "unit": "B/s"},
        {"tag": "kernel", "metric": "roofline_share", "median": 0.7, "unit": "1"},
    ]
    found = {(one["tag"], one["metric"]): one["share"] for one in analysis.shares(rows, "copy", "gemm")}
    assert found["attention", "device_flops"] == 0.5
    assert found["kernel", "bandwidth"] == 0.75
    assert found["kernel", "roofline_share"] == 0.7


TABLE = """\
# nThread 1 nGpus 2 minBytes 8192 maxBytes 16384 step: 2(factor) warmup iters: 5 iters: 50 agg iters: 1 validate: 1 graph: 0
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
        8192          2048     float     sum      -1    14.00    0.59    0.59       0    20.00    0.41    0.41       0
       16384          4096     float     sum      -1    16.00    1.02    1.02       0    22.00    0.74    0.74       0
# Out of bounds values : 0 OK
"""


def test_collectives_stand_beside_the_tables_of_nccl_tests_launch_by_launch(tmp_path):
    runs = [("eager", "14.00", "one process"), ("graph", "12.00", "one process"), ("graph", "12.60", "one process"),
            ("graph", "11.00", "a process a device")]  # fmt: skip
    for launch, us, layout in runs:
        with (tmp_path / "perf.txt").open("a") as file:
            file.write(f"## all_gather {launch} 2 {layout}\n{TABLE.replace('14.00', us)}\n")
    peers = collectives_beside.by_nccl_tests(tmp_path / "perf.txt")
    assert peers["all_gather", 2, 8192, "eager"] == pytest.approx([14e-6])
    assert peers["all_gather", 2, 8192, "graph"] == pytest.approx([12e-6, 12.6e-6])
    apart = collectives_beside.by_nccl_tests(tmp_path / "perf.txt", collectives_beside.APART)
    assert apart["all_gather", 2, 8192, "graph"] == pytest.approx([11e-6])
    assert next(iter(collectives_beside.points(TABLE, in_place=True))) == (8192, pytest.approx(20e-6))
    where = {"bytes": 8192, "ranks": 2}
    metrics = [{"metric": "latency", "params": where, "values": [10e-6] * 3},
               {"metric": "bus_bandwidth", "params": where, "values": [4e8] * 3}]  # fmt: skip
    ours = [{"request": {"params": {"collective": "all_gather", "launch": "graph"}}, "metrics": metrics}] * 3
    (row,) = collectives_beside.rows(ours, peers)
    assert row["bandwidth_ratio_minus_1"] == pytest.approx(0.23)
    assert row["nccl_apart"] == pytest.approx(0.05)
    assert (row["processes"], row["nccl_processes"], row["launch"]) == (3, 2, "graph")


def test_nccl_tests_run_a_process_a_device_where_there_is_mpi_and_once_in_one_process(tmp_path, monkeypatch):
    program = tmp_path / "all_gather_perf"
    program.write_text(f"#!/bin/sh\necho \"$*\" >> {tmp_path}/started\ncat <<'END'\n{TABLE}END\n")
    program.chmod(0o755)
    monkeypatch.setattr(collectives_beside, "PROGRAMS", {"all_gather": "all_gather"})
    mpirun = tmp_path / "mpirun"
    mpirun.write_text('#!/bin/sh\ntest "$1 $2" = "-np 2" && shift 2 && exec "$@"\n')
    mpirun.chmod(0o755)
    monkeypatch.setenv("GS_MPIRUN", str(mpirun))
    for turn in (0, 1):
        collectives_beside.run_nccl_tests(tmp_path, tmp_path / "perf.txt", 2, lambda: 1.0, turn)
    started = (tmp_path / "started").read_text().splitlines()
    assert [line.split(" -n ")[0] for line in started] == [
        *["-b 8K -e 1G -f 2 -g 1"] * 2, *["-b 8K -e 1G -f 2 -g 2"] * 2, "-b 8K -e 1G -f 2 -g 1"
    ]  # fmt: skip
    found = collectives_beside.by_nccl_tests(tmp_path / "perf.txt", collectives_beside.APART)
    assert found["all_gather", 2, 8192, "eager"] == pytest.approx([14e-6] * 2)
    assert found["all_gather", 2, 8192, "graph"] == pytest.approx([14e-6])


def test_devices_are_never_compared_with_each_other():
    fast = [report("gemm", 1.0, lane="0") for _ in range(6)]
    slow = [report("gemm", 2.0, lane="1") for _ in range(6)]
    mixed = [one for pair in zip(fast, slow, strict=True) for one in pair]
    (row,) = analysis.same_in_blocks(mixed)
    assert (row["comparisons"], row["false"], row["largest_effect"]) == (2, 0, 0.0)
    (row,) = analysis.spread(mixed)
    assert row["cv"] == 0.0


def test_the_planted_kernel_is_named_and_nothing_where_there_is_none():
    def traced(tag, spin_s, seed):
        chance = random.Random(seed)
        gemm = {"name": "gemm", "count_per_step": 10, "time_per_step_s": 8e-3 * (1 + 1e-4 * chance.gauss(0, 1))}
        spin = [{"name": "at::spin_kernel", "count_per_step": 1, "time_per_step_s": spin_s}] if spin_s else []
        return report(tag, 10e-3 + spin_s, kernels=[gemm], spin=spin)

    base = [traced("gpt +0 %", 0.0, seed) for seed in range(6)]
    slower = [traced("gpt +0.5 %", 50e-6, seed) for seed in range(6, 12)]
    rows = kernels_named.named([*base, *slower], "gpt +0 %", {"gpt +0.5 %": 0.005, "gpt +0 %": None})
    assert [(row["blocks"], row["named"]) for row in rows] == [(2, 2), (1, 0)]
    assert rows[0]["least_share"] == pytest.approx(1, abs=0.1)
    assert rows[1]["other_answers"] == {"same": 1}


def run(*arguments, root):
    return subprocess.run(
        [sys.executable, "-m", "tests.bench.gpu", *arguments], cwd=root, capture_output=True, text=True, timeout=280,
        check=False,
    )  # fmt: skip


def test_a_lane_goes_on_after_what_crashes_hangs_or_cannot_start_and_keeps_the_last_words(tmp_path, monkeypatch):
    monkeypatch.setenv("GS_AHEAD", "2")
    target = tmp_path / "odd.py"
    target.write_text("import os, sys, time\n"
                      "def dies(device): sys.stderr.write('last words\\n'); sys.stderr.flush(); os.abort()\n"
                      "def hangs(device): time.sleep(600)\n")  # fmt: skip
    env = {
        "PYTHONPATH": os.pathsep.join(
            [str(tmp_path), *map(str, children.environment()["PYTHONPATH"].split(os.pathsep))]
        )
    }
    true = {"command": "true", "runs": 1, "warmups": 0}
    jobs = [
        {"tag": "dies", "plugin": "kernel", "target": "odd:dies", "env": env},
        {"tag": "hangs", "plugin": "kernel", "target": "odd:hangs", "env": env, "timeout_s": 2.0},
        {"tag": "no such argument", "plugin": "command", "nonsense": 1},
        {"tag": "good", "plugin": "command", "params": true},
    ]
    lanes = children.Lanes(tmp_path / "line.jsonl", ["0"])
    lanes.run({"0": jobs})
    lanes.run({"0": jobs}, deadline_s=0.0)  # no time: nothing more
    found = {one["tag"]: one for one in map(json.loads, (tmp_path / "line.jsonl").read_text().splitlines())}
    assert {tag: one["outcome"] for tag, one in found.items()} == {
        "dies": "crashed", "hangs": "timeout", "no such argument": "crashed", "good": "ok"}  # fmt: skip
    assert "last words" in found["dies"]["evidence"]["stderr_tail"]
    assert "most recent call first" in found["hangs"]["evidence"]["stderr_tail"]
    assert found["good"]["turn_s"] > 0


def test_a_line_that_was_cut_off_while_writing_is_read_up_to_there(tmp_path):
    bench = lines.Bench(tmp_path, ["0"], 1.0)
    bench.file("same").write_text('{"tag": 1}\n{"tag": 2}\n{"ta')
    assert bench.reports("same") == [{"tag": 1}, {"tag": 2}]
    bench.tables = False
    with pytest.raises(lines.NoTables):
        bench.reports("same")


def test_the_driver_runs_a_line_without_a_gpu_and_makes_its_tables(root, tmp_path):
    done = run("more", "--out", str(tmp_path), "--small", "--most", "0", root=root)
    assert done.returncode == 0, done.stderr
    assert "No runs." in (tmp_path / "more.md").read_text()
    done = run("no-such-line", "--out", str(tmp_path), root=root)
    assert (done.returncode, "there is no line" in done.stderr) == (2, True)


@pytest.mark.long
@pytest.mark.parametrize("line", sorted(lines.LINES))
def test_every_line_runs_small(root, tmp_path, line):
    done = run(line, "--out", str(tmp_path), "--small", "--most", "1", "--devices", "0", root=root)
    assert done.returncode == 0, done.stdout + done.stderr
    tables = json.loads((tmp_path / f"{line}.json").read_text())
    assert tables
    reports = tmp_path / f"{line}.jsonl"
    runs = list(map(json.loads, reports.read_text().splitlines())) if reports.exists() else []
    assert not [
        one["evidence"]
        for one in runs
        if one["outcome"] in {"failed", "crashed"} and line not in {"faults", "failures"}
    ]
