"""Where a run belongs: its benchmark, hardware, environment, build and series, each found or made by its content."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, Protocol

from sqlalchemy import select
from sqlmodel import Session, SQLModel, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.identities import core
from groundspeed.service.db.tables import Benchmark, BuildSnapshot, Environment, Hardware, Series
from groundspeed.service.db.unique import ensure
from groundspeed.service.usecases import fingerprints
from groundspeed.service.usecases.reports import Declared, series_params
from groundspeed.service.wire.v1 import Facet, HardwareSpec, RunReport, Samples

Layer = Literal["node", "stack", "build"]


class Source(Protocol):
    """What must be known of the attempt that reports."""

    @property
    def project_id(self) -> int: ...
    @property
    def suite(self) -> str: ...
    @property
    def hardware_id(self) -> int | None: ...
    @property
    def environment_id(self) -> int | None: ...
    @property
    def targets(self) -> Mapping[str, str | None]: ...
    @property
    def params(self) -> Mapping[str, tuple[Declared, ...]]: ...


@dataclass(frozen=True, slots=True)
class Place:
    benchmark_id: int
    hardware_id: int
    environment_id: int
    build_id: int | None
    series_ids: tuple[int, ...]
    """One for each of the run's metrics, in its order."""


@dataclass(frozen=True, slots=True)
class Conflicting:
    """The run's metric means something else than the series it would continue."""

    reason: str


@dataclass(frozen=True, slots=True)
class Line:
    """A series as far as a report must agree with it."""

    id: int
    unit: str
    direction: int


class Places:
    """Finds the places of one batch. What others have committed is remembered, so that most batches ask nothing."""

    def __init__(self, db: Database, session: Session, source: Source, now: datetime) -> None:
        self._known = db.known
        self._session = session
        self._source = source
        self._now = now
        self._new: dict[Hashable, Any] = {}

    def remember(self) -> None:
        """To be called after the commit, never before: what is rolled back was never there."""
        self._known.update(self._new)

    def find(self, runs: Sequence[RunReport]) -> list[Place | Conflicting]:
        """The place of each run, in their order; rows that are missing are made, always in the same order."""
        environments = self._environments(runs)
        builds = self._builds(runs)
        hardware, print_ = self._hardware()
        benchmarks = [self._benchmark(run) for run in runs]
        wanted = [
            (run, samples, benchmark, hardware, print_)
            for run, benchmark in zip(runs, benchmarks, strict=True)
            for samples in run.samples
        ]
        lines = iter(self._lines(wanted))
        found: list[Place | Conflicting] = []
        for run, benchmark, environment, build in zip(runs, benchmarks, environments, builds, strict=True):
            own = [next(lines) for _ in run.samples]
            clash = _clash(run, own)
            ids = tuple(line.id for line in own)
            found.append(clash or Place(benchmark, hardware, environment, build, ids))
        return found

    def _ensure(self, table: type[SQLModel], rows: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
        """Ids by fingerprint of rows that are not remembered yet are looked up or made, all at once."""
        name = table.__name__
        missing = [row for print_, row in rows.items() if (name, print_) not in self._known]
        if missing:
            for (print_,), id_ in ensure(self._session, table, missing).items():
                self._new[name, print_] = id_
        return {print_: self._get(name, print_) for print_ in rows}

    def _get(self, *key: Any) -> Any:
        return self._new[key] if key in self._new else self._known[key]

    def _environments(self, runs: Sequence[RunReport]) -> list[int]:
        """What was read for the run itself; where nothing was, what the node has registered with."""
        fallback = self._source.environment_id
        prints = [_print_of(run.environment) if run.environment or fallback is None else None for run in runs]
        rows: dict[str, dict[str, Any]] = {}
        for run, print_ in zip(runs, prints, strict=True):
            if print_ is not None and print_ not in rows and ("Environment", print_) not in self._known:
                facets = fingerprints.environment_facets(run.environment)
                rows[print_] = {"fingerprint": print_, "label": "", "facets": facets, "created_at": self._now}
        self._ensure(Environment, rows)
        return [self._get("Environment", print_) if print_ is not None else fallback or 0 for print_ in prints]

    def _builds(self, runs: Sequence[RunReport]) -> list[int | None]:
        prints = [_build_print(run.build) if run.build else None for run in runs]
        rows: dict[str, dict[str, Any]] = {}
        for run, print_ in zip(runs, prints, strict=True):
            if print_ is not None and print_ not in rows and ("BuildSnapshot", print_) not in self._known:
                rows[print_] = {"fingerprint": print_, "facets": [facet.model_dump() for facet in run.build]}
        self._ensure(BuildSnapshot, rows)
        return [self._get("BuildSnapshot", print_) if print_ is not None else None for print_ in prints]

    def _hardware(self) -> tuple[int, str]:
        """The node's class of machine: its id and fingerprint. A node always has one once it has registered."""
        if self._source.hardware_id is None:
            print_ = fingerprints.hardware(HardwareSpec())
            row = {"fingerprint": print_, "label": "unknown", "facts": HardwareSpec().model_dump()}
            return self._ensure(Hardware, {print_: row})[print_], print_
        id_ = self._source.hardware_id
        key = ("hardware print", id_)
        if key not in self._known:
            self._new[key] = self._session.scalars(
                select(col(Hardware.fingerprint)).where(col(Hardware.id) == id_)
            ).one()
        return id_, self._get(*key)

    def _benchmark(self, run: RunReport) -> int:
        """Of the same suite and plugin, a new version is a new benchmark, linked to the one before it."""
        key = ("Benchmark", self._source.project_id, self._source.suite, run.plugin, run.plugin_version)
        if key in self._known or key in self._new:
            return int(self._get(*key))
        older = select(col(Benchmark.id)).where(
            col(Benchmark.project_id) == self._source.project_id,
            col(Benchmark.suite) == self._source.suite,
            col(Benchmark.plugin) == run.plugin,
            col(Benchmark.version) != run.plugin_version,
        )
        row = {
            "project_id": key[1],
            "suite": key[2],
            "plugin": key[3],
            "version": key[4],
            "target": self._source.targets.get(run.plugin),
            "previous_id": self._session.scalars(older.order_by(col(Benchmark.id).desc()).limit(1)).first(),
        }
        unique = ("project_id", "suite", "plugin", "version")
        self._new[key] = ensure(self._session, Benchmark, [row], unique)[key[1:]]
        return int(self._new[key])

    def _lines(self, wanted: Sequence[tuple[RunReport, Samples, int, int, str]]) -> list[Line]:
        prints: list[str] = []
        rows: dict[str, dict[str, Any]] = {}
        for run, samples, benchmark, hardware, hardware_print in wanted:
            declared = self._source.params.get(run.plugin, ())
            place = benchmark, samples.metric, hardware_print
            print_ = _series_print(place, _typed(run.params), _typed(samples.params), declared)
            prints.append(print_)
            if ("Series", print_) not in self._known and print_ not in rows:
                params = series_params(run.params, samples.params, declared)
                rows[print_] = self._series_row(samples, benchmark, hardware, params) | {"fingerprint": print_}
        if rows:
            ensure(self._session, Series, rows.values())
            table = core(Series)
            columns = table.c.fingerprint, table.c.id, table.c.unit, table.c.direction
            query = select(*columns).where(table.c.fingerprint.in_(list(rows)))
            for print_, id_, unit, direction in self._session.execute(query):
                self._new["Series", print_] = Line(id_, unit, direction)
        return [self._get("Series", print_) for print_ in prints]

    def _series_row(self, samples: Samples, benchmark: int, hardware: int, params: dict[str, Any]) -> dict[str, Any]:
        series = Series(
            fingerprint="",
            project_id=self._source.project_id,
            benchmark_id=benchmark,
            hardware_id=hardware,
            metric=samples.metric,
            unit=samples.unit,
            direction=samples.direction,
            kind=samples.kind,
            clock=samples.clock,
            gate=samples.gate,
            params=params,
            created_at=self._now,
        )
        return series.model_dump(exclude={"id"})


Typed = tuple[tuple[str, str, Any], ...]


def _typed(params: Mapping[str, Any]) -> Typed:
    """Parameters as a key: 1, 1.0 and true are equal to Python and must not be here."""
    return tuple((name, type(value).__name__, value) for name, value in params.items())


@lru_cache(maxsize=65_536)
def _series_print(place: tuple[int, str, str], params: Typed, own: Typed, declared: tuple[Declared, ...]) -> str:
    """A series' fingerprint; the same few thousand are asked for again and again."""
    benchmark, metric, hardware_print = place
    chosen = series_params({n: v for n, _, v in params}, {n: v for n, _, v in own}, declared)
    return fingerprints.series(benchmark, chosen, metric, hardware_print)


def _print_of(facets: Sequence[Facet]) -> str:
    return _environment_print(tuple([(f.layer, f.name, f.value) for f in facets if f.tracked]))


@lru_cache(maxsize=1024)
def _environment_print(facets: tuple[tuple[Layer, str, str | None], ...]) -> str:
    return fingerprints.environment(Facet(layer=layer, name=name, value=value) for layer, name, value in facets)


def _build_print(facets: Sequence[Facet]) -> str:
    return _build_print_of(tuple([(f.layer, f.name, f.value) for f in facets]))


@lru_cache(maxsize=1024)
def _build_print_of(facets: tuple[tuple[Layer, str, str | None], ...]) -> str:
    return fingerprints.build(Facet(layer=layer, name=name, value=value) for layer, name, value in facets)


def _clash(run: RunReport, lines: Sequence[Line]) -> Conflicting | None:
    for samples, line in zip(run.samples, lines, strict=True):
        if (line.unit, line.direction) != (samples.unit, samples.direction):
            return Conflicting(
                f"metric {samples.metric!r} is in {samples.unit!r} with direction {samples.direction}, "
                f"its series in {line.unit!r} with direction {line.direction}: raise the plugin's version"
            )
    return None
