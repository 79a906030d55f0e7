"""The command plugin: programs' resources and values, the real outputs, and programs that hang, fork, flood and lie."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.plugins.conftest import metric

from groundspeed.plugins.programs import formats, nccl
from groundspeed.plugins.programs.values import family

PYTHON = sys.executable


@pytest.fixture
def program(child):
    """Writes a program and runs it through the plugin in a process of its own (which sweeps all below it)."""

    def run(code, **params):
        child.write("program.py", code)
        given = {"runs": 2, "warmups": 0, **params}
        return child.run("command", params={"command": f"{PYTHON} {child.folder}/program.py", **given})

    return run


def by_metric(reading):
    found = {}
    for one in reading.values:
        found.setdefault(one.metric, []).append(one)
    return found


# --- programs ---------------------------------------------------------------------------------------------------------


def test_resources_of_a_program_and_its_children(program):
    report = program(
        "import subprocess, sys\n"
        "x = bytearray(60_000_000)\n"
        "subprocess.run([sys.executable, '-c', 'for _ in range(2_000_000): pass'])\n"
    )
    assert report.outcome == "ok"
    assert len(metric(report, "wall_time").values) == 2
    assert min(metric(report, "user_time").values) > 0.01
    assert min(metric(report, "peak_memory").values) > 60_000_000
    assert report.device == "cpu"


def test_a_declared_pattern_with_names_and_units(program):
    code = "print('warm: 9 ms')\nprint('load: 3.5 ms')\nprint('warm: 1,500 ms')\n"
    report = program(code, pattern=r"(?P<name>\w+): (?P<value>[\d.,]+) ms", unit="ms")
    found = {one.params["name"]: one.values for one in report.metrics if one.metric == "reported_time"}
    assert found == {"load": (0.0035, 0.0035), "warm": (1.5, 1.5)}
    report = program(code, pattern=r"([\d.]+) ms", unit="frobs", better="higher", pick="all")
    found = metric(report, "reported_higher")
    assert found.params == {"unit": "frobs"}
    assert found.values == (9.0, 3.5, 500.0) * 2


@pytest.mark.parametrize(
    ("params", "outcome", "words"),
    [
        ({"pattern": "nothing (\\d+)"}, "failed", "nothing in the output matches"),
        ({"pattern": "("}, "unsupported", "no regular expression"),
        ({"parser": "auto"}, "failed", "no parser knows the output"),
        ({"parser": "trtexec"}, "failed", "no table of trtexec"),
        ({"command": ""}, "unsupported", "set params.command"),
        ({"command": "a 'b"}, "unsupported", "cannot be split"),
        ({"command": "/no/such/program"}, "unsupported", "cannot be started"),
        ({"output_file": "never-written.json", "parser": "vllm"}, "failed", "no throughput"),
    ],
)
def test_what_cannot_be_understood_says_so(program, params, outcome, words):
    report = program("print('hello')", **params)
    assert (report.outcome, words in report.evidence["message"]) == (outcome, True), report.evidence


def test_a_program_that_fails_keeps_what_it_said_and_what_it_had_measured(program):
    code = "import sys\nprint('speed: 5')\nsys.exit('no luck today')\n"
    report = program(code, pattern=r"speed: (\d+)", unit="")
    assert report.outcome == "failed"
    assert "ended with status 1: no luck today" in report.evidence["message"]
    assert metric(report, "reported_lower").values == (5.0,)
    report = program("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
    assert "died by signal 11" in report.evidence["message"]
    report = program("import sys\nsys.exit(3)", status=3)
    assert report.outcome == "ok"


def running(marker):
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes()
        except OSError:
            continue
        if marker.encode() in text:
            found.append(path)
    return found


def test_a_program_that_hangs_is_ended_with_all_it_started(program, child):
    marker = f"marker-{os.getpid()}-{time.monotonic_ns()}"
    code = (
        "import subprocess, sys, time, signal\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', '{marker}'], start_new_session=True)\n"
        "print('started', flush=True)\n"
        "time.sleep(600)\n"
    )
    report = program(code, timeout_s=10.0)
    assert report.outcome == "timeout"
    assert "still ran after 10 s (timeout_s)" in report.evidence["message"]
    assert "started" in report.evidence["stdout_tail"]
    assert running(marker) == []
    report = program("import time\nprint('once', flush=True)\ntime.sleep(600)", silence_s=2.0)
    assert "had printed nothing after 2 s" in report.evidence["message"]


def test_a_program_that_leaves_daemons_holding_its_output_ends_at_once_and_they_are_gone(program):
    marker = f"daemon-{os.getpid()}-{time.monotonic_ns()}"
    code = (
        "import subprocess, sys\n"
        f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', '{marker}'], start_new_session=True)\n"
        "print('speed: 7')\n"
    )
    report = program(code, runs=1, pattern=r"speed: (\d+)")
    assert report.outcome == "ok"
    assert "left 1 processes behind" in report.conditions["labels"]["left_processes"]
    assert running(marker) == []


def test_a_program_that_forks_without_end_is_ended(program):
    code = "import os, time\nfor _ in range(60):\n    if os.fork() == 0:\n        time.sleep(600)\ntime.sleep(600)\n"
    report = program(code, processes=30, timeout_s=60.0)
    assert report.outcome == "failed"
    assert "started more than 30 processes" in report.evidence["message"]
    assert report.evidence["left_processes"] >= 30


def test_a_flood_is_cut_off_and_its_ends_are_kept(program):
    code = "import sys\nprint('first: 1')\nwhile True:\n    sys.stdout.write('x' * 1_000_000)\n"
    report = program(code, output_bytes=20_000_000)
    assert report.outcome == "failed"
    assert "printed more than 20000000 bytes" in report.evidence["message"]
    code = "import sys\nprint('first: 1')\nsys.stdout.write('y' * 12_000_000)\nprint()\nprint('last: 2')\n"
    report = program(code, runs=1, pattern=r"(?P<name>first|last): (?P<value>\d)")
    assert report.outcome == "ok"
    assert {one.params.get("name") for one in report.metrics if one.metric == "reported_lower"} == {"first", "last"}


def test_binary_output_is_no_trouble(program):
    code = "import sys, os\nsys.stdout.buffer.write(os.urandom(100_000) + b'\\nvalue: 42\\n' + bytes(range(256)))\n"
    report = program(code, runs=1, pattern=r"^value: (\d+)")
    assert metric(report, "reported_lower").values == (42.0,)
    report = program(code + "sys.exit(1)", runs=1)
    assert report.outcome == "failed"
    json.dumps(report.evidence)


def test_a_file_that_the_program_writes_is_read(program):
    code = (
        "import json, sys\n"
        "json.dump({'request_throughput': 9.5, 'mean_ttft_ms': 20, 'completed': 3, 'num_prompts': 4,"
        " 'request_rate': float('inf')}, open(sys.argv[1] + '/result.json', 'w'))\n"
    )
    report = program(code + "print('noise')", runs=1, parser="vllm", output_file="result.json")
    assert report.outcome != "ok"  # no argument: the program fails
    child_report = program(
        code.replace("sys.argv[1]", "__import__('os').getcwd()"), runs=1, parser="vllm", output_file="result.json"
    )
    assert child_report.outcome == "ok", child_report.evidence
    assert metric(child_report, "request_rate").values == (9.5,)
    assert metric(child_report, "completed_share").values == (0.75,)
    assert metric(child_report, "time_to_first_token").params == {"statistic": "mean", "request_rate": "unlimited"}


# --- what other tools print -------------------------------------------------------------------------------------------


@pytest.mark.data
def test_our_own_nccl_tests_table(shared_data):
    text = (shared_data / "gpu/nccl_all_reduce.txt").read_text()
    assert formats.guess(text) == "nccl-tests"
    reading = nccl.parse(text)
    assert (reading.wrong, reading.failed) == ("", "")
    found = by_metric(reading)
    small = [one for one in found["collective_time"] if one.params["bytes"] == 8192]
    assert [(one.value, one.params["place"]) for one in small] == [
        (pytest.approx(15.04e-6), "out-of-place"), (pytest.approx(13.95e-6), "in-place"),
    ]  # fmt: skip
    assert small[0].params["collective"] == "all_reduce"
    assert small[0].params["ranks"] == 2
    assert len(found["bus_bandwidth"]) == 2 * 18
    assert len(found["average_bus_bandwidth"]) == 1


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "tables", "trouble"),
    [
        ("superbench-nccl_allreduce.log", 1, ""),
        ("superbench-nccl_alltoall.log", 1, ""),
        ("superbench-nccl_broadcast.log", 1, ""),
        ("superbench-nccl_reduce.log", 1, ""),
        ("superbench-nccl_reducescatter.log", 1, ""),
        ("multinode-N10_G8.log", 5, ""),
        ("multinode-N10_G1.log", 5, ""),
        ("pair-ok-N2_G1.log", 2, ""),
        ("polaris-n128g4-all_reduce.dat.gz", 1, ""),
        ("pair-slow-and-cut-N2_G1_003_008.log", 1, "ends before the table does"),
        ("pair-cut-N2_G1_002_008.log", None, "ends before the table does"),
        ("issue-322-died-in-the-middle.txt", 0, "ends before the table does"),
        ("polaris-launch-failed.dat", 0, "launch failed"),
        ("polaris-start-failed.dat", 0, "start failed"),
    ],
)
def test_real_nccl_outputs(shared_data, name, tables, trouble):
    data = (shared_data / "gpu/nccl" / name).read_bytes()
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
    reading = nccl.parse(text)
    averages = by_metric(reading).get("average_bus_bandwidth", [])
    if tables is not None:
        assert len(averages) == tables
    assert trouble in reading.failed
    assert bool(reading.failed) == bool(trouble)
    assert reading.wrong == ""
    if tables:
        assert by_metric(reading)["bus_bandwidth"]


@pytest.mark.data
def test_wrong_values_make_the_result_wrong_and_keep_the_figures(shared_data, child):
    path = shared_data / "gpu/nccl/issue-37-out-of-bounds-failed.txt"
    report = child.run("command", params={"command": f"cat {path}", "parser": "auto", "runs": 1, "warmups": 0})
    assert report.outcome == "wrong"
    assert "2 values out of bounds" in report.evidence["message"]
    assert metric(report, "average_bus_bandwidth").values == (pytest.approx(128.942e9),)


@pytest.mark.data
def test_real_serving_results(shared_data):
    folder = shared_data / "gpu/llm-serving"
    reading = formats.serving(
        (folder / "vllm-bm_results_snapshot-gptoss_itl8000_otl1_4xtp2-conc32_rr1.json").read_text()
    )
    found = by_metric(reading)
    (first,) = [one for one in found["time_to_first_token"] if one.params["statistic"] == "p99"]
    assert first.value == pytest.approx(0.46371769)
    assert found["completed_share"][0].value == 1.0
    assert {one.params["of"] for one in found["token_rate"]} == {"output", "total"}
    text = (folder / "sglang-deepseek_dp_mla_output.jsonl").read_text()
    assert formats.guess(text) == "vllm"
    found = by_metric(formats.PARSERS["sglang"](text))
    assert found["token_rate"][0].value == pytest.approx(12412.394674)
    assert found["end_to_end_latency"][0].params["request_rate"] == "unlimited"
    for path in folder.iterdir():
        assert formats.serving(path.read_text()).failed == ""


@pytest.mark.data
def test_a_real_trtexec_log_of_version_7(shared_data):
    text = (shared_data / "gpu/superbench/tensorrt_inference.1.log").read_text()
    assert formats.guess(text) == "trtexec"
    reading = formats.trtexec(text)
    found = by_metric(reading)
    assert [one.value for one in found["device_time"] if one.params["statistic"] == "p99"] == [pytest.approx(5e-4)]
    assert [one.value for one in found["end_to_end_latency"] if one.params["statistic"] == "median"] == [6e-4]
    assert "query_rate" not in found  # it says 0 qps


TRTEXEC_10 = """\
[06/10/2024-10:00:00] [I] === Performance summary ===
[06/10/2024-10:00:00] [I] Throughput: 1507.39 qps
[06/10/2024-10:00:00] [I] Latency: min = 0.95 ms, max = 1.5 ms, mean = 1.0 ms, median = 0.99 ms, percentile(90%) = 1.1 ms, percentile(99%) = 1.3 ms
[06/10/2024-10:00:00] [I] Enqueue Time: min = 0.1 ms, max = 0.3 ms, mean = 0.15 ms, median = 0.14 ms, percentile(99%) = 0.2 ms
[06/10/2024-10:00:00] [I] H2D Latency: min = 0.05 ms, max = 0.09 ms, mean = 0.06 ms, median = 0.06 ms, percentile(99%) = 0.07 ms
[06/10/2024-10:00:00] [I] GPU Compute Time: min = 0.66 ms, max = 0.9 ms, mean = 0.7 ms, median = 0.69 ms, percentile(99%) = 0.8 ms
[06/10/2024-10:00:00] [I] D2H Latency: min = 0.01 ms, max = 0.02 ms, mean = 0.01 ms, median = 0.01 ms, percentile(99%) = 0.02 ms
&&&& PASSED TensorRT.trtexec [TensorRT v100001]
"""
SERVING_TABLE = """\
============ Serving Benchmark Result ============
Successful requests:                     90
Failed requests:                         10
Benchmark duration (s):                  10.20
Request throughput (req/s):              9.80
Output token throughput (tok/s):         1254.90
Total Token throughput (tok/s):          11294.12
---------------Time to First Token----------------
Mean TTFT (ms):                          81.21
P99 TTFT (ms):                           212.00
-----Time per Output Token (excl. 1st token)------
Median TPOT (ms):                        11.05
---------------Inter-Token Latency----------------
Median ITL (ms):                         10.90
P95 ITL (ms):                            15.00
----------------End-to-End Latency----------------
Mean E2E Latency (ms):                   1500.5
==================================================
"""


def test_newer_trtexec_and_tables_of_serving_benchmarks():
    found = by_metric(formats.trtexec(TRTEXEC_10))
    assert found["query_rate"][0].value == 1507.39
    assert {one.params["statistic"] for one in found["end_to_end_latency"]} == {
        "min",
        "max",
        "mean",
        "median",
        "p90",
        "p99",
    }
    assert {one.params["direction"] for one in found["transfer_time"]} == {"H2D", "D2H"}
    assert formats.trtexec("&&&& FAILED TensorRT.trtexec # trtexec --onnx=x").failed.startswith("&&&& FAILED")
    assert formats.guess(SERVING_TABLE) == "vllm"
    found = by_metric(formats.serving(SERVING_TABLE))
    assert [(one.params["statistic"], one.value) for one in found["time_to_first_token"]] == [
        ("mean", pytest.approx(0.08121)), ("p99", pytest.approx(0.212)),
    ]  # fmt: skip
    assert found["completed_share"][0].value == 0.9
    assert {one.params["of"]: one.value for one in found["token_rate"]} == {"output": 1254.9, "total": 11294.12}
    assert found["end_to_end_latency"][0].value == 1.5005
    offline = by_metric(
        formats.serving("Throughput: 12.5 requests/s, 5678.90 total tokens/s, 2839.45 output tokens/s\n")
    )
    assert offline["request_rate"][0].value == 12.5
    latency = by_metric(formats.serving("Avg latency: 1.25 seconds\n99% percentile latency: 1.5 seconds\n"))
    assert [one.params["statistic"] for one in latency["end_to_end_latency"]] == ["mean", "p99"]


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, "\x00\xff size count type busbw\n 1 2", "size count type time\n9 9"]
)
def test_damaged_output_never_raises(text):
    for parse in formats.PARSERS.values():
        assert parse(text).failed
    formats.guess(text)


NCCL_JSON = {
    "version": 2, "nccl_version": 22809, "config": {"devices": [{"rank": 0}, {"rank": 1}]},
    "results": [{"experiment_name": "all_reduce_perf", "size": 8192, "type": "float",
                 "out_of_place": {"time": 15.0, "alg_bw": 0.5, "bus_bw": 0.5, "nwrong": 0},
                 "in_place": {"time": 14.0, "alg_bw": 0.6, "bus_bw": 0.6, "nwrong": 3}}],
    "average_bus_bandwidth": {"bandwidth": 0.55}, "out_of_bounds": {"count": 0},
}  # fmt: skip
ONE_BATCH = """\
Benchmark ...
Prefill. latency: 0.05168 s, throughput:   2476.85 token/s
Decode.  latency: 0.00601 s, throughput:    166.40 token/s
Decode.  median latency: 0.00590 s, median throughput:    169.49 token/s
Total. latency:  0.143 s, throughput:   1006.99 token/s
"""


def test_nccl_tests_own_json_and_sglangs_single_batch():
    text = json.dumps(NCCL_JSON)
    assert formats.guess(text) == "nccl-tests"
    reading = nccl.parse(text)
    assert reading.wrong == "all_reduce of 8192 bytes in-place: 3 wrong elements"
    found = by_metric(reading)
    assert found["bus_bandwidth"][0].value == 0.5e9
    assert found["collective_time"][1].params == {
        "ranks": 2, "bytes": 8192, "type": "float", "collective": "all_reduce", "place": "in-place",
    }  # fmt: skip
    assert "cut off" in nccl.parse(text[:-5]).failed
    assert "ends before the average" in nccl.parse(json.dumps({"nccl_version": 1, "results": [None, {}]})).failed
    assert formats.guess(ONE_BATCH) == "vllm"
    found = by_metric(formats.serving(ONE_BATCH))
    assert found["time_to_first_token"][0].value == 0.05168
    assert found["time_per_output_token"][-1].value == 0.0059
    assert {one.params["of"] for one in found["token_rate"]} == {"prefill", "decode", "total"}
    line = '{"run_name": "a", "batch_size": 1, "prefill_latency": 0.05, "median_decode_latency": 0.006, "overall_throughput": 9.5}'
    found = by_metric(formats.serving("noise\n" + line + "\n"))
    assert found["token_rate"][0].value == 9.5
    assert found["time_per_output_token"][0].params == {"statistic": "median", "batch_size": 1}


def test_units_find_their_metric():
    assert family("us", "lower") == ("reported_time", 1e-6)
    assert family("GiB/s", "higher") == ("reported_bandwidth", 2.0**30)
    assert family("MB", "lower") == ("reported_bytes", 1e6)
    assert family("img/s", "higher") == ("reported_rate", 1.0)
    assert family("points", "higher") == ("reported_higher", 1.0)


def test_the_plugin_needs_neither_torch_nor_numpy():
    code = "import sys, groundspeed.plugins.command; print('torch' in sys.modules or 'numpy' in sys.modules)"
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
