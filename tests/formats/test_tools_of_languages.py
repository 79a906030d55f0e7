"""Benchmark tools of C++, CUDA, Python, Rust, Go and Java over the years, and the shell's: small files after the tools' sources."""

from __future__ import annotations

import json
from typing import Any

import pytest

from formats.reading import SHA, everything, figures, read
from fuzz import seeds
from groundspeed.service.formats.records import Record
from groundspeed.service.formats.source import of_bytes


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


def test_nvbench_console_and_csv_say_what_its_json_says() -> None:
    """Markdown as it is printed, with its log, and CSV of several benchmarks: axes, noise, counts, the device."""
    text = """# Devices

## [0] `Example GPU`
* SM Version: 900 (PTX Version: 900)

# Log

```
Run:  [1/3] copy [Device=0 n=2^3]
Skip: Not enough memory. [copy n=2^40]
```

# Benchmark Results

## copy

### [0] Example GPU

|    n    | T  | Bytes In  | Samples | CPU Time | Noise |  GPU Time  | Noise | Elem/s  | GlobalMem BW | BWUtil | Samples | Batch GPU | ratio |
|---------|----|-----------|---------|----------|-------|------------|-------|---------|--------------|--------|---------|-----------|-------|
| 2^3 = 8 | F4 | 4.000 KiB |   512x  | 2.000 us |  inf% | 500.000 us | 2.00% | 16.000M |  64.000 GB/s | 25.00% |   1024x | 400.000 us | 1.75 |

## host

| n  | Samples | CPU Time | Noise |
|----|---------|----------|-------|
| 16 |   100x  | 3.000 ms | 1.00% |
"""
    records, skipped = everything(text)
    assert (skipped, {r.origin.tool for r in records}) == (
        ["was not measured: Not enough memory. [copy n=2^40]"],
        {"nvbench"},
    )
    assert [(r.benchmark, r.metric.name, r.value, r.count, r.metric.gate) for r in records] == [
        ("copy", "cpu_time", pytest.approx(2e-6), 512, False), ("copy", "gpu_time", pytest.approx(5e-4), 512, True), ("copy", "item_rate", 16e6, 512, False),
        ("copy", "memory_bandwidth", 64e9, 512, False), ("copy", "memory_bandwidth_utilization", 0.25, 512, False),
        ("copy", "batch_gpu_time", pytest.approx(4e-4), 1024, True), ("copy", "ratio", 1.75, 1024, False), ("host", "cpu_time", pytest.approx(3e-3), 100, True),
    ]  # fmt: skip
    assert (records[1].params, records[1].spread, records[1].origin.machine.gpu_model) == ({"n": 8, "T": "F4"}, pytest.approx(6.745e-6, rel=1e-3), "Example GPU")  # fmt: skip
    table = ("Benchmark,Device,Device Name,n (pow2),n,T,Skipped,Bytes In (bytes),Samples,CPU Time (sec),Noise,GPU Time (sec),Noise,Elem/s (elem/sec),BWUtil\n"
             "copy,0,Example GPU,2^3,8,,No,4096,512,2e-6,inf,5e-4,0.02,16e6,0.25\nhost,,,,,I8,No,,100,3e-3,0.01,,,,\n")  # fmt: skip
    rows, _ = everything(table)
    assert [(r.metric.name, r.value, r.params) for r in rows] == [
        ("cpu_time", 2e-6, {"n": 8}), ("gpu_time", 5e-4, {"n": 8}), ("item_rate", 16e6, {"n": 8}), ("memory_bandwidth_utilization", 0.25, {"n": 8}),
        ("cpu_time", 3e-3, {"T": "I8"}),
    ]  # fmt: skip
    assert (rows[1].spread, rows[1].origin) == (records[1].spread, records[1].origin)


def test_nvbench_newest_summaries() -> None:
    """Quartiles beside the mean, the clock that it ran at, counters of the profiler: none is dropped in silence."""
    doc = json.loads(json.dumps(seeds.DOCUMENTS["nvbench"]))
    state = doc["benchmarks"][0]["states"][0]
    told = {"nv/cold/time/gpu/mean": "0.5", "nv/cold/time/gpu/median": "0.4", "nv/cold/time/gpu/q1": "0.3", "nv/cold/sm_clock_rate/mean": "1e9",
            "nv/cupti/l2_hit_rate": "0.9", "nv/cupti/walltime": "3", "nv/cold/walltime": "3"}  # fmt: skip
    state["summaries"] = [
        {"tag": tag, "data": [{"name": "value", "type": "float64", "value": value}]} for tag, value in told.items()
    ]
    records = read(doc, "nvbench")
    assert figures(records) == [("b", "gpu_time", 0.5), ("b", "sm_clock", 1e9), ("b", "nv/cupti/l2_hit_rate", 0.9)]
    assert records[0].summary == {"median": 0.4, "q1": 0.3}


def test_jmh_tables_in_the_language_of_the_machine() -> None:
    """Decimal commas are never marks of thousands, in the table and in CSV; CSV says what JSON says."""
    table = "Benchmark   (n)   Mode  Cnt  Score   Error  Units\nB.sum   100  thrpt    5  11,618 ± 0,449  ops/ms\n"
    (record,) = read(table, "tool-table")
    assert (record.value, record.spread) == (pytest.approx(11618), pytest.approx(449))
    head = '"Benchmark","Mode","Threads","Samples","Score","Score Error (99{}9%)","Unit","Param: n"\n'
    rows = (
        head.format(",") + '"a.B.sum","thrpt",2,5,"50883,752164","10285,5","ops/min",100\n"a.B.sum:·gc.time","thrpt",2,5,"3,5",NaN,"ms",100\n',
        head.format(".") + '"a.B.sum","thrpt",2,5,50883.752164,10285.5,"ops/min",100\n"a.B.sum:·gc.time","thrpt",2,5,3.5,NaN,"ms",100\n',
    )  # fmt: skip
    for text in rows:
        score, gc = read(text, "tool-table")
        assert (score.benchmark, score.metric.name, score.metric.direction, score.params) == ("a.B.sum", "score", 1, {"n": "100", "mode": "thrpt", "threads": 2})  # fmt: skip
        assert (score.value, score.spread, score.count) == (pytest.approx(848.0625), pytest.approx(171.425), 5)
        assert (gc.metric.name, gc.value) == ("gc.time", 0.0035)


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


def test_criterion_without_its_lines_of_progress() -> None:
    """Progress goes elsewhere when standard output is kept: a throughput is of the time above it."""
    text = """a/1024                  time:   [4.0 µs 4.2 µs 4.3 µs]
                        thrpt:  [1.0 MiB/s 2.0 MiB/s 3.0 MiB/s]
b/10                    time:   [4.0 s 4.2 s 4.3 s]
                        thrpt:  [2.3 Kelem/s 2.4 Kelem/s 2.5 Kelem/s]
"""
    assert [(r.benchmark, r.metric.name, r.params["value"]) for r in read("Benchmarking a/1024\n" + text, "criterion")] == [
        ("a", "time", 1024), ("a", "throughput", 1024), ("b", "time", 10), ("b", "throughput", 10),
    ]  # fmt: skip


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


def test_logs_of_windows_powershell_are_read() -> None:
    """A redirection there writes UTF-16."""
    records, _ = everything("BenchmarkA-8 \t 100\t 50 ns/op\r\n", encoding="utf-16")
    assert figures(records) == [("A", "time", 5e-8)]
