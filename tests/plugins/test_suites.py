"""The suites on the CPU at reduced size: what they report, what they check, and what they refuse with a reason."""

from __future__ import annotations

import dataclasses
import statistics
from itertools import cycle

import pytest
from tests.plugins import targets_for_suites
from tests.plugins.conftest import metric

from groundspeed.plugins import (
    attention,
    axes,
    captured,
    gemm,
    kernel,
    loader_bottleneck,
    memory_bandwidth,
    modes,
    onnx_mode,
    roofline,
    tasks,
)
from groundspeed.plugins.spi import Context, Unsupported, WrongResult
from groundspeed.plugins.timing import memory_trace

torch = pytest.importorskip("torch")
HERE = "tests.plugins.targets_for_suites"
MODELS = "groundspeed.plugins.models"


# --- memory-bandwidth -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("operation", "factor"), [("copy", 2), ("read", 1), ("write", 1), ("triad", 3)])
def test_memory_bandwidth_counts_what_crosses_the_bus(here, operation, factor):
    report = here("memory-bandwidth", params={"operation": operation, "bytes": 1 << 20})
    assert report.outcome == "ok"
    assert report.facts["bytes_per_pass"] == factor * (1 << 20)
    found = metric(report, "bandwidth")
    assert not found.gate
    assert 1e7 < statistics.median(found.values) < 1e13
    assert metric(report, "work_cpu_calibrated").values


@pytest.mark.parametrize("operation", ["host_to_device", "device_to_host", "peer"])
def test_transfers_need_an_accelerator(here, operation):
    report = here("memory-bandwidth", params={"operation": operation})
    assert report.outcome == "unsupported"
    assert "accelerator" in report.evidence["message"]


def test_what_arrives_wrong_is_told():
    transfer = memory_bandwidth.make_transfer("copy", "pinned", 1000, "cpu")
    with pytest.raises(WrongResult, match="of 1000 values"):
        transfer.check()
    transfer.run()
    transfer.check()


# --- attention --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("backend", "dtype"), [("math", "fp32"), ("flash", "bf16"), ("flash", "fp32")])
def test_attention_agrees_with_float64_forward_and_backward(backend, dtype, causal):
    case = attention.Case(backend, dtype, 2, 2, 80, 16, causal, backward=True, device="cpu")
    _, check = attention.make_call(case)
    assert 0 < check() <= 2 * attention.TOLERANCE[dtype]


def test_attention_reports_its_rate_and_error(here):
    report = here("attention", params={"backend": "math", "dtype": "fp32", "length": 64, "direction": "both"})
    assert report.outcome == "ok"
    flops = 4 * 1 * 4 * 64**2 * 32 * 0.5 * 3.5
    assert report.facts["flops_per_step"] == flops
    times, rates = metric(report, "attention_time").values, metric(report, "flops").values
    assert rates[0] == pytest.approx(flops / times[0])
    assert metric(report, "relative_error").values[0] < 2e-5


@pytest.mark.parametrize("backend", ["efficient", "cudnn"])
def test_a_backend_that_cannot_run_the_shape_says_why(here, backend):
    report = here("attention", params={"backend": backend})
    assert report.outcome == "unsupported"
    assert f"backend {backend} does not run this shape" in report.evidence["message"]
    assert "length 128" in report.evidence["message"]


def test_attention_that_is_off_is_wrong():
    case = attention.Case("math", "fp32", 1, 1, 32, 8, causal=True, backward=False, device="cpu")
    tensors = tuple(torch.randn(1, 1, 32, 8) for _ in range(4))
    without = attention.Case("math", "fp32", 1, 1, 32, 8, causal=False, backward=False, device="cpu")
    right = attention.reference(case, [one[0, 0].double() for one in tensors])["output"]
    attention.compare(case, tensors, right[None, None].float())
    with pytest.raises(WrongResult, match="output is off by"):
        attention.compare(without, tensors, right[None, None].float())


# --- kernel -----------------------------------------------------------------------------------------------------------


def test_names_under_a_roofline_do_not_lie_on_each_other():
    assert roofline.apart([100.0, 10.0, 101.0, 102.0], 15.0) == [86.0, 10.0, 101.0, 116.0]
    assert roofline.apart([], 15.0) == []


def test_a_kernel_has_its_place_under_the_measured_roofline(here):
    report = here("kernel", f"{HERE}:good_kernel", {"size": 100_000})
    assert report.outcome == "ok"
    assert report.facts["bytes_per_call"] == 800_000
    once = statistics.median(metric(report, "kernel_time").values)
    share, copy = metric(report, "roofline_share").values[0], metric(report, "ceiling_bandwidth").values[0]
    peak = metric(report, "ceiling_flops").values[0]
    assert share == pytest.approx(200_000 / once / min(peak, 0.25 * copy))
    (artefact,) = report.artefacts
    assert artefact["name"] == "roofline.svg"


def test_a_kernel_that_differs_from_its_reference_is_wrong_and_a_plain_callable_is_timed(here):
    report = here("kernel", f"{HERE}:wrong_kernel")
    assert report.outcome == "wrong"
    assert "relative error" in report.evidence["message"]
    report = here("kernel", f"{HERE}:plain_callable")
    assert {one.metric for one in report.metrics} == {"kernel_time", "work_cpu_time", "work_cpu_calibrated"}
    with pytest.raises(TypeError, match="returned int"):
        kernel.task_of(3, 1e-3)


def test_an_answer_without_room_on_the_device_is_compared_on_the_host(monkeypatch):
    whole = kernel.flatten

    def full(answer, *, here):
        if here:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(answer)

    monkeypatch.setattr(kernel, "flatten", full)
    kernel.compare(torch.ones(4), torch.ones(4), 1e-6)
    with pytest.raises(WrongResult, match="relative error"):
        kernel.compare(torch.ones(4), torch.zeros(4) + 2, 1e-6)


def test_the_fused_kernel_needs_a_gpu_and_the_unfused_runs_anywhere(here):
    target = f"{MODELS}.kernels:layernorm_gelu"
    report = here("kernel", target, {"variant": "triton"})
    assert report.outcome == "unsupported"
    assert "needs a GPU" in report.evidence["message"]
    assert here("kernel", target, {"size": 16}).outcome == "ok"
    assert here("kernel", target, {"variant": "other"}).outcome == "unsupported"


def test_the_plot_is_well_formed_and_holds_every_point():
    import xml.etree.ElementTree as ET

    ceilings = roofline.Ceilings(4.2e12, 680e12, "bf16")
    points = [roofline.Point("a <b>", 10 / 8, 3e12), roofline.Point("gemm", 2000.0, 600e12)]
    root = ET.fromstring(roofline.plot(ceilings, points))
    places = [(float(one.get("cx")), float(one.get("cy"))) for one in root.iter() if one.tag.endswith("circle")]
    assert len(places) == 2
    assert all(70 <= x <= 620 and 20 <= y <= 350 for x, y in places)
    assert places[0][0] < places[1][0]
    assert places[0][1] > places[1][1]
    assert ceilings.at(1.0) == 4.2e12
    assert ceilings.at(1e6) == 680e12


# --- dataloader -------------------------------------------------------------------------------------------------------

QUICK_LOADER = {"batch_size": 4, "batches": 4, "seconds": 1.0, "start": "fork"}


@pytest.mark.parametrize(
    ("target", "params", "wanted"),
    [
        ("decoding", {"workers": 1, "cpus": 1}, "slow-decode"),
        ("decoding", {"workers": 0, "cpus": 8}, "too-few-workers"),
        ("reading", {"workers": 0, "cpus": 8}, "slow-storage"),
        ("slow_copies", {"workers": 0}, "slow-copy"),
    ],
)
def test_the_loader_names_what_makes_it_slow(here, target, params, wanted):
    report = here("dataloader", f"{HERE}:{target}", {**QUICK_LOADER, **params})
    assert report.outcome == "ok", report.evidence
    assert report.facts["bottleneck"] == wanted
    assert "What to do" in report.conditions["labels"][wanted.replace("-", "_")]


def test_a_loader_made_by_the_target_is_taken_as_it_is_and_an_empty_one_refused(here):
    report = here("dataloader", f"{HERE}:ready_made_loader", {**QUICK_LOADER, "workers": 0})
    assert report.outcome == "ok"
    assert metric(report, "first_batch_time").values[0] > 0
    assert "copy_time" not in {one.metric for one in report.metrics}
    report = here("dataloader", f"{HERE}:empty", {"batches": 4})
    assert (report.outcome, "no batch" in report.evidence["message"]) == ("unsupported", True)
    report = here("dataloader", f"{HERE}:decoding", {"pin_memory": True})
    assert (report.outcome, "accelerator" in report.evidence["message"]) == ("unsupported", True)


def test_the_bottleneck_is_named_from_figures_alone():
    base = {"wait_share": 0.5, "copy_share": 0.0, "pinned": False, "workers": 4, "cpus": 4}

    def name(**changes):
        times = {"sample_cpu_s": 4e-3, "sample_blocked_s": 1e-4}
        return loader_bottleneck.bottleneck(loader_bottleneck.Stages(**{**base, **times, **changes}))

    assert name() == "slow-decode"
    assert name(cpus=16) == "too-few-workers"
    assert name(sample_blocked_s=8e-3) == "slow-storage"
    assert name(copy_share=0.6, wait_share=0.1) == "slow-copy"
    assert name(copy_share=0.6, wait_share=0.05, pinned=True) is None
    assert name(wait_share=0.02) is None
    assert name(sample_cpu_s=None, sample_blocked_s=None) == "input-bound"


# --- the others -------------------------------------------------------------------------------------------------------


def test_gemm_on_the_cpu(here):
    report = here("gemm", params={"precision": "fp64", "size": 64})
    assert report.outcome == "ok"
    assert metric(report, "flops_sustained").values[0] > 0
    assert here("gemm", params={"precision": "fp8", "size": 64}).outcome == "unsupported"
    _, check = gemm.own_product(targets_for_suites.own_product("cpu", 64), "fp32", 64)
    check()
    report = here("gemm", f"{HERE}:own_product_that_is_off", {"precision": "fp32", "size": 64})
    assert report.outcome == "wrong", report.evidence
    assert report.evidence["message"].startswith("fp32 product of size 64: relative error")
    assert "must return a callable" in here("gemm", f"{HERE}:no_product", {"size": 64}).evidence["message"]


@pytest.mark.parametrize("name", ["gpt_small", "bert_small", "vit_small", "resnet_small"])
def test_training_of_the_reference_models(here, name):
    params = {"batch_size": 2, "checkpointing": True, "accumulation": 2, "precision": "bf16"}
    report = here("training", f"{MODELS}.training:{name}", params)
    assert report.outcome == "ok", report.evidence
    times, rates = metric(report, "step_time").values, metric(report, "samples_per_s").values
    assert rates[0] == pytest.approx(4 / times[0])
    assert 0 < report.conditions["overhead_share"] < 1


@pytest.mark.filterwarnings("ignore")  # torch announces that its own quantisation will be removed
def test_int8_is_checked_against_fp32_and_a_model_that_breaks_is_wrong(here):
    target = f"{MODELS}.inference:bert_small"
    assert here("inference", target, {"mode": "int8"}).outcome == "ok"
    report = here("inference", f"{HERE}:quantised_badly", {"mode": "int8"})
    assert report.outcome == "wrong"
    assert "int8" in report.evidence["message"]
    for mode in ("onnxruntime", "tensorrt", "graph"):
        report = here("inference", target, {"mode": mode})
        if report.outcome != "ok":
            assert report.outcome == "unsupported"
            assert "needs" in report.evidence["message"] or "has no" in report.evidence["message"]


def test_a_reduced_mode_is_compared_on_the_same_inputs_and_says_how_far_off_it_is(here):
    report = here("inference", f"{HERE}:other_inputs_each_time", {"precision": "bf16"})
    assert report.outcome == "ok", report.evidence
    assert 1e-4 < metric(report, "relative_error").values[0] < modes.TOLERANCE["bf16"]
    labels = report.conditions["labels"]
    assert "more loader workers" in labels["input_bound"]
    assert labels["tail_from_few"].startswith(f"{len(metric(report, 'latency_p50').values)} requests: ")
    with pytest.raises(WrongResult, match="the answer has 3 values, and fp32 eager gives 4"):
        modes.compare(torch.ones(3), torch.ones(4), 0.1, "int8")
    with pytest.raises(WrongResult, match="What to do: keep the first"):
        modes.compare(torch.full((4,), float("nan")), torch.ones(4), 0.1, "int8")
    assert modes.compare(torch.zeros(4), torch.zeros(4), 0.1, "int8") == 0.0


def test_onnx_runtime_is_given_inputs_by_name_and_every_answer_is_compared(here):
    named = targets_for_suites.inputs_by_name("cpu")
    assert list(onnx_mode.in_order(named["model"], named["inputs"])) == ["left", "right"]
    assert list(onnx_mode.in_order(named["model"], [1, 2])) == ["input_0", "input_1"]
    with pytest.raises(Unsupported, match="take fp16 or fp32"):
        onnx_mode._refuse(named["model"].bfloat16(), {})
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    report = here("inference", f"{HERE}:inputs_by_name", {"mode": "onnxruntime"})
    assert report.outcome == "ok", report.evidence
    assert metric(report, "relative_error").values[0] < modes.TOLERANCE["fp32"]


class Allocator:
    """The part of torch.cuda that keeps peaks, for a device with nothing else on it."""

    def __init__(self):
        self.held = self.peak = self.most_reserved = 0

    def take(self, size, reserved=0):
        self.held += size
        self.peak, self.most_reserved = max(self.peak, self.held), max(self.most_reserved, self.held + reserved)

    def init(self):
        pass

    def synchronize(self, _device):
        pass

    def memory_allocated(self, _device):
        return self.held

    def max_memory_allocated(self, _device):
        return self.peak

    def max_memory_reserved(self, _device):
        return self.most_reserved

    def reset_peak_memory_stats(self, _device):
        self.peak = self.most_reserved = self.held


def test_peaks_of_an_accelerator_are_those_of_every_phase(monkeypatch, tmp_path):
    """Whatever was reserved between two marks counts, though it was given back before the end."""
    allocator, context = Allocator(), Context("cuda:0", {"steps": 3}, None, tmp_path, lambda _: None)

    def made(_context):
        allocator.take(100)

        def step(mark):
            mark("forward")
            allocator.take(50, reserved=75)
            mark("backward")
            allocator.take(30)
            allocator.take(-80)
            mark("optimizer")

        return step

    monkeypatch.setattr(memory_trace, "_step_of", made)
    seen = memory_trace._trace_accelerator(context, allocator)
    assert (seen.peak_allocated, seen.setup_allocated, seen.peak_reserved, seen.growth) == (180, 100, 225, 0.0)
    assert seen.phase_peaks == {"forward": 150, "backward": 180, "optimizer": 100}
    with pytest.raises(Unsupported, match="mps keeps no peaks"):
        memory_trace.trace_memory(dataclasses.replace(context, device="mps"))


def test_memory_by_phase_and_a_leak_is_told(here):
    report = here("memory", f"{MODELS}.training:gpt_small", {"batch_size": 2})
    assert report.outcome == "ok"
    phases = {one.params["phase"]: one.values[0] for one in report.metrics if one.metric == "phase_peak"}
    assert set(phases) == {"forward", "backward", "optimizer"}
    assert max(phases.values()) == metric(report, "peak_allocated").values[0]
    assert metric(report, "growth_per_step").values == (0.0,)
    report = here("memory", f"{HERE}:leaking_training")
    assert metric(report, "growth_per_step").values == (4096.0,)
    assert "4096 bytes" in report.conditions["labels"]["leak"]
    assert "not available" in report.facts["fragmentation"]


def test_fp8_linear_layers_are_close_to_fp32_where_this_torch_can_multiply_them():
    model = torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.Linear(48, 5))
    changed = modes.with_fp8(model)
    assert type(changed[0]) is not torch.nn.Linear
    assert type(changed[1]) is torch.nn.Linear  # 5 is no multiple of 16
    x = torch.randn(6, 32)
    model.requires_grad_(False)
    try:
        answer = changed(x).detach()
    except (RuntimeError, NotImplementedError) as error:
        pytest.skip(f"this torch has no fp8 product on the CPU: {error}")
    error = float((answer - model(x)).norm() / model(x).norm())
    assert 1e-4 < error < modes.EIGHT_BITS_TOLERANCE
    with pytest.raises(Exception, match="float8 units"):
        modes.refuse_fp8("cpu")


# --- several ranks ----------------------------------------------------------------------------------------------------


def test_collectives_and_a_slow_rank_in_training_are_told(here):
    params = {"max_bytes": 8192, "samples": 5, "seconds_per_size": 0.0}
    report = here("collectives", f"{HERE}:own_all_reduce", params)
    assert report.outcome == "ok", report.evidence
    assert {one.params["bytes"] for one in report.metrics} == {8192}
    target = "tests.plugins.targets_for_suites:slow_on_rank_1"
    report = here("distributed-training", target, {"seconds": 0.05, "batch_size": 2})
    assert report.outcome == "ok", report.evidence
    assert report.facts["straggler"] == 1
    assert "rank 1 takes" in report.conditions["labels"]["straggler"]
    assert {one.params["rank"] for one in report.metrics if one.metric == "rank_time"} == {0, 1}


def parts_of(batches):
    model = torch.nn.Linear(4, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    endless = cycle(batches)
    feed = tasks.Feed(lambda: next(endless), "cpu")
    return tasks.TrainingParts(model, feed, lambda m, x: m(x).mean(), optimizer)


PLAIN = {"precision": "own", "mode": "eager", "accumulation": 1, "channels_last": False, "checkpointing": False,
         "fused": False}  # fmt: skip


def test_a_captured_step_learns_from_every_batch_as_the_eager_one_does():
    batches = [torch.full((2, 4), float(number)) for number in range(8)]
    eager = parts_of(batches)
    step = axes.training_step(eager, PLAIN, "cpu")
    held = []
    graphed = parts_of(batches)
    inner = axes.training_step(graphed, PLAIN, "cpu")

    def capture(one):
        held.append(graphed.feed.source())
        return one

    again = captured.captured_step(graphed, inner, "cpu", PLAIN, capture)
    for _ in range(3):  # what deciding that batches change has taken
        eager.feed()
    for _ in range(4):
        assert step().item() == again().item()
        assert graphed.feed.source() is held[0]
    assert torch.equal(eager.model.weight, graphed.model.weight)


def test_what_a_graph_cannot_hold_is_refused_in_words(here):
    report = here("training", f"{MODELS}.training:gpt_small", {"mode": "graph"})
    assert (report.outcome, "needs a CUDA device" in report.evidence["message"]) == ("unsupported", True)
    parts = parts_of([torch.zeros(2, 4), torch.zeros(2, 4), torch.zeros(2, 4), torch.zeros(3, 4)])
    again = captured.captured_step(parts, parts.step, "cpu", PLAIN, lambda one: one)
    with pytest.raises(Unsupported, match="batches of one shape"):
        again()
    with pytest.raises(Unsupported, match="loss scaling"):
        captured.refuse(parts, "cuda:0", "fp16")
    two = parts_of([torch.zeros(2, 4), torch.zeros(2, 4)])
    with pytest.raises(Unsupported, match="fixed batch"):
        captured.captured_step(two, two.step, "cpu", {**PLAIN, "accumulation": 2}, lambda one: one)
    parts.optimizer = torch.optim.AdamW(parts.model.parameters())
    assert captured.capturable(parts).param_groups[0]["capturable"]
    parts.make_optimizer = lambda parameters: torch.optim.AdamW(parameters)  # noqa: PLW0108 - takes nothing else
    parts.optimizer = torch.optim.AdamW(parts.model.parameters())
    with pytest.raises(Unsupported, match="capturable=True"):
        captured.capturable(parts)
