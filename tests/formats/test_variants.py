"""Forms of the formats that no real file at hand has: small files made here after the tools' own documentation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from formats.reading import figures, read
from fuzz import seeds
from groundspeed.service.formats import detect
from groundspeed.service.formats.records import Record, Refused, Skipped
from groundspeed.service.formats.source import of_bytes
from groundspeed.service.formats.times import parse_time
from groundspeed.service.formats.units import parse_unit


def test_go_test_json_puts_cut_lines_together() -> None:
    """`go test -json` cuts a benchmark's line in two events."""
    events = [
        {"Action": "output", "Package": "a/b", "Output": "pkg: a/b\n"},
        {"Action": "output", "Package": "a/b", "Output": "BenchmarkX/n=5-8 \t"},
        {"Action": "output", "Package": "a/b", "Output": " 1000\t 12.5 ns/op\t 3 B/op\n"},
    ]
    records = read("\n".join(map(json.dumps, events)), "go")
    assert figures(records) == [("a/b.X", "time", 1.25e-8), ("a/b.X", "allocated_bytes", 3.0)]
    assert records[0].params == {"gomaxprocs": 8, "n": 5}


def test_nccl_json_and_launcher_prefixes() -> None:
    """JSON of version 2 in SI units; text behind mpirun's tags is the same table."""
    records = read(seeds.DOCUMENTS["nccl-tests-json"], "nccl-tests-json")
    assert [f for f in figures(records) if f[1] != "algbw"] == [
        ("all_reduce", "time", 5e-6), ("all_reduce", "busbw", 2e9), ("all_reduce", "time", 5e-6), ("all_reduce", "busbw", 2e9),
        ("all_reduce", "average_busbw", 2e9),
    ]  # fmt: skip
    plain = read(seeds.NCCL, "nccl-tests")
    tagged = read("".join(f"[1,0]<stdout>:{line}\n" for line in seeds.NCCL.splitlines()), "nccl-tests")
    assert figures(plain) == figures(tagged)
    assert [r.outcome for r in plain].count("wrong") == 3 + 1  # one side of one row, and the average


def test_mlperf_inference_that_is_invalid_is_wrong() -> None:
    """LoadGen's rates and latencies; INVALID never counts."""
    lines = {
        "result_validity": "INVALID",
        "result_samples_per_second": 5.5,
        "result_99.00_percentile_latency_ns": 2_000_000,
    }
    records = read(
        "".join(f":::MLLOG {json.dumps({'key': k, 'value': v, 'time_ms': 1.0})}\n" for k, v in lines.items()), "mlperf"
    )
    assert {(r.metric.name, r.value, r.metric.unit, r.outcome) for r in records} == {
        ("samples_per_second", 5.5, "1/s", "wrong"), ("99.00_percentile_latency", 0.002, "s", "wrong"),
    }  # fmt: skip


def test_cargo_criterion_messages() -> None:
    """Measured values over iteration counts are samples."""
    message = {
        "reason": "benchmark-complete",
        "id": "g/f/8",
        "typical": {"estimate": 5.0, "unit": "ns"},
        "measured_values": [10.0, 22.0],
        "iteration_count": [2, 4],
        "unit": "ns",
    }
    (record,) = read(json.dumps(message) + "\n", "criterion")
    assert (record.benchmark, record.params, record.value) == ("g/f", {"value": 8}, 5e-9)
    assert record.samples == pytest.approx((5e-9, 5.5e-9))


def test_hyperfine_with_parameters_and_failed_runs() -> None:
    """A failed run's time does not count; numbers among parameters are numbers."""
    document = of_bytes("h.json", json.dumps(seeds.DOCUMENTS["hyperfine"]).encode())
    items = list(detect.parse(document))
    (record,) = [i for i in items if isinstance(i, Record)]
    assert (record.params, record.samples) == ({"n": 3}, (0.4,))
    assert [i.reason for i in items if isinstance(i, Skipped)] == ["runs that ended with exit status 1 do not count"]


def test_conbench_and_codespeed() -> None:
    """Tags, commits, units and directions as the services document them."""
    payload = {
        "tags": {"name": "read", "size": 4}, "run_id": "r", "batch_id": "b", "timestamp": "2024-01-02T00:00:00Z",
        "github": {"commit": "AB" * 20, "repository": "o/r"}, "machine_info": {"name": "m", "cpu_thread_count": "8"},
        "stats": {"data": [2.0, 4.0], "unit": "B/s", "times": [0.5, 0.25], "time_unit": "s"},
    }  # fmt: skip
    records = read({"data": [payload], "metadata": {"next_page_cursor": None}}, "conbench")
    assert [(r.metric.unit, r.metric.direction, r.value, r.metric.gate) for r in records] == [
        ("B/s", 1, 3.0, True),
        ("s", -1, 0.375, False),
    ]
    assert (records[0].origin.commit, records[0].origin.machine.cpu_count, records[0].params) == (
        "ab" * 20,
        8,
        {"size": 4},
    )
    (failed,) = read({**payload, "stats": {"data": [], "unit": "s"}, "error": {"stack": "boom"}}, "conbench")
    assert (failed.outcome, "boom" in failed.reason) == ("failed", True)
    (speed,) = read(seeds.DOCUMENTS["codespeed"], "codespeed")
    assert (speed.value, speed.spread, speed.metric.direction, speed.origin.machine.name) == (1.5, 0.1, -1, "e")


def test_nvbench_before_1_0_and_jmh_histograms() -> None:
    """Summary data as an object; samples counted out of a histogram."""
    old = json.loads(json.dumps(seeds.DOCUMENTS["nvbench"]))
    old["benchmarks"][0]["states"][0]["summaries"][0]["data"] = {"value": {"type": "float64", "value": "0.5"}}
    assert figures(read(old, "nvbench")) == [("b", "gpu_time", 0.5)]
    jmh = json.loads(json.dumps(seeds.DOCUMENTS["jmh"]))
    jmh[0]["primaryMetric"] |= {"rawData": [], "scoreUnit": "ms/op", "score": 0.5}
    assert read(jmh, "jmh")[0].samples == (5e-4, 5e-4)


@pytest.mark.parametrize(
    ("form", "change"),
    [
        ("asv", {"version": 3}),
        ("nvbench", {"meta": {"version": {"nvbench": {}, "json": {"major": 2}}}}),
        ("nccl-tests-json", {"version": 9}),
        ("pyperf", {"version": "2.0"}),
        ("groundspeed", {"format": "groundspeed.result.v2"}),
    ],
)
def test_a_newer_version_is_refused_in_words(form: str, change: dict[str, Any]) -> None:
    """What we cannot know is not guessed."""
    with pytest.raises(Refused, match="newest that is known"):
        list(detect.parse(of_bytes("x", json.dumps(seeds.DOCUMENTS[form] | change).encode())))


@pytest.mark.parametrize(
    ("text", "unit", "factor", "kind", "direction"),
    [
        ("ns/op", "s", 1e-9, "time", -1), ("µs", "s", 1e-6, "time", -1), ("ops/sec", "1/s", 1.0, "rate", 1), ("GB/s", "B/s", 1e9, "rate", 1),
        ("KiB", "B", 1024.0, "bytes", -1), ("MB/s", "B/s", 1e6, "rate", 1), ("%", "1", 0.01, "ratio", 0), ("TFLOPS", "FLOP/s", 1e12, "rate", 1),
        ("tokens/s", "tokens/s", 1.0, "rate", 1), ("cycles/iter", "cycles/iter", 1.0, "counter", -1), ("wombats", "wombats", 1.0, "counter", 0),
        ("ops/ms", "1/s", 1e3, "rate", 1), ("ops/min", "1/s", 1 / 60, "rate", 1), ("ns/day", "ns/day", 1.0, "rate", 1), ("hr/op", "s", 3600.0, "time", -1),
    ],
)  # fmt: skip
def test_units(text: str, unit: str, factor: float, kind: str, direction: int) -> None:
    """Factor, kind and direction of units as tools write them."""
    found = parse_unit(text)
    assert (found.unit, found.factor, found.kind, found.direction) == (unit, pytest.approx(factor), kind, direction)


@pytest.mark.parametrize(
    "value",
    [
        "2024-01-02T03:04:05Z",
        "2024-01-02 03:04:05",
        "20240102-030405",
        1704164645,
        1704164645000,
        "2024-01-02T04:04:05+01:00",
    ],
)
def test_times(value: object) -> None:
    """All of them are one moment; what is no time is none."""
    moment = parse_time(value)
    assert moment is not None
    assert moment.timestamp() == 1704164645
    assert parse_time("soon") is parse_time(True) is parse_time(1e300) is None


GBENCH_CONSOLE = """2024-01-02T03:04:05+00:00
Running ./bench
Run on (8 X 2400 MHz CPU s)
-----------------------------------------------------
Benchmark           Time             CPU   Iterations
-----------------------------------------------------
BM_Copy          33.3 ns         33.1 ns     21014142
BM_Sort/1024     1.50 us         1.40 us        1000 bytes_per_second=1.5Gi/s items=5k
BM_Bad           ERROR OCCURRED: 'no device'
"""
GBENCH_CSV = """2024-01-02T03:04:05+00:00
Running ./bench
name,iterations,real_time,cpu_time,time_unit,bytes_per_second,items_per_second,label,error_occurred,error_message
"BM_Sort/1024",1000,1.5,1.4,us,1e9,,"a label",,
"BM_Bad",,,,,,,,true,"no device"
"""
NVBENCH_CSV = """Benchmark,Device,Device Name,T,Skipped,Samples,CPU Time (sec),Noise (%),GPU Time (sec),Elem/s (elem/sec)
copy,0,Example GPU,I32,No,100,1.5e-3,0.1,1.4e-3,1e9
copy,0,Example GPU,I64,too large,,,,,
"""
JMH_TABLE = """# Run complete. Total time: 00:01:00
Benchmark                (size)   Mode  Cnt   Score   Error   Units
a.B.sum                    1000   avgt    5  12.345 ± 0.123   ns/op
a.B.sum:gc.alloc.rate       N/A  thrpt    5   1.500 ± 0.100  MB/sec
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GBENCH_CONSOLE, [("BM_Copy", "real_time", 3.33e-8), ("BM_Copy", "cpu_time", 3.31e-8), ("BM_Sort/1024", "real_time", 1.5e-6),
                          ("BM_Sort/1024", "cpu_time", 1.4e-6), ("BM_Sort/1024", "bytes_per_second", 1610610000.0),
                          ("BM_Sort/1024", "items", 5000.0), ("BM_Bad", "real_time", None)]),
        (GBENCH_CSV, [("BM_Sort/1024", "real_time", 1.5e-6), ("BM_Sort/1024", "cpu_time", 1.4e-6),
                      ("BM_Sort/1024", "bytes_per_second", 1e9), ("BM_Bad", "real_time", None)]),
        (NVBENCH_CSV, [("copy", "cpu_time", 1.5e-3), ("copy", "gpu_time", 1.4e-3), ("copy", "item_rate", 1e9), ("copy", "gpu_time", None)]),
        (JMH_TABLE, [("a.B.sum", "score", 1.2345e-8), ("a.B.sum", "gc.alloc.rate", 1.5e6)]),
    ],
)  # fmt: skip
def test_tables_for_people(text: str, expected: list[tuple[str, str, float | None]]) -> None:
    """What a tool printed without an option for JSON: values in their units, failures with their reason."""
    records = read(text, "tool-table")
    assert figures(records) == expected
    assert all(r.reason for r in records if r.outcome != "ok")


def test_sglang_measures_one_batch() -> None:
    """bench_one_batch appends an object a line."""
    line = {"run_name": "default", "batch_size": 1, "input_len": 256, "output_len": 8, "prefill_latency": 0.05,
            "prefill_throughput": 5120.0, "median_decode_latency": 0.007, "total_latency": 0.1, "overall_throughput": 2640.0}  # fmt: skip
    records = read(json.dumps(line) + "\n" + json.dumps({**line, "batch_size": 2}), "llm-serving")
    assert len(records) == 10
    assert records[0].params["batch_size"] == 1


def test_superbench_units_are_those_of_its_table() -> None:
    """The same word is milliseconds in one benchmark, microseconds or seconds in another."""
    node = {"node": "n", "kernel-launch/event_time:0": 5.0, "kernel-launch/device_launch_us:0": 5.0, "gpu-burn/time": 10.0,
            "cudnn-function/name_f_time:0": 5.0, "ort-inference/fp16_m_time:0": 5.0, "cpu-memory-bw-latency/mem_numa_0_0_lat": 80.0,
            "cublaslt-gemm/fp8_1_2_3_4_flops:0": 1.5}  # fmt: skip
    values = {f"{b}/{m}": v for b, m, v in figures(read(node, "superbench"))}
    assert values == {
        "kernel-launch/event_time": 5e-3, "kernel-launch/device_launch_us": 5e-6, "gpu-burn/time": 10.0,
        "cudnn-function/name_f_time": 5e-6, "ort-inference/fp16_m_time": 5e-3,
        "cpu-memory-bw-latency/mem_numa_0_0_lat": 8e-8, "cublaslt-gemm/fp8_1_2_3_4_flops": 1.5e12,
    }  # fmt: skip


def test_torchbench_userbenchmarks_are_numbers_with_their_commit() -> None:
    """The file gives no unit: charted, not gated; what is no number is named."""
    doc = {"name": "optim", "environ": {"pytorch_git_version": "ab" * 20, "pytorch_version": "2.5", "device": "Example GPU"},
           "metrics": {"BERT, Adam, cuda": 0.0012, "resnet, SGD, cpu": 3}}  # fmt: skip
    records = read(doc, "pytorch-hud")
    assert figures(records) == [("optim/BERT, Adam, cuda", "value", 0.0012), ("optim/resnet, SGD, cpu", "value", 3.0)]
    assert not records[0].metric.gate
    assert (records[0].origin.commit, records[0].origin.machine.gpu_model) == ("ab" * 20, "Example GPU")
