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
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class ProjectSection(Section):
    name: Identifier
    """Shown everywhere, and part of every address."""
    branch: Annotated[str, Field(min_length=1)] = "main"
    """The branch whose commits are watched and measured."""
    reference: str | None = None
    """Commit or tag that is measured again when an environment changes."""
    budget_minutes: Annotated[float, Field(gt=0)] = 60.0
    """Bounds the measuring time of one request, follow-ups included."""
    history: Annotated[int, Field(ge=1)] = 30
    """How many of the newest commits are measured the first time a project is seen."""


class BuildSection(Section):
    install: tuple[str, ...] = ()
    """Commands run in the checkout, with the build's own Python first on PATH; none: the code is used as it lies."""
    paths: tuple[str, ...] = (".",)
    """Folders of the checkout that are put first on sys.path."""
    source: Literal["tip", "revision"] = "tip"
    """"tip" lays the newest commit's benchmark folder over older code; "revision" uses each commit's own."""
    benchmarks: str = ""
    """The benchmark folder that source = "tip" lays over older code; empty: nothing is laid over."""
    submodules: bool = False
    """Check submodules out too."""
    lfs: bool = False
    """Fetch the contents of Git LFS files."""
    env: dict[str, str] = {}
    """Variables set for the install commands and the benchmarks."""
    timeout_minutes: Annotated[float, Field(gt=0)] = 30.0
    """A build that takes longer is ended and is a result with its log."""
    allow_torch: bool = False
    """Let the build install its own torch, CUDA or NCCL instead of using the node's."""


class MeasureSection(Section):
    """Overrides of the measurement core's limits; omitted ones keep their defaults (docs/configuration.md)."""

    wall_s: Annotated[float, Field(gt=0)] | None = None
    """A process that runs longer is ended: outcome "timeout"."""
    no_progress_s: Annotated[float, Field(gt=0)] | None = None
    """A process that is silent for longer is ended: outcome "timeout"."""
    warmup_max_s: Annotated[float, Field(ge=0)] | None = None
    """Longest time spent on reaching a steady state; not reaching it is recorded."""
    min_samples: Annotated[int, Field(ge=1)] | None = None
    """At least so many samples a process."""
    max_samples: Annotated[int, Field(ge=1)] | None = None
    """At most so many samples a process."""
    min_time_s: Annotated[float, Field(ge=0)] | None = None
    """Measure at least so long."""
    max_time_s: Annotated[float, Field(gt=0)] | None = None
    """Measure at most so long."""
    relative_half_width: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Stop when the interval of the median is this narrow (0.01 = ±1 %)."""
    profile: bool | None = None
    """Run the separate device-trace pass where the device has one."""
    profile_time_s: Annotated[float, Field(gt=0)] | None = None
    """Trace as many steps as fill this, within bounds."""
    conditions_hz: Annotated[float, Field(ge=10, le=100)] | None = None
    """Read clocks, power, heat and other conditions of the device so often while measuring."""


class SuiteSection(Section):
    name: Identifier
    """Unique within the file."""
    plugin: Annotated[str, Field(min_length=1, max_length=200)]
    """What measures it: a name from `groundspeed plugins`."""
    target: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")] | None = None
    """The factory of your own code to be measured, "package.module:factory"."""
    params: dict[str, Scalar | tuple[Scalar, ...]] = {}
    """The plugin's parameters; a list is an axis, and every combination is run."""
    replicates: Annotated[int, Field(ge=1, le=50)] = 1
    """Fresh processes a commit at first."""
    confirm_replicates: Annotated[int, Field(ge=1, le=50)] = 4
    """Fresh processes on either side of a suspected change."""
    thresholds: dict[str, Fraction] = {}
    """Over the file's thresholds, for this suite."""
    measure: MeasureSection = MeasureSection()
    """Over the file's [measure], for this suite."""
    requires: dict[str, Scalar] = {}
    """Node labels and hardware a node must have: gpu_model, gpu_count, memory_bytes, or any label."""


class ScheduleSection(Section):
    name: Identifier
    """Unique within the file."""
    cron: str
    """Minute, hour, day, month, weekday, in UTC."""
    suites: tuple[str, ...] = ()
    """Empty: all suites."""
    revision: Literal["tip", "reference"] = "tip"
    """What is measured: the newest commit, or project.reference."""


class PullRequestSection(Section):
    paths_ignore: tuple[str, ...] = ("docs/**", "*.md")
    """A pull request that changes nothing else is not measured."""
    drafts: bool = False
    """Measure drafts too."""
    label: str | None = None
    """When set, only pull requests with this label are measured."""
    approve_label: Annotated[str, Field(max_length=50)] = "groundspeed: approved"
    """A maintainer who puts this label on a stranger's pull request lets the commit run that is its head then."""


class GitHubSection(Section):
    issues: bool = True
    """A confirmed regression on the branch opens one issue a cause, which is closed when it has recovered."""
    issue_labels: tuple[Annotated[str, Field(min_length=1, max_length=50)], ...] = ()
    """Labels of these issues."""


class OwnerSection(Section):
    path: Annotated[str, Field(min_length=1, max_length=500)]
    """Files this owner answers for: `**` any folders, `*` within one name; without a slash, at any depth."""
    owner: Annotated[str, Field(max_length=200)]
    """Who a regression is assigned to when its suspect commits changed most there; the last rule that fits wins."""


class RenameSection(Section):
    before: Annotated[str, Field(min_length=1, max_length=1000)]
    """What the benchmark was called."""
    after: Annotated[str, Field(min_length=1, max_length=1000)]
    """What it is called now; the series of the old name go on as those of the new, for good."""
    suite: Annotated[str, Field(max_length=100)] = ""
    """The suite in which it is named, for suites that hold several (asv); empty: a suite itself was renamed."""


class EnvironmentSection(Section):
    track: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = ()
    """Facets of node and stack that make an environment for this project though they would not: patterns."""
    info: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = ()
    """Facets that are shown and make no environment for this project: patterns such as "env.NCCL_DEBUG"."""


class ProjectConfig(Section):
    project: ProjectSection
    environment: EnvironmentSection = EnvironmentSection()
    build: BuildSection = BuildSection()
    thresholds: dict[str, Fraction] = {}
    """Smallest relative change worth an alert, by kind of metric (time, rate, bytes, ratio, counter) or by metric."""
    measure: MeasureSection = MeasureSection()
    suite: Annotated[tuple[SuiteSection, ...], Field(min_length=1)]
    schedule: tuple[ScheduleSection, ...] = ()
    owner: Annotated[tuple[OwnerSection, ...], Field(max_length=1000)] = ()
    rename: Annotated[tuple[RenameSection, ...], Field(max_length=1000)] = ()
    """Benchmarks that have another name than before."""
    pull_request: PullRequestSection = PullRequestSection()
    github: GitHubSection = GitHubSection()
