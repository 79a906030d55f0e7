"""Foreign results as rows of the same tables that workers' reports go to.

A benchmark within a run of a tool is a run. Its key carries a digest of the content, so that the same result is the
same row however often it comes; many rows go in one statement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, compress, repeat
from math import isfinite
from operator import itemgetter
from typing import Any

from sqlalchemy import insert, select, text
from sqlmodel import Session, col

from groundspeed.service.db import samples as packed
from groundspeed.service.db.identities import core
from groundspeed.service.db.tables import Attempt, JobSide, Request, Result, Run, SeriesMark
from groundspeed.service.db.types import clean_text, dump_json
from groundspeed.service.formats.digests import digest as digest_of
from groundspeed.service.formats.plain import Block, Shape
from groundspeed.service.formats.prepared import Prepared
from groundspeed.service.formats.records import Record, Where
from groundspeed.service.usecases.import_kept import Kept
from groundspeed.service.usecases.import_places import Place, Places
from groundspeed.service.usecases.import_tables import bulk_insert, bulk_insert_columns, readable, storable
from groundspeed.service.usecases.locking import held

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


@dataclass(slots=True)
class _Grid:
    """What is the same for a grid in all files: its series, its benchmark, how the facts of its runs begin."""

    series: tuple[int, ...]
    benchmark: int
    key: str
    """How the keys of its runs begin."""
    start: str
    start_with_more: str
    touched: bool = False
    """All its series are known to have news."""
    failed: dict[tuple[int, str], tuple[str, str, Record]] = field(default_factory=dict)
    """By a point without a number and its outcome: the key of its runs, its parameters as JSON, and one such record."""


@dataclass(slots=True)
class Added:
    runs: int = 0
    results: int = 0
    failures: int = 0
    already: int = 0


@dataclass(slots=True)
class Writer:
    """Writes into one project and request; keeps what it has looked up, so one import asks for each row once."""

    places: Places
    axes: dict[str, list[Any]] = field(default_factory=dict)
    """By benchmark: the lists of parameters as the tool wrote them, which runs refer to by index."""
    touched: set[int] = field(default_factory=set)
    kept: Kept | None = None
    """Takes all results that are written; None: nobody wants them."""
    _seen: dict[int, dict[str, int]] = field(default_factory=dict)
    """By job: how often a key came in this import."""
    _grids: dict[tuple[Any, ...], _Grid] = field(default_factory=dict)
    _shapes: dict[tuple[Shape, int], _Grid] = field(default_factory=dict)
    """The same, by a benchmark's shape and the hardware."""
    _runs: list[tuple[Any, ...]] = field(default_factory=list)
    _results: list[tuple[Any, ...]] = field(default_factory=list)
    _grid_runs: list[Sequence[Sequence[Any]]] = field(default_factory=list)
    _grid_results: list[Sequence[Sequence[Any]]] = field(default_factory=list)
    """Most rows are of grids, and have much in common that is said once; they wait as columns."""
    waiting: int = 0
    """How many rows the next :meth:`flush` writes."""
    _spare: list[int] = field(default_factory=list)
    _next_run: int = 0
    _now: str = ""
    _is_sqlite: bool = True
    _stored_axes: Mapping[str, list[Any]] | None = None
    """Of the transaction's beginning; None: nobody has asked."""
    added: Added = field(default_factory=Added)

    def begin(self, session: Session) -> None:
        """Once in every transaction, before anything is added. Imports of a project take turns: they make the same
        rows, in another order maybe.
        """
        self._stored_axes = None
        self._is_sqlite = session.get_bind().dialect.name == "sqlite"
        if not self._is_sqlite:
            session.execute(held(select(col(Request.id)).where(col(Request.id) == self.places.request_id)))
        self.places.stamp_length = 26 if self._is_sqlite else None
        self._now = self.places.stamp(self.places.now)
        if self._is_sqlite:
            self._next_run = int(
                session.execute(select(text("coalesce(max(id), 0) + 1")).select_from(core(Run))).scalar_one()
            )

    def add_grid(self, session: Session, grid: Prepared, place: Place) -> None:
        """All points of a grid: one run for those that have a number, one for each that has none."""
        shape = Shape(grid.benchmark, grid.version, grid.metric, grid.axes, grid.axis_reprs, grid.axes_key)
        known = self._grid(session, shape, grid.origin.tool, place)
        run_id, run_key, nth = self._run(session, place, known.key + grid.digest) if grid.values else (0, "", 0)
        if run_id:
            facts = (known.start_with_more + grid.facts if grid.facts else known.start) + "}}"
            started = grid.started[: self.places.stamp_length] if grid.started else place.started
            row = self._run_row(run_id, run_key, nth, known.benchmark, place, facts, started, grid.duration_s)
            self._grid_runs.append([(value,) for value in row])
            self._add_results(grid, known, run_id, place)
        if grid.missing:
            self._add_failures(session, grid, known, place)

    def _grid(self, session: Session, shape: Shape, tool: str, place: Place) -> _Grid:
        key = (shape.benchmark, shape.version, shape.axes_key, shape.metric.name, tool, place.hardware_id)
        known = self._grids.get(key)
        if known is None:
            benchmark = self.places.benchmark(session, tool, shape.benchmark, shape.version)
            ids = tuple(self.places.series_ids(session, benchmark, shape.metric, shape.points(), place))
            axes = self._axes_index(session, shape)
            start = '{"asv": {' + (f'"axes": {axes}' if axes >= 0 else "")
            more = start + ", " if axes >= 0 else start
            known = self._grids[key] = _Grid(ids, benchmark, _key(shape.benchmark), start, more)
        return known

    def add_block(self, session: Session, block: Block, place: Place) -> None:
        """The usual grids of a file, all at once: a run for each."""
        grids = []
        for shape in block.shapes:
            known = self._shapes.get((shape, place.hardware_id))
            if known is None:
                known = self._grid(session, shape, block.origin.tool, place)
                self._shapes[shape, place.hardware_id] = known
            grids.append(known)
        keys = [known.key + digest for known, digest in zip(grids, block.digests, strict=True)]
        if self.places.runs[place.job_id] or place.job_id in self._seen or len(set(keys)) != len(keys):
            self._add_block_by_grid(session, block, grids, place)
            return
        self._seen[place.job_id] = dict.fromkeys(keys, 1)
        ids = self._run_ids(session, len(keys))
        self._write_block(block, grids, ids, keys, [0] * len(keys), place)

    def _add_block_by_grid(self, session: Session, block: Block, grids: Sequence[_Grid], place: Place) -> None:
        """The same where some of it may have come before."""
        runs = [self._run(session, place, one.key + digest) for one, digest in zip(grids, block.digests, strict=True)]
        new = [bool(run_id) for run_id, _, _ in runs]
        if not any(new):
            return
        ids, keys, nths = zip(*compress(runs, new), strict=True)
        fewer = block if all(new) else block.only(new)
        self._write_block(fewer, list(compress(grids, new)), ids, keys, nths, place, counted=True)

    def _write_block(
        self, block: Block, grids: Sequence[_Grid], ids: Sequence[int], keys: Sequence[str], nths: Sequence[int],
        place: Place, *, counted: bool = False,
    ) -> None:  # fmt: skip
        length = self.places.stamp_length
        facts = [f"{one.start_with_more}{more}}}}}" for one, more in zip(grids, block.facts, strict=True)]
        starts = [start[:length] if start else place.started for start in block.starts]
        ours = (place.revision_id, place.hardware_id, place.environment_id, place.build_id, place.node_id)
        job, attempt, *of_place = [[one] * len(ids) for one in (place.job_id, place.attempt_id, *ours)]
        benchmarks = [one.benchmark for one in grids]
        self._grid_runs.append((ids, job, attempt, keys, nths, benchmarks, *of_place, facts, starts, block.durations_s))
        series = list(chain.from_iterable([one.series for one in grids]))
        run_of_each = list(chain.from_iterable(map(repeat, ids, block.lengths)))
        same = [place.revision_id] * len(series), [place.environment_id] * len(series)
        self._grid_results.append((run_of_each, series, *same, block.values, block.spreads, block.counts))
        for one in grids:
            if not one.touched:
                one.touched = True
                self.touched.update(one.series)
        self.waiting += len(series)
        self.added.results += len(series)
        if not counted:
            self.waiting += len(ids)
            self.added.runs += len(ids)

    def _add_results(self, grid: Prepared, known: _Grid, run_id: int, place: Place) -> None:
        mine: Sequence[int] = known.series
        if len(grid.indices) != len(mine):
            mine = [mine[i] for i in grid.indices]
            if not known.touched:
                self.touched.update(mine)
        elif not known.touched:
            known.touched = True
            self.touched.update(mine)
        same = ([one] * len(mine) for one in (run_id, place.revision_id, place.environment_id))
        runs, *others = same
        columns = (runs, mine, *others, grid.values, grid.spreads, grid.counts)
        if grid.samples:
            blobs = [packed.pack(one) if one else None for one in grid.samples]
            rows = zip(*columns, strict=True)
            self._results.extend((*row, "valid", blob) for row, blob in zip(rows, blobs, strict=True))
        else:
            self._grid_results.append(columns)
        self.waiting += len(mine)
        self.added.results += len(mine)

    def _axes_index(self, session: Session, grid: Shape) -> int:
        """Where the axes stand among those that this benchmark has had, in earlier imports too; -1: it has no
        parameters.
        """
        if not grid.axes:
            return -1
        axes = [list(a) for a in grid.axis_reprs]
        known = self.axes.setdefault(grid.benchmark, [])
        if axes not in known:
            before = self._axes_before(session).get(grid.benchmark, [])
            known += before[len(known) :]
            if axes not in known:
                known.append(axes)
        return known.index(axes)

    def _axes_before(self, session: Session) -> Mapping[str, list[Any]]:
        """What the project's runs refer to so far: held, so that nobody else gives the same index to other axes."""
        if self._stored_axes is None:
            query = held(select(col(Request.payload)).where(col(Request.id) == self.places.request_id))
            self._stored_axes = session.execute(query).scalar_one().get("axes", {})
        return self._stored_axes

    def add_records(self, session: Session, records: Sequence[Record], place: Place) -> None:
        """Records of one benchmark at one point of its parameters from one process, each of another metric."""
        first = records[0]
        benchmark = self.places.benchmark(session, first.origin.tool, first.benchmark, first.version)
        self._add_run(session, records, benchmark, place)

    def _add_failures(self, session: Session, grid: Prepared, known: _Grid, place: Place) -> None:
        if not all(point in known.failed for point in grid.missing):
            for point, record in zip(grid.missing, grid.failures(), strict=True):
                known.failed[point] = (*_run_key([record]), record)
        where = str(Where(grid.where.source, grid.where.line, grid.benchmark))
        evidence = cache(lambda message: dump_json({"message": message, "where": where}))
        for point in grid.missing:
            key, params, record = known.failed[point]
            run_id, run_key, nth = self._run(session, place, key)
            if run_id:
                row = self._run_row(run_id, run_key, nth, known.benchmark, place, _NO_OBJECT, place.started, 0.0)
                self._runs.append((*row, record.outcome, evidence(record.reason), params))
                self.added.failures += 1

    def _add_run(self, session: Session, records: Sequence[Record], benchmark: int, place: Place) -> None:
        key, params = _run_key(records)
        run_id, run_key, nth = self._run(session, place, key)
        if not run_id:
            return
        first = records[0]
        worst = next((r for r in records if r.outcome != "ok"), first)
        evidence = {"message": worst.reason, "where": str(worst.where)} if worst.reason else {}
        summary = {r.metric.name: dict(r.summary) for r in records if r.summary}
        facts = dump_json({"summary": summary} if summary else {})
        row = self._run_row(run_id, run_key, nth, benchmark, place, facts, place.started, 0.0)
        self._runs.append((*row, worst.outcome, dump_json(evidence), params))
        if worst.outcome != "ok":
            self.added.failures += 1
        for record in records:
            if record.value is None or not isfinite(record.value):
                continue
            (series,) = self.places.series_ids(session, benchmark, record.metric, [record.params], place)
            state = "valid" if record.outcome == "ok" else "rejected"
            raw = packed.pack(record.samples) if record.samples else None
            self._results.append((
                run_id, series, place.revision_id, place.environment_id, record.value, record.spread, record.count,
                state, raw,
            ))  # fmt: skip
            self.touched.add(series)
            self.waiting += 1
            self.added.results += 1

    def _run(self, session: Session, place: Place, key: str) -> tuple[int, str, int]:
        """The id for a new run, its key and how many of that key came before; 0 when this very content is there."""
        here = self._seen.setdefault(place.job_id, {})
        nth = here.get(key, 0)
        here[key] = nth + 1
        before = self.places.runs[place.job_id]
        if before and (key, nth) in before:
            self.added.already += 1
            return 0, key, nth
        self.added.runs += 1
        self.waiting += 1
        return self._run_id(session), key, nth

    def _run_id(self, session: Session) -> int:
        return self._run_ids(session, 1)[0]

    def _run_ids(self, session: Session, count: int) -> Sequence[int]:
        if self._is_sqlite:
            self._next_run += count
            return range(self._next_run - count, self._next_run)
        if len(self._spare) < count:
            query = text("SELECT nextval(pg_get_serial_sequence('run', 'id')) FROM generate_series(1, :n)")
            self._spare.extend(session.execute(query, {"n": max(count, 1000)}).scalars())
        mine, self._spare = self._spare[:count], self._spare[count:]
        return mine

    @staticmethod
    def _run_row(  # noqa: PLR0913, PLR0917 - one for each thing that is said
        run_id: int, key: str, nth: int, benchmark: int, place: Place, facts: str, started: str, duration: float,
    ) -> tuple[Any, ...]:  # fmt: skip
        return (
            run_id, place.job_id, place.attempt_id, key, nth, benchmark, place.revision_id,
            place.hardware_id, place.environment_id, place.build_id, place.node_id, facts, started, duration,
        )  # fmt: skip

    def flush(self, session: Session, *, ordered: bool = True) -> None:
        """Write the rows that were collected, results by series: the larger index then grows page by page instead of
        everywhere at once. Not ``ordered``: where that index is set aside.
        """
        rest: dict[str, str | int | None] = {
            "side": 0, "conditions": _NO_OBJECT, "phases_s": _NO_OBJECT, "created_at": self._now,
        }  # fmt: skip
        fine: dict[str, str | int | None] = {"outcome": "ok", "evidence": _NO_OBJECT, "params": _NO_OBJECT}
        bulk_insert(session, JobSide, _SIDE_COLUMNS, self.places.sides)
        bulk_insert(session, Attempt, _ATTEMPT_COLUMNS, self.places.attempts)
        bulk_insert_columns(session, Run, _GRID_RUN_COLUMNS, self._grid_runs, rest | fine)
        bulk_insert(session, Run, _RUN_COLUMNS, self._runs, rest)
        valid: dict[str, str | int | None] = {"state": "valid", "samples": None}
        if ordered:
            grids = chain.from_iterable(zip(*block, strict=True) for block in self._grid_results)
            bulk_insert(session, Result, _GRID_RESULT_COLUMNS, sorted(grids, key=itemgetter(1)), valid)
        else:
            bulk_insert_columns(session, Result, _GRID_RESULT_COLUMNS, self._grid_results, valid)
        bulk_insert(session, Result, _RESULT_COLUMNS, self._results)
        if self.kept is not None:
            self.kept.add(self._grid_results, self._results)
        mine = (self._grid_runs, self._runs, self._grid_results, self._results)
        for written in (self.places.sides, self.places.attempts, *mine):
            written.clear()
        self.waiting = 0

    def mark(self, session: Session, *, whole: bool) -> list[int]:
        """Tell detection which series have new results; returns their ids. ``whole``: they are to be looked at from
        their beginning, and not only at the commits that something came for.
        """
        series = sorted(self.touched)
        self.touched = set()
        for grid in self._grids.values():  # what comes for them from now on is news again
            grid.touched = False
        places: list[int | None] = [None] if whole else [*sorted(self.places.commits)]
        for start in range(0, len(series), 5000):
            some = series[start : start + 5000]
            now = self.places.now
            rows = [{"series_id": one, "revision_id": at, "created_at": now} for one in some for at in places]
            session.execute(insert(core(SeriesMark)), rows)
        return series


def _run_key(records: Sequence[Record]) -> tuple[str, str]:
    """Of records of one run: its key, and its parameters as JSON."""
    first = records[0]
    content = [(r.metric.name, r.value, r.samples, r.outcome, r.reason) for r in records]
    params = storable(first.params)
    text_of_params = dump_json(params)
    name = f"{first.benchmark}({readable(params)})" if params else first.benchmark
    return _key(name) + digest_of(repr(content).encode(), text_of_params, first.version), text_of_params


def _key(name: str) -> str:
    """How the key of a run begins; a digest of its content follows."""
    return clean_text(f"{name[:180]}#")
