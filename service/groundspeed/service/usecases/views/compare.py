"""Two sides, series by series: revisions, environments, nodes or single runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Literal

from sqlmodel import Session

from groundspeed.service.db import reads, reads_series, reads_work
from groundspeed.service.db.engine import Database
from groundspeed.service.db.samples import unpack
from groundspeed.service.domain.compare import GateConfig
from groundspeed.service.domain.compare import compare as judge
from groundspeed.service.domain.series import Direction
from groundspeed.service.usecases.kernels import views as kernel_views
from groundspeed.service.usecases.views import refs
from groundspeed.service.usecases.views.conditions import leaves, number
from groundspeed.service.wire import views as v

By = Literal["revision", "environment", "node", "run"]
NEWEST_RUNS = 300
OFFERED = 40
UNKNOWN = "unknown: "
DRAWN = 60
"""Values of a side that are drawn."""
RUNS_LOOKED_AT = 2000
"""Environments and nodes that are offered are those of so many newest runs."""
DEFAULT_THRESHOLDS = {"time": 0.03, "rate": 0.03, "bytes": 0.02, "ratio": 0.03, "counter": 0.01}


@dataclass(frozen=True, slots=True)
class CompareQuery:
    """``base`` and ``head`` name what ``by`` says: hashes, ids of environments, names of nodes, ids of runs."""

    base: str
    head: str
    by: By = "revision"


@dataclass(frozen=True, slots=True)
class _Loaded:
    side: v.Side
    values: Mapping[int, Sequence[float]]
    environments: frozenset[int]
    builds: frozenset[int]
    conditions: Mapping[str, str]
    runs: Mapping[int, Sequence[int]]
    samples: Mapping[int, Sequence[float]]
    """What is drawn in place of the values: of a single run, which has one value a series, its samples."""


def compare(db: Database, slug: str, query: CompareQuery, echo: dict[str, str] | None = None) -> v.Compare:
    """Every series that either side has. A side that does not exist is said in ``problem``, not raised."""
    with db.read() as session:
        project = refs.project_row(session, slug)
        problem = "" if query.base and query.head else "Choose a base and a head to compare."
        base = _side(session, project, query.by, query.base) if query.base else None
        head = _side(session, project, query.by, query.head) if query.head else None
        if not problem and (base is None or head is None):
            missing = query.base if base is None else query.head
            problem = f"There is no {query.by} {missing!r} with results in {project.name}."
        rows: list[v.CompareRow] = []
        differences: tuple[v.FacetDifference, ...] = ()
        conditions: tuple[v.FacetDifference, ...] = ()
        kernels: tuple[v.Kernels, ...] = ()
        if base is not None and head is not None:
            rows = _rows(session, base, head)
            kernels = _kernels(session, rows, base, head)
            differences = _environment_differences(session, base, head)
            conditions = _condition_differences(base, head)
        return v.Compare(
            project=refs.project_ref(project),
            base=base.side if base is not None else None,
            head=head.side if head is not None else None,
            rows=tuple(rows),
            counts=dict(Counter(row.answer for row in rows)),
            environment=differences,
            conditions=conditions,
            kernels=kernels,
            problem=problem,
            choices=_choices(session, project, query.by),
            query=echo or {},
        )


def _choices(session: Session, project: Any, by: By) -> tuple[v.Choice, ...]:
    """What the newest work offers to compare."""
    if by == "revision":
        newest = reads.newest_revisions(session, project.id, OFFERED)
        return tuple(v.Choice(value=r.sha[:12], label=r.title) for r in newest)
    if by == "run":
        runs = reads_work.newest_runs_of_project(session, project.id, OFFERED)
        return tuple(
            v.Choice(value=str(run.id), label=f"{suite} {run.benchmark_key} on {node}") for run, suite, node in runs
        )
    places = reads_work.newest_places(session, project.id, RUNS_LOOKED_AT)
    if by == "node":
        names = {node.id: node.name for node in reads_work.nodes(session)}
        return tuple(v.Choice(value=names[id_], label=names[id_]) for id_ in dict.fromkeys(node for _, node in places))
    found = reads.environments_by_id(session, {environment for environment, _ in places})
    offered = [refs.environment_ref(found[id_]) for id_ in sorted(found, reverse=True)][:OFFERED]
    return tuple(v.Choice(value=str(one.id), label=f"{one.label} ({one.fingerprint[:8]})") for one in offered)


def _side(session: Session, project: Any, by: By, key: str) -> _Loaded | None:
    if by == "revision":
        return _revision_side(session, project, key)
    if by == "run":
        return _run_side(session, project, key)
    if by == "node":
        return _node_side(session, project, key)
    return _environment_side(session, project, key)


def _revision_side(session: Session, project: Any, key: str) -> _Loaded | None:
    found = reads.revision_by_sha(session, project.id, key)
    if found is None:
        return None
    rows = reads_work.results_of_revisions(session, project.id, [found.id or 0])
    ref = refs.revision_ref(found)
    side = v.Side(label=f"{ref.sha[:10]} {ref.title}", kind="revision", key=ref.sha, revision=ref)
    return _loaded(session, side, rows)


def _run_side(session: Session, project: Any, key: str) -> _Loaded | None:
    found = reads_work.run(session, int(key)) if key.isascii() and key.isdigit() and len(key) < 19 else None
    if found is None:
        return None
    run, suite, node = found
    rows = [r for r in reads_work.results_of_revisions(session, project.id, [run.revision_id]) if r.run_id == run.id]
    ref = refs.Names(session, [run.revision_id]).revision(run.revision_id)
    side = v.Side(label=f"run {run.id}: {suite} {run.benchmark_key} on {node}", kind="run", key=key, revision=ref)
    kept = {
        r.series_id: unpack(r.samples)[0][:DRAWN] for r in reads_work.results_of_run(session, run.id or 0) if r.samples
    }
    return replace(_loaded(session, side, rows), samples=kept)


def _node_side(session: Session, project: Any, key: str) -> _Loaded | None:
    node = reads_work.node_by_name(session, key)
    if node is None:
        return None
    rows = reads_work.newest_results(session, project.id, NEWEST_RUNS, node_id=node.id)
    return _loaded(session, v.Side(label=key, kind="node", key=key, revision=None), rows)


def _environment_side(session: Session, project: Any, key: str) -> _Loaded | None:
    id_ = int(key) if key.isascii() and key.isdigit() and len(key) < 10 else -1
    found = reads.environments_by_id(session, [id_]).get(id_)
    if found is None:
        return None
    rows = reads_work.newest_results(session, project.id, NEWEST_RUNS, environment_id=id_)
    ref = refs.environment_ref(found)
    return _loaded(session, v.Side(label=ref.label, kind="environment", key=key, revision=None), rows)


def _loaded(session: Session, side: v.Side, rows: Sequence[Any]) -> _Loaded:
    values: dict[int, list[float]] = {}
    of_series: dict[int, list[int]] = {}
    for row in rows:
        values.setdefault(row.series_id, []).append(row.value)
        of_series.setdefault(row.series_id, []).append(row.run_id)
    runs = list(dict.fromkeys(row.run_id for row in rows))[:NEWEST_RUNS]
    conditions = _medians(reads_work.conditions_of_runs(session, runs))
    builds = frozenset(reads_work.builds_of_runs(session, runs))
    return _Loaded(side, values, frozenset(row.environment_id for row in rows), builds, conditions, of_series, {})


def _medians(conditions: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Median over runs of each condition that is a number (or has one named median)."""
    found: dict[str, list[float]] = {}
    for one in conditions:
        for name, value in leaves(one):
            known = number(value)
            if known is not None:
                found.setdefault(name, []).append(known)
    return {name: f"{median(numbers):.4g}" for name, numbers in found.items()}


def _rows(session: Session, base: _Loaded, head: _Loaded) -> list[v.CompareRow]:
    ids = list(dict.fromkeys([*base.values, *head.values]))
    return [_row(s, base, head) for s in reads_series.series_rows(session, ids)]


def _row(series: Any, left: _Loaded, right: _Loaded) -> v.CompareRow:
    base, head = left.values.get(series.id, ()), right.values.get(series.id, ())
    answer, reason = "never-compared", "measured on one side only"
    effect = v.Effect(ratio=None, low=None, high=None, difference=None)
    mde = None
    if base and head:
        verdict = judge([[x] for x in base], [[x] for x in head], _config(series))
        answer, reason, mde = verdict.answer, verdict.reason, refs.finite(verdict.mde)
        b, h = median(base), median(head)
        effect = v.Effect(
            ratio=refs.finite(h / b) if b > 0 else None,
            low=_up(verdict.low),
            high=_up(verdict.high),
            difference=refs.finite(h - b),
        )
    return v.CompareRow(
        series=refs.series_ref(series),
        base=refs.finite(median(base)) if base else None,
        head=refs.finite(median(head)) if head else None,
        base_count=len(base),
        head_count=len(head),
        effect=effect,
        answer=answer,
        reason=reason,
        mde=mde,
        base_values=tuple(refs.finite(x) for x in left.samples.get(series.id, base)[:DRAWN]),
        head_values=tuple(refs.finite(x) for x in right.samples.get(series.id, head)[:DRAWN]),
    )


def _kernels(session: Session, rows: Sequence[v.CompareRow], base: _Loaded, head: _Loaded) -> tuple[v.Kernels, ...]:
    """Of what changed by most; of what one process a side left undecided, only what is sure."""
    order = ("regressed", "changed", "improved", "inconclusive")
    called = [row for row in rows if row.answer in order and row.effect.ratio]
    called.sort(key=lambda row: (order.index(row.answer), -abs((row.effect.ratio or 1) - 1)))
    return kernel_views.of_pairs(
        session,
        [
            kernel_views.Pair(
                row.series.id,
                base.runs[row.series.id],
                head.runs[row.series.id],
                row.effect.ratio,
                doubtful=row.answer == "inconclusive",
            )
            for row in called
        ],
    )


def _up(effect: float) -> float | None:
    known = refs.finite(effect)
    return None if known is None else 1 + known


def _config(series: Any) -> GateConfig:
    threshold = series.threshold or DEFAULT_THRESHOLDS.get(series.kind, 0.03)
    direction: Direction = 1 if series.direction > 0 else -1 if series.direction < 0 else 0
    return GateConfig(threshold=threshold, direction=direction, paired=False, noise_sd=series.noise)


def _environment_differences(session: Session, base: _Loaded, head: _Loaded) -> tuple[v.FacetDifference, ...]:
    """Node and stack first, then what the commits resolved.

    Unknown is equal to nothing, not even to another unknown, unless both sides were measured in one environment.
    """
    found = reads.environments_by_id(session, base.environments | head.environments)
    builds = reads_work.build_snapshots(session, base.builds | head.builds)
    left, right = (
        _facets([*(found[id_] for id_ in sorted(one.environments)), *(builds[id_] for id_ in sorted(one.builds))])
        for one in (base, head)
    )
    return tuple(
        v.FacetDifference(layer=key[0], name=key[1], base=left.get(key), head=right.get(key))
        for key in dict.fromkeys([*left, *right])
        if left.get(key) != right.get(key)
        or (UNKNOWN in (left.get(key) or "") and base.environments != head.environments)
    )


def _facets(kept: Sequence[Any]) -> dict[tuple[str, str], str]:
    """Values by layer and name; several values of one facet are joined. What is not there says nothing."""
    seen: dict[tuple[str, str], dict[str, None]] = {}
    for one in kept:
        for facet in one.facets:
            value = facet.get("value")
            if value is None and facet.get("tracked", True):
                value = f"{UNKNOWN}{facet.get('reason') or 'it could not be read'}"
            if value is not None:
                seen.setdefault((str(facet.get("layer", "")), str(facet.get("name", ""))), {})[str(value)] = None
    return {key: ", ".join(values) for key, values in seen.items()}


def _condition_differences(base: _Loaded, head: _Loaded) -> tuple[v.FacetDifference, ...]:
    names = dict.fromkeys([*base.conditions, *head.conditions])
    return tuple(
        v.FacetDifference(layer="conditions", name=name, base=base.conditions.get(name), head=head.conditions.get(name))
        for name in names
        if base.conditions.get(name) != head.conditions.get(name)
    )
