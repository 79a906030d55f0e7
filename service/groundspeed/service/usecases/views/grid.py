"""The grid of benchmarks: a card a series, found by text and facets, in an order of choice, a page at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any, Literal

import numpy as np
from sqlmodel import Session

from groundspeed.service.db import reads, reads_series
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases import written
from groundspeed.service.usecases.views import refs
from groundspeed.service.usecases.views.history import Floats, Ints, short
from groundspeed.service.wire import views as v

SPARK_COMMITS = 200
"""A sparkline shows this many of the newest commits."""
SPARK_POINTS = 80
SPARK_FIGURES = 5
"""A sparkline shows no more, and a page of them is half as long."""
SILENT_AFTER = 20
"""Commits without a result after which a series counts as silent."""
MAX_FACET_VALUES = 24

Sort = Literal["name", "change", "noise", "recent"]
_BY_CHANGE = ("change", "recent")


@dataclass(frozen=True, slots=True)
class GridQuery:
    """``facets`` maps suite, metric, hardware or a parameter's name to the value wanted."""

    text: str = ""
    facets: Mapping[str, str] = field(default_factory=dict)
    sort: Sort = "name"
    offset: int = 0
    limit: int = 100


def grid(db: Database, slug: str, query: GridQuery, echo: dict[str, str] | None = None) -> v.Grid:
    """One page of cards, with the facets of all that match."""
    with db.read() as session:
        project = refs.project_row(session, slug)
        rows = reads_series.series_of_project(session, project.id)
        wanted = [row for row in rows if _matches(row, query)] if query.facets or query.text else list(rows)
        asked = wanted if query.sort in _BY_CHANGE else ()
        last = reads.last_changes(session, [row.id for row in asked]) if asked else {}
        wanted.sort(key=lambda row: _order(row, query.sort, last))
        end = query.offset + query.limit
        page = wanted[query.offset : end]
        if not asked:
            last = reads.last_changes(session, [row.id for row in page])
        return v.Grid(
            project=refs.project_ref(project),
            cards=tuple(_cards(session, project.id, page, last)),
            facets=_facets(rows, query),
            total=len(wanted),
            query=echo or {},
            next_cursor=str(end) if end < len(wanted) else None,
        )


def facet_values(row: Any) -> dict[str, str]:
    """What a series can be chosen by."""
    out = {"suite": row.suite, "metric": row.metric, "hardware": row.hardware}
    return out | {name: written.value(value) for name, value in row.params.items()} if row.params else out


def _matches(row: Any, query: GridQuery) -> bool:
    values = facet_values(row)
    if any(values.get(name) != wanted for name, wanted in query.facets.items()):
        return False
    if not query.text:
        return True
    heap = " ".join((row.plugin, row.target or "", *(f"{name}={value}" for name, value in values.items()))).lower()
    return all(word in heap for word in query.text.lower().split())


def _name(row: Any) -> tuple[Any, ...]:
    if not row.params:
        return row.suite, row.plugin, row.metric, row.hardware, ()
    params = tuple(
        (name, (0, value, "") if isinstance(value, (int, float)) else (1, 0, str(value)))
        for name, value in sorted(row.params.items())
    )
    return row.suite, row.plugin, row.metric, row.hardware, params


def _order(row: Any, sort: Sort, last: Mapping[int, Any]) -> tuple[Any, ...]:
    change = last.get(row.id)
    if sort == "change":
        size = abs(change.ratio - 1) if change is not None and change.ratio is not None else -1.0
        return (-size, _name(row))
    if sort == "recent":
        return (-change.created_at.timestamp() if change is not None else 0.0, _name(row))
    if sort == "noise":
        return (-row.noise if row.noise is not None else 1.0, _name(row))
    return _name(row)


def _facets(rows: Sequence[Any], query: GridQuery) -> tuple[v.Facet, ...]:
    """Values of each facet among the series that the other facets leave."""
    every = [facet_values(row) for row in rows]
    counts: dict[str, Counter[str]] = {}
    for name in dict.fromkeys(chain.from_iterable(every)):
        others = {other: wanted for other, wanted in query.facets.items() if other != name}
        left = [one for one in every if others.items() <= one.items()] if others else every
        counts[name] = Counter(one[name] for one in left if name in one)
    return tuple(
        v.Facet(name=name, values=tuple(sorted(counter.items(), key=_natural))[:MAX_FACET_VALUES])
        for name, counter in counts.items()
        if len(counter) > 1 or name in query.facets
    )


def _natural(item: tuple[str, int]) -> tuple[int, float, str]:
    try:
        return 0, float(item[0]), item[0]
    except ValueError:
        return 1, 0.0, item[0]


def _cards(session: Session, project_id: int, page: Sequence[Any], last: Mapping[int, Any]) -> list[v.GridCard]:
    ids = [row.id for row in page]
    tip = reads.tip_position(session, project_id)
    sparks = sparklines(session, ids, tip)
    newest = reads_series.last_position(session, [id_ for id_ in ids if id_ not in sparks])
    at = reads.revisions_at(session, project_id, {spark.x[-1] for spark in sparks.values()} | set(newest.values()))
    out = []
    for row in page:
        spark = sparks.get(row.id, v.Spark(x=(), y=(), changes=()))
        position = spark.x[-1] if spark.x else newest.get(row.id)
        change = last.get(row.id)
        revision = at.get(position) if position is not None else None
        out.append(
            v.GridCard(
                series=refs.series_ref(row),
                spark=spark,
                value=spark.y[-1] if spark.y else None,
                at=refs.revision_ref(revision) if revision is not None else None,
                last_change=_effect(change) if change is not None else None,
                last_change_kind=change.kind if change is not None else "",
                last_change_at=change.created_at if change is not None else None,
                open_regression=change.regression_id if change is not None else None,
                behind=tip - position if position is not None else max(tip, 0),
            )
        )
    return out


def _effect(change: Any) -> v.Effect:
    return v.Effect(
        ratio=refs.finite(change.ratio),
        low=refs.finite(change.low),
        high=refs.finite(change.high),
        difference=refs.finite(change.difference),
    )


def sparklines(session: Session, ids: Sequence[int], tip: int, *, until: int | None = None) -> dict[int, v.Spark]:
    """The newest ``SPARK_COMMITS`` commits of each series that has results there; ``until`` another commit's place."""
    end = tip if until is None else until
    rows = reads_series.recent_values(session, ids, max(0, end - SPARK_COMMITS), end) if ids else ()
    if not rows:
        return {}
    marks: dict[int, dict[int, str]] = {}
    for row in reads.change_positions(session, ids):
        marks.setdefault(row.series_id, {})[row.position] = row.kind
    series, position, value = (np.array(column) for column in zip(*rows, strict=True))
    order = np.lexsort((position, series))
    series, position, value = series[order], position[order], short(value[order].astype(np.float64), SPARK_FIGURES)
    edges = [0, *(np.flatnonzero(series[1:] != series[:-1]) + 1).tolist(), len(rows)]
    return {
        (id_ := int(series[begin])): _spark(position[begin:after], value[begin:after], marks.get(id_, {}))
        for begin, after in pairwise(edges)
    }


def _spark(position: Ints, value: Floats, marks: Mapping[int, str]) -> v.Spark:
    """Every point while there are few; otherwise evenly chosen ones, with those at changes.

    Of several values of one commit it is their median.
    """
    x, y = position.tolist(), value.tolist()
    if len(set(x)) < len(x):
        at = {p: refs.middle(value[position == p].tolist()) for p in x}
        x, y = list(at), list(at.values())
    if len(x) > SPARK_POINTS:
        step = len(x) / SPARK_POINTS
        chosen = {int(i * step) for i in range(SPARK_POINTS)} | {len(x) - 1}
        chosen |= {i for i, p in enumerate(x) if p in marks}
        x, y = [x[i] for i in sorted(chosen)], [y[i] for i in sorted(chosen)]
    return v.Spark.model_construct(
        x=tuple(x), y=tuple(map(refs.finite, y)), changes=tuple((i, marks[p]) for i, p in enumerate(x) if p in marks)
    )
