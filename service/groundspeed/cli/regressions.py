"""``groundspeed regressions``: what got slower and is still to be looked at; one of them in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.markup import escape

from groundspeed.cli.answer import quantity
from groundspeed.cli.context import DataOption, JsonOption, database, project_of, settings_for, tell_unseen
from groundspeed.cli.output import console, show_json, table
from groundspeed.cli.showing import ProjectOption, label

if TYPE_CHECKING:
    from groundspeed.service.wire.views import Effect, RegressionDetail, RegressionList


def regressions(
    which: Annotated[
        str | None, typer.Argument(metavar="[NUMBER|PROJECT]", help="One of them in full, or those of a project.")
    ] = None,
    project: ProjectOption = None,
    state: Annotated[str, typer.Option(help="open, all, or one state (new, acknowledged, …).")] = "open",
    kind: Annotated[
        Literal["regression", "improvement", "change", "all"], typer.Option(help="What to list.")
    ] = "regression",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="So many newest.")] = 50,
    check: Annotated[bool, typer.Option("--check", help="End with status 1 when any is listed.")] = False,
    as_json: JsonOption = False,
    data: DataOption = None,
) -> None:
    """List regressions, newest first, or tell one in full.

    Exit status: 0, with --check 1 when there are any, 2 when it could not be done.
    """
    from groundspeed.service.usecases.views import findings

    number = int(which) if which is not None and which.isdecimal() else None
    with database(settings_for(data)) as db:
        if number is not None:
            number = min(number, 2**31 - 1)
            slug = project or findings.project_of(db, number) or project_of(db, None)
            detail = findings.regression_detail(db, slug, number)
            if as_json:
                show_json(detail)
            else:
                _detail(detail)
            return
        slug = project_of(db, project or which)
        found = findings.regression_list(db, slug, kind=kind, state=state, limit=limit)
        if as_json:
            show_json(found)
        else:
            _list(found)
            tell_unseen(db, slug)
    if check and found.rows:
        raise typer.Exit(1)


def _list(found: RegressionList) -> None:
    out = console()
    rows = [
        (
            str(row.id), row.kind, row.state + (" (provisional)" if row.provisional else ""),
            row.after.sha[:10] if row.after else row.cause, escape(row.title[:60]), effect_of(row.worst),
            escape(label(row.worst_series)) if row.worst_series else "", str(row.series_count), escape(row.assignee),
        )
        for row in found.rows
    ]  # fmt: skip
    head = ("", "kind", "state", "commit", "title", "surest", "in", "series", "assignee")
    if rows:
        out.print(table(head, rows, right=("", "surest", "series")))
    else:
        out.print(f"No {found.kind if found.kind != 'all' else 'finding'} is {found.state}.", markup=False)
    counts = ", ".join(f"{n} {state}" for state, n in sorted(found.counts.items()))
    if counts:
        out.print(counts, markup=False)


def _detail(detail: RegressionDetail) -> None:
    out = console()
    row = detail.row
    out.print(f"{row.kind} {row.id} ({row.state}): {row.title}", markup=False)
    span = f"{row.before.sha[:10]} … {row.after.sha[:10]}" if row.before and row.after else "unknown"
    out.print(f"between {span}; cause: {row.cause}; assignee: {row.assignee or 'nobody'}", markup=False)
    rows = []
    for one in detail.affected:
        effect, unit = one.change.effect, one.series.unit
        difference = quantity(effect.difference, unit) if effect.difference is not None else ""
        cells = (effect_of(effect), interval_of(effect), difference, one.change.state)
        rows.append((escape(label(one.series)), *cells))
    head = ("series", "change", "95 % interval", "difference", "state")
    out.print(table(head, rows, right=head[1:4]))
    for commit in detail.suspects[:20]:
        out.print(f"suspect {commit.sha[:10]} {commit.author}: {commit.title}", markup=False)
    if len(detail.suspects) > 20:
        out.print(f"and {len(detail.suspects) - 20} more suspects", markup=False)
    for entry in detail.history:
        out.print(f"{entry.at:%Y-%m-%d %H:%M}Z {entry.actor}: {entry.action}{_told(entry.data)}", markup=False)


def _told(data: dict[str, Any]) -> str:
    """What was written down with an entry of the history: new → withdrawn: detection no longer sees it."""
    rest = [f"{name} {value}" for name, value in data.items() if name not in {"from", "to", "why"} and value]
    move = [f"{data['from']} → {data['to']}"] if "from" in data and "to" in data else []
    said = "; ".join([*move, *rest])
    why = f"{data['why']}" if data.get("why") else ""
    return f" {said}" * bool(said) + f": {why}" * bool(why)


def effect_of(effect: Effect | None) -> str:
    if effect is None or effect.ratio is None:
        return ""
    return f"{100 * (effect.ratio - 1):+.1f} %"


def interval_of(effect: Effect) -> str:
    if effect.low is None or effect.high is None:
        return ""
    return f"{100 * (effect.low - 1):+.1f} … {100 * (effect.high - 1):+.1f} %"
