"""Takes in what workers report: each run once, whatever dies, repeats or comes late, and tells detection.

A run is kept under (job, side, benchmark, replicate). Reporting it again, from this attempt or another, at once or next
week, is acknowledged and changes nothing. What cannot be kept is refused with the reason; the rest of the batch stands.
A run whose lease has ended is kept all the same when nobody else has delivered it: measured is measured. It says so.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col

from groundspeed.service.db.bulk import insert_rows, pipelined, value_of
from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import (
    Artefact,
    Attempt,
    CatalogueEntry,
    Job,
    JobSide,
    Node,
    Result,
    Revision,
    Run,
    SeriesMark,
)
from groundspeed.service.db.types import dump_json
from groundspeed.service.errors import Forbidden, NotFound
from groundspeed.service.usecases import outbox
from groundspeed.service.usecases.places import Conflicting, Place, Places
from groundspeed.service.usecases.reports import Declared, Expected, Summary, refusal, summarise
from groundspeed.service.usecases.topics import ANALYSE
from groundspeed.service.wire.v1 import RunAck, RunBatch, RunKey, RunReport

_SKEW_S = 60.0


@dataclass(frozen=True, slots=True)
class Side:
    revision_id: int
    on_branch: bool


@dataclass(frozen=True, slots=True)
class Lease:
    """What is known of the attempt that reports, all of it fixed when the attempt starts."""

    attempt_id: str
    job_id: int
    project_id: int
    suite: str
    node_id: int
    node: str
    hardware_id: int | None
    environment_id: int | None
    expected: Expected
    targets: Mapping[str, str | None]
    sides: Mapping[int, Side]
    params: Mapping[str, tuple[Declared, ...]]
    """Declared parameters by plugin."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A report that may be kept, with what is kept of its samples."""

    run: RunReport
    outcome: str
    summaries: tuple[Summary, ...]

    @property
    def key(self) -> tuple[int, str, int]:
        return self.run.key.side, self.run.key.benchmark, self.run.key.replicate


def ingest_runs(db: Database, attempt_id: str, batch: RunBatch, now: datetime, *, node_id: int | None = None) -> RunAck:
    """Keep the runs of ``batch`` and answer, after the commit, which were kept, known already, or refused and why.

    ``node_id`` is the node of the worker's token; None: not bound to a node. Raises ``NotFound`` for an attempt that
    never was, ``Forbidden`` for another node's.
    """
    lease = _lease(db, attempt_id)
    if node_id is not None and node_id != lease.node_id:
        raise Forbidden(
            f"Attempt {attempt_id} is node {lease.node}'s.", "A worker's token reports its own attempts only."
        )
    refused: dict[str, str] = {}
    checked: dict[tuple[int, str, int], Checked] = {}
    for run in batch.runs:
        why = refusal(run, lease.expected)
        if why is None:
            one = _check(run)
            checked.setdefault(one.key, one)
        else:
            refused[_name(run.key)] = why
    try:
        kept = _keep(db, lease, list(checked.values()), refused, now)
    except IntegrityError:  # a row that was remembered has been deleted since
        db.forget()
        kept = _keep(db, _lease(db, attempt_id), list(checked.values()), refused, now)
    accepted = tuple(c.run.key for k, c in checked.items() if k in kept)
    already = tuple(c.run.key for k, c in checked.items() if k not in kept and _name(c.run.key) not in refused)
    return RunAck(accepted=accepted, already=already, refused=refused)


def _lease(db: Database, attempt_id: str) -> Lease:
    """What an attempt reports for, remembered while it reports: nothing of it changes."""
    found = db.recent.get(("lease", attempt_id))
    if found is None:
        with db.read() as session:
            found = _read_lease(session, attempt_id)
        db.recent.put(("lease", attempt_id), found)
    lease: Lease = found
    return lease


def _read_lease(session: Session, attempt_id: str) -> Lease:
    columns = Job, col(Node.id), col(Node.name), col(Node.hardware_id), col(Node.environment_id)
    query = (
        select(*columns)
        .join(Attempt, col(Attempt.job_id) == col(Job.id))
        .join(Node, col(Node.id) == col(Attempt.node_id))
        .where(col(Attempt.id) == attempt_id)
    )
    row = session.execute(query).tuples().first()
    if row is None:
        raise NotFound(f"There is no attempt {attempt_id}.", "Claim the job, and report under the attempt it gives.")
    job, node, name, hardware, environment = row
    sides = session.execute(
        select(col(JobSide.index), col(JobSide.revision_id), col(Revision.position))
        .join(Revision, col(Revision.id) == col(JobSide.revision_id))
        .where(col(JobSide.job_id) == job.id)
    ).tuples()
    by_index = {index: Side(revision, position is not None) for index, revision, position in sides}
    benchmarks: list[dict[str, Any]] = job.spec.get("benchmarks", [])
    plugins = {b["key"]: b["plugin"] for b in benchmarks}
    return Lease(
        attempt_id=attempt_id,
        job_id=job.id or 0,
        project_id=job.project_id,
        suite=job.suite,
        node_id=node or 0,
        node=name,
        hardware_id=hardware,
        environment_id=environment,
        expected=Expected(plugins, frozenset(by_index)),
        targets={b["plugin"]: b.get("target") for b in benchmarks},
        sides=by_index,
        params=_declared(session, node or 0, set(plugins.values())),
    )


def _declared(session: Session, node: int, plugins: set[str]) -> dict[str, tuple[Declared, ...]]:
    """The parameters that each plugin declares: as this node has it, else as the service knows it."""
    owner = col(CatalogueEntry.node_id)
    query = select(col(CatalogueEntry.plugin), col(CatalogueEntry.spec), owner).where(
        col(CatalogueEntry.plugin).in_(plugins), (owner == node) | owner.is_(None)
    )
    found: dict[str, tuple[Declared, ...]] = {}
    for plugin, spec, owned in session.execute(query).tuples():
        if owned is not None or plugin not in found:
            given = spec.get("params", [])
            found[plugin] = tuple(Declared(p["name"], p.get("default"), p.get("series", True)) for p in given)
    return found


def _check(run: RunReport) -> Checked:
    """A run that says ok and brings no numbers has failed: no data is never shown as no change."""
    outcome = "failed" if run.outcome == "ok" and not run.samples else run.outcome
    return Checked(run, outcome, tuple(summarise(s, usable=outcome == "ok") for s in run.samples))


def _keep(
    db: Database, lease: Lease, checked: Sequence[Checked], refused: dict[str, str], now: datetime
) -> set[tuple[int, str, int]]:
    """Write what is new, in one transaction; returns the keys that were. Adds to ``refused`` what fits no series."""
    if not checked:
        return set()
    with db.transaction() as session:
        places = Places(db, session, lease, now)
        fitting: list[tuple[Checked, Place]] = []
        found = places.find([c.run for c in checked])
        for one, place in zip(checked, found, strict=True):
            if isinstance(place, Conflicting):
                refused[_name(one.run.key)] = place.reason
            else:
                fitting.append((one, place))
        connection = session.connection()
        with pipelined(connection):
            ids = _insert_runs(connection, lease, fitting, now)
            new = [(ids[c.key], c, place) for c, place in fitting if c.key in ids]
            _insert_results(connection, lease, new)
            _insert_artefacts(connection, lease, new, now)
            _tell_detection(session, connection, lease, new, now)
    places.remember()
    return set(ids)


_RUN = (
    "job_id", "attempt_id", "side", "benchmark_key", "replicate", "benchmark_id", "revision_id", "hardware_id",
    "environment_id", "build_id", "node_id", "device_uuid", "params", "outcome", "evidence", "conditions", "trace",
    "facts", "phases_s", "started_at", "duration_s", "created_at",
)  # fmt: skip
_RESULT = (
    "run_id", "series_id", "revision_id", "environment_id", "value", "spread", "count", "state", "samples",
)  # fmt: skip
_ARTEFACT = (
    "attempt_id", "run_id", "kind", "name", "sha256", "size_bytes", "media_type", "stored", "created_at",
)  # fmt: skip


def _insert_runs(
    connection: Connection, lease: Lease, fitting: Sequence[tuple[Checked, Place]], now: datetime
) -> dict[tuple[int, str, int], int]:
    """Ids of the runs that are new."""
    state = value_of(connection, Attempt, "state", lease.attempt_id) or "gone"
    # In the order of their keys: of two batches that overlap, one waits for the other and neither for ever.
    ordered = sorted(fitting, key=lambda pair: pair[0].key)
    rows = [_run_row(lease, state, checked, place, now) for checked, place in ordered]
    back = ("id", "side", "benchmark_key", "replicate")
    found = insert_rows(connection, Run, _RUN, rows, new_only=True, returning=back)
    return {(side, key, replicate): id_ for id_, side, key, replicate in found}


def _run_row(lease: Lease, state: str, checked: Checked, place: Place, now: datetime) -> tuple[Any, ...]:
    run = checked.run
    conditions, trace = _conditions(state, run, now)
    evidence = run.evidence
    if checked.outcome != run.outcome:
        evidence = {"message": "the benchmark ended well but reported no samples", **evidence}
    return (
        lease.job_id,
        lease.attempt_id,
        run.key.side,
        run.key.benchmark,
        run.key.replicate,
        place.benchmark_id,
        lease.sides[run.key.side].revision_id,
        place.hardware_id,
        place.environment_id,
        place.build_id,
        lease.node_id,
        run.device_uuid,
        run.params,
        checked.outcome,
        evidence,
        conditions,
        trace,
        run.facts,
        run.phases_s,
        datetime.fromtimestamp(run.started_at, UTC),
        run.duration_s,
        now,
    )


def _conditions(state: str, run: RunReport, now: datetime) -> tuple[dict[str, Any], bytes | None]:
    """The summary, with what is odd about the report itself, and the trace apart and compressed."""
    summary = {name: value for name, value in run.conditions.items() if name != "trace"}
    trace = run.conditions.get("trace")
    if state != "running":
        summary["late"] = f"reported when its attempt was already {state}"
    ahead = run.started_at - now.timestamp()
    if ahead > _SKEW_S:
        summary["clock_ahead_s"] = round(ahead, 1)
    packed = zlib.compress(dump_json(trace).encode(), 6) if isinstance(trace, (dict, list)) and trace else None
    return summary, packed


def _insert_results(connection: Connection, lease: Lease, new: Sequence[tuple[int, Checked, Place]]) -> None:
    rows = [
        (
            run_id,
            series_id,
            lease.sides[checked.run.key.side].revision_id,
            place.environment_id,
            summary.value,
            summary.spread,
            summary.count,
            summary.state,
            summary.packed,
        )
        for run_id, checked, place in new
        for series_id, summary in zip(place.series_ids, checked.summaries, strict=True)
    ]
    insert_rows(connection, Result, _RESULT, rows)


def _insert_artefacts(
    connection: Connection, lease: Lease, new: Sequence[tuple[int, Checked, Place]], now: datetime
) -> None:
    rows = [
        (lease.attempt_id, run_id, ref.kind, ref.name, ref.sha256, ref.size_bytes, ref.media_type, False, now)
        for run_id, checked, _ in new
        for ref in checked.run.artefacts
    ]
    insert_rows(connection, Artefact, _ARTEFACT, rows, new_only=True)


def _tell_detection(
    session: Session, connection: Connection, lease: Lease, new: Sequence[tuple[int, Checked, Place]], now: datetime
) -> None:
    marks = sorted(
        {
            (series_id, side.revision_id)
            for _, checked, place in new
            if (side := lease.sides[checked.run.key.side]).on_branch
            for series_id in place.series_ids
        }
    )
    if marks:
        rows = [(series, revision, now) for series, revision in marks]
        insert_rows(connection, SeriesMark, ("series_id", "revision_id", "created_at"), rows)
        outbox.enqueue(session, ANALYSE, {"series_ids": sorted({series for series, _ in marks})})


def _name(key: RunKey) -> str:
    return f"{key.side}/{key.benchmark}/{key.replicate}"
