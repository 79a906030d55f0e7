"""Machines side by side: each node's level beside the median of its peers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from statistics import median
from typing import Any

from sqlmodel import Session

from groundspeed.service.db import reads, reads_series, reads_work
from groundspeed.service.db.engine import Database
from groundspeed.service.errors import NotFound
from groundspeed.service.usecases.views import refs
from groundspeed.service.usecases.views.conditions import hygiene
from groundspeed.service.usecases.views.overview import node_strips, workers
from groundspeed.service.usecases.views.runs import run_row
from groundspeed.service.wire import views as v

NEWEST_RUNS = 400
"""Of each node, the newest runs that are looked at."""
ROWS = 60


def fleet(db: Database, now: datetime) -> v.Fleet:
    """All nodes, and the series that at least two of them have lately run."""
    with db.read() as session:
        strips = node_strips(session, now)
        nodes = workers(strips)
        return v.Fleet(
            nodes=nodes,
            imported=tuple(strip for strip in strips if strip not in nodes),
            rows=tuple(_rows(session, [n.id for n in nodes])),
        )


def _rows(session: Session, nodes: Sequence[int], only: int | None = None) -> list[v.HeatRow]:
    """Heat map: cells in the order of ``nodes``; with ``only``, the rows that node has a part in."""
    levels: dict[int, dict[int, list[float]]] = {}
    for node in nodes:
        for row in reads_work.newest_values_of_node(session, node, NEWEST_RUNS):
            levels.setdefault(row.series_id, {}).setdefault(node, []).append(row.value)
    wanted = [s for s, by_node in levels.items() if len(by_node) > 1 and (only is None or only in by_node)]
    out = []
    for series in reads_series.series_rows(session, sorted(wanted)[:ROWS]):
        middle = {node: median(values) for node, values in levels[series.id].items()}
        out.append(
            v.HeatRow(series=refs.series_ref(series), cells=tuple(_cell(levels[series.id], middle, n) for n in nodes))
        )
    return out


def _cell(values: dict[int, list[float]], middle: dict[int, float], node: int) -> v.HeatCell:
    if node not in values:
        return v.HeatCell(ratio=None, count=0, value=None)
    peers = median(level for other, level in middle.items() if other != node)
    ratio = middle[node] / peers if peers else None
    return v.HeatCell(ratio=refs.finite(ratio), count=len(values[node]), value=refs.finite(middle[node]))


def node_page(db: Database, name: str, now: datetime) -> v.NodePage:
    """Raises NotFound for an unknown node."""
    with db.read() as session:
        row = reads_work.node_by_name(session, name)
        if row is None:
            raise NotFound(f"There is no node {name!r}.", "Nodes are listed under Fleet.")
        id_ = row.id or 0
        strips = node_strips(session, now)
        runs = reads_work.newest_runs_of_node(session, id_)
        names = refs.Names(session, [run.revision_id for run, _, _ in runs])
        envs = reads_work.environments_of_node(session, id_)
        found = reads.environments_by_id(session, [*envs, row.environment_id or 0])
        current = found.get(row.environment_id or 0)
        return v.NodePage(
            node=next(strip for strip in strips if strip.id == id_),
            labels=row.labels,
            worker_version=row.worker_version,
            slots=row.slots,
            sandbox=row.sandbox,
            registered_at=row.registered_at,
            devices=tuple(
                v.DeviceView(index=d.index, uuid=d.uuid, model=d.model, memory_bytes=d.memory_bytes)
                for d in reads_work.devices_of(session, id_)
            ),
            facets=tuple(current.facets) if current is not None else (),
            info=tuple(row.info),
            environments=tuple(
                v.NodeEnvironment(environment=refs.environment_ref(found[e]), since=since) for e, since in envs.items()
            ),
            events=tuple(_event(e) for e in reads_work.events_of_node(session, id_)),
            plugins=tuple({"name": p.plugin, "version": p.version} for p in reads_work.plugins_of(session, id_)),
            peers=tuple(_peers(session, [s.id for s in strips], id_)),
            runs=tuple(run_row(run, suite, node, names) for run, suite, node in runs),
            hygiene=tuple(Counter(text for run, _, _ in runs for text in set(hygiene(run.conditions))).most_common(8)),
            hygiene_runs=sum("hygiene" in run.conditions for run, _, _ in runs),
        )


def _peers(session: Session, nodes: Sequence[int], id_: int) -> list[v.HeatRow]:
    at = nodes.index(id_)
    return [v.HeatRow(series=row.series, cells=(row.cells[at],)) for row in _rows(session, nodes, only=id_)]


def _event(row: Any) -> v.EventMark:
    return v.EventMark(id=row.id, kind=row.kind, title=row.title, body=row.body, revision=None, at=row.at)
