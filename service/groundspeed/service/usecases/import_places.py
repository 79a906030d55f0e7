"""What foreign results stand on: rows that exist once, found or made, each asked for once in an import.

A run of a tool (one asv results file, one CI run) is a job of kind "import" with one side and one attempt on the node
``import:<tool>:<machine>``, which never runs anything.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select
from sqlmodel import Session, SQLModel, col

from groundspeed.service.db.tables import (
    Benchmark,
    BuildSnapshot,
    Environment,
    Hardware,
    Job,
    Node,
    Revision,
    Run,
    Series,
)
from groundspeed.service.db.types import clean_text
from groundspeed.service.db.unique import ensure, find, make
from groundspeed.service.formats.digests import digest as digest_of
from groundspeed.service.formats.records import Fact, Machine, Metric, Origin, Scalar
from groundspeed.service.usecases import fingerprints
from groundspeed.service.usecases.import_tables import PLUGIN_PREFIX, short, storable
from groundspeed.service.wire.v1 import Facet, HardwareSpec

NODE_PREFIX = "import:"
_BENCHMARK = ("project_id", "suite", "plugin", "version")
_SERIES = "Series id"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the results of one origin belong."""

    job_id: int
    attempt_id: str
    revision_id: int
    hardware_id: int
    hardware_print: str
    environment_id: int
    build_id: int | None
    node_id: int
    started: str
    """As the driver writes it."""


@dataclass(slots=True)
class Places:
    """Of one project and request. ``sides`` and ``attempts`` of new jobs wait here to be written."""

    project_id: int
    request_id: int
    now: datetime
    stamp_length: int | None = None
    """Of a moment's text; SQLite keeps no zone."""
    commits: set[int] = field(default_factory=set)
    """Revisions that something came for."""
    fresh: set[int] = field(default_factory=set)
    """Revisions that were not there before."""
    runs: dict[int, set[tuple[str, int]]] = field(default_factory=dict)
    """By job: key and number of the runs that it had before."""
    known: dict[Hashable, Any] | None = None
    """What the process remembers of rows that exist once for their content (``Database.known``); None: many results
    come, and what the project has is looked up ahead.
    """
    made_benchmark: bool = False
    sides: list[tuple[Any, ...]] = field(default_factory=list)
    attempts: list[tuple[Any, ...]] = field(default_factory=list)
    _places: dict[Origin, Place] = field(default_factory=dict)
    _benchmarks: dict[tuple[str, str, str], int] = field(default_factory=dict)
    _series: dict[tuple[Any, ...], int] = field(default_factory=dict)
    _ids: dict[tuple[str, tuple[Any, ...]], int] = field(default_factory=dict)
    _new: dict[Hashable, Any] = field(default_factory=dict)
    _hardware_of: dict[Machine, tuple[int, str]] = field(default_factory=dict)
    _environment_of: dict[tuple[Fact, ...], tuple[int, int | None]] = field(default_factory=dict)

    def keep(self) -> None:
        """To be called after the commit, never before: what is rolled back was never there."""
        if self.known is not None:
            self.known.update(self._new)

    def look_again(self) -> None:
        """At the start of a transaction: what jobs have may be more by now, for another import may take in the same."""
        self.runs.clear()
        self._places.clear()

    def stamp(self, moment: datetime) -> str:
        """As the driver would write it, which is slow for millions."""
        moment = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
        return moment.isoformat(" ", "microseconds")[: self.stamp_length]

    def place(self, session: Session, origin: Origin, sha: str, moment: datetime | None) -> Place:
        """The job of an origin with all that it stands on, made where missing. ``sha`` names its revision."""
        known = self._places.get(origin)
        if known is not None:
            return known
        revision = self._revision(session, origin, sha, moment)
        self.commits.add(revision)
        hardware, hardware_print = self._hardware(session, origin.machine)
        environment, build = self._environment(session, origin.environment)
        node = self._node(session, origin, hardware, environment)
        started = origin.measured_at or moment or origin.committed_at or self.now
        identity = [origin.tool, sha, hardware_print, environment, build, node, origin.label, str(origin.measured_at)]
        key = f"{sha[:40]}/{digest_of(json.dumps(identity).encode())}"
        job, is_new = self._once(
            session, Job, self._job_row(key, origin, started), (self.request_id, key), ("request_id", "key")
        )
        attempt = str(uuid.uuid5(uuid.NAMESPACE_URL, f"groundspeed:import:{job}"))
        if is_new:
            self._open_job(job, attempt, revision, environment, node, started)
        if job not in self.runs:
            self.runs[job] = set() if is_new else self._known_runs(session, job)
        known = Place(job, attempt, revision, hardware, hardware_print, environment, build, node, self.stamp(started))
        self._places[origin] = known
        return known

    def _known_runs(self, session: Session, job: int) -> set[tuple[str, int]]:
        query = select(col(Run.benchmark_key), col(Run.replicate)).where(col(Run.job_id) == job)
        return {(key, replicate) for key, replicate in session.execute(query).tuples()}

    def _job_row(self, key: str, origin: Origin, started: datetime) -> dict[str, Any]:
        spec: dict[str, Any] = {
            "import": {"tool": origin.tool, "label": origin.label, "tool_version": origin.tool_version}
        }
        if origin.raw:
            spec["import"]["head"] = json.loads(origin.raw)
        return {
            "request_id": self.request_id, "project_id": self.project_id, "key": key,
            "suite": f"{PLUGIN_PREFIX}{origin.tool}"[:200],
            "reason": "backfill", "state": "done", "priority": 70, "requirements": {}, "spec": spec, "trust": "trusted",
            "attempts": 1, "max_attempts": 1, "error": "", "created_at": started, "finished_at": self.now,
        }  # fmt: skip

    def _open_job(self, job: int, attempt: str, revision: int, environment: int, node: int, started: datetime) -> None:
        """Its side and its attempt, which is over; written with the next :meth:`flush`."""
        at, now = self.stamp(started), self.stamp(self.now)
        self.sides.append((job, 0, "point", revision, environment))
        self.attempts.append(
            (attempt, job, node, 1, "", "succeeded", "import", "imported", 0, 0, "", "", at, at, at, now)
        )

    def _once(
        self,
        session: Session,
        table: type[SQLModel],
        row: Mapping[str, Any],
        key: tuple[Any, ...],
        names: Sequence[str],
    ) -> tuple[int, bool]:
        """The id of the row with this key, made when it was not there, and whether it was made; remembered."""
        known = self._ids.get((table.__name__, key))
        if known is not None:
            return known, False
        found = find(session, table, [key], names).get(key) if self.known is not None else None
        made = make(session, table, row) if found is None else None
        id_ = made or found or ensure(session, table, [row], key=names)[key]
        self._ids[table.__name__, key] = id_
        return id_, made is not None

    def _lasting(
        self, session: Session, table: type[SQLModel], row: Mapping[str, Any], names: Sequence[str] = ("fingerprint",)
    ) -> tuple[int, bool]:
        """As ``_once``, of a row that never goes."""
        key = tuple(row[name] for name in names)
        known = (table.__name__, *key)
        if self.known is not None and known in self.known:
            return int(self.known[known]), False
        found = self._once(session, table, row, key, names)
        self._new[known] = found[0]
        return found

    def remember(self, session: Session) -> None:
        """Look up at once what the project has already, so that importing again asks little."""
        revisions = select(col(Revision.sha), col(Revision.id)).where(col(Revision.project_id) == self.project_id)
        jobs = select(col(Job.key), col(Job.id)).where(col(Job.request_id) == self.request_id)
        self._ids |= {("Revision", (self.project_id, sha)): i for sha, i in session.execute(revisions).tuples() if i}
        self._ids |= {("Job", (self.request_id, key)): i for key, i in session.execute(jobs).tuples() if i}

    def _revision(self, session: Session, origin: Origin, sha: str, moment: datetime | None) -> int:
        at = origin.committed_at or moment or origin.measured_at or self.now
        row = {
            "project_id": self.project_id, "sha": sha, "parents": [], "position": None,
            "author": clean_text(origin.author)[:200],
            "authored_at": at, "committed_at": at, "title": clean_text(origin.title)[:500], "tags": [],
        }  # fmt: skip
        revision, is_new = self._once(session, Revision, row, (self.project_id, sha), ("project_id", "sha"))
        if is_new:
            self.fresh.add(revision)
        return revision

    def _hardware(self, session: Session, machine: Machine) -> tuple[int, str]:
        if machine not in self._hardware_of:
            self._hardware_of[machine] = self._find_hardware(session, machine)
        return self._hardware_of[machine]

    def _find_hardware(self, session: Session, machine: Machine) -> tuple[int, str]:
        spec = HardwareSpec(
            gpu_model=clean_text(machine.gpu_model), gpu_count=machine.gpu_count, topology=clean_text(machine.topology),
            cpu_model=clean_text(machine.cpu_model), cpu_count=machine.cpu_count, memory_bytes=machine.memory_bytes,
        )  # fmt: skip
        facts = spec.model_dump() | {"facts": {k: clean_text(v) for k, v in machine.facts}}
        name = clean_text(machine.name)
        if machine.identity and name:
            facts["machine"] = name
        # What its owner named as a place to compare within is a class of its own; else what is known of it is.
        fingerprint = fingerprints.of(facts) if machine.identity or machine.facts else fingerprints.hardware(spec)
        gpus = (
            f"{machine.gpu_count} × {machine.gpu_model}"
            if machine.gpu_model and machine.gpu_count
            else machine.gpu_model
        )
        label = (
            ", ".join(x for x in (name if machine.identity else "", gpus, machine.cpu_model) if x) or "unknown machine"
        )
        row = {"fingerprint": fingerprint, "label": clean_text(label)[:200], "facts": facts}
        return self._lasting(session, Hardware, row)[0], fingerprint

    def _environment(self, session: Session, facts: tuple[Fact, ...]) -> tuple[int, int | None]:
        if facts not in self._environment_of:
            self._environment_of[facts] = self._find_environment(session, facts)
        return self._environment_of[facts]

    def _find_environment(self, session: Session, facts: tuple[Fact, ...]) -> tuple[int, int | None]:
        facets = [
            Facet(layer=f.layer, name=clean_text(f.name)[:200] or "?", value=clean_text(f.value), tracked=f.tracked)
            for f in facts
        ]
        fingerprint = fingerprints.environment(facets)
        kept = fingerprints.environment_facets(facets)
        label = ", ".join(f"{f['name'].removeprefix('requirement ')} {f['value']}".strip() for f in kept) or "unknown"
        row = {"fingerprint": fingerprint, "label": label[:200], "facets": kept, "created_at": self.now}
        environment, _ = self._lasting(session, Environment, row)
        built = [f for f in facets if f.layer == "build"]
        if not built:
            return environment, None
        build = fingerprints.build(built)
        build_row = {"fingerprint": build, "facets": [f.model_dump() for f in built]}
        return environment, self._lasting(session, BuildSnapshot, build_row)[0]

    def _node(self, session: Session, origin: Origin, hardware: int, environment: int) -> int:
        name = clean_text(f"{NODE_PREFIX}{origin.tool}:{origin.machine.name or 'unknown'}")[:200]
        row = {
            "name": name, "state": "draining", "state_reason": "holds imported results and runs nothing",
            "labels": {"import": origin.tool},
            "protocol": 0, "worker_version": "", "slots": 0, "sandbox": "", "hardware_id": hardware,
            "environment_id": environment,
            "info": [], "registered_at": self.now,
        }  # fmt: skip
        return self._lasting(session, Node, row, ("name",))[0]

    def benchmark(self, session: Session, tool: str, name: str, version: str) -> int:
        key = (clean_text(short(name, 200)), f"{PLUGIN_PREFIX}{tool}"[:200], clean_text(version)[:200])
        found = self._benchmarks.get(key)
        if found is None:
            row = dict(zip(_BENCHMARK, (self.project_id, *key), strict=True))
            found, is_new = self._lasting(session, Benchmark, row, _BENCHMARK)
            self.made_benchmark = self.made_benchmark or is_new
            self._benchmarks[key] = found
        return found

    def series_ids(
        self, session: Session, benchmark: int, metric: Metric, points: Sequence[Mapping[str, Scalar]], place: Place
    ) -> Iterator[int]:
        prints = [
            fingerprints.series(benchmark, storable(p), clean_text(metric.name), place.hardware_print) for p in points
        ]
        if self.known:
            self._series |= {(p,): self.known[_SERIES, p] for p in prints if (_SERIES, p) in self.known}
        missing = {
            p: {
                "fingerprint": p, "project_id": self.project_id, "benchmark_id": benchmark,
                "hardware_id": place.hardware_id,
                "metric": clean_text(metric.name), "unit": clean_text(metric.unit), "direction": metric.direction,
                "kind": metric.kind, "clock": metric.clock, "gate": metric.gate, "params": storable(point),
                "series_class": "",
                "noise": {}, "detector_version": "", "created_at": self.now,
            }
            for p, point in zip(prints, points, strict=True)
            if (p,) not in self._series
        }  # fmt: skip
        rows = list(missing.values())
        for start in range(0, len(rows), 500):
            found = ensure(session, Series, rows[start : start + 500])
            self._series |= found
            self._new |= {(_SERIES, p): id_ for (p,), id_ in found.items()}
        yield from (self._series[(p,)] for p in prints)
