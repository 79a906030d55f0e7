"""Foreign results as rows of the same tables that workers' reports go to.

A run of a tool (one asv results file, one CI run) is a job of kind "import" with one side and one attempt on the node
``import:<tool>:<machine>``, which never runs anything. A benchmark within it is a run. Its key carries a digest of the
content, so that the same result is the same row however often it comes; many rows go in one statement.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import repeat
from math import isfinite
from operator import itemgetter
from typing import Any

from sqlalchemy import insert, select, text
from sqlmodel import Session, SQLModel, col

from groundspeed.service.db import samples as packed
from groundspeed.service.db.identities import core, ensure, insert_new
from groundspeed.service.db.tables import (
    Attempt,
    Benchmark,
    BuildSnapshot,
    Environment,
    Hardware,
    Job,
    JobSide,
    Node,
    Result,
    Revision,
    Run,
    Series,
    SeriesMark,
)
from groundspeed.service.db.types import clean_text, dump_json
from groundspeed.service.formats.prepared import Prepared
from groundspeed.service.formats.prepared import digest as digest_of
from groundspeed.service.formats.records import Metric, Origin, Record, Scalar
from groundspeed.service.usecases import fingerprints
from groundspeed.service.usecases.import_tables import PLUGIN_PREFIX, bulk_insert, readable, short, storable
from groundspeed.service.wire.v1 import Facet, HardwareSpec

NODE_PREFIX = "import:"
_GRID_RUN_COLUMNS = (
    "id", "job_id", "attempt_id", "benchmark_key", "replicate", "benchmark_id", "revision_id", "hardware_id",
    "environment_id", "build_id", "node_id", "facts", "started_at", "duration_s",
)  # fmt: skip
_RUN_COLUMNS = (*_GRID_RUN_COLUMNS, "outcome", "evidence", "params")
_GRID_RESULT_COLUMNS = ("run_id", "series_id", "revision_id", "environment_id", "value", "spread", "count")
_RESULT_COLUMNS = (*_GRID_RESULT_COLUMNS, "state", "samples")
_SIDE_COLUMNS = ("job_id", "index", "role", "revision_id", "environment_id")
_ATTEMPT_COLUMNS = (
    "id", "job_id", "node_id", "number", "delivery", "state", "phase", "message", "done", "total", "error_kind",
    "error",
    "claimed_at", "heartbeat_at", "expires_at", "finished_at",
)  # fmt: skip
_NO_OBJECT = "{}"


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
class Added:
    runs: int = 0
    results: int = 0
    failures: int = 0
    already: int = 0


@dataclass(slots=True)
class Writer:
    """Writes into one project and request; keeps what it has looked up, so one import asks for each row once."""

    project_id: int
    request_id: int
    now: datetime
    axes: dict[str, list[Any]] = field(default_factory=dict)
    """By benchmark: the lists of parameters as the tool wrote them, which runs refer to by index."""
    touched: set[int] = field(default_factory=set)
    commits: set[int] = field(default_factory=set)
    """Revisions that something came for."""
    fresh: set[int] = field(default_factory=set)
    """Revisions that were not there before."""
    _places: dict[Origin, Place] = field(default_factory=dict)
    _keys: dict[int, set[tuple[str, int]]] = field(default_factory=dict)
    _seen: dict[tuple[int, str], int] = field(default_factory=dict)
    _benchmarks: dict[tuple[str, str, str], int] = field(default_factory=dict)
    _series: dict[tuple[Any, ...], int] = field(default_factory=dict)
    _grids: dict[tuple[Any, ...], tuple[tuple[int, ...], int, int]] = field(default_factory=dict)
    _runs: list[tuple[Any, ...]] = field(default_factory=list)
    _results: list[tuple[Any, ...]] = field(default_factory=list)
    _grid_runs: list[tuple[Any, ...]] = field(default_factory=list)
    _grid_results: list[tuple[Any, ...]] = field(default_factory=list)
    """Most rows are of grids, and have much in common that is said once."""
    _sides: list[tuple[Any, ...]] = field(default_factory=list)
    _attempts: list[tuple[Any, ...]] = field(default_factory=list)
    _ids: dict[tuple[str, tuple[Any, ...]], int] = field(default_factory=dict)
    _spare: list[int] = field(default_factory=list)
    _next_run: int = 0
    _now: str = ""
    _is_sqlite: bool = True
    added: Added = field(default_factory=Added)

    def begin(self, session: Session) -> None:
        """Once in every transaction, before anything is added."""
        self._is_sqlite = session.get_bind().dialect.name == "sqlite"
        self._now = self._stamp(self.now)
        if self._is_sqlite:
            self._next_run = int(
                session.execute(select(text("coalesce(max(id), 0) + 1")).select_from(core(Run))).scalar_one()
            )

    def add_grid(self, session: Session, grid: Prepared, place: Place) -> None:
        """All points of a grid: one run for those that have a number, one for each that has none."""
        key = (grid.benchmark, grid.version, grid.axes_key, grid.metric.name, grid.origin.tool, place.hardware_id)
        cached = self._grids.get(key)
        if cached is None:
            benchmark = self._benchmark(session, grid.origin.tool, grid.benchmark, grid.version)
            ids = tuple(self._series_ids(session, benchmark, grid.metric, list(grid.grid().points()), place))
            cached = self._grids[key] = ids, benchmark, self._axes_index(grid)
        series, benchmark, axes = cached
        run_id, run_key, nth = self._run(session, place, grid.benchmark, grid.digest) if grid.values else (0, "", 0)
        if run_id:
            facts = '{"asv": {' + ", ".join(f for f in (f'"axes": {axes}' if axes >= 0 else "", grid.facts) if f) + "}}"
            started = self._stamp(grid.started_at) if grid.started_at else place.started
            self._grid_runs.append(
                self._run_row(run_id, run_key, nth, benchmark, place, facts, started, grid.duration_s)
            )
            mine = series if len(grid.indices) == len(series) else [series[i] for i in grid.indices]
            same = repeat(run_id), mine, repeat(place.revision_id), repeat(place.environment_id)
            rows = zip(*same, grid.values, grid.spreads, grid.counts, strict=False)  # three are endless
            if grid.samples:
                blobs = [packed.pack(one) if one else None for one in grid.samples]
                self._results.extend((*row, "valid", blob) for row, blob in zip(rows, blobs, strict=True))
            else:
                self._grid_results.extend(rows)
            self.touched.update(mine)
            self.added.results += len(mine)
        for record in grid.failures():
            self._add_run(session, [record], benchmark, place)

    def _axes_index(self, grid: Prepared) -> int:
        """Where the axes stand among those that this benchmark has had; -1: it has no parameters."""
        if not grid.axes:
            return -1
        known = self.axes.setdefault(grid.benchmark, [])
        axes = [list(a) for a in grid.axis_reprs]
        if axes not in known:
            known.append(axes)
        return known.index(axes)

    def add_records(self, session: Session, records: Sequence[Record], place: Place) -> None:
        """Records of one benchmark at one point of its parameters from one process, each of another metric."""
        first = records[0]
        benchmark = self._benchmark(session, first.origin.tool, first.benchmark, first.version)
        self._add_run(session, records, benchmark, place)

    def _add_run(self, session: Session, records: Sequence[Record], benchmark: int, place: Place) -> None:
        first = records[0]
        content = [(r.metric.name, r.value, r.samples, r.outcome, r.reason) for r in records]
        params = storable(first.params)
        name = f"{first.benchmark}({readable(params)})" if params else first.benchmark
        digest = digest_of(repr(content).encode(), dump_json(params), first.version)
        run_id, run_key, nth = self._run(session, place, name, digest)
        if not run_id:
            return
        worst = next((r for r in records if r.outcome != "ok"), first)
        evidence = {"message": worst.reason, "where": str(worst.where)} if worst.reason else {}
        summary = {r.metric.name: dict(r.summary) for r in records if r.summary}
        facts = dump_json({"summary": summary} if summary else {})
        row = self._run_row(run_id, run_key, nth, benchmark, place, facts, place.started, 0.0)
        self._runs.append((*row, worst.outcome, dump_json(evidence), dump_json(params)))
        if worst.outcome != "ok":
            self.added.failures += 1
        for record in records:
            if record.value is None or not isfinite(record.value):
                continue
            (series,) = self._series_ids(session, benchmark, record.metric, [record.params], place)
            state = "valid" if record.outcome == "ok" else "rejected"
            raw = packed.pack(record.samples) if record.samples else None
            self._results.append((
                run_id, series, place.revision_id, place.environment_id, record.value, record.spread, record.count,
                state, raw,
            ))  # fmt: skip
            self.touched.add(series)
            self.added.results += 1

    def _run(self, session: Session, place: Place, name: str, digest: str) -> tuple[int, str, int]:
        """The id for a new run, its key and how many of that key came before; 0 when this very content is there."""
        key = f"{name[:180]}#{digest}"
        nth = self._seen.get((place.job_id, key), 0)
        self._seen[place.job_id, key] = nth + 1
        if (key, nth) in self._keys[place.job_id]:
            self.added.already += 1
            return 0, key, nth
        self.added.runs += 1
        return self._run_id(session), key, nth

    def _run_id(self, session: Session) -> int:
        if self._is_sqlite:
            self._next_run += 1
            return self._next_run - 1
        if not self._spare:
            rows = session.execute(
                text("SELECT nextval(pg_get_serial_sequence('run', 'id')) FROM generate_series(1, 1000)")
            )
            self._spare.extend(rows.scalars())
        return self._spare.pop()

    @staticmethod
    def _run_row(  # noqa: PLR0913, PLR0917 - one for each thing that is said
        run_id: int, key: str, nth: int, benchmark: int, place: Place, facts: str, started: str, duration: float,
    ) -> tuple[Any, ...]:  # fmt: skip
        return (
            run_id, place.job_id, place.attempt_id, clean_text(key), nth, benchmark, place.revision_id,
            place.hardware_id, place.environment_id, place.build_id, place.node_id, facts, started, duration,
        )  # fmt: skip

    @property
    def waiting(self) -> int:
        """How many rows the next :meth:`flush` writes."""
        return len(self._runs) + len(self._results) + len(self._grid_runs) + len(self._grid_results)

    def flush(self, session: Session) -> None:
        """Write the rows that were collected."""
        # by series: the larger index then grows page by page instead of everywhere at once
        self._grid_results.sort(key=itemgetter(1))
        rest: dict[str, str | int | None] = {
            "side": 0, "conditions": _NO_OBJECT, "phases_s": _NO_OBJECT, "created_at": self._now,
        }  # fmt: skip
        fine: dict[str, str | int | None] = {"outcome": "ok", "evidence": _NO_OBJECT, "params": _NO_OBJECT}
        bulk_insert(session, JobSide, _SIDE_COLUMNS, self._sides)
        bulk_insert(session, Attempt, _ATTEMPT_COLUMNS, self._attempts)
        bulk_insert(session, Run, _GRID_RUN_COLUMNS, self._grid_runs, rest | fine)
        bulk_insert(session, Run, _RUN_COLUMNS, self._runs, rest)
        now: dict[str, str | int | None] = {"created_at": self._now}
        valid: dict[str, str | int | None] = {"state": "valid", "samples": None}
        bulk_insert(session, Result, _GRID_RESULT_COLUMNS, self._grid_results, now | valid)
        bulk_insert(session, Result, _RESULT_COLUMNS, self._results, now)
        for written in (self._sides, self._attempts, self._grid_runs, self._runs, self._grid_results, self._results):
            written.clear()

    def forget(self) -> None:
        """After a transaction that was rolled back nothing that was looked up in it can be trusted."""
        for kept in (
            self._ids,
            self._sides,
            self._attempts,
            self._places,
            self._keys,
            self._seen,
            self._benchmarks,
            self._series,
            self._grids,
        ):
            kept.clear()
        for lost in (self._runs, self._results, self._grid_runs, self._grid_results):
            lost.clear()

    def mark(self, session: Session, *, whole: bool) -> list[int]:
        """Tell detection which series have new results; returns their ids. ``whole``: they are to be looked at from
        their beginning, and not only at the commits that something came for.
        """
        series = sorted(self.touched)
        self.touched = set()
        places: list[int | None] = [None] if whole else [*sorted(self.commits)]
        for start in range(0, len(series), 5000):
            some = series[start : start + 5000]
            rows = [{"series_id": one, "revision_id": at, "created_at": self.now} for one in some for at in places]
            session.execute(insert(core(SeriesMark)), rows)
        return series

    def _stamp(self, moment: datetime) -> str:
        """As the driver would write it, which is slow for millions."""
        moment = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
        text_ = moment.isoformat(" ", "microseconds")
        return text_[:26] if self._is_sqlite else text_

    # --- rows that exist once ----------------------------------------------------------------------------------------

    def place(self, session: Session, origin: Origin, sha: str, moment: datetime | None) -> Place:
        """The job of an origin with all that it stands on, made where missing. ``sha`` names its revision."""
        known = self._places.get(origin)
        if known is not None:
            return known
        revision = self._revision(session, origin, sha, moment)
        self.commits.add(revision)
        hardware, hardware_print = self._hardware(session, origin)
        environment, build = self._environment(session, origin)
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
        if job not in self._keys:
            self._keys[job] = set() if is_new else self._known_runs(session, job)
        known = Place(job, attempt, revision, hardware, hardware_print, environment, build, node, self._stamp(started))
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
        at, now = self._stamp(started), self._stamp(self.now)
        self._sides.append((job, 0, "point", revision, environment))
        self._attempts.append(
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
        made = session.execute(insert_new(session, table).returning(core(table).c.id), row).scalar_one_or_none()
        if made is None:
            made_before = ensure(session, table, [row], key=names)[key]
            self._ids[table.__name__, key] = made_before
            return made_before, False
        self._ids[table.__name__, key] = made
        return int(made), True

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

    def _hardware(self, session: Session, origin: Origin) -> tuple[int, str]:
        machine = origin.machine
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
        return self._once(session, Hardware, row, (fingerprint,), ("fingerprint",))[0], fingerprint

    def _environment(self, session: Session, origin: Origin) -> tuple[int, int | None]:
        facets = [
            Facet(layer=f.layer, name=clean_text(f.name)[:200] or "?", value=clean_text(f.value), tracked=f.tracked)
            for f in origin.environment
        ]
        fingerprint = fingerprints.environment(facets)
        kept = fingerprints.environment_facets(facets)
        label = ", ".join(f"{f['name'].removeprefix('requirement ')} {f['value']}".strip() for f in kept) or "unknown"
        row = {"fingerprint": fingerprint, "label": label[:200], "facets": kept, "created_at": self.now}
        environment, _ = self._once(session, Environment, row, (fingerprint,), ("fingerprint",))
        built = [f for f in facets if f.layer == "build"]
        if not built:
            return environment, None
        build = fingerprints.build(built)
        build_row = {"fingerprint": build, "facets": [f.model_dump() for f in built]}
        return environment, self._once(session, BuildSnapshot, build_row, (build,), ("fingerprint",))[0]

    def _node(self, session: Session, origin: Origin, hardware: int, environment: int) -> int:
        name = clean_text(f"{NODE_PREFIX}{origin.tool}:{origin.machine.name or 'unknown'}")[:200]
        row = {
            "name": name, "state": "draining", "state_reason": "holds imported results and runs nothing",
            "labels": {"import": origin.tool},
            "protocol": 0, "worker_version": "", "slots": 0, "sandbox": "", "hardware_id": hardware,
            "environment_id": environment,
            "info": [], "registered_at": self.now,
        }  # fmt: skip
        return self._once(session, Node, row, (name,), ("name",))[0]

    def _benchmark(self, session: Session, tool: str, name: str, version: str) -> int:
        suite = clean_text(short(name, 200))
        key = (suite, f"{PLUGIN_PREFIX}{tool}"[:200], clean_text(version)[:200])
        if key not in self._benchmarks:
            row = {"project_id": self.project_id, "suite": key[0], "plugin": key[1], "version": key[2]}
            found = ensure(session, Benchmark, [row], key=("project_id", "suite", "plugin", "version"))
            self._benchmarks[key] = found[self.project_id, *key]
        return self._benchmarks[key]

    def _series_ids(
        self, session: Session, benchmark: int, metric: Metric, points: Sequence[Mapping[str, Scalar]], place: Place
    ) -> Iterator[int]:
        prints = [
            fingerprints.series(benchmark, storable(p), clean_text(metric.name), place.hardware_print) for p in points
        ]
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
            self._series |= ensure(session, Series, rows[start : start + 500])
        yield from (self._series[(p,)] for p in prints)
