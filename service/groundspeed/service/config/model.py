"""``groundspeed.toml``: the configuration that lives in the repository under test.

Example::

    [project]
    name = "tinygpt"
    branch = "main"

    [build]
    install = ["pip install -e ."]      # commands; the build's own Python comes first on PATH
    paths = ["src"]                     # folders put on sys.path
    source = "tip"                      # lay the tip's benchmark folder over older code
    benchmarks = "benchmarks"

    [thresholds]                        # smallest relative change worth an alert
    time = 0.03                         # by kind of metric …
    peak_memory = 0.02                  # … or by metric

    [[suite]]
    name = "train"
    plugin = "training"
    target = "benchmarks.train:make"
    params = { batch_size = [8, 32], precision = "fp32" }   # a list is an axis: every combination is run

    [[schedule]]
    name = "nightly"
    cron = "0 3 * * *"
    suites = ["train"]
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Scalar = bool | int | float | str
Fraction = Annotated[float, Field(gt=0, lt=10)]
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ProjectSection(Section):
    name: Identifier
    branch: str = "main"
    reference: str | None = None
    """Commit or tag that is measured again when an environment changes."""
    budget_minutes: Annotated[float, Field(gt=0)] = 60.0
    """Bounds the measuring time of one request, follow-ups included."""
    history: Annotated[int, Field(ge=1)] = 30
    """How many of the newest commits are measured the first time a project is seen."""


class BuildSection(Section):
    install: tuple[str, ...] = ()
    paths: tuple[str, ...] = (".",)
    source: Literal["tip", "revision"] = "tip"
    benchmarks: str = ""
    submodules: bool = False
    lfs: bool = False
    env: dict[str, str] = {}
    timeout_minutes: Annotated[float, Field(gt=0)] = 30.0
    allow_torch: bool = False


class MeasureSection(Section):
    """Overrides of the measurement core's limits; omitted ones keep their defaults (docs/configuration.md)."""

    wall_s: float | None = None
    no_progress_s: float | None = None
    warmup_max_s: float | None = None
    min_samples: int | None = None
    max_samples: int | None = None
    min_time_s: float | None = None
    max_time_s: float | None = None
    relative_half_width: float | None = None
    profile: bool | None = None


class SuiteSection(Section):
    name: Identifier
    plugin: Annotated[str, Field(min_length=1, max_length=200)]
    target: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")] | None = None
    params: dict[str, Scalar | tuple[Scalar, ...]] = {}
    replicates: Annotated[int, Field(ge=1, le=50)] = 1
    confirm_replicates: Annotated[int, Field(ge=1, le=50)] = 4
    """Fresh processes on either side of a suspected change."""
    thresholds: dict[str, Fraction] = {}
    measure: MeasureSection = MeasureSection()
    requires: dict[str, Scalar] = {}
    """Node labels and hardware a node must have: gpu_model, gpu_count, memory_bytes, or any label."""


class ScheduleSection(Section):
    name: Identifier
    cron: str
    suites: tuple[str, ...] = ()
    """Empty: all suites."""
    revision: Literal["tip", "reference"] = "tip"


class PullRequestSection(Section):
    paths_ignore: tuple[str, ...] = ("docs/**", "*.md")
    drafts: bool = False
    label: str | None = None
    """When set, only pull requests with this label are measured."""


class ProjectConfig(Section):
    project: ProjectSection
    build: BuildSection = BuildSection()
    thresholds: dict[str, Fraction] = {}
    measure: MeasureSection = MeasureSection()
    suite: Annotated[tuple[SuiteSection, ...], Field(min_length=1)]
    schedule: tuple[ScheduleSection, ...] = ()
    pull_request: PullRequestSection = PullRequestSection()
