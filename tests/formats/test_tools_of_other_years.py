"""Older and newer forms of what tools write, and what surrounds it in practice: small files after the tools' sources."""

from __future__ import annotations

import json
from typing import Any

import pytest

from formats.test_variants import figures, read
from fuzz import seeds
from groundspeed.service.formats import csv_table, detect
from groundspeed.service.formats.records import Record, Refused, Skipped
from groundspeed.service.formats.source import of_bytes

SHA = "ab" * 20


def everything(content: Any, name: str = "x", encoding: str = "utf-8") -> tuple[list[Record], list[str]]:
    """Records and the reasons for what was skipped."""
    text = content if isinstance(content, str) else json.dumps(content)
    items = list(detect.parse(of_bytes(name, text.encode(encoding))))
    return [i for i in items if isinstance(i, Record)], [i.reason for i in items if isinstance(i, Skipped)]


def test_google_benchmark_told_aggregates_by_name_before_run_type() -> None:
    """A standard deviation is no benchmark; a benchmark whose name only looks like one is."""
    entries = [{"name": f"BM_a/8{tail}", "iterations": 5, "real_time": 10.0, "cpu_time": 9.0, "time_unit": "ns"}
               for tail in ("", "", "_mean", "_median", "_stddev")]  # fmt: skip
    entries.append({"name": "BM_sort_BigO", "cpu_coefficient": 1.0, "real_coefficient": 1.0, "big_o": "N"})
    entries.append({"name": "BM_sort_mean", "real_time": 1.0, "cpu_time": 1.0, "time_unit": "ms"})
    entries.append({"name": "fast_median", "iterations": 5, "real_time": 2.0, "cpu_time": 2.0, "time_unit": "s"})
    records, skipped = everything({"context": {"num_cpus": 4}, "benchmarks": entries})
    assert [(f, r.params.get("aggregate"), len(r.samples)) for f, r in zip(figures(records), records, strict=True) if f[1] == "real_time"] == [
        (("BM_a", "real_time", 1e-8), None, 2), (("BM_a", "real_time", 1e-8), "mean", 1), (("BM_a", "real_time", 1e-8), "median", 1),
        (("BM_sort", "real_time", 1e-3), "mean", 1), (("fast_median", "real_time", 2.0), None, 1),
    ]  # fmt: skip
    assert len(skipped) == 2


def test_google_benchmark_newest_fields() -> None:
    """Skips with a message, memory of a memory manager, repetitions with an aggregate in percent."""
    run = {"run_name": "BM_a", "run_type": "iteration", "real_time": 2.0, "cpu_time": 2.0, "time_unit": "us"}
    records, skipped = everything({"context": {"library_version": "v1.9.0", "json_schema_version": 1}, "benchmarks": [
        {**run, "name": "BM_a", "allocs_per_iter": 2.0, "max_bytes_used": 512, "total_allocated_bytes": 1024},
        {**run, "name": "BM_a_cv", "run_type": "aggregate", "aggregate_name": "cv", "aggregate_unit": "percentage"},
        {"name": "BM_b", "run_name": "BM_b", "run_type": "iteration", "skipped": True, "skip_message": "no GPU"},
    ]})  # fmt: skip
    assert [(r.metric.name, r.metric.unit, r.metric.direction) for r in records[2:5]] == [
        ("allocs_per_iter", "1", -1), ("max_bytes_used", "B", -1), ("total_allocated_bytes", "B", -1),
    ]  # fmt: skip
    assert (records[5].outcome, records[5].reason, len(skipped)) == ("skipped", "no GPU", 1)


@pytest.mark.parametrize("version", ["2.5.0", "3.4.1", "5.1.0"])
def test_pytest_benchmark_of_many_years(version: str) -> None:
    """A file without samples, with parameters as text, with a machine that names its processor otherwise."""
    stats: dict[str, Any] = {"median": 0.5, "mean": 0.6, "iqr": 0.2, "rounds": 7, "min": 0.4}
    info: dict[str, Any] = {"node": "box", "processor": "x86"}
    if version > "3":
        info["cpu"] = {"brand_raw": "Example CPU", "count": 8}
    entry = {"name": "t[3-fast]", "fullname": "a/b.py::T::t[3-fast]", "param": "3-fast", "stats": stats, "group": None}
    if version > "5":
        entry |= {"params": {"n": 3, "how": "fast", "thing": {"unserializable": "X"}}, "extra_info": {"k": 1}, "options": {"timer": "perf_counter"}}  # fmt: skip
    doc = {"machine_info": info, "commit_info": {"id": SHA, "dirty": True, "branch": "b", "time": "2024-01-02T03:04:05+01:00"},
           "benchmarks": [entry], "datetime": "2024-01-02T03:04:05.123456", "version": version}  # fmt: skip
    (record,) = read(doc, "pytest-benchmark")
    assert (record.benchmark, record.value, record.spread, record.count) == ("a/b.py::T::t", 0.5, 0.1, 7)
    assert record.params["how" if version > "5" else "param"] == ("fast" if version > "5" else "3-fast")
    assert record.origin.machine.cpu_model == ("Example CPU" if version > "3" else "x86")


def test_pytest_benchmark_csv() -> None:
    """--benchmark-csv is in seconds."""
    text = "name,min,max,mean,stddev,median,iqr,outliers,ops,rounds,iterations,param:n\nb.py::t[3],0.1,0.3,0.2,0.01,0.25,0.1,1;2,5,9,1,3\n"
    (record,) = read(text, "csv")
    assert (record.metric.unit, record.metric.direction, record.value, record.params) == ("s", -1, 0.25, {"n": 3})


def test_nvbench_cpu_only_and_summaries_of_its_own() -> None:
    """A benchmark without a device, and a number that the benchmark added itself."""
    doc = json.loads(json.dumps(seeds.DOCUMENTS["nvbench"]))
    state = doc["benchmarks"][0]["states"][0]
    state["device"] = None

    def summary(tag: str, value: str) -> dict[str, Any]:
        return {"tag": tag, "name": tag, "data": [{"name": "value", "type": "float64", "value": value}]}

    state["summaries"] = [summary("nv/cpu_only/time/cpu/mean", "0.25"), summary("nv/cpu_only/sample_size", "12"), summary("compressed_ratio", "1.75")]  # fmt: skip
    time, own = read(doc, "nvbench")
    assert (time.metric.name, time.value, time.count, time.origin.machine.gpu_count) == ("cpu_time", 0.25, 12, 0)
    assert (own.metric.name, own.value, own.metric.gate) == ("compressed_ratio", 1.75, False)


def test_pyperf_of_many_years() -> None:
    """perf 0.x wrote samples and no names; bytes are memory; a suite shares its metadata."""
    old = {
        "version": 3,
        "common_metadata": {"hostname": "box"},
        "benchmarks": [{"runs": [{"warmups": [1.0]}, {"samples": [0.5, 0.7], "metadata": {"name": "telco"}}]}],
    }
    (record,) = read(old, "pyperf")
    assert (record.benchmark, record.value, record.origin.machine.name) == ("telco", 0.6, "box")
    new = {"version": "1.0", "metadata": {"unit": "byte", "tags": ["apps"], "commit_id": SHA, "python_version": "3.14"},
           "benchmarks": [{"metadata": {"name": n}, "runs": [{"values": [1024, 1024]}]} for n in ("a", "b")]}  # fmt: skip
    records = read(new, "pyperf")
    assert [(r.benchmark, r.metric.unit, r.value, r.origin.commit) for r in records] == [("a", "B", 1024, SHA), ("b", "B", 1024, SHA)]  # fmt: skip


def test_hyperfine_of_many_years() -> None:
    """One parameter without a name; several with; memory of every run; no times when they were not kept."""
    old = {
        "results": [
            {
                "command": "sleep 1",
                "mean": 1.0,
                "stddev": 0.1,
                "user": 0.0,
                "system": 0.0,
                "min": 0.9,
                "max": 1.1,
                "parameter": "3",
            }
        ]
    }
    assert next((r.metric.name, r.value, r.params) for r in read(old, "hyperfine")) == ("time", 1.0, {"parameter": 3})
    new = {"results": [{"command": "x", "mean": 1.0, "stddev": None, "median": 1.5, "times": [1.0, 2.0], "memory_usage_byte": [4096, 8192],
                        "exit_codes": [0, 0], "parameters": {"threads": "8", "delay": "0.5", "mode": "a,b"}}]}  # fmt: skip
    time, memory = read(new, "hyperfine")
    assert (time.samples, time.params) == ((1.0, 2.0), {"threads": 8, "delay": 0.5, "mode": "a,b"})
    assert (memory.metric.unit, memory.value) == ("B", 6144)


def test_criterion_console_with_long_names_and_remarks() -> None:
    """A name that is too long for its column stands on a line of its own; remarks are no names."""
    text = """Running benches/a.rs (target/release/deps/a-1)
a/very_long_name_of_a_function/with_what_it_does
                        time:   [2.0000 ms 2.5000 ms 3.0000 ms]
                        thrpt:  [333.33 MiB/s 400.00 MiB/s 500.00 MiB/s]
                 change:
                        time:   [-1.0% +0.0% +1.0%] (p = 0.50 > 0.05)
                        No change in performance detected.
Found 3 outliers among 100 measurements (3.00%)
short/1024              time:   [1.0000 µs 1.1000 µs 1.2000 µs]
Benchmarking broken
what it printed
thread 'main' panicked at 'no', a.rs:1:2
"""
    records = read(text, "criterion")
    assert figures(records) == [
        ("a/very_long_name_of_a_function/with_what_it_does", "time", 0.0025),
        ("a/very_long_name_of_a_function/with_what_it_does", "throughput", 419430000.0),
        ("short", "time", 1.1e-6),
        ("broken", "time", None),
    ]
    assert records[2].params == {"value": 1024}


def test_criterion_tree_before_0_3() -> None:
    """Lower-case estimates and lists of iterations and times."""
    documents = [
        of_bytes("g/f/new/benchmark.json", json.dumps({"group_id": "g", "function_id": "f", "value_str": "10", "full_id": "g/f/10", "directory_name": "g/f/10"}).encode()),
        of_bytes("g/f/new/estimates.json", json.dumps({"mean": {"point_estimate": 30.0}, "median": {"point_estimate": 20.0}, "slope": None}).encode()),
        of_bytes("g/f/new/sample.json", b"[[1.0,2.0],[20.0,40.0]]"),
    ]  # fmt: skip
    from groundspeed.service.formats import criterion

    (record,) = (i for i in criterion.parse_tree(documents) if isinstance(i, Record))
    assert (record.benchmark, record.params, record.value, record.samples) == ("g/f", {"value": 10}, 2e-8, pytest.approx((2e-8, 2e-8)))  # fmt: skip


def test_go_with_own_metrics_prints_and_windows_lines() -> None:
    """Metrics of ReportMetric, -cpu suffixes, text that a benchmark printed between its name and its result."""
    text = ("goos: linux\r\npkg: x/y\r\ncpu: Example\r\nBenchmarkA-4   \t 100\t 50 ns/op\t 3.5 MB/s\t 0.75 hits/op\t 12.0 p99-ns/op\r\n"
            "BenchmarkA-8   \t 100\t 30 ns/op\t 3.5 MB/s\t 0.75 hits/op\t 12.0 p99-ns/op\r\n"
            "BenchmarkLoud-8 \tstarting\r\nmore text\r\n     200\t      7 ns/op\r\nPASS\r\nok  \tx/y\t1.2s\r\n")  # fmt: skip
    records = read(text, "go")
    assert [(r.benchmark, r.params.get("gomaxprocs"), r.metric.name, r.value) for r in records if r.metric.name == "time"] == [
        ("x/y.A", 4, "time", pytest.approx(5e-8)), ("x/y.A", 8, "time", pytest.approx(3e-8)), ("x/y.Loud", 8, "time", pytest.approx(7e-9)),
    ]  # fmt: skip
    assert {(r.metric.name, r.metric.unit, r.metric.gate) for r in records} >= {
        ("throughput", "B/s", True),
        ("p99", "s", False),
    }


def test_jmh_percentiles_and_profilers() -> None:
    """Percentiles of mode sample; the name of a profiler's metric does not depend on JMH's year."""
    old, new = (
        {"jmhVersion": v, "benchmark": "a.B.c", "mode": mode, "threads": 2, "params": {"size": "8"},
         "primaryMetric": {"score": 5.0, "scoreError": "NaN", "scoreUnit": "us/op", "scorePercentiles": {"50.0": 4.0, "99.0": 9.0, "100.0": 20.0}, "rawData": [[5.0]]},
         "secondaryMetrics": {f"{dot}gc.alloc.rate.norm": {"score": 24.0, "scoreUnit": "B/op", "rawData": [[24.0]]}}}
        for v, mode, dot in (("1.21", "avgt", "·"), ("1.37", "sample", ""))
    )  # fmt: skip
    records = read([old, new], "jmh")
    assert figures(records) == [
        ("a.B.c", "score", 5e-6), ("a.B.c", "gc.alloc.rate.norm", 24.0),
        ("a.B.c", "score", 5e-6), ("a.B.c", "gc.alloc.rate.norm", 24.0), ("a.B.c", "score p50", 4e-6), ("a.B.c", "score p99", 9e-6),
    ]  # fmt: skip


def test_nccl_columns_of_other_versions() -> None:
    """2.0's column error, 2.17's header, one side only, a table behind the tags of Open MPI 5 and a container's log."""
    old = seeds.NCCL.replace("#wrong", " error").replace("1.2e+05    0.00    0.01       1", "1.2e+05    0.00    0.01   1e-07").replace("     N/A", "   2e-07").replace("1 FAILED", "0 OK")  # fmt: skip
    assert {r.outcome for r in read(old, "nccl-tests")} == {"ok"}
    plain = read(seeds.NCCL, "nccl-tests")
    for prefix in ("[prterun-host-1@1,0]<stdout>: ", "2024-01-02T03:04:05.678901234Z [1,0]<stdout>:"):
        tagged = read("".join(prefix + line + "\n" for line in seeds.NCCL.splitlines()), "nccl-tests")
        assert figures(tagged) == figures(plain)
    one = "\n".join(
        line[: line.rfind("     time") if "#wrong" in line else line.rfind("    34.84") if "34.84" in line else line.rfind("    43.78") if "43.78" in line else None]
        for line in seeds.NCCL.splitlines()
    ).replace("#        (B)", "#                                                 in-place\n#        (B)").replace("#       size", "#   in-place\n#       size")  # fmt: skip
    records = read(one, "nccl-tests")
    assert [(r.metric.name, r.params.get("place")) for r in records if r.metric.name == "time"] == [
        ("time", "in-place")
    ] * 2


def test_nccl_warnings_between_rows_and_ranks_of_threads() -> None:
    """What NCCL says in between cuts no table; two threads with two GPUs are four ranks, as four lines say."""
    lines = seeds.NCCL.splitlines()
    rank = lines[3]
    ranks = [rank.replace("Rank  0", f"Rank  {i}") for i in range(4)]
    options = lines[2].replace("nThread 1 nGpus 1", "nThread 2 nGpus 2")
    noise = "node-1:383231:383300 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\nWARNING: something else"
    records = read("\n".join([*lines[:2], options, *ranks, *lines[4:7], noise, *lines[7:]]), "nccl-tests")
    assert {r.params["ranks"] for r in records} == {4}
    assert len(records) == len(read(seeds.NCCL, "nccl-tests"))


def test_mlperf_of_the_first_rounds() -> None:
    """:::MLP lines of v0.5 and v0.6, among a launcher's lines."""
    text = ("0: :::MLPv0.5.0 resnet 1541635200.5 (run.py:10) run_start\n0: epoch 1\n"
            '0: :::MLPv0.5.0 resnet 1541635260.5 (run.py:20) eval_accuracy: {"epoch": 1, "value": 0.5}\n'
            '0: :::MLPv0.5.0 resnet 1541635300.5 (run.py:30) run_stop: {"success": true}\n')  # fmt: skip
    records = read(text, "mlperf")
    assert figures(records) == [("resnet", "time_to_train", 100.0), ("resnet", "eval_accuracy", 0.5)]


def test_llm_serving_of_the_newest_servers() -> None:
    """vLLM's serving with a goodput and failures, its throughput and latency, SGLang's serving and offline throughput."""
    serving = {"date": "20260102-030405", "endpoint_type": "openai-chat", "model_id": "m", "num_prompts": 10, "completed": 9, "failed": 1,
               "request_rate": "inf", "max_concurrency": 8, "duration": 5.0, "request_throughput": 1.8, "request_goodput": 1.5, "output_throughput": 100.0,
               "total_token_throughput": 200.0, "max_concurrent_requests": 12, "mean_ttft_ms": 50.0, "p99_ttft_ms": 90.0, "std_ttft_ms": 9.0,
               "ttfts": [0.05], "itls": [[0.01]], "errors": ["", "boom"]}  # fmt: skip
    records = read(serving, "llm-serving")
    assert {(r.metric.name, r.value) for r in records} == {
        ("duration", 5.0), ("completed", 9.0), ("request_throughput", 1.8), ("request_goodput", 1.5), ("output_throughput", 100.0),
        ("total_token_throughput", 200.0), ("mean_ttft", 0.05), ("p99_ttft", 0.09),
    }  # fmt: skip
    assert "9 of 10" in records[0].reason
    assert figures(read({"elapsed_time": 2.0, "num_requests": 4, "total_num_tokens": 100, "requests_per_second": 2.0, "tokens_per_second": 50.0}, "llm-serving")) == [
        ("llm serving", "elapsed_time", 2.0), ("llm serving", "requests_per_second", 2.0), ("llm serving", "tokens_per_second", 50.0),
    ]  # fmt: skip
    latency = read({"avg_latency": 0.5, "latencies": [0.4, 0.6], "percentiles": {"50": 0.5, "99": 0.6}}, "llm-serving")
    assert [(r.metric.name, r.value, len(r.samples)) for r in latency] == [("avg_latency", 0.5, 2), ("p50_latency", 0.5, 0), ("p99_latency", 0.6, 0)]  # fmt: skip
    sglang = {"backend": "sglang", "dataset_name": "random", "request_rate": 4, "max_concurrency": None, "completed": 3, "request_throughput": 1.0,
              "mean_e2e_latency_ms": 100.0, "p95_itl_ms": 20.0, "max_itl_ms": 40.0, "accept_length": None, "concurrency": 2.5, "server_info": {"tp_size": 8}}  # fmt: skip
    offline = {"backend": "engine", "successful_requests": 10, "total_latency": 3.0, "request_throughput": 3.3, "last_gen_throughput": 80.0, "output_throughput": 70.0}  # fmt: skip
    names = {r.metric.name for r in read(json.dumps(sglang) + "\n" + json.dumps(offline) + "\n", "llm-serving")}
    assert names >= {"mean_e2e_latency", "p95_itl", "max_itl", "last_gen_throughput", "total_latency"}


def test_what_loadgen_and_serving_benchmarks_print_for_people() -> None:
    """A summary of LoadGen, and the block of benchmark_serving with the line of its arguments before it."""
    summary = """================================================
MLPerf Results Summary
================================================
SUT name : PySUT
Scenario : Offline
Mode     : PerformanceOnly
Samples per second: 12.5
Result is : INVALID
  Min duration satisfied : NO
99.00 percentile latency (ns)   : 2000000
Test Parameters Used
samples_per_query : 24576
"""
    records = read(summary, "mlperf")
    assert {(r.benchmark, r.metric.name, r.value, r.outcome) for r in records} == {
        ("PySUT", "samples_per_second", 12.5, "wrong"), ("PySUT", "99.00_percentile_latency", 0.002, "wrong"),
    }  # fmt: skip
    printed = """Namespace(backend='vllm', model='m/x', num_prompts=32, request_rate=inf, tokenizer=None)
============ Serving Benchmark Result ============
Successful requests:                     30
Total input tokens:                      65536
Output token throughput (tok/s):         1,434.40
---------------Time to First Token----------------
Mean TTFT (ms):                          7279.5
Mean E2E Latency (ms):                   70.0
==================================================
"""
    records = read(printed + printed.replace("30", "32").partition("\n")[2], "llm-serving")
    assert [(r.metric.name, r.value) for r in records[:4]] == [
        ("completed", 30), ("output_throughput", 1434.4), ("mean_ttft", pytest.approx(7.2795)), ("mean_e2el", pytest.approx(0.07)),
    ]  # fmt: skip
    assert (len(records), records[0].reason, records[4].reason) == (8, "30 of 32 requests completed", "")
    assert records[0].params == {"backend": "vllm", "model": "m/x", "num_prompts": 32, "request_rate": "unlimited"}
    _, skipped = everything(printed + "============ Serving Benchmark Result ============\nSuccessful requests: 3\n")
    assert skipped == ["is a block without an end"]


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


def test_hud_records_whose_names_hold_their_units() -> None:
    """vLLM's records for the HUD."""

    def record(name: str) -> dict[str, Any]:
        return {
            "benchmark": {"name": "vLLM"},
            "model": {"name": "m"},
            "metric": {"name": name, "benchmark_values": [50.0]},
            "head_sha": SHA,
        }

    records = read([record("median_ttft_ms"), record("tokens_per_second"), record("memory(MB)")], "pytorch-hud")
    assert [(r.metric.name, r.metric.unit, r.metric.direction, r.value) for r in records] == [
        ("median_ttft", "s", -1, 0.05), ("tokens_per_second", "1/s", 1, 50.0), ("memory", "B", -1, 50e6),
    ]  # fmt: skip


def test_github_action_ranges_of_every_tool() -> None:
    """A range in percent is of the value; the direction follows the tool where the unit does not say it."""

    def bench(tool: str, value: Any, unit: str, spread: str) -> dict[str, Any]:
        return {"commit": {"id": SHA, "timestamp": "2024-01-02T00:00:00Z"}, "date": 1600000000000, "tool": tool,
                "benches": [{"name": tool, "value": value, "unit": unit, "range": spread}]}  # fmt: skip

    doc = {"lastUpdate": 1, "repoUrl": "u", "entries": {"s": [
        bench("benchmarkjs", 200, "ops/sec", "±1.50%"), bench("go", 100.0, "ns/op", "± 3"), bench("pytest", 10.0, "iter/sec", "stddev: 0.5"),
        bench("customBiggerIsBetter", "1,000", "points", "± 5%"), bench("customSmallerIsBetter", 3, "points", ""), bench("jmh", 4.0, "ms/op", "")]}}  # fmt: skip
    records = read("window.BENCHMARK_DATA = " + json.dumps(doc) + ";", "github-action-benchmark")
    assert [(r.value, r.spread, r.metric.direction) for r in records] == [
        (200.0, 3.0, 1), (pytest.approx(1e-7), pytest.approx(3e-9), -1), (10.0, 0.5, 1), (1000.0, 50.0, 1), (3.0, 0.0, -1), (0.004, 0.0, -1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "encoding", "values"),
    [
        ("\ufeffbenchmark;value;unit;commit\nb;1,5;ms;abcdef1\nb;1.234,5;ms;abcdef2\n", "utf-8", [0.0015, 1.2345]),
        ("sep=;\nbenchmark;value;unit\nb;0,25;s\n", "utf-8", [0.25]),
        ("benchmark\tvalue\tunit\nb\t2.5\ts\n", "utf-16", [2.5]),
        ("# made by a script, on 2024-01-02\n# commit; x\nbenchmark|value|unit\nb|3|s\n", "utf-8", [3.0]),
        ('#benchmark,value,unit\r\nb,"1,234.5",s\r\n', "utf-8", [1234.5]),
    ],
)  # fmt: skip
def test_tables_as_spreadsheets_and_scripts_write_them(text: str, encoding: str, values: list[float]) -> None:
    """Other delimiters, a byte order mark, decimal commas, remarks before the header."""
    document = of_bytes("t.csv", text.encode(encoding))
    assert detect.detect(document).name == "csv"
    records, skipped = everything(text, "t.csv", encoding)
    assert ([r.value for r in records], skipped) == (pytest.approx(values), [])


def test_a_decimal_comma_is_never_guessed_into_another_number() -> None:
    """In a table cut by commas "1,5" is no number until somebody says what it is."""
    text = 'name,t\nb,"1,5"\n'
    plain = csv_table.parse_mapping(["benchmark=name", "metric=t:s"])
    (skipped,) = csv_table.parse(of_bytes("t.csv", text.encode()), plain)
    assert isinstance(skipped, Skipped)
    assert "decimal=comma" in skipped.reason
    said = csv_table.parse_mapping(["benchmark=name", "metric=t:s", "decimal=comma"])
    (record,) = csv_table.parse(of_bytes("t.csv", text.encode()), said)
    assert isinstance(record, Record)
    assert record.value == 1.5
    for wrong in ("delimiter=ab", "decimal=x"):
        with pytest.raises(ValueError, match="is no"):
            csv_table.parse_mapping(["metric=t", wrong])


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


def test_logs_of_windows_powershell_are_read() -> None:
    """A redirection there writes UTF-16."""
    records, _ = everything("BenchmarkA-8 \t 100\t 50 ns/op\r\n", encoding="utf-16")
    assert figures(records) == [("A", "time", 5e-8)]
