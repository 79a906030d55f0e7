"""Where fuzzing starts: small files of every format, made here, and ways to damage them."""

from __future__ import annotations

import json
import random
import re
from typing import Any

NCCL = """# nccl-tests version 2.17.8 nccl-headers=22902 nccl-library=22902
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 8 maxBytes 128 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#  Rank  0 Group  0 Pid 383231 on node-1 device  0 [0000:c3:00] Example GPU
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    34.66    0.00    0.00       0    34.84    0.00    0.00     N/A
         128            32     float     sum      -1  1.2e+05    0.00    0.01       1    43.78    0.00    0.01       0
# Out of bounds values : 1 FAILED
# Avg bus bandwidth    : 0.004
# Collective test concluded: all_reduce_perf
"""
TEXTS: dict[str, str] = {
    "nccl-tests": NCCL,
    "nccl-sweep-failures": "FAILURE SUMMARY\n  - nccl_a_b.log: alltoall_perf (N=2, G=1, nodes=x-[1,2])\n",
    "go": "goos: linux\npkg: a/b\ncpu: X\nBenchmarkA/n=5-8  100  12.5 ns/op  3 B/op  1 allocs/op\n--- FAIL: BenchmarkB\n",
    "criterion": "Benchmarking f\nf/12                    time:   [2.02 ns 2.23 ns 2.44 ns]\ntest a ... bench: 1,329 ns/iter (+/- 4)\n"
    "thread 'main' panicked at 'x', a.rs:1:2\n",
    "console": "[  0.00%] · For project commit 4238c44d <main>:\n[ 10.00%] ·· Benchmarking py\n[ 30.00%] ··· b.M.mem_list   2.42k\n"
    "[ 40.00%] ··· b.T.time_x     ok\n             ===== ========\n               n\n             ----- --------\n               1   11.1±0.01μs\n",
    "gpu-tool-log": "Running host_to_device.\nmemcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n           0         1\n 0    369.36    269.33\n\n"
    "SUM host_to_device 638.69\nLatency of step 0: 1.8 ms\ncpu_to_gpu0_by_sm_under_numa0 26.2\n[I] Throughput: 12 qps\n"
    "                    RDMA_Write BW Test\n#bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n2 2000 5.3 5.2 2.7\n"
    "iteration 1/ 5 | elapsed time per iteration (ms): 7.5 | samples per second: 2.1 | TFLOPs: 1.5 |\n",
    "mlperf": ':::MLLOG {"key": "run_start", "time_ms": 1000, "value": null}\n:::MLLOG {"key": "run_stop", "time_ms": 9000, '
    '"value": 0.5, "metadata": {"status": "success"}}\n:::SYSJSON {"accelerators_per_node": "8"}\n',
    "csv": 'benchmark,value,unit,commit,date\n"a, b",1.5,ms,abcdef1,2024-01-02\n#off,2,s,,\n',
    "csv-mapped": "x,1.5,3\ny,,2\n",
    "tool-table": "Run on (8 X 2400 MHz CPU s)\n-----\nBenchmark   Time   CPU   Iterations\n-----\n"
    "BM_a/8   33.3 ns   33.1 ns   21014142 bytes_per_second=1.5Gi/s items=5k\nBM_b   ERROR OCCURRED: 'oops'\n"
    "Benchmark   (size)  Mode  Cnt   Score   Error  Units\na.B.sum   1000  avgt    5  12.345 ± 0.123  ns/op\n"
    "a.B.sum:gc   N/A  thrpt       ≈ 10⁻³   MB/sec\n"
    'name,iterations,real_time,cpu_time,time_unit,items_per_second,error_occurred,error_message\n"BM_c",10,1.5,1.4,us,5e6,,\n',
}
_GBENCH = {"context": {"date": "2024-01-02T03:04:05Z", "num_cpus": 4}, "benchmarks": [
    {"name": "BM_a/8/threads:2", "run_type": "iteration", "real_time": 1.5, "cpu_time": 1.2, "time_unit": "us", "items_per_second": 5.0},
    {"name": "BM_b", "error_occurred": True, "error_message": "no"}]}  # fmt: skip
DOCUMENTS: dict[str, Any] = {
    "google-benchmark": _GBENCH,
    "asv": {"commit_hash": "ab" * 20, "date": 1600000000000, "env_name": "e", "params": {"machine": "m", "ram": "12"}, "python": "3",
            "requirements": {"six": ""}, "env_vars": {}, "version": 2,
            "result_columns": ["result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_q_25", "stats_q_75", "samples"],
            "results": {"b.time_x": [[1.0, None], [["1", "2"]], "v", 1600000000000, 0.5, [0.9, None], [0.95, None], [1.05, None], [[1.0, 1.1], None]],
                        "b.time_y": [None, [], "v"]}},
    "pytest-benchmark": {"machine_info": {"node": "n", "cpu": {"count": 4}}, "commit_info": {"id": "ab" * 20}, "datetime": "2024-01-02T00:00:00",
                         "version": "4.0.0", "benchmarks": [{"name": "t[x]", "fullname": "a.py::t[x]", "params": {"n": 1},
                                                            "stats": {"median": 0.5, "mean": 0.5, "iqr": 0.1, "rounds": 5, "data": [0.4, 0.5]}}]},
    "nvbench": {"meta": {"version": {"json": {"major": 1}, "nvbench": {"string": "0.1"}}}, "devices": [{"id": 0, "name": "G"}],
                "benchmarks": [{"name": "b", "states": [{"name": "s", "device": 0, "is_skipped": False, "axis_values": [{"name": "n", "type": "int64", "value": "8"}],
                                "summaries": [{"tag": "nv/cold/time/gpu/mean", "data": [{"name": "value", "type": "float64", "value": "0.5"}]}]}]}]},
    "pyperf": {"version": "1.0", "metadata": {"unit": "second"}, "benchmarks": [{"metadata": {"name": "b"}, "runs": [{"warmups": [[1, 0.5]]}, {"values": [0.5, 0.6]}]}]},
    "hyperfine": {"results": [{"command": "x", "mean": 0.5, "times": [0.4, 0.6], "exit_codes": [0, 1], "parameters": {"n": "3"}, "user": 0.1}]},
    "jmh": [{"jmhVersion": "1", "benchmark": "a.b", "mode": "sample", "threads": 1, "params": {"n": "1"},
             "primaryMetric": {"score": 5.0, "scoreUnit": "ops/s", "rawData": [[5.0, 6.0]], "rawDataHistogram": [[[[0.5, 2]]]]}, "secondaryMetrics": {}}],
    "nccl-tests-json": {"version": 2, "start_time": "2024-01-02 03:04:05", "args": ["./all_reduce_perf"], "env": ["NCCL_ALGO=Ring"], "nccl_version": 22900,
                        "config": {"devices": [{"hostname": "h", "device_info": "G"}]},
                        "results": [{"size": 8, "type": "float", "redop": "sum", "root": "    -1", "out_of_place": {"time": 5.0, "alg_bw": 1.0, "bus_bw": 2.0, "nwrong": 0.0},
                                     "in_place": {"time": 5.0, "alg_bw": 1.0, "bus_bw": 2.0, "nwrong": None}}],
                        "out_of_bounds": {"count": 0, "okay": "true"}, "average_bus_bandwidth": {"bandwidth": 2.0, "okay": "unchecked"}, "errors": []},
    "llm-serving": {"date": "20240102-030405", "backend": "vllm", "model_id": "m", "num_prompts": 5, "completed": 4, "request_rate": 1e999,
                    "request_throughput": 1.5, "mean_ttft_ms": 5.0, "p99_tpot_ms": 1.0, "duration": 3.0},
    "superbench": {"node": "n", "kernel-launch/event_overhead:0": 0.5, "mem-bw/return_code": 0},
    "pytorch-hud": [{"benchmark": {"name": "b", "extra_info": {"device": "cuda"}}, "model": {"name": "m"}, "metric": {"name": "mem(mb)", "benchmark_values": [1, 2]}}],
    "conbench": {"tags": {"name": "b", "n": 1}, "run_id": "r", "batch_id": "b", "timestamp": "2024-01-02T00:00:00Z", "github": {"commit": "ab" * 20},
                 "machine_info": {"name": "m", "gpu_product_names": []}, "context": {}, "stats": {"data": [1.0, None], "unit": "B/s", "times": [1.0], "time_unit": "s"}},
    "github-action-benchmark": {"lastUpdate": 1, "repoUrl": "u", "entries": {"s": [{"commit": {"id": "ab" * 20, "timestamp": "2024-01-02T00:00:00Z"}, "date": 1600000000000,
                                "tool": "go", "benches": [{"name": "b", "value": "1,000", "unit": "ns/op", "range": "± 5%"}]}]}},
    "codespeed": [{"commitid": "ab" * 20, "benchmark": "b", "result_value": 1.5, "environment": "e", "executable": "x", "std_dev": "0.1"}],
    "benchmarkdotnet": {"Title": "X-20200529-164431", "HostEnvironmentInfo": {"BenchmarkDotNetVersion": "0.12", "LogicalCoreCount": 8}, "Benchmarks": [
        {"DisplayInfo": "B.F: Job(N=1) [N=10]", "Namespace": "S", "Type": "B", "Method": "F", "Parameters": "N=10&Name=a", "Statistics": {"OriginalValues": [24.5, 25.0],
         "Median": 24.7, "Mean": 24.8, "StandardDeviation": 0.1}, "Memory": {"BytesAllocatedPerOperation": 368}}]},
    "benchmarktools": [{"Julia": "1.10.9", "BenchmarkTools": {"major": 1, "minor": 6, "patch": 0}}, [["BenchmarkGroup", {"tags": [], "data": {
        "a": ["BenchmarkTools.Trial", {"times": [125.0, 127.0], "gctimes": [0.0, 0.0], "memory": 64, "allocs": 2, "params": ["Parameters", {"evals": 1}]}],
        "b": ["BenchmarkGroup", {"data": {"c": ["TrialEstimate", {"time": 5.0, "memory": 0, "allocs": 0}]}}]}}]]],
    "groundspeed": {"format": "groundspeed.result.v1", "benchmark": "b", "metric": {"name": "time", "unit": "s", "direction": -1, "kind": "time"}, "value": 1.5, "outcome": "ok"},
}  # fmt: skip
DOCUMENTS |= {"asv-tree": DOCUMENTS["asv"], "criterion-tree": {"Mean": {"point_estimate": 5.0}, "iters": [1.0], "times": [5.0], "full_id": "g/f"},
              "detect": _GBENCH}  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1e308, -0.0, float("nan"), float("inf"), 10**400, "", "x" * 300, "\x00", "\ud800", "N/A", "1,5", [], [[]], {}, [None], {"a": {}},
    "2024-01-02", "9999999999999999999", "-", [1, "x", None],
)  # fmt: skip


MORE: dict[str, tuple[Any, ...]] = {
    "codespeed": ([{"model": "codespeed.revision", "pk": 1, "fields": {"commitid": "ab" * 20, "date": "2011-04-12T16:43:20", "branch": 1}},
                   {"model": "codespeed.benchmark", "pk": 1, "fields": {"name": "b", "units": "ms", "lessisbetter": True}},
                   {"model": "codespeed.executable", "pk": 1, "fields": {"name": "e", "project": 1}}, {"model": "codespeed.environment", "pk": 1, "fields": {"name": "m"}},
                   {"model": "codespeed.result", "pk": 1, "fields": {"value": 4.0, "std_dev": 1.0, "q1": None, "revision": 1, "executable": 1, "benchmark": 1, "environment": 1}}],),
    "conbench": (
        "# original URL: u\n# benchmark name: b\n# case permutation: a=1\ncommit_time,result_id,commit_hash,svs,min\n2024-01-02 00:00:00+00:00,x,abcdef1,0.1,0.1\n",
        {"data": [{"case_id": "c", "commit_hash": "ab" * 20, "data": [0.1], "unit": "s", "single_value_summary": 0.1, "hardware_hash": "h"}]},
        {"results": [{"tags": {"name": "b"}, "run_id": "r", "stats": {"mean": 1.0}, "data": [1.0], "unit": "i/s", "less_is_better": False}]},
    ),
    "console": ("fib(10) x 1,431,759 ops/sec ±0.74% (93 runs sampled)\nSUCCESS: base64 :   15.041ms +/-  0.636% on luau\n",),
    "csv": ("sep=;\nbenchmark;value;unit\nb;1.234,5;ms\n", "# x\nname\tmedian\tiqr\trounds\na\t0,5\t0.1\t3\n"),
    "go": ("BenchmarkLoud-8 \ttext\n  200\t 7 ns/op\t 5 p99-ns/op\n",),
    "nccl-tests": ("[prterun-h-1@1,0]<stdout>: # in-place\n2024-01-02T03:04:05Z #   size count type redop root time algbw busbw #wrong\n 8 2 float sum -1 34.66 0.00 0.00 0\n",),
    "criterion": ("a/long/name\n      time:   [2.0 ms 2.5 ms 3.0 ms]\n",),
    "google-benchmark": ({"context": {}, "benchmarks": [{"name": f"BM_a{tail}", "real_time": 1.0, "cpu_time": 1.0} for tail in ("", "_mean", "_stddev", "_BigO")]},),
    "github-action-benchmark": ([{"name": "b", "value": 1.5, "unit": "ms", "range": "± 5%"}],),
    "mlperf": ("MLPerf Results Summary\nSUT name : P\nSamples per second: 12.5\nResult is : VALID\n99.00 percentile latency (ns) : 5\n",),
    "pytorch-hud": ([{"benchmark": {"name": "b"}, "model": {}, "metric": {"name": "p50_ms", "benchmark_values": [1]}}],),
    "tool-table": (("# Devices\n\n## [0] `G`\n# Log\n```\nSkip: too much [n=8]\n```\n# Benchmark Results\n\n## b\n\n### [0] G\n\n"
                   "|    n    | R | Samples | GPU Time | Noise | Elem/s |\n|---------|---|---|---|---|---|\n| 2^3 = 8 | 4.000 KiB | 5x | 1.500 us | 2.00% | 3.5M |\n"),
                   "Benchmark,Device,Device Name,n (pow2),n,t,Skipped,Samples,GPU Time (sec),Noise,BWUtil\nb,0,G,2^3,8,,No,5,1e-6,0.5,0.1\nc,0,G,,,x,Yes,,,,\n",
                   '"Benchmark","Mode","Threads","Samples","Score","Score Error (99,9%)","Unit","Param: n"\n"a.B","thrpt",1,3,"50,752","1,5","ops/min",8\n'),
    "llm-serving": ("Namespace(backend='vllm', num_prompts=32, request_rate=inf)\n== Serving Benchmark Result ==\nMean TTFT (ms): 7.5\n====\n", {"avg_latency": 0.5, "latencies": [0.4, 0.6], "percentiles": {"50": 0.5}}, {"elapsed_time": 2.0, "num_requests": 4, "requests_per_second": 2.0}),
}  # fmt: skip
"""Further forms of the same format."""


def seed(name: str) -> bytes:
    """A sound file of the format."""
    return (TEXTS[name] if name in TEXTS else json.dumps(DOCUMENTS[name])).encode("utf-8")


def with_run(name: str, rng: random.Random) -> bytes:
    """A sound file of any form of the format, with a long run of one thing in it."""
    start = rng.choice((TEXTS.get(name) or DOCUMENTS[name], *MORE.get(name, ())))
    return _run((start if isinstance(start, str) else json.dumps(start)).encode(), rng)


def damaged(name: str, rng: random.Random) -> bytes:
    """A file of the format with something wrong in it."""
    start = rng.choice((TEXTS.get(name) or DOCUMENTS[name], *MORE.get(name, ())))
    if not isinstance(start, str) and rng.random() < 0.7:
        doc = json.loads(json.dumps(start))
        for _ in range(rng.randint(1, 4)):
            doc = _replaced(doc, rng)
        return json.dumps(doc, indent=rng.choice([None, 1])).encode("utf-8", "surrogatepass")
    data = (start if isinstance(start, str) else json.dumps(start, indent=rng.choice([None, 1]))).encode()
    if rng.random() < 0.02:
        data = data.decode("utf-8", "replace").encode("utf-16")
    for _ in range(rng.randint(1, 6)):
        data = rng.choice((_cut, _flip, _repeat, _number, _swap))(data, rng)
    if rng.random() < 0.02:
        data = _run(data, rng)
    return data[:200_000]


def _replaced(doc: Any, rng: random.Random) -> Any:
    """The document with one value somewhere exchanged, removed or doubled."""
    if rng.random() < 0.15 or not isinstance(doc, dict | list) or not doc:
        return rng.choice(ODD)
    if isinstance(doc, dict):
        key = rng.choice(list(doc))
        if rng.random() < 0.1:
            return {k: v for k, v in doc.items() if k != key}
        return {**doc, key: _replaced(doc[key], rng)}
    at = rng.randrange(len(doc))
    return [*doc[:at], _replaced(doc[at], rng), *doc[at + rng.choice([0, 1, 1, 1]) :]]


def _cut(data: bytes, rng: random.Random) -> bytes:
    at, length = rng.randrange(len(data) + 1), rng.choice([1, 5, 50, len(data)])
    return data[:at] + data[at + length :]


def _flip(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return (
        data[:at]
        + bytes(rng.choice([rng.randrange(256), 0, 10, 32, 34, 58]) for _ in range(rng.randint(1, 4)))
        + data[at + 1 :]
    )


def _repeat(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    return b"\n".join(lines[:at] + [lines[at]] * rng.choice([2, 3, 500]) + lines[at + 1 :])


RUNS = (
    " ",
    "\n",
    "\t",
    "=",
    "-",
    "│",
    "(x) ",
    "a ",
    "1 ",
    "# ",
    "#",
    "a",
    "0",
    ".",
    ",",
    "/",
    '"',
    "[",
    "{",
    "|",
    ": ",
    "\r\n",
    "_",
    "[1,0]",
)
"""What regular expressions take long over when there is much of it."""


def _run(data: bytes, rng: random.Random, length: int = 20_000) -> bytes:
    """The same thing thousands of times, within a line or at its ends."""
    lines, run = data.split(b"\n"), rng.choice(RUNS).encode()
    at = rng.randrange(len(lines))
    where = rng.choice((0, len(lines[at]), rng.randrange(len(lines[at]) + 1)))
    lines[at] = lines[at][:where] + run * (length // len(run)) + lines[at][where:]
    return b"\n".join(lines)


def _number(data: bytes, rng: random.Random) -> bytes:
    found = list(re.finditer(rb"-?\d+(?:\.\d+)?", data))
    if not found:
        return data
    match = rng.choice(found)
    new = rng.choice(
        [b"0", b"-1", b"1e999", b"nan", b"N/A", b"9" * 400, b"1e-400", b"0x10", b"", "٣".encode(), "²".encode()]
    )
    return data[: match.start()] + new + data[match.end() :]


def _swap(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return b"\n".join(lines)
