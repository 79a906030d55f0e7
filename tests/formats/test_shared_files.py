"""Every real file imports, or is refused with its line: the number of values agrees with an independent count."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from formats import naive
from groundspeed.service.formats import asv, criterion, detect
from groundspeed.service.formats.records import Grid, Item, Record, Refused
from groundspeed.service.formats.source import Document, of_bytes

pytestmark = pytest.mark.data

GBENCH = naive.google_benchmark
FILES: dict[str, tuple[str, Callable[[str], int]]] = {
    "formats/criterion/bencher-failed.txt": ("criterion", naive.occurrences(r"time:   \[")),
    "formats/criterion/gha-criterion_output.txt": ("criterion", naive.occurrences(r"^test .*bench:")),
    "formats/github-action-benchmark/data.js.gz": ("github-action-benchmark", naive.occurrences(r'^\s+"value": ')),
    "formats/go/2639f2f79b-opt.20220109T213214.gz": ("go", naive.go),
    "formats/go/crc-new.txt": ("go", naive.go),
    "formats/go/gha-go_output.txt": ("go", naive.go),
    "formats/go/suffixarray.bench.gz": ("go", naive.go),
    "formats/go/reference.json.gz": ("go", naive.go_series),
    "formats/google-benchmark/gha-googlecpp_output.json": ("google-benchmark", GBENCH),
    "formats/google-benchmark/test1_run2.json": ("google-benchmark", GBENCH),
    "formats/google-benchmark/test2_run.json": ("google-benchmark", GBENCH),
    "formats/google-benchmark/test3_run0.json": ("google-benchmark", GBENCH),
    "formats/google-benchmark/test3_run1.json": ("google-benchmark", GBENCH),
    # neither times nor counters: all of its 12 entries are skipped by name and line
    "formats/google-benchmark/test4_run.json": ("google-benchmark", lambda _: 0),
    "formats/google-benchmark/test4_run0.json": ("google-benchmark", GBENCH),
    "formats/google-benchmark/test4_run1.json": ("google-benchmark", GBENCH),
    "formats/hyperfine/bencher-one.json": ("hyperfine", naive.hyperfine),
    "formats/hyperfine/bencher-two.json": ("hyperfine", naive.hyperfine),
    "formats/nvbench/test_ref.json.gz": ("nvbench", naive.nvbench),
    "formats/other/bencher-asv-console.txt": ("console", naive.occurrences(r"^\[.*··· benchmarks\.\S+\s+\d")),
    "formats/other/gha-cargo_output_units.txt": ("criterion", naive.occurrences(r"bench:")),
    "formats/other/gha-catch2_output_v3.txt": ("console", naive.occurrences(r"^Fibonacci.*ms $")),
    "formats/other/gha-jmh_output.json": ("jmh", lambda text: naive.numbers(json.loads(text)[0]["primaryMetric"]["rawData"])),
    "formats/pyperf/mult_list_py36.json": ("pyperf", naive.pyperf),
    "formats/pyperf/mult_list_py37_tags.json": ("pyperf", naive.pyperf),
    "formats/pyperf/pyperformance-mem1.json": ("pyperf", naive.pyperf),
    "formats/pyperf/pyperformance-py38.json": ("pyperf", naive.pyperf),
    "formats/pyperf/telco.json": ("pyperf", naive.pyperf),
    "gpu/llm-serving/sglang-deepseek_dp_mla_output.jsonl": ("llm-serving", naive.llm),
    "gpu/llm-serving/vllm-bm_results_snapshot-gptoss_itl8000_otl1_4xtp2-conc32_rr1.json": ("llm-serving", naive.llm),
    "gpu/llm-serving/vllm-bm_results_snapshot-qwen32b_itl5000_otl250_8xtp1-rr15.json": ("llm-serving", naive.llm),
    "gpu/llm-serving/vllm-rayoss251-x2-all-parts-conc4.json": ("llm-serving", naive.llm),
    "gpu/nccl/issue-322-died-in-the-middle.txt": ("nccl-tests", naive.nccl),
    "gpu/nccl/issue-37-out-of-bounds-failed.txt": ("nccl-tests", naive.nccl),
    "gpu/nccl/multinode-N10_G1.log": ("nccl-tests", naive.nccl),
    "gpu/nccl/multinode-N10_G8.log": ("nccl-tests", naive.nccl),
    "gpu/nccl/multinode-summary.csv": ("csv", naive.csv_cells(["avg_bus_bw_GBs", "peak_busbw_GBs"])),
    "gpu/nccl/pair-cut-N2_G1_002_008.log": ("nccl-tests", naive.nccl),
    # failures only: 34 of them, no value
    "gpu/nccl/pair-failures.txt": ("nccl-sweep-failures", lambda _: 0),
    "gpu/nccl/pair-ok-N2_G1.log": ("nccl-tests", naive.nccl),
    "gpu/nccl/pair-slow-and-cut-N2_G1_003_008.log": ("nccl-tests", naive.nccl),
    "gpu/nccl/pair-summary.csv.gz": ("csv", naive.csv_cells(["avg_bus_bw_GBs", "peak_busbw_GBs"])),
    "gpu/nccl/polaris-n128g4-all_reduce.dat.gz": ("nccl-tests", naive.nccl),
    **{f"gpu/nccl/superbench-nccl_{c}.log": ("nccl-tests", naive.nccl) for c in ("allreduce", "alltoall", "broadcast", "reduce", "reducescatter")},
    **{
        f"gpu/mlperf/{n}.txt": ("mlperf", naive.mlperf)
        for n in (
            "v4.0-eos-llama2_70b_lora-0", "v4.0-eos-llama2_70b_lora-1", "v4.0-h200-gnn-0", "v4.0-juniper-llama2-8",
            "v5.0-google-tpu-sd-6", "v5.0-oracle-mi300x-llama2-1",
        )
    },
    **{
        f"gpu/pytorch-hud/{n}.json": ("pytorch-hud", naive.hud)
        for n in (
            "add_loop_eager", "add_loop_eager_dynamic", "add_loop_inductor_dynamic_gpu", "do_not_overwrite_runners_info",
            "json-each-row", "mock",
        )
    },
    "gpu/pytorch-hud/expected_ci_perf_inductor_torchbench.csv": (
        "csv", naive.csv_cells(["speedup", "abs_latency", "compilation_latency", "compression_ratio"]),
    ),
    "gpu/pytorch-hud/expected_ci_speedup_inductor_torchbench_cpu.csv": (
        "csv", naive.csv_cells(["perf_speedup_target_c7i_metal_24xl"], comment=True),
    ),
    "gpu/superbench/diagnosis_summary_json.json": ("superbench", naive.superbench),
    "gpu/superbench/dist_inference.log": ("gpu-tool-log", naive.occurrences(r"^Latency of step")),
    "gpu/superbench/gpu_copy_bw_performance.log": ("gpu-tool-log", naive.occurrences(r"_by_\w+ [\d.]+$")),
    "gpu/superbench/ib_loopback_all_sizes.log": (
        "gpu-tool-log", lambda text: 3 * len({" ".join(x.split()) for x in text.splitlines() if x[:1].isdigit()}),
    ),
    "gpu/superbench/megatron_deepspeed.log.gz": ("gpu-tool-log", lambda text: 4 * text.count("elapsed time per iteration")),
    "gpu/superbench/monitor.jsonl": ("superbench", lambda text: sum(naive.numbers(json.loads(x)) for x in text.splitlines() if x)),
    "gpu/superbench/nvbandwidth_results.log": ("gpu-tool-log", naive.matrix),
    "gpu/superbench/tensorrt_inference.1.log": (
        "gpu-tool-log", naive.occurrences(r"\] \[I\] (?:min|max|mean|median|percentile): [\d.]+ ms"),
    ),
    "gpu/superbench/test_baseline.json": ("superbench", lambda text: naive.numbers(json.loads(text))),
    "gpu/superbench/test_results.jsonl": ("superbench", naive.superbench),
}  # fmt: skip
REFUSED = {
    # damaged, or without results, as the index says
    "gpu/nccl/polaris-launch-failed.dat": "launch failed on",
    "gpu/nccl/polaris-start-failed.dat": "start failed on",
    "gpu/superbench/test_rules_without_baseline.yaml": "# SuperBench rules",
}
ELSEWHERE = ("pytest-benchmark", "criterion/Fibonacci", "kokkos")
"""Folders with tests of their own below."""


def read(base: Path, name: str, form: str = "") -> list[Item]:
    return list(detect.parse(of_bytes(name, (base / name).read_bytes()), form))


def values(items: list[Item]) -> int:
    return sum(i.values for i in items if isinstance(i, Record))


def test_every_file_of_the_folders_is_listed_here(shared_data: Path) -> None:
    """A file that comes to the folder must get its place among these tests."""
    folders = ("formats", "gpu/nccl", "gpu/mlperf", "gpu/llm-serving", "gpu/superbench", "gpu/pytorch-hud")
    there = {str(p.relative_to(shared_data)) for f in folders for p in (shared_data / f).rglob("*") if p.is_file()}
    assert {n for n in there if not any(e in n for e in ELSEWHERE)} == set(FILES) | set(REFUSED)


@pytest.mark.parametrize("name", sorted(FILES))
def test_values_agree_with_an_independent_count(shared_data: Path, name: str) -> None:
    """Found by content, as many values as another way of counting finds, each with a place."""
    form, count = FILES[name]
    document = of_bytes(name, (shared_data / name).read_bytes())
    assert detect.detect(document).name == form
    items = read(shared_data, name)
    assert values(items) == count(naive.text_of(shared_data / name))
    assert all(item.where.source == name for item in items)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_has_no_results_is_refused_with_its_line(shared_data: Path, name: str) -> None:
    """The message names the file and the line, and shows it."""
    with pytest.raises(Refused) as refused:
        read(shared_data, name)
    assert f"{name}:1" in str(refused.value)
    assert REFUSED[name] in str(refused.value)


@pytest.mark.parametrize("name", sorted(p for p in FILES if "google-benchmark/test4_run.json" in p))
def test_entries_without_times_are_skipped_by_line(shared_data: Path, name: str) -> None:
    """All 12 entries of a file without times are named with their lines."""
    items = read(shared_data, name)
    lines = [i.where.line for i in items]
    assert len(lines) == naive.text_of(shared_data / name).count('"name"') == 12
    assert lines == sorted(set(lines))


def test_pytest_benchmark_files(shared_data: Path) -> None:
    """A median for each benchmark; the oldest version takes its commit from the file; incomplete data is no sample."""
    for path in sorted((shared_data / "formats/pytest-benchmark").iterdir()):
        items = [i for i in read(path.parent, path.name) if isinstance(i, Record)]
        assert len(items) == naive.text_of(path).count('"median"')
        assert all(i.value and i.value > 0 and i.origin.commit for i in items)
        if "omitted" in naive.text_of(path):
            assert any(not i.samples for i in items)


def test_kokkos_files(shared_data: Path) -> None:
    """Real files of a CI: times in seconds, counters beside, a short commit."""
    for path in sorted((shared_data / "formats/google-benchmark").glob("kokkos-*.json.gz")):
        items = read(path.parent, path.name)
        assert values(items) == naive.google_benchmark(naive.text_of(path))
        assert all(isinstance(i, Record) and len(i.origin.commit) == 7 for i in items)


def test_criterion_tree(shared_data: Path) -> None:
    """100 samples of one benchmark; the baseline that equals it, the comparison and the repeats are named as skipped."""
    root = shared_data / "formats/criterion"
    files = sorted(p for p in (root / "Fibonacci").rglob("*") if p.is_file())
    items = list(criterion.parse_tree([of_bytes(str(p.relative_to(root)), p.read_bytes()) for p in files]))
    records = [i for i in items if isinstance(i, Record)]
    assert [(r.benchmark, len(r.samples)) for r in records] == [("Fibonacci/Iterative", 100)]
    assert records[0].value == pytest.approx(4.708418938929127e-9)
    assert len(items) == 1 + 6  # two raw.csv, two tukey.json, the baseline, the comparison


def test_wrong_results_of_nccl_never_pass(shared_data: Path) -> None:
    """Good bandwidth with wrong values is wrong, row and average."""
    items = read(shared_data, "gpu/nccl/issue-37-out-of-bounds-failed.txt")
    assert {i.outcome for i in items if isinstance(i, Record)} == {"wrong"}


@pytest.mark.parametrize(
    "name", ["pair-cut-N2_G1_002_008.log", "pair-slow-and-cut-N2_G1_003_008.log", "issue-322-died-in-the-middle.txt"]
)
def test_cut_tables_of_nccl_are_crashes(shared_data: Path, name: str) -> None:
    """What was measured stands, and one record says that the table has no end."""
    items = read(shared_data / "gpu/nccl", name)
    assert [i.outcome for i in items if isinstance(i, Record) and i.outcome != "ok"] == ["crashed"]


def _tree(root: Path) -> asv.Tree:
    machines = {p.parent.name: asv.read_machine(_document(p)) for p in root.glob("*/machine.json")}
    return asv.Tree(asv.read_benchmarks(_document(root / "benchmarks.json")), machines)


def _document(path: Path) -> Document:
    return of_bytes(f"{path.parent.name}/{path.name}", path.read_bytes())


def count_tree(root: Path) -> tuple[int, int, int, list[str]]:
    """(values, by another count, benchmarks without a number, refused files)."""
    tree, found, expected, failed, refused = _tree(root), 0, 0, 0, []
    for path in sorted(root.glob("*/*.json")):
        if path.name == "machine.json":
            continue
        try:
            for item in asv.parse(_document(path), tree):
                if isinstance(item, Grid):
                    found += sum(v is not None and math.isfinite(v) for v in item.values)
                    failed += not any(v is not None and math.isfinite(v) for v in item.values)
                else:
                    assert isinstance(item, Record)
                    failed += 1
            text = path.read_text()
            expected += naive.asv(text)
            failed -= naive.asv_failures(text)
        except Refused as error:
            refused.append(error.where.source)
    return found, expected, failed, refused


@pytest.fixture(scope="module")
def unpacked(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    import tarfile

    folder = tmp_path_factory.mktemp("asv")

    def unpack(name: str) -> Path:
        if not (folder / name).exists():
            with tarfile.open(shared_data / f"asv/{name}.tar.xz") as archive:
                archive.extractall(folder, filter="data")
        return folder / name / "results"

    return unpack


@pytest.mark.parametrize(("name", "expected"), [("geocat", 3736), ("pvlib", 35374), ("poliastro", 647)])
def test_asv_trees(unpacked: Callable[[str], Path], name: str, expected: int) -> None:
    """Versions 1 and 2: every number and every failed benchmark; nothing is refused."""
    found, counted, failed, refused = count_tree(unpacked(name))
    assert found == counted == expected
    assert failed == 0
    assert refused == []


@pytest.mark.long
def test_the_largest_asv_tree(unpacked: Callable[[str], Path]) -> None:
    """A million values, with benchmarks that benchmarks.json forgot and other versions of those it knows."""
    found, counted, failed, refused = count_tree(unpacked("numpy"))
    assert found == counted == 996_985
    assert (failed, refused) == (0, [])


def test_asv_own_example(shared_data: Path) -> None:
    """The three files that asv ignores are refused, two of them with their line, and the rest is read."""
    found, counted, failed, refused = count_tree(shared_data / "asv/asv-own-example")
    assert found == counted > 400
    assert failed == 0
    assert [name.partition("/")[2][:8] for name in refused] == ["aaaaaaaa", "bbbbbbbb", "cccccccc"]
