"""Fills a database with a believable history: commits, series with steps, failures, an upgraded driver, running jobs.

For tests, screenshots and benchmarks of the pages. Everything follows from the seed; nothing here is measured.
"""

from __future__ import annotations

import hashlib
import json
import uuid
import zlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from sqlalchemy import insert
from sqlmodel import Session, SQLModel

from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database

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


def create_tables(db: Database) -> None:
    SQLModel.metadata.create_all(db.engine)


def fill(db: Database, shape: Shape | None = None, now: datetime = NOW) -> Filled:
    """Put one project in. The same shape gives the same data."""
    shape = shape or Shape()
    with db.transaction() as session:
        return _Maker(session, shape, now).make()


def _sha(text: str) -> str:
    return hashlib.sha1(text.encode()).hexdigest()


def _print(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def pack(values: np.ndarray, states: bytes | None = None) -> bytes:
    """Samples as the Result table keeps them."""
    return zlib.compress(values.astype("<f8").tobytes() + (states or bytes(len(values))), 1)


def _with_defaults(table: Any, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """``rows`` with what the model would fill in: a bulk insert does not ask it."""
    fields = table.model_fields
    filled = {
        name: f.get_default(call_default_factory=True)
        for name, f in fields.items()
        if not f.is_required() and name != "id"
    }
    return [{**filled, **row} for row in rows]


def _conditions(c: int) -> dict[str, Any]:
    """As a worker on a GPU reports them."""
    return {
        "host": {
            "before": {"load_1m": 0.4, "cpu_mhz": {"unavailable": "cpufreq cannot be read"}, "steal_s": 0.0},
            "after": {"load_1m": 0.9, "cpu_mhz": {"unavailable": "cpufreq cannot be read"}, "steal_s": 0.0},
        },
        "device": {
            "sm_mhz": {"median": 1755, "min": 1620, "max": 1980},
            "memory_mhz": {"median": 3201, "min": 3201, "max": 3201},
            "power_w": {"median": 512 + c % 7, "min": 310, "max": 698},
            "temperature_c": {"median": 54, "min": 41, "max": 61},
            "clock_events": {"software power cap": 0.04} if c % 4 == 0 else {},
        },
        "hygiene": {
            "before": ["process 4711 holds 310 MiB of the device"] if c % 31 == 17 else [],
            "during": [],
            "not_available": {},
        },
    }


def _trace(c: int) -> bytes:
    """Readings ten times a second over set-up, warm-up and measurement."""
    t_s = np.arange(0, 4.3, 0.1)
    rng = np.random.default_rng(c)
    busy = np.clip((t_s - 0.8) / 0.6, 0, 1)
    columns = {
        "t_s": t_s.round(3).tolist(),
        "sm_mhz": (1980 - 225 * busy + rng.integers(-15, 15, len(t_s))).round().tolist(),
        "memory_mhz": [3201.0] * len(t_s),
        "power_w": (120 + 400 * busy + rng.normal(0, 9, len(t_s))).round(1).tolist(),
        "temperature_c": (41 + 13 * np.clip((t_s - 0.8) / 3.0, 0, 1)).round().tolist(),
        "foreign": [0] * len(t_s),
    }
    return zlib.compress(json.dumps(columns).encode(), 1)


class _Maker:
    def __init__(self, session: Session, shape: Shape, now: datetime) -> None:
        self.s, self.shape, self.now = session, shape, now
        self.rng = np.random.default_rng(shape.seed)
        self.series: dict[str, int] = {}
        self.meta: dict[int, tuple[Suite, Metric, dict[str, Any], int]] = {}
        self.jobs: list[int] = []
        self.requests: list[int] = []
        self.running_attempt: str | None = None

    def make(self) -> Filled:
        self._project()
        self._machines()
        self._benchmarks()
        self._levels()
        if self.shape.commits:
            self._history()
        regressions = self._findings()
        self._events()
        if self.shape.live:
            self._live()
        self.s.flush()
        return Filled(
            self.project, self.shape.slug, self.rev_ids, self.shas, self.series, regressions,
            self.requests, self.jobs, self.running_attempt, self.node_names,
        )  # fmt: skip

    def _add(self, row: Any) -> Any:
        self.s.add(row)
        self.s.flush()
        return row.id

    def _project(self) -> None:
        n, slug = self.shape.commits, self.shape.slug
        self.shas = [_sha(f"{slug}-{self.shape.seed}-{i}") for i in range(n)]
        self.project = self._add(
            t.Project(
                slug=slug, name=self.shape.name, repo_url=f"https://git.example.org/{slug}.git",
                tip_sha=self.shas[-1] if n else None, polled_at=self.now, created_at=self.now - timedelta(days=200),
            )
        )  # fmt: skip
        hours = np.cumsum(self.rng.exponential(9.0, n)) if n else np.zeros(0)
        self.times = [self.now - timedelta(hours=float(hours[-1] - h) + 1.5) for h in hours]
        rows = [
            {
                "project_id": self.project, "sha": sha, "parents": [self.shas[i - 1]] if i else [], "position": i,
                "author": AUTHORS[int(self.rng.integers(len(AUTHORS)))], "authored_at": self.times[i],
                "committed_at": self.times[i], "title": TITLES[(i * 7) % len(TITLES)],
                "tags": ["v1.0"] if i == n // 3 else [],
            }
            for i, sha in enumerate(self.shas)
        ]  # fmt: skip
        self.rev_ids = self._insert(t.Revision, rows)

    def _insert(self, table: Any, rows: list[dict[str, Any]]) -> list[int]:
        """Ids of ``rows`` in their order."""
        out: list[int] = []
        rows = _with_defaults(table, rows)
        for at in range(0, len(rows), 5000):
            part = rows[at : at + 5000]
            statement = insert(table).returning(table.id, sort_by_parameter_order=True)
            out += list(self.s.execute(statement, part).scalars())
        return out

    def _bulk(self, table: Any, rows: list[dict[str, Any]]) -> None:
        for at in range(0, len(rows), 10_000):
            self.s.execute(insert(table), _with_defaults(table, rows[at : at + 10_000]))

    def _machines(self) -> None:
        self.node_ids, self.node_names, self.hardware, self.envs = [], [], [], []
        self.twins: dict[int, int] = {}
        for m in range(self.shape.machines):
            label = f"{4 if m % 2 else 8}x {GPU[m % len(GPU)]}"
            existing = self.s.query(t.Hardware).filter_by(fingerprint=_print(label)).first()
            hw = (
                existing.id
                if existing
                else self._add(
                    t.Hardware(fingerprint=_print(label), label=label, facts={"gpu_model": GPU[m % len(GPU)]})
                )
            )
            envs = [self._environment(m, driver) for driver in ("570.86.15", "575.57.08")]
            name = f"gpu-{m + 1:02d}" if self.shape.slug == "tinygpt" else f"{self.shape.slug}-{m + 1}"
            node = self._add(
                t.Node(
                    name=name, state="active" if m != 2 else "quarantined", state_reason="" if m != 2 else "GPU 3 reports remapped rows",
                    labels={"site": "north"}, protocol=1, worker_version="0.1.0", hardware_id=hw, environment_id=envs[1],
                    info=[{"layer": "node", "name": "hostname", "value": name, "reason": "", "tracked": False}],
                    registered_at=self.now - timedelta(days=90),
                    seen_at=self.now - timedelta(seconds=4 if m != 1 else 4000),
                )
            )  # fmt: skip
            for i in range(2):
                self.s.add(
                    t.Device(
                        node_id=node,
                        index=i,
                        uuid=f"GPU-{_sha(name + str(i))[:12]}",
                        model=GPU[m % len(GPU)],
                        memory_bytes=141 << 30,
                    )
                )
            if m == 0 and self.shape.machines > 1:
                self.twins[m] = self._twin(hw, envs[0], name)
            self.node_ids.append(node)
            self.node_names.append(name)
            self.hardware.append(hw)
            self.envs.append(envs)

    def _twin(self, hardware: int, environment: int, name: str) -> int:
        """A second node of the same hardware, which takes every other commit."""
        row = t.Node(
            name=f"{name}b", protocol=1, worker_version="0.1.0", hardware_id=hardware, environment_id=environment,
            registered_at=self.now - timedelta(days=60), seen_at=self.now - timedelta(seconds=9),
        )  # fmt: skip
        return int(self._add(row))

    def _node(self, m: int, c: int) -> int:
        return self.twins.get(m, self.node_ids[m]) if c % 2 else self.node_ids[m]

    def _environment(self, machine: int, driver: str) -> int:
        label = f"driver {driver}, CUDA 12.8, torch 2.13"
        fingerprint = _print(f"{label}-{machine}")
        found = self.s.query(t.Environment).filter_by(fingerprint=fingerprint).first()
        if found:
            return int(found.id or 0)
        names = {
            "driver": driver,
            "kernel": "6.1.0-28-amd64",
            "cuda": "12.8",
            "torch": "2.13.0",
            "nccl": "2.27.3",
            "power_limit_w": "700",
        }
        facets = [
            {
                "layer": "node" if k in {"driver", "kernel"} else "stack",
                "name": k,
                "value": v,
                "reason": "",
                "tracked": True,
            }
            for k, v in names.items()
        ]
        return int(
            self._add(
                t.Environment(
                    fingerprint=fingerprint, label=label, facets=facets, created_at=self.now - timedelta(days=90)
                )
            )
        )

    def _suites(self) -> tuple[Suite, ...]:
        if not self.shape.extra:
            return SUITES
        metric = Metric("time", "s", -1, "time", 0.00031, 0.004)
        sizes = tuple(
            {"m": 64 * (1 + i % 16), "n": 64 * (1 + i // 16), "k": 1024, "dtype": "bfloat16"}
            for i in range(self.shape.extra)
        )
        return (*SUITES, Suite("products", "gemm", sizes, (metric,)))

    def _benchmarks(self) -> None:
        for suite in self._suites():
            bench = self._add(
                t.Benchmark(
                    project_id=self.project, suite=suite.name, plugin=suite.plugin, version="1", target=suite.target
                )
            )
            for m in range(self.shape.machines):
                self._series(suite, bench, m)

    def _series(self, suite: Suite, bench: int, m: int) -> None:
        rows, keys = [], []
        for params in suite.axes:
            for metric in suite.metrics:
                key = f"{suite.name}/{metric.name}/{','.join(f'{k}={v}' for k, v in params.items())}/{m}"
                keys.append((key, metric, params))
                rows.append(
                    {
                        "fingerprint": _print(f"{self.project}/{key}"), "project_id": self.project, "benchmark_id": bench,
                        "hardware_id": self.hardware[m], "metric": metric.name, "unit": metric.unit, "direction": metric.direction,
                        "kind": metric.kind, "gate": metric.gate, "params": params, "series_class": "steady" if metric.noise < 0.03 else "noisy",
                        "noise": {"point": metric.noise, "mde": metric.noise * 2.4}, "detector_version": "1", "last_result_at": self.now - timedelta(hours=1),
                    }
                )  # fmt: skip
        for id_, (key, metric, params) in zip(self._insert(t.Series, rows), keys, strict=True):
            self.series[key] = id_
            self.meta[id_] = (suite, metric, params, m)

    def _levels(self) -> None:
        """Value of each series at each commit, and the steps it has."""
        n = self.shape.commits
        self.levels: dict[int, np.ndarray] = {}
        self.steps: dict[int, list[tuple[int, Step]]] = {}
        for id_, (suite, metric, params, m) in self.meta.items():
            level = np.full(n, metric.base * (1 + 0.35 * m) * float(self.rng.uniform(0.8, 1.3)))
            found = []
            for step in STEPS:
                fits = step.suite == suite.name and step.metric == metric.name and step.params.items() <= params.items()
                at = int(step.at * n)
                if fits and 0 < at < n and step.machine in {None, m}:
                    level[at:] *= step.ratio
                    found.append((at, step))
            noise = 1 + metric.noise * self.rng.standard_normal(n)
            if self.rng.random() < 0.5 and metric.noise > 0.01:
                noise *= 1 + metric.noise * 3 * (self.rng.random(n) < 0.04)
            self.levels[id_] = level * noise
            self.steps[id_] = found

    def _history(self) -> None:
        n = self.shape.commits
        req = self._add(
            t.Request(project_id=self.project, kind="push", idempotency_key="history", state="done", tip_sha=self.shas[-1] if n else "",
                      payload={"range": "the last commits"}, created_at=self.now - timedelta(days=2), finished_at=self.now - timedelta(days=1))
        )  # fmt: skip
        self.requests.append(req)
        by_place: dict[tuple[str, int], list[int]] = {}
        for id_, (suite, _metric, _params, m) in self.meta.items():
            by_place.setdefault((suite.name if self.shape.keep_runs else "all", m), []).append(id_)
        self.bench_ids = dict(self.s.query(t.Benchmark.suite, t.Benchmark.id).filter_by(project_id=self.project).all())
        chunk = max(1, 40_000 // max(1, len(self.meta))) if not self.shape.keep_runs else 10
        for start in range(0, n, chunk):
            for (suite_name, m), ids in by_place.items():
                self._place(req, suite_name, m, ids, range(start, min(n, start + chunk)))

    def _place(self, req: int, suite_name: str, m: int, ids: list[int], commits: range) -> None:
        """Jobs, attempts, runs and results of one suite on one machine; every seventh commit is not measured."""
        commits_ = [c for c in commits if not (suite_name != "train" and self.shape.keep_runs and c % 7 == 3)]
        job_rows = [
            {"request_id": req, "project_id": self.project, "key": f"{suite_name}-{m}-{c}", "suite": suite_name, "state": "done",
             "attempts": 1, "spec": {"benchmarks": []}, "created_at": self.times[c], "finished_at": self.times[c] + timedelta(minutes=4)}
            for c in commits_
        ]  # fmt: skip
        jobs = self._insert(t.Job, job_rows)
        self.jobs += jobs[:20]
        self._bulk(
            t.JobSide,
            [
                {"job_id": j, "index": 0, "role": "point", "revision_id": self.rev_ids[c]}
                for j, c in zip(jobs, commits_, strict=True)
            ],
        )
        attempts = [str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self.shape.slug}-{j}")) for j in jobs]
        self._bulk(
            t.Attempt,
            [
                {"id": a, "job_id": j, "node_id": self._node(m, c), "number": 1, "state": "succeeded", "done": 1, "total": 1,
                 "claimed_at": self.times[c], "heartbeat_at": self.times[c], "expires_at": self.times[c], "finished_at": self.times[c] + timedelta(minutes=4)}
                for a, j, c in zip(attempts, jobs, commits_, strict=True)
            ],
        )  # fmt: skip
        self._runs(m, ids, [(c, j, a) for c, j, a in zip(commits_, jobs, attempts, strict=True)])

    def _groups(self, ids: list[int]) -> dict[str, list[int]]:
        groups: dict[str, list[int]] = {}
        for id_ in ids:
            params = self.meta[id_][2]
            key = ",".join(f"{k}={v}" for k, v in params.items()) if self.shape.keep_runs else "all"
            groups.setdefault(key, []).append(id_)
        return groups

    def _runs(self, m: int, ids: list[int], places: list[tuple[int, int, str]]) -> None:
        n, runs, members = self.shape.commits, [], []
        for key, group in self._groups(ids).items():
            suite, _metric, params, _ = self.meta[group[0]]
            for c, job, attempt in places:
                suspected = any(abs(c - at) <= 1 for at, _ in self.steps[group[0]])
                for replicate in range(4 if suspected and self.shape.keep_runs else self.shape.replicates):
                    failed = suite.name == "generate" and c in {n // 4, n // 4 + 1}
                    runs.append(self._run_row(suite, params, m, (c, job, attempt, key, replicate), failed=failed))
                    members.append((c, [] if failed else group))
        run_ids = self._insert(t.Run, runs)
        results = [
            self._result_row(id_, c, run, m) for run, (c, group) in zip(run_ids, members, strict=True) for id_ in group
        ]
        self._bulk(t.Result, results)

    def _run_row(
        self, suite: Suite, params: dict[str, Any], m: int, where: tuple[int, int, str, str, int], *, failed: bool
    ) -> dict[str, Any]:
        c, job, attempt, key, replicate = where
        evidence = {
            "error": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
            "traceback": 'Traceback (most recent call last):\n  File "benchmarks/generate.py", line 41, in step\n    out = model(tokens)\ntorch.OutOfMemoryError: CUDA out of memory.',
        }
        return {
            "job_id": job, "attempt_id": attempt, "side": 0, "benchmark_key": key, "replicate": replicate,
            "benchmark_id": self.bench_ids[suite.name], "revision_id": self.rev_ids[c], "hardware_id": self.hardware[m],
            "environment_id": self._env_at(m, c), "node_id": self._node(m, c), "device_uuid": f"GPU-{_sha(self.node_names[m] + '0')[:12]}",
            "params": params, "outcome": "oom" if failed else "ok", "evidence": evidence if failed else {},
            "conditions": _conditions(c), "trace": _trace(c) if self.shape.keep_runs and (c % 10 == 0 or c >= self.shape.commits - 3) else None,
            "facts": {"torch": "2.13.0", "cold_cache": replicate == 0}, "phases_s": {"import": 2.1, "setup": 0.8, "warmup": 1.1, "measure": 2.4},
            "started_at": self.times[c], "duration_s": 6.4, "created_at": self.times[c],
        }  # fmt: skip

    def _env_at(self, m: int, c: int) -> int:
        return int(self.envs[m][1 if m == 1 and c >= self.shape.commits // 2 else 0])

    def _result_row(self, id_: int, c: int, run: int, m: int) -> dict[str, Any]:
        metric = self.meta[id_][1]
        value = float(self.levels[id_][c] * (1 + metric.noise * 0.3 * self.rng.standard_normal()))
        if m in self.twins and c % 2 and metric.name == "bus_bandwidth":
            value *= 0.975  # one node of the fleet is a little behind its peer
        samples = None
        if self.shape.keep_samples:
            draws = value * (1 + metric.noise * self.rng.standard_normal(self.shape.samples))
            samples = pack(draws, bytes([1 if i == 0 else 0 for i in range(self.shape.samples)]))
        return {
            "run_id": run, "series_id": id_, "revision_id": self.rev_ids[c], "environment_id": self._env_at(m, c), "value": value,
            "spread": value * metric.noise * 0.67, "count": self.shape.samples, "state": "degraded" if c % 31 == 17 else "valid",
            "samples": samples, "created_at": self.times[c],
        }  # fmt: skip

    def _findings(self) -> list[int]:
        """One regression a step of the plan, with the change points of its series."""
        groups: dict[tuple[int, str, str], list[tuple[int, Step]]] = {}
        for id_, found in self.steps.items():
            for at, step in found:
                worse = (step.ratio > 1) == (self.meta[id_][1].direction < 0)
                groups.setdefault((at, "regression" if worse else "improvement", step.cause), []).append((id_, step))
        out = []
        for i, ((at, kind, cause), members) in enumerate(sorted(groups.items())):
            first = min(5, max(0, at - 1))
            before = at - 1 if i % 2 == 0 else max(0, at - 1 - first // 4)
            suite = self.meta[members[0][0]][0]
            regression = self._add(
                t.Regression(
                    project_id=self.project, kind=kind, state=("new", "new", "acknowledged", "new", "in-progress")[i % 5],
                    title=f"{suite.name}: {members[0][1].metric}", before_revision_id=self.rev_ids[before], after_revision_id=self.rev_ids[at],
                    cause=cause, assignee="ada" if i % 5 == 2 else "", created_at=self.times[at] + timedelta(hours=1), updated_at=self.times[at] + timedelta(hours=1),
                )
            )  # fmt: skip
            out.append(regression)
            self.s.add(
                t.AuditEntry(
                    actor="groundspeed",
                    action="found",
                    subject_type="regression",
                    subject_id=str(regression),
                    at=self.times[at],
                )
            )
            for id_, step in members:
                self._change(id_, step, regression, (before, at, kind))
        return out

    def _change(self, id_: int, step: Step, regression: int, where: tuple[int, int, str]) -> None:
        before, at, kind = where
        m = self.meta[id_][3]
        half = 1 + 2.5 * self.meta[id_][1].noise
        environment = step.cause == "environment"
        self.s.add(
            t.ChangePoint(
                series_id=id_, regression_id=regression, before_revision_id=self.rev_ids[before], after_revision_id=self.rev_ids[at],
                environment_from_id=self.envs[m][0] if environment else None, environment_to_id=self.envs[m][1] if environment else None,
                state="provisional" if step.suite == "generate" else "confirmed", kind=kind, cause=step.cause, ratio=step.ratio,
                ratio_low=step.ratio / half, ratio_high=step.ratio * half, difference=(step.ratio - 1) * float(self.levels[id_][at]) / step.ratio,
                strength=14.0, p_value=1e-6, detector_version="1", created_at=self.times[at] + timedelta(hours=1), updated_at=self.times[at] + timedelta(hours=1),
            )
        )  # fmt: skip

    def _events(self) -> None:
        n = self.shape.commits
        if n < 8:
            return
        self.s.add(
            t.Event(
                kind="annotation",
                project_id=self.project,
                revision_id=self.rev_ids[n // 3],
                title="Release 1.0",
                body="Branch cut.",
                at=self.times[n // 3],
            )
        )
        if self.shape.machines > 1:
            self.s.add(
                t.Event(kind="environment", node_id=self.node_ids[1], environment_from_id=self.envs[1][0], environment_to_id=self.envs[1][1],
                        title="driver 570.86.15 → 575.57.08", at=self.times[n // 2])
            )  # fmt: skip

    def _live(self) -> None:
        """A request under way: one job runs and logs, one has failed for good, others wait."""
        n = self.shape.commits
        req = self._add(
            t.Request(project_id=self.project, kind="push", idempotency_key="live", state="running", tip_sha=self.shas[-1],
                      payload={"before": self.shas[-3], "after": self.shas[-1]}, budget_s=3600, created_at=self.now - timedelta(minutes=6))
        )  # fmt: skip
        self.requests.append(req)
        spec = {
            "suite": "train",
            "benchmarks": [
                {
                    "key": "batch_size=8,precision=fp32",
                    "plugin": "training",
                    "target": "benchmarks.train:make",
                    "params": {"batch_size": 8},
                }
            ],
        }
        states = (
            ("running", "train", "measure"),
            ("queued", "generate", "measure"),
            ("queued", "links", "replicate"),
            ("failed", "footprint", "measure"),
        )
        for i, (state, suite, reason) in enumerate(states):
            job = self._add(
                t.Job(request_id=req, project_id=self.project, key=f"live-{suite}", suite=suite, reason=reason, state=state, priority=30, spec=spec,
                      attempts=1 if state != "queued" else 0, error="The build failed: pip could not find a version of flash-attn for this Python." if state == "failed" else "",
                      created_at=self.now - timedelta(minutes=6))
            )  # fmt: skip
            self.jobs.append(job)
            self.s.add(t.JobSide(job_id=job, index=0, role="point", revision_id=self.rev_ids[n - 1 - i % 2]))
            if state in {"running", "failed"}:
                self._attempt(job, state)

    def _attempt(self, job: int, state: str) -> None:
        id_ = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self.shape.slug}-live-{job}"))
        running = state == "running"
        self.s.add(
            t.Attempt(id=id_, job_id=job, node_id=self.node_ids[0], number=1, state="running" if running else "failed", phase="run" if running else "build",
                      message="training: batch_size=8, process 2 of 3" if running else "", done=3, total=8, error_kind="" if running else "permanent",
                      error="" if running else "ERROR: No matching distribution found for flash-attn==9.9", claimed_at=self.now - timedelta(minutes=3),
                      heartbeat_at=self.now, expires_at=self.now + timedelta(seconds=60), finished_at=None if running else self.now - timedelta(minutes=2))
        )  # fmt: skip
        self.s.flush()
        lines = [
            ("worker", "checkout 0.4 s"),
            ("worker", "environment reused"),
            ("stdout", "step 20: loss 4.118"),
            ("progress", "warm-up done after 6 steps"),
            ("stderr", "UserWarning: <b>fused</b> kernel not available"),
            ("stdout", "step 40: loss 3.902"),
        ]
        for seq, (stream, text) in enumerate(lines):
            self.s.add(
                t.LogEntry(attempt_id=id_, seq=seq, at=self.now - timedelta(seconds=60 - seq), stream=stream, text=text)
            )
        if running:
            self.running_attempt = id_
