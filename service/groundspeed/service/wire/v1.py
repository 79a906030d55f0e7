"""Messages between service and workers, version 1. Pydantic only; nothing else of ours is imported.

Every model forbids unknown keys, so a mistake is an error that names the key. All times are seconds since the epoch
(UTC) in fields ending in ``_at``, durations in fields ending in ``_s``.

Routes (all under ``/api/v1``; a worker authenticates with ``Authorization: Bearer``):

======  ==================================  ==========================  ===========================
POST    /workers/register                   RegisterRequest             RegisterReply
POST    /workers/{node}/heartbeat           NodeHeartbeat               NodeHeartbeatReply
POST    /jobs/{job}/claim                   ClaimRequest                ClaimReply
POST    /workers/{node}/next                ClaimRequest                ClaimReply (the broker lost a hint)
POST    /attempts/{attempt}/heartbeat       AttemptHeartbeat            AttemptHeartbeatReply
POST    /attempts/{attempt}/log             LogBatch                    Ack
POST    /attempts/{attempt}/runs            RunBatch                    RunAck
POST    /attempts/{attempt}/next-pair       NextPairRequest             NextPairReply
POST    /attempts/{attempt}/finish          FinishRequest               Ack
PUT     /attempts/{attempt}/artefacts/{sha256}   raw body               Ack
======  ==================================  ==========================  ===========================
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

PROTOCOL = 2
"""Raised when an older worker or service could misread the other; a mismatch is refused in words."""

Scalar = bool | int | float | str
Name = Annotated[str, Field(min_length=1, max_length=200)]
Sha = Annotated[str, Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]

Direction = Literal[-1, 0, 1]
MetricKind = Literal["time", "rate", "bytes", "ratio", "counter"]
Outcome = Literal["ok", "wrong", "failed", "oom", "timeout", "crashed", "unsupported", "skipped"]
SampleState = Literal["valid", "degraded", "rejected"]
Trust = Literal["trusted", "untrusted"]


class Wire(BaseModel):
    """Base of every message."""

    model_config = ConfigDict(extra="forbid", frozen=True)


# --- what a worker can do -------------------------------------------------------------------------------------------


class MetricSpec(Wire):
    name: Name
    unit: Annotated[str, Field(max_length=40)]
    direction: Direction
    kind: MetricKind
    description: str = ""
    formula: str = ""
    gate: bool = True
    clock: Literal["wall", "device", "cycles", "cpu", "none"] = "none"


class ParamSpec(Wire):
    name: Name
    type: Literal["int", "float", "str", "bool"]
    default: Scalar | None = None
    choices: tuple[Scalar, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    description: str = ""
    series: bool = True


class NeedsSpec(Wire):
    devices: int = 0
    memory_bytes: int = 0
    packages: tuple[str, ...] = ()
    target: bool = True


class PluginSpec(Wire):
    """One plugin of a catalogue. ``error`` is set for a plugin that could not be loaded, and says why."""

    name: Name
    version: Name
    distribution: str = ""
    description: str = ""
    timing: Literal["stepped", "self-timed"] = "stepped"
    params: tuple[ParamSpec, ...] = ()
    metrics: tuple[MetricSpec, ...] = ()
    needs: NeedsSpec = NeedsSpec()
    error: str | None = None


class DeviceSpec(Wire):
    index: int
    uuid: str
    model: str
    memory_bytes: int = 0
    facts: dict[str, Any] = {}


class Facet(Wire):
    """One fact of an environment. ``value`` None: could not be read, ``reason`` says why (unknown equals nothing)."""

    layer: Literal["node", "stack", "build"]
    name: Name
    value: str | None
    reason: str = ""
    tracked: bool = True


class HardwareSpec(Wire):
    """The class of machine that makes series comparable: no host name, no UUID."""

    gpu_model: str = ""
    gpu_count: int = 0
    topology: str = ""
    cpu_model: str = ""
    cpu_count: int = 0
    memory_bytes: int = 0


class RegisterRequest(Wire):
    protocol: int
    node: Name
    worker_version: str
    labels: dict[str, str] = {}
    hardware: HardwareSpec
    devices: tuple[DeviceSpec, ...] = ()
    environment: tuple[Facet, ...] = ()
    catalogue: tuple[PluginSpec, ...] = ()
    slots: int = 1
    address: Annotated[str, Field(max_length=255)] = ""
    """Name or number by which other nodes reach this one; empty: its name."""
    sandbox: str = ""
    """The working sandbox for untrusted code ("bubblewrap"), or empty."""
    hygiene: tuple[str, ...] = ()
    """Findings in words that should take the node out of use; empty: clean."""
    instance: Annotated[str, Field(max_length=64)] = ""
    """Made with the worker's folder: tells two workers of one name apart, and not one before and after a restart."""


class RegisterReply(Wire):
    accepted: bool
    node_id: int = 0
    reason: str = ""
    """Why not, and what to do."""
    heartbeat_s: float = 10.0


class NodeHeartbeat(Wire):
    protocol: int
    environment_fingerprint: str = ""
    attempts: tuple[str, ...] = ()
    hygiene: tuple[str, ...] = ()
    instance: Annotated[str, Field(max_length=64)] = ""


class NodeHeartbeatReply(Wire):
    state: Literal["active", "draining", "quarantined", "unknown"]
    """"unknown": register again."""
    reason: str = ""
    waiting: bool = False
    """A part in a job of several nodes is reserved for this node: ask for it now."""


# --- a job ----------------------------------------------------------------------------------------------------------


class SideSpec(Wire):
    index: int
    role: Literal["point", "base", "head"]
    sha: Sha
    environment_fingerprint: str = ""
    """The environment this side is expected to run in; empty: whatever the node has."""


class BuildSpec(Wire):
    """How a revision becomes something that runs. Comes from groundspeed.toml of the request's tip."""

    install: tuple[str, ...] = ()
    """Commands run in the checkout with the build's own Python first on PATH."""
    paths: tuple[str, ...] = (".",)
    """Folders of the checkout put on sys.path."""
    source: Literal["tip", "revision"] = "tip"
    benchmarks: str = ""
    """Folder of the tip laid over older code when source is "tip"; empty: nothing is laid over."""
    submodules: bool = False
    lfs: bool = False
    env: dict[str, str] = {}
    timeout_s: float = 1800.0
    allow_torch: bool = False
    """Whether the build may install its own torch, CUDA or NCCL."""


class BenchmarkSpec(Wire):
    """One benchmark of a job: one point of the suite's parameters. ``key`` is unique within the job."""

    key: Name
    plugin: Name
    target: str | None = None
    params: dict[str, Scalar] = {}
    limits: dict[str, float | int | bool] = {}
    """Overrides of groundspeed.plugins.protocol.Limits by field name."""
    replicates: int = 1
    first_replicate: int = 0
    devices: tuple[str, ...] = ()
    """UUIDs of the devices to run on; empty: all that the job has."""


class RunKey(Wire):
    """What makes a run unique within its job: a second report of the same key is acknowledged and ignored."""

    side: int
    benchmark: Name
    replicate: int


class GangSpec(Wire):
    """This node's part in a job of several nodes."""

    id: str
    rank: int
    """0 reports the results and ends the job."""
    nodes: Annotated[tuple[Name, ...], Field(min_length=2)]
    """By rank."""
    host: str
    port: int
    """Where rank 0 listens once all have said that they are ready."""


class JobSpec(Wire):
    job_id: int
    project: Name
    repo_url: str
    """Path or URL of the repository; a credential is never part of it."""
    credential: str | None = None
    """Name of the credential in the worker's own configuration; never its value."""
    tip_sha: Sha
    suite: Name
    sides: tuple[SideSpec, ...]
    build: BuildSpec
    benchmarks: tuple[BenchmarkSpec, ...]
    trust: Trust = "trusted"
    stack: str = ""
    track: tuple[str, ...] = ()
    info: tuple[str, ...] = ()
    """Patterns of facets that the project counts, and that it takes for information only."""
    devices: int = 0
    max_pairs: int = 0
    """For a job of two sides: pairs at most; the service says when enough. 0: a job of one side."""
    min_pairs: int = 0
    done: tuple[RunKey, ...] = ()
    """Runs that an earlier attempt has already delivered."""
    gang: GangSpec | None = None


class ClaimRequest(Wire):
    protocol: int
    node: Name
    delivery: str = ""
    """Identity of this claim, so that a repeated request gets the same answer."""


class ClaimReply(Wire):
    """``attempt_id`` None: nothing to do, and ``reason`` says why (taken, done, cancelled, not for this node)."""

    attempt_id: str | None = None
    lease_s: float = 60.0
    job: JobSpec | None = None
    reason: str = ""


class AttemptHeartbeat(Wire):
    phase: str = ""
    """checkout, build, run …"""
    message: str = ""
    done: int = 0
    total: int = 0


class AttemptHeartbeatReply(Wire):
    verdict: Literal["continue", "cancel", "lost"]
    """"lost": the lease expired or another attempt has the job; stop and do not report."""
    reason: str = ""
    together: bool = True
    """For a member of a gang in phase "ready": whether all the others are."""


class LogLine(Wire):
    seq: int
    at: float
    stream: Literal["stdout", "stderr", "progress", "worker"]
    text: Annotated[str, Field(max_length=8000)]
    run: RunKey | None = None


class LogBatch(Wire):
    lines: Annotated[tuple[LogLine, ...], Field(max_length=1000)]


# --- results --------------------------------------------------------------------------------------------------------


class Samples(Wire):
    metric: Name
    unit: str
    direction: Direction
    kind: MetricKind
    gate: bool = True
    clock: Literal["wall", "device", "cycles", "cpu", "none"] = "none"
    params: dict[str, Scalar] = {}
    values: Annotated[tuple[float, ...], Field(max_length=100_000)]
    states: tuple[SampleState, ...] = ()
    """Empty: all valid; otherwise one for each value."""


class ArtefactRef(Wire):
    kind: Name
    name: Name
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    size_bytes: int
    media_type: str = "application/octet-stream"


class RunReport(Wire):
    """One fresh process of one benchmark for one side, whatever its outcome."""

    key: RunKey
    plugin: Name
    plugin_version: Name
    params: dict[str, Scalar] = {}
    outcome: Outcome
    started_at: float
    duration_s: float
    samples: tuple[Samples, ...] = ()
    evidence: dict[str, Any] = {}
    conditions: dict[str, Any] = {}
    facts: dict[str, Any] = {}
    phases_s: dict[str, float] = {}
    device_uuid: str | None = None
    environment: tuple[Facet, ...] = ()
    """The node's and the stack's facets as read for this run."""
    build: tuple[Facet, ...] = ()
    artefacts: tuple[ArtefactRef, ...] = ()


class RunBatch(Wire):
    runs: Annotated[tuple[RunReport, ...], Field(max_length=100)]


class RunAck(Wire):
    """Sent after the commit. A worker deletes what is named here and nothing else."""

    accepted: tuple[RunKey, ...] = ()
    already: tuple[RunKey, ...] = ()
    refused: dict[str, str] = {}
    """Reason by "side/benchmark/replicate": not kept so; the worker sends it again as a failure with the reason."""


class NextPairRequest(Wire):
    pairs_done: int


class NextPairReply(Wire):
    verdict: Literal["continue", "enough", "superseded"]
    reason: str = ""


class FinishRequest(Wire):
    state: Literal["succeeded", "failed", "released"]
    """"released": given back unharmed (shutdown, preemption); it does not count as an attempt."""
    error_kind: Literal["", "transient", "permanent"] = ""
    error: Annotated[str, Field(max_length=20_000)] = ""


class Ack(Wire):
    ok: bool = True
    reason: str = ""


class Problem(Wire):
    """Body of every error reply. ``type`` is a stable short code."""

    type: str
    title: str
    detail: str = ""
    """What to do."""
