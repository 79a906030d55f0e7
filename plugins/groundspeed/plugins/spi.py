"""Plugin API v1: everything a benchmark plugin may rely on, with the standard library alone.

A plugin is an object found through the entry-point group ``groundspeed.benchmarks``. It satisfies
:class:`SteppedPlugin` or :class:`SelfTimedPlugin` structurally: importing this module is needed for types only.

*Stepped*: the plugin builds a :class:`Workload` whose ``step`` does one unit of work; the core owns the loop,
the warm-up, the clocks, the conditions and the stopping rule.
*Self-timed*: the plugin measures by itself (an external tool, asv) and yields :class:`Measured` values.

The version of a plugin is declared and is raised when its numbers stop being comparable with older ones; a raised
version starts a new series. It is never derived from the code under test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

ENTRY_POINT_GROUP = "groundspeed.benchmarks"

ParamValue = int | float | str | bool


class Direction(IntEnum):
    """Which way is better."""

    LOWER = -1
    NEUTRAL = 0
    HIGHER = 1


class Kind(StrEnum):
    """What a metric counts; decides its noise model."""

    TIME = "time"
    RATE = "rate"
    BYTES = "bytes"
    RATIO = "ratio"
    COUNTER = "counter"


class Outcome(StrEnum):
    """How one fresh process of one benchmark ended. All of them are results and have a place in history."""

    OK = "ok"
    WRONG = "wrong"  # a numerical check failed
    FAILED = "failed"  # the code under test raised
    OOM = "oom"
    TIMEOUT = "timeout"  # wall-clock or no-progress limit
    CRASHED = "crashed"  # the process died by a signal or without a report
    UNSUPPORTED = "unsupported"  # cannot run here, or the target is missing in this revision
    SKIPPED = "skipped"


class SampleState(StrEnum):
    """Whether a sample counts. None is ever dropped."""

    VALID = "valid"
    DEGRADED = "degraded"  # e.g. throttled: used when nothing better is there, and said
    REJECTED = "rejected"  # e.g. contaminated by another process


@dataclass(frozen=True, slots=True)
class Metric:
    """One quantity that a plugin reports.

    ``unit`` is an SI or field-standard unit ("s", "B", "samples/s", "B/s", "FLOP/s", "1", "J/sample").
    ``gate`` false: charted, never gated by default. ``clock`` names which of the three clocks a time or rate rests on.
    """

    name: str
    unit: str
    direction: Direction
    kind: Kind
    description: str = ""
    formula: str = ""
    gate: bool = True
    clock: Literal["wall", "device", "cycles", "cpu", "none"] = "none"


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of a plugin; checked by the service before a job is queued."""

    name: str
    type: Literal["int", "float", "str", "bool"]
    default: ParamValue | None = None
    choices: tuple[ParamValue, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    description: str = ""
    series: bool = True
    """False: the value does not make another series (a seed, a time limit)."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What must be there to run. ``devices`` 0: runs on CPU too, uses one accelerator when there is one."""

    devices: int = 0
    memory_bytes: int = 0
    packages: tuple[str, ...] = ()
    target: bool = True
    """Whether ``target = "package.module:factory"`` is required."""


class Skip(Exception):
    """Raised by a plugin or a target: this combination is not run, and why. Outcome *skipped*."""


class Unsupported(Exception):
    """Raised by a plugin or a target: cannot run on this machine or revision, and why. Outcome *unsupported*."""


class WrongResult(Exception):
    """Raised by a plugin or a target: the numerical check failed, with the figures. Outcome *wrong*."""


class TimedOut(Exception):
    """Raised by a self-timed plugin that ended part of its own work on a time limit, and what hung. Outcome *timeout*.

    This and any other exception may carry ``evidence``, a mapping that is kept with the result.
    """

    def __init__(self, message: str, evidence: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.evidence: dict[str, Any] = dict(evidence or {})


@dataclass(frozen=True, slots=True)
class Context:
    """What a plugin is told about the process it runs in."""

    device: str
    """"cpu", "cuda:0", "xpu:0", "mps"."""
    params: Mapping[str, ParamValue]
    target: Callable[..., Any] | None
    """The resolved factory of the project under test; None when the suite names none."""
    workdir: Path
    """An empty folder of this process's own; deleted afterwards."""
    progress: Callable[[str], None]
    """Report life and what is being done; silence longer than the no-progress limit ends the process."""
    rank: int = 0
    world_size: int = 1
    facts: dict[str, float | int | str] = field(default_factory=dict)
    """A plugin puts here what is worth keeping with the result."""
    labels: dict[str, str] = field(default_factory=dict)
    """And here what it found out about the result, in words: the name of a bottleneck, a straggler."""
    phase: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext()
    """A self-timed plugin marks what is not measuring: ``with context.phase("setup")``, "warmup", "check"."""
    ahead: dict[str, Any] = field(default_factory=dict)
    """What ``start_ahead`` of the plugin has started, by a name of its own; each is closed when the run is over."""
    state_between: Callable[[float, float], SampleState] = lambda _start_s, _duration_s: SampleState.VALID
    """What a sample is worth, by the device's conditions from a time (``time.perf_counter``) on for so many seconds."""
    keep: Callable[[Artefact], None] = lambda _artefact: None
    """A self-timed plugin hands over a file that is to be kept with the result."""


@dataclass(frozen=True, slots=True)
class Artefact:
    """A file that is kept with the result. ``name`` is a plain file name."""

    kind: str
    name: str
    content: str
    media_type: str = "application/json"


@dataclass(slots=True)
class Workload:
    """What a stepped plugin hands to the core.

    ``step`` does one unit of work and returns nothing or something that is ignored. ``units_per_step`` maps a rate
    metric to how many units (samples, tokens, bytes, FLOP) one step does. ``check`` raises :class:`WrongResult`.
    """

    step: Callable[[], object]
    units_per_step: Mapping[str, float] = field(default_factory=dict)
    check: Callable[[], None] | None = None
    close: Callable[[], None] | None = None
    facts: Mapping[str, float | int | str] = field(default_factory=dict)
    """Things worth keeping with the result: parameter count, FLOP model, batch size. Read after measuring."""
    input_wait_s: Callable[[], float] | None = None
    """Seconds a step has waited for its batch on average, so far: tells an input-bound workload."""
    mode: Literal["throughput", "latency"] = "throughput"
    """"latency": the device is waited for after every step, and every step is a sample of its own."""
    artefacts: Callable[[], Iterable[Artefact]] | None = None
    """Asked after ``derive``: a plot, a table."""
    labels: dict[str, str] = field(default_factory=dict)
    """What ``derive`` finds out about the result, in words; read after it."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Samples of one metric at one point of the plugin's own sub-parameters (message size, phase).

    ``values`` are in the metric's unit, one a sample. ``params`` extend the suite's parameters in the series' key.
    """

    metric: str
    values: Sequence[float]
    params: Mapping[str, ParamValue] = field(default_factory=dict)
    states: Sequence[SampleState] = ()
    """Empty: all valid."""
    gate: bool | None = None
    """None: as the metric declares. False: this value is charted and not gated (wall time of a launch-bound step)."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What the core saw while it drove a :class:`Workload`; times in seconds, one entry a sample."""

    step_wall_s: Sequence[float]
    step_cpu_s: Sequence[float] = ()
    step_device_busy_s: Sequence[float] = ()
    """From the profiled pass: union of the device's activities, one entry a profiled step."""
    step_device_cycles: Sequence[float] = ()
    """Wall time x SM clock at that time; empty where the clock is not known."""
    device_trace: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """From the profiled pass, one entry a step: compute_s, communication_s, exposed_communication_s, launches."""
    device_states: Sequence[SampleState] = ()
    """Of the profiled steps, by the conditions they were traced under."""
    energy_j_per_step: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """Classification in words: launch_bound, input_bound, power_capped, thermally_throttled, contaminated."""
    step_reference_s: Sequence[float] = ()
    """CPU seconds of the reference workload around each sample (timing/reference.py); empty on accelerators."""
    states: Sequence[SampleState] = ()
    steps_per_sample: int = 1
    steady: bool = True
    warmup_steps: int = 0
    first_step_s: float = 0.0
    warmup_wall_s: Sequence[float] = ()
    """Samples taken while warming up, after the first two steps: the device before its power cap."""
    memory_peak_bytes: Mapping[str, int] = field(default_factory=dict)
    """By declared kind: "allocated", "reserved", "device_used", "host_rss"."""
    facts: Mapping[str, float | int | str] = field(default_factory=dict)


class _Plugin(Protocol):
    """May also have ``imports``, a tuple of names of modules that it needs only once it runs.

    They are imported before the process has its turn on the device; one that is not there is not missed. A plugin that
    runs programs which may use a device, but does not itself, sets ``watches_devices``: the conditions of the first
    that is visible are sampled meanwhile. One whose work is done by processes of its own may have
    ``start_ahead(context)``, called before the turn: what it starts must touch no device yet, and is put into
    ``context.ahead``. ``devices(context)`` names those that such processes use ("cuda:0", "cuda:1"): the conditions of
    all of them are sampled.
    """

    name: str
    version: str
    description: str
    params: tuple[Param, ...]
    needs: Needs

    def metrics(self) -> tuple[Metric, ...]: ...


@runtime_checkable
class SteppedPlugin(_Plugin, Protocol):
    """The core owns the loop."""

    timing: ClassVar[Literal["stepped"]]

    def prepare(self, context: Context) -> Workload: ...

    def derive(self, workload: Workload, measurement: Measurement) -> Iterable[Measured]: ...


@runtime_checkable
class SelfTimedPlugin(_Plugin, Protocol):
    """The plugin measures by itself."""

    timing: ClassVar[Literal["self-timed"]]

    def run(self, context: Context) -> Iterable[Measured]: ...


Plugin = SteppedPlugin | SelfTimedPlugin
