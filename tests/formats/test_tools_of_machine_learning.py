"""Collectives, MLPerf, serving and HUD records over the years: small files after the tools' sources."""

from __future__ import annotations

import json
from typing import Any

import pytest

from formats.reading import SHA, everything, figures, read
from fuzz import seeds


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


def test_what_torchdynamo_writes_of_models_that_failed() -> None:
    """A row of zeros is a failure, and no model without latency."""
    records = read("dev,name,batch_size,speedup,abs_latency\ncuda,a,16,1.5,12.5\ncuda,b,16,0.0,0.0\n", "csv")
    assert [(r.benchmark, r.metric.name, r.value, r.outcome) for r in records] == [
        ("a", "speedup", 1.5, "ok"), ("a", "abs_latency", 0.0125, "ok"), ("b", "speedup", None, "failed"), ("b", "abs_latency", None, "failed"),
    ]  # fmt: skip
    assert records[2].reason == 'its row says "0 in every column"'


def test_sglang_names_its_model_where_it_describes_its_server() -> None:
    """The newest serving benchmark keeps what the server said of itself."""
    run = {"backend": "sglang", "completed": 5, "output_throughput": 9.0, "accept_length": 2.5, "server_info": {"tp_size": 8, "model_path": "o/m"}}  # fmt: skip
    records = read(run, "llm-serving")
    assert {(r.benchmark, r.params["tensor_parallel_size"]) for r in records} == {("o/m", 8)}
    assert [(r.metric.name, r.metric.gate) for r in records][2] == ("accept_length", False)


def test_sglang_tasks_are_told_apart_by_how_they_ran() -> None:
    """What its benchmarks of tasks append: the same task with another parallelism is another point."""
    lines = [{"task": "gsm8k", "backend": "srt", "num_gpus": 1, "latency": 9.5 / n, "accuracy": 0.9, "num_requests": 200, "other": {"parallel": n}} for n in (1, 64)]  # fmt: skip
    records = read("".join(json.dumps(line) + "\n" for line in lines), "llm-serving")
    assert [(r.metric.name, r.params["task"], r.params["other parallel"]) for r in records] == [
        ("latency", "gsm8k", 1), ("accuracy", "gsm8k", 1), ("latency", "gsm8k", 64), ("accuracy", "gsm8k", 64),
    ]  # fmt: skip


def test_hud_records_of_version_2() -> None:
    """Fields side by side, of before 2025."""
    entry = {"repo": "o/r", "workflow_id": 1, "head_branch": "main", "name": "llama2", "dtype": "q8", "metric": "model_load_time(ms)", "actual": 286.5, "target": 0.0,
             "device": "Phone", "arch": "Android 12", "filename": "android-perf", "test_name": "ANDROID_APP"}  # fmt: skip
    (record,) = read([entry], "pytorch-hud")
    assert (record.benchmark, record.metric.name, record.value) == (
        "ANDROID_APP/llama2",
        "model_load_time",
        pytest.approx(0.2865),
    )
    assert record.params == {"dtype": "q8", "device": "Phone", "arch": "Android 12"}


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


@pytest.mark.parametrize("detail", [True, False])
def test_mlperf_inference_as_submissions_keep_it(detail: bool) -> None:
    """Every model is PySUT in what LoadGen writes: the folders say which it is; accuracy runs measure nothing."""
    lines = [
        ("loadgen_version", "5.1"),
        ("test_datetime", "2025-07-28T23:18:20Z"),
        ("sut_name", "PySUT"),
        ("effective_scenario", "Server"),
    ]
    results = [("result_validity", "VALID"), ("result_completed_samples_per_sec", 12.5)]

    def log(*entries: tuple[str, Any]) -> str:
        return "".join(
            ":::MLLOG " + json.dumps({"key": k, "value": v, "time_ms": 1.5, "metadata": {}}) + "\n" for k, v in entries
        )

    text = (
        log(*lines, *results)
        if detail
        else "MLPerf Results Summary\nSUT name : PySUT\nScenario : Server\nCompleted samples per sec : 12.5\nResult is : VALID\n"
    )
    (plain,), _ = everything(text, "mlperf_log.txt")
    assert (plain.benchmark, plain.value, plain.params) == ("PySUT", 12.5, {"scenario": "Server"})
    assert (plain.origin.measured_at is not None) == detail
    (placed,), _ = everything(
        text, "closed/Org/results/H200x8/llama2-70b-99/Interactive/performance/run_1/mlperf_log.txt"
    )
    assert (placed.benchmark, placed.params, placed.origin.machine.name) == ("llama2-70b-99", {"scenario": "Interactive"}, "H200x8")  # fmt: skip
    (tested,), _ = everything(text, "compliance/H200x8/bert/Server/TEST01/performance/run_1/mlperf_log.txt")
    assert (tested.benchmark, tested.params) == ("bert", {"scenario": "Server", "test": "TEST01"})
    accuracy = (
        log(*lines, ("effective_test_mode", "AccuracyOnly"))
        if detail
        else "\nNo warnings encountered during test.\n\nNo errors encountered during test.\n"
    )
    assert everything(accuracy) == ([], ["is of an accuracy run of LoadGen, which measures no performance"])


def test_nccl_of_so_many_ranks_that_the_table_comes_late() -> None:
    """A thousand ranks are more than a head; who dies before the table has crashed and is no unknown file."""
    lines = seeds.NCCL.splitlines()
    ranks = [lines[3].replace("Rank  0", f"Rank {i:4}").replace("node-1", f"node-{i // 4}") for i in range(1024)]
    plain = [lines[2], "#", "# Using devices", *ranks, *lines[4:-1]]
    records = read("\n".join(plain), "nccl-tests", "alltoall_output.dat")
    assert {(r.benchmark, r.params["ranks"]) for r in records} == {("alltoall", 1024)}
    assert len(records) == len(read(seeds.NCCL, "nccl-tests"))
    (died,) = read(
        "\n".join([*plain[:20], "node-1: Test NCCL failure common.cu:1012 'unhandled system error'"]), "nccl-tests"
    )
    assert (died.outcome, "unhandled" in died.reason) == ("crashed", True)


def test_serving_with_lists_of_percentiles_notes_and_nothing_completed() -> None:
    """Pairs beside keys, people's lines between results, and zeros that are no measurement."""
    run = {"backend": "vllm", "model_id": "m", "num_prompts": 5, "completed": 5, "request_throughput": 2.0, "p99_ttft_ms": 9.0,
           "percentiles_ttft_ms": [[50.0, 5.0], [99.0, 9.0], "x"], "percentiles_itl_ms": {"99.9": 3.0}}  # fmt: skip
    records = read(run, "llm-serving")
    assert [(r.metric.name, r.value) for r in records] == [
        ("completed", 5), ("request_throughput", 2.0), ("p99_ttft", pytest.approx(0.009)), ("p50_ttft", pytest.approx(0.005)), ("p99.9_itl", pytest.approx(0.003)),
    ]  # fmt: skip
    (failed,) = read({**run, "completed": 0, "request_throughput": 0.0, "mean_ttft_ms": 0.0}, "llm-serving")
    assert (failed.outcome, failed.value, failed.reason) == ("failed", None, "none of 5 requests completed")
    batch = json.dumps(
        {
            "batch_size": 1,
            "input_len": 8,
            "output_len": 8,
            "latency": 0.5,
            "output_throughput": 9.0,
            "overall_throughput": 99.0,
        }
    )
    records, skipped = everything(f"tp4:\n\n{batch}\n{batch}\n")
    assert (len(records), skipped) == (6, ["is a note between results"])
