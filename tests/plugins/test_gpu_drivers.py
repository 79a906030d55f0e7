"""The drivers that prove things on GPUs: every job is one that its plugin takes, and their arithmetic is right."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import pytest
from tests.bench.gpu import analysis, lines, plans

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


def test_the_time_is_shared_out_among_the_lines():
    assert set(lines.WEIGHTS) == set(lines.LINES)
    found = lines.shared_out(["same", "gemm"], 280)
    assert found == {"same": 240, "gemm": 40}


def test_an_a_a_of_equal_processes_finds_no_difference_and_uses_each_process_once():
    (row,) = analysis.same_with_itself(pool("gpt", 60, 15e-3, 3e-4, 1))
    assert row["false"] == 0
    assert row["comparisons"] >= 8
    assert row["pairs"] <= 30
    assert row["largest_effect"] < 0.002


def test_planted_delays_are_found_trial_by_trial():
    reports = pool("gpt +0 %", 72, 15e-3, 3e-4, 1) + pool("gpt +0.5 %", 72, 15.075e-3 * 1.001, 3e-4, 2)
    (row,) = analysis.sensitivity(reports, "gpt +0 %", ["gpt +0.5 %", "gpt +1 %"], "device_busy_time")
    assert row["trials"] >= 20
    assert row["called"] == row["trials"]
    assert row["effect_of_all"] == pytest.approx(0.006, abs=3e-4)


def test_spread_overhead_and_tables():
    reports = pool("gpt", 10, 1.0, 0.01, 1)
    (row,) = analysis.spread(reports)
    assert 0.003 < row["cv"] < 0.02
    (row,) = analysis.overhead(reports)
    assert row["overhead_share"] == pytest.approx(0.6)
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


def test_collectives_stand_beside_those_by_hand():
    where = {"bytes": 8192, "ranks": 2}
    metrics = [{"metric": "latency", "params": where, "values": [15e-6] * 3},
               {"metric": "bus_bandwidth", "params": where, "values": [5e8] * 3}]  # fmt: skip
    ours = [{"request": {"params": {"collective": "all_reduce"}}, "metrics": metrics}]
    theirs = [{"collective": "all_reduce", "ranks": 2, "bytes": 8192, "seconds": 14e-6}]
    (row,) = lines.beside(ours, theirs)
    assert row["time_ratio_minus_1"] == pytest.approx(15 / 14 - 1)


def run(*arguments, root):
    return subprocess.run(
        [sys.executable, "-m", "tests.bench.gpu", *arguments], cwd=root, capture_output=True, text=True, timeout=280,
        check=False,
    )  # fmt: skip


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
    assert not [one["evidence"] for one in runs if one["outcome"] in {"failed", "crashed"} and line != "faults"]
