"""``groundspeed show`` and ``groundspeed history``: a commit with its results, a series with its commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from groundspeed.cli.answer import quantity
from groundspeed.cli.context import (
    BenchOption,
    DataOption,
    JsonOption,
    database,
    pattern_of,
    project_of,
    settings_for,
)
from groundspeed.cli.output import console, show_json, table

if TYPE_CHECKING:
    from groundspeed.service.wire.views import GraphSeries, Overview, RevisionPage, Revisions, SeriesRef

ProjectOption = Annotated[str | None, typer.Option("--project", "-p", help="Needed when there are several.")]
_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 60


def show(
    commit: Annotated[str, typer.Argument(help="Hash, tag or tip; without: the newest commits.")] = "",
    project: ProjectOption = None,
    bench: BenchOption = "",
    as_json: JsonOption = False,
    data: DataOption = None,
) -> None:
    """What was measured on a commit, beside the measured commit before it; or which commits were measured."""
    from datetime import UTC, datetime

    from groundspeed.service.usecases import lookup
    from groundspeed.service.usecases.views import overview, revision

    with database(settings_for(data)) as db:
        slug = project_of(db, project)
        if not commit:
            seen = overview.overview(db, slug, datetime.now(UTC))
            if as_json:
                show_json(seen.revisions)
            else:
                _commits(seen)
            return
        page = revision.revision_page(db, slug, lookup.side(db, slug, "revision", commit))
    pattern = pattern_of(bench)
    page = page.model_copy(
        update={
            "results": tuple(r for r in page.results if pattern.search(label(r.series))),
            "failures": tuple(f for f in page.failures if pattern.search(f.key)),
        }
    )
    if as_json:
        show_json(page)
    else:
        _commit(page)


def history(
    series: Annotated[
        str, typer.Argument(help="Its number, or suite/metric, or suite/metric/name=value; `show tip` lists them.")
    ],
    project: ProjectOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="So many newest points.")] = 30,
    as_json: JsonOption = False,
    data: DataOption = None,
) -> None:
    """A series over the commits of the branch, with the changes that were found in it."""
    from groundspeed.service.usecases import naming
    from groundspeed.service.usecases.views.graph import GraphQuery, graph

    with database(settings_for(data)) as db:
        with db.read() as session:
            named = naming.find_series(session, series, project)
        drawn = graph(db, named.project, GraphQuery((named.id,), points=1_000_000))
    if as_json:
        show_json(drawn)
    else:
        _history(drawn.series[0], drawn.revisions, limit)


def label(series: SeriesRef) -> str:
    """A series as people name it: suite/metric (parameters)."""
    from groundspeed.service.usecases import written

    inside = written.params(series.params)
    return f"{series.suite}/{series.metric}{f' ({inside})' if inside else ''}"


def _commits(seen: Overview) -> None:
    rows = [
        (
            state.revision.sha[:10], f"{state.revision.at:%Y-%m-%d}", escape(state.revision.title[:60]), str(state.ok),
            str(state.failed), str(state.queued + state.running), str(state.regressions), str(state.improvements),
        )
        for state in seen.revisions
    ]  # fmt: skip
    head = ("commit", "date", "title", "runs", "failed", "waiting", "worse", "better")
    console().print(table(head, rows, right=head[3:]))


def _commit(page: RevisionPage) -> None:
    out = console()
    at = page.revision
    out.print(f"{at.sha} {at.title}", markup=False)
    out.print(f"{at.author}  {at.at:%Y-%m-%d %H:%M}Z  {page.project.slug}", markup=False)
    rows = []
    for result in page.results:
        ratio = f"{100 * (result.value / result.previous - 1):+.1f} %" if result.previous else ""
        before = f"{quantity(result.previous, result.series.unit)}" if result.previous is not None else ""
        unit = result.series.unit
        value = f"{quantity(result.value, unit)} ± {quantity(result.spread, unit)}"
        rows.append((str(result.series.id), escape(label(result.series)), value, str(result.count), before, ratio))
    head = ("series", "benchmark", "value", "processes", "before", "change")
    if rows:
        out.print(table(head, rows, right=("series", "value", "processes", "before", "change")))
    for change in page.changes:
        out.print(f"{change.change.kind}: {label(change.series)}", markup=False)
    for failure in page.failures:
        out.print(f"{failure.outcome}: {failure.benchmark} {failure.key}  {failure.summary}", markup=False)
    if not page.results:
        out.print(
            "No number was measured here." if page.failures else "Nothing was measured here that fits.", markup=False
        )


def _history(series: GraphSeries, revisions: Revisions, limit: int) -> None:
    out = console()
    ref, points = series.series, series.points
    out.print(f"{ref.id}: {label(ref)} on {ref.hardware}", markup=False)
    values = [v for v in points.value if v is not None]
    if not values:
        out.print("No point of it lies on the branch.", markup=False)
        return
    out.print(
        f"{sparkline(values[-_WIDTH:])}  {quantity(min(values), ref.unit)} … {quantity(max(values), ref.unit)}",
        markup=False,
    )
    found = {change.after.id: change for change in series.changes if change.state != "withdrawn"}
    rows = []
    for k in range(max(0, len(points.value) - limit), len(points.value)):
        i, value = points.revision[k], points.value[k]
        if value is None:
            continue
        change = found.get(revisions.id[i])
        told = ""
        if change is not None:
            told = change.kind + (f" {100 * (change.effect.ratio - 1):+.1f} %" if change.effect.ratio else "")
        rows.append(
            (
                revisions.sha[i][:10],
                escape(revisions.title[i][:50]),
                quantity(value, ref.unit),
                str(points.count[k]),
                told,
            )
        )
    out.print(table(("commit", "title", "value", "processes", "change"), rows, right=("value", "processes")))
    if len(points.value) > limit:
        out.print(f"{limit} newest of {len(points.value)} points; --limit shows more.", markup=False)


def sparkline(values: list[float]) -> str:
    """A line of bars between the smallest and the largest value."""
    low, high = min(values), max(values)
    if high <= low:
        return _BARS[3] * len(values)
    return "".join(_BARS[min(7, int(8 * (v - low) / (high - low)))] for v in values)
