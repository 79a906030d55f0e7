"""What is made: how much of it, which suites and metrics, which steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

NOW = datetime(2026, 3, 20, 12, 0, tzinfo=UTC)
TITLES = (
    "Fuse the residual add into the layer norm",
    "Read the vocabulary once",
    "Split the data loader from the trainer",
    "Cache the attention mask per sequence length",
    "Rename hidden_size to width throughout the model and its configuration files, examples and notebooks",
    "Fix a typo in the warm-up schedule",
    "Log the gradient norm every step",
    "Use channels-last in the patch embedding",
    "Bump the tokenizer",
    "Keep activations in fp32 for the loss",
    "Tidy imports",
    "Check that the window divides the image",
    "Drop Python 3.10",
    "Add rotary embeddings behind a flag",
    "Write the checkpoint from a thread",
)
AUTHORS = ("Ada Marsh", "Bo Lindqvist", "Chidi Okafor", "Dana Petrović-Hernández", "Eun-ji Seo")


@dataclass(frozen=True)
class Metric:
    name: str
    unit: str
    direction: int
    kind: str
    base: float
    noise: float
    gate: bool = True


@dataclass(frozen=True)
class Suite:
    name: str
    plugin: str
    axes: tuple[dict[str, Any], ...]
    metrics: tuple[Metric, ...]
    target: str | None = None


@dataclass(frozen=True)
class Step:
    """From commit ``at`` (a share of the history) ``metric`` of ``suite`` is ``ratio`` times what it was."""

    suite: str
    metric: str
    at: float
    ratio: float
    params: dict[str, Any] = field(default_factory=dict)
    machine: int | None = None
    cause: str = "code"


@dataclass(frozen=True)
class Shape:
    """How much to make. ``extra`` adds that many matrix-product series per machine; ``samples`` per process."""

    slug: str = "tinygpt"
    name: str = "TinyGPT"
    commits: int = 80
    machines: int = 2
    extra: int = 12
    replicates: int = 1
    samples: int = 24
    seed: int = 7
    live: bool = True
    keep_samples: bool = True
    keep_runs: bool = True
    """False: one run a commit and machine carries all results (for histories too large to be kept whole)."""


SUITES = (
    Suite(
        "train",
        "training",
        ({"batch_size": 8, "precision": "fp32"}, {"batch_size": 32, "precision": "bf16"}),
        (
            Metric("samples_per_second", "samples/s", 1, "rate", 412.0, 0.006),
            Metric("step_time", "s", -1, "time", 0.0194, 0.006),
        ),
        "benchmarks.train:make",
    ),
    Suite(
        "generate",
        "inference",
        ({"batch": 1, "tokens": 64}, {"batch": 16, "tokens": 64}),
        (
            Metric("latency_p50", "s", -1, "time", 0.0038, 0.008),
            Metric("latency_p99", "s", -1, "time", 0.0061, 0.06, gate=False),
        ),
        "benchmarks.generate:make",
    ),
    Suite(
        "footprint",
        "memory",
        ({"batch_size": 32},),
        (Metric("peak_allocated", "B", -1, "bytes", 3.21e9, 0.0004),),
        "benchmarks.train:make",
    ),
    Suite(
        "links",
        "collectives",
        tuple({"collective": "all_reduce", "message_bytes": 1 << b, "ranks": 2} for b in (12, 20, 26)),
        (Metric("bus_bandwidth", "B/s", 1, "rate", 41e9, 0.012),),
    ),
)
STEPS = (
    Step("train", "samples_per_second", 0.62, 1 / 1.19),
    Step("train", "step_time", 0.62, 1.19),
    Step("footprint", "peak_allocated", 0.41, 1.13),
    Step("generate", "latency_p50", 0.76, 0.81),
    Step("links", "bus_bandwidth", 0.5, 0.93, {"message_bytes": 1 << 26}, machine=1, cause="environment"),
    Step("train", "samples_per_second", 0.2, 1.06, {"batch_size": 32}),
)
GPU = ("NVIDIA H200", "NVIDIA A100-SXM4-80GB", "AMD Instinct MI300X", "Intel Data Center GPU Max 1550")


@dataclass
class Filled:
    """What was made, by id."""

    project_id: int
    slug: str
    revisions: list[int]
    shas: list[str]
    series: dict[str, int]
    regressions: list[int]
    requests: list[int]
    jobs: list[int]
    running_attempt: str | None
    nodes: list[str]
