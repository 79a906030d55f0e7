"""The same views in other formats: CSV for spreadsheets, SVG for documents, raw samples for the graph."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response

from groundspeed.service.api.routes.loaders import Db, Position, load_compare, series_ids, small_id
from groundspeed.service.api.routes.reach import project_of_path
from groundspeed.service.usecases import written
from groundspeed.service.usecases.views import graph, samples
from groundspeed.service.wire import views as v

router = APIRouter(tags=["exports"], dependencies=[Depends(project_of_path)])
_DANGEROUS = ("=", "+", "-", "@", "\t", "\r")
ALL = 10**7


@router.get("/projects/{slug}/graph.csv", summary="Every point of some series as CSV.")
def graph_csv(
    db: Db,
    slug: str,
    series: Annotated[str, Query(max_length=600)],
    low: Annotated[Position, Query(alias="from")] = None,
    high: Annotated[Position, Query(alias="to")] = None,
) -> Response:
    """One line a point; nothing is thinned."""
    shown = graph.graph(db, slug, graph.GraphQuery(series_ids(series), low or 0, high, ALL))
    return csv_response(f"{slug}.csv", _point_rows(shown))


def _point_rows(shown: v.Graph) -> Iterable[Sequence[Any]]:
    yield (
        "series", "suite", "metric", "unit", "parameters", "hardware", "commit", "position", "committed_at", "author",
        "title", "environment", "value", "low", "high", "processes", "state", "run",
    )  # fmt: skip
    r = shown.revisions
    for one in shown.series:
        s, p = one.series, one.points
        named = written.params(s.params)
        for i, at in enumerate(p.revision):
            yield (
                s.id, s.suite, s.metric, s.unit, named, s.hardware, r.sha[at], r.position[at], r.at[at], r.author[at],
                r.title[at], shown.environments[p.environment[i]].label, p.value[i], p.low[i], p.high[i], p.count[i],
                p.state[i], p.run[i],
            )  # fmt: skip


@router.get("/projects/{slug}/compare.csv", summary="A comparison as CSV.")
def compare_csv(slug: str, compared: Annotated[v.Compare, Depends(load_compare)]) -> Response:
    """One line a series."""
    header = (
        "series", "suite", "metric", "unit", "parameters", "hardware", "base", "head", "ratio", "low", "high",
        "answer", "mde", "base_processes", "head_processes",
    )  # fmt: skip
    rows = (
        (
            row.series.id, row.series.suite, row.series.metric, row.series.unit,
            written.params(row.series.params), row.series.hardware, row.base,
            row.head, row.effect.ratio, row.effect.low, row.effect.high, row.answer, row.mde, row.base_count,
            row.head_count,
        )
        for row in compared.rows
    )  # fmt: skip
    return csv_response(f"{slug}-compare.csv", [header, *rows])


@router.get("/projects/{slug}/series/{series_id}/samples", summary="Raw samples of the newest runs in a range.")
def series_samples(
    db: Db,
    slug: str,
    series_id: int,
    low: Annotated[Position, Query(alias="from")] = None,
    high: Annotated[Position, Query(alias="to")] = None,
) -> v.SampleCloud:
    return samples.cloud(db, slug, small_id(series_id), low or 0, high)


def csv_response(name: str, rows: Iterable[Sequence[Any]]) -> Response:
    """Rows as a CSV file."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return Response(csv_text(rows), media_type="text/csv", headers=headers)


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV. Text that a spreadsheet would run as a formula is quoted with an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    for row in rows:
        writer.writerow([_harmless(cell) for cell in row])
    return out.getvalue()


def _harmless(cell: Any) -> Any:
    if cell is None:
        return ""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_DANGEROUS) else cell
