"""What other services keep: github-action-benchmark, codespeed, Conbench; small files after their sources."""

from __future__ import annotations

import json
from typing import Any

import pytest

from formats.reading import SHA, everything, read
from fuzz import seeds
from groundspeed.service.formats.records import Refused


def test_what_github_action_benchmark_reads_besides() -> None:
    """BenchmarkDotNet with parameters and a failure, benchmark.js and Luau's lines among others."""
    doc = json.loads(json.dumps(seeds.DOCUMENTS["benchmarkdotnet"]))
    doc["Benchmarks"].append(
        {
            "DisplayInfo": "B.G: DefaultJob",
            "Namespace": None,
            "Type": "B",
            "Method": "G",
            "Parameters": "",
            "Statistics": None,
        }
    )
    time, memory, failed = read(doc, "benchmarkdotnet")
    assert (time.benchmark, time.value, time.samples, time.params) == (
        "S.B.F", pytest.approx(2.47e-8), pytest.approx((2.45e-8, 2.5e-8)), {"N": 10, "Name": "a", "job": "Job(N=1)"},
    )  # fmt: skip
    assert (memory.metric.unit, memory.value, failed.benchmark, failed.outcome) == ("B", 368, "B.G", "failed")
    text = """fib(10) x 1,431,759 ops/sec ±0.74% (93 runs sampled)
many x 2 things x 50 ops/sec ±10% (1 run sampled)
this x line is none
SUCCESS: base64                :   15.000ms +/-  2.000% on luau
"""
    records = read(text, "console")
    assert [(r.benchmark, r.value, r.spread, r.metric.direction, r.count) for r in records] == [
        ("fib(10)", 1431759, pytest.approx(10595.0166), 1, 93), ("many x 2 things", 50, 5, 1, 1), ("base64", 0.015, pytest.approx(0.0003), -1, 1),
    ]  # fmt: skip


def test_github_action_ranges_of_every_tool() -> None:
    """A range in percent is of the value; the direction follows the tool where the unit does not say it."""

    def bench(tool: str, value: Any, unit: str, spread: str) -> dict[str, Any]:
        return {"commit": {"id": SHA, "timestamp": "2024-01-02T00:00:00Z"}, "date": 1600000000000, "tool": tool,
                "benches": [{"name": tool, "value": value, "unit": unit, "range": spread}]}  # fmt: skip

    doc = {"lastUpdate": 1, "repoUrl": "u", "entries": {"s": [
        bench("benchmarkjs", 200, "ops/sec", "±1.50%"), bench("go", 100.0, "ns/op", "± 3"), bench("pytest", 10.0, "iter/sec", "stddev: 0.005"),
        bench("customBiggerIsBetter", "1,000", "points", "± 5%"), bench("customSmallerIsBetter", 3, "points", ""), bench("jmh", 4.0, "ms/op", "")]}}  # fmt: skip
    records = read("window.BENCHMARK_DATA = " + json.dumps(doc) + ";", "github-action-benchmark")
    assert [(r.value, r.spread, r.metric.direction) for r in records] == [
        (200.0, 3.0, 1), (pytest.approx(1e-7), pytest.approx(3e-9), -1), (10.0, 0.5, 1), (1000.0, 50.0, 1), (3.0, 0.0, -1), (0.004, 0.0, -1),
    ]  # fmt: skip


def test_github_action_histories_of_google_benchmark_hold_derived_lines() -> None:
    """A standard deviation among the benchmarks is not one."""
    benches = [{"name": f"BM_a{tail}", "value": 5.0, "unit": "ns/iter"} for tail in ("_mean", "_stddev", "_cv")]
    run = {
        "commit": {"id": SHA, "timestamp": "2024-01-02T00:00:00Z"},
        "date": 1600000000000,
        "tool": "googlecpp",
        "benches": benches,
    }
    records, skipped = everything({"lastUpdate": 1, "repoUrl": "u", "entries": {"s": [run]}})
    assert ([r.benchmark for r in records], len(skipped)) == (["s: BM_a_mean"], 2)


def test_julia_trials_estimates_and_groups() -> None:
    """Names are the groups'; times in nanoseconds, all of them where they were kept."""
    records = read(seeds.DOCUMENTS["benchmarktools"], "benchmarktools")
    assert [(r.benchmark, r.metric.name, r.value, len(r.samples)) for r in records] == [
        ("a", "time", pytest.approx(126e-9), 2), ("a", "memory", 64.0, 0), ("a", "allocations", 2.0, 0),
        ("b/c", "time", pytest.approx(5e-9), 1), ("b/c", "memory", 0.0, 0), ("b/c", "allocations", 0.0, 0),
    ]  # fmt: skip
    assert (records[0].origin.tool_version, records[0].origin.environment[0].value) == ("1.6.0", "1.10.9")
    with pytest.raises(Refused, match="no file of BenchmarkTools"):
        everything({"BenchmarkTools": 1, "BenchmarkGroup": 2})


def test_a_codespeed_database() -> None:
    """manage.py dumpdata: rows point to each other; what points nowhere is named, and a dump without results refused."""

    def row(model: str, pk: int, **fields: Any) -> dict[str, Any]:
        return {"model": f"codespeed.{model}", "pk": pk, "fields": fields}

    shared = [
        row("project", 1, name="p", repo_pass="hidden"), row("branch", 1, name="default", project=1),
        row("revision", 7, commitid=SHA, date="2011-04-12T16:43:20", message="fix it\nmore", author="a", branch=1, project=1),
        row("executable", 2, name="exe", project=1), row("environment", 3, name="box", cpu="Example", memory="1GB", os="Linux", kernel=""),
        row("benchmark", 4, name="float", units="ms", lessisbetter=False),
    ]  # fmt: skip
    result: dict[str, Any] = {"value": 4.0, "std_dev": 1.0, "val_min": 3.0, "val_max": 5.0, "q1": None, "q3": None, "date": "2011-04-13T19:04:00",
                              "revision": 7, "executable": 2, "benchmark": 4, "environment": 3}  # fmt: skip
    records, skipped = everything([*shared, row("result", 1, **result), row("result", 2, **{**result, "revision": 99})])
    (record,) = records
    assert (record.benchmark, record.value, record.spread, record.metric.unit, record.metric.direction) == (
        "float",
        0.004,
        0.001,
        "s",
        1,
    )
    assert (record.origin.commit, record.origin.title, record.origin.branch, record.origin.project) == (
        SHA,
        "fix it",
        "default",
        "p",
    )
    assert (record.origin.machine.name, record.origin.machine.cpu_model, record.params) == (
        "box",
        "Example",
        {"executable": "exe"},
    )
    assert skipped == ["points to a revision that the dump does not have"]
    with pytest.raises(Refused, match="without results"):
        everything(shared)


def test_a_codespeed_database_of_early_2010() -> None:
    """Executables were interpreters, revisions had numbers, projects only names; options tell executables apart."""

    def row(model: str, pk: int, **fields: Any) -> dict[str, Any]:
        return {"pk": pk, "model": f"codespeed.{model}", "fields": fields}

    rows = [
        row("revision", 2, project="p", date=None, message="", tag="", number=70632),
        row("benchmark", 1, name="ai", benchmark_type="T", description=""),
        row("environment", 1, name="box", cpu="Example", os="Linux", memory="1Gb"),
        *(row("interpreter", i, name="exe", coptions=options) for i, options in ((1, "default"), (2, "gc=hybrid"))),
        *(row("result", i, benchmark=1, value=0.5 * i, environment=1, date="2010-01-27 09:41:22", interpreter=i,
              result_type="T", revision=2) for i in (1, 2)),
    ]  # fmt: skip
    records, skipped = everything(rows)
    assert (skipped, [(r.value, r.params, r.origin.commit, r.origin.project) for r in records]) == ([], [
        (0.5, {"executable": "exe", "coptions": "default"}, "70632", "p"),
        (1.0, {"executable": "exe", "coptions": "gc=hybrid"}, "70632", "p"),
    ])  # fmt: skip


def test_conbench_of_other_years() -> None:
    """Newer servers keep values beside stats; a history knows its points by the identity of a case; lists have no names."""
    detail = {"id": "r", "run_id": "run", "batch_id": None, "tags": {"name": "read", "n": 2}, "context": {"lang": "C++"}, "info": {}, "timestamp": "2026-06-15T00:00:00Z",
              "commit": {"sha": SHA, "timestamp": "2026-06-14T00:00:00Z", "message": "m"}, "commit_repo_url": "https://example.org/r", "hardware": {"id": "1", "name": "box", "hash": "h"},
              "stats": {"mean": 2.0, "min": 1.0}, "data": [1.0, 3.0], "times": [], "unit": "i/s", "time_unit": None, "less_is_better": False, "error": None}  # fmt: skip
    (record,) = read(detail, "conbench")
    assert (record.value, record.samples, record.metric.unit, record.metric.direction) == (
        2.0,
        (1.0, 3.0),
        "1/s",
        1,
    )
    assert (record.origin.commit, record.origin.machine.name, record.origin.project) == (
        SHA,
        "box",
        "https://example.org/r",
    )
    point = {"benchmark_result_id": "x", "case_id": "c1", "commit_hash": SHA, "commit_timestamp": "2024-01-02T00:00:00", "data": [0.2, 0.1], "unit": "s",
             "single_value_summary": 0.1, "single_value_summary_type": "min", "mean": 0.15, "hardware_hash": "h", "repository": "u", "result_timestamp": "2024-01-02T01:00:00"}  # fmt: skip
    (record,) = read({"data": [point], "metadata": {"next_page_cursor": None}}, "conbench")
    assert (record.benchmark, record.value, record.metric.unit, record.origin.machine.name) == (
        "case c1",
        0.1,
        "s",
        "h",
    )
    text = ("# original URL: https://c.example.org/api/history/download/x\n# benchmark name: read\n# case permutation: a=1, b=2\n# hardware hash: h\n"
            f"commit_time,result_id,commit_hash,svs,min\n2024-01-02 00:00:00+00:00,x,{SHA},0.1,0.1\n2024-01-03 00:00:00+00:00,y,{SHA},NaN,0.1\n")  # fmt: skip
    records, skipped = everything(text)
    assert [(r.benchmark, r.value, r.params, r.metric.gate) for r in records] == [("read", 0.1, {"case": "a=1, b=2"}, False)]  # fmt: skip
    assert skipped == ["has no number"]
    listed = {"results": [{"id": "r", "run_id": "run", "batch_id": "b", "has_error": False, "history_fingerprint": "f", "unit": "s", "single_value_summary": 1.0, "stats": None}]}  # fmt: skip
    assert "list" in everything(listed)[1][0]
