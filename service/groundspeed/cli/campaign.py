"""``groundspeed campaign``: a change of driver, firmware or stack over many nodes, from the command line."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from groundspeed.cli import context
from groundspeed.cli.edge import complain
from groundspeed.cli.output import console, counted, report_done, show_json, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from groundspeed.service.wire.campaigns import CampaignPage

app = typer.Typer(no_args_is_help=True, help="Validate a change of driver, firmware or stack over many nodes.")
Name = Annotated[str, typer.Argument(help="Name of the campaign.")]
Why = Annotated[str, typer.Option(help="The reason, for the audit log.")]


class Format(StrEnum):
    """Forms of a report."""

    text = "text"
    json = "json"
    csv = "csv"
    html = "html"


@app.command("create")
def create(
    name: Name,
    project: Annotated[str, typer.Option("--project", "-p", help="The project whose suites measure it.")],
    change: Annotated[list[str], typer.Option(help="What changes: FACET=VALUE, as gpu.driver=580. Repeatable.")],
    where: Annotated[list[str] | None, typer.Option(help="Nodes with this label: NAME=VALUE. Repeatable.")] = None,
    node: Annotated[list[str] | None, typer.Option(help="Only this node. Repeatable.")] = None,
    suite: Annotated[list[str] | None, typer.Option(help="Only this suite. Repeatable.")] = None,
    scope: Annotated[list[str] | None, typer.Option(help="SUITE=device, node or fabric. Repeatable.")] = None,
    revision: Annotated[str, typer.Option(help="Commit to measure with; otherwise the project's reference.")] = "",
    canary: Annotated[int, typer.Option(help="Nodes that go first.")] = 1,
    waves: Annotated[str, typer.Option(help="Shares of the rest, wave by wave.")] = "0.1,0.4,1",
    replicates: Annotated[int, typer.Option(help="Fresh processes a side.")] = 3,
    margin: Annotated[float, typer.Option(help="Largest acceptable worsening: 0.01 is 1 %.")] = 0.01,
    metric_margin: Annotated[list[str] | None, typer.Option(help="METRIC=0.02 for one of them. Repeatable.")] = None,
    hold: Annotated[str, typer.Option(help="auto: stop where something was found; manual: after each phase.")] = "auto",
    max_lost: Annotated[int, typer.Option(help="Nodes that may stay away before it is aborted.")] = 1,
    return_minutes: Annotated[float, typer.Option(help="A node that is away for longer is lost.")] = 60.0,
    fresh_hours: Annotated[float, typer.Option(help="A baseline of at most this age is used again.")] = 24.0,
    hook: Annotated[str, typer.Option(help="Name of a hook in GROUNDSPEED_CAMPAIGN_HOOKS.")] = "",
    price: Annotated[float | None, typer.Option(help="What a node costs an hour, for the report.")] = None,
    currency: Annotated[str, typer.Option(help="Of the price.")] = "",
    note: Annotated[str, typer.Option(help="Shown on the report.")] = "",
    data: context.DataOption = None,
    json: context.JsonOption = False,
) -> None:
    """Write a campaign down. It begins by itself: baselines, canary, waves, with a hold point after each."""
    from groundspeed.cli import repository
    from groundspeed.service.errors import Invalid
    from groundspeed.service.usecases.campaigns import create as usecase

    if hold not in {"auto", "manual"}:
        raise Invalid(f"--hold {hold} cannot be used.", "Use auto or manual.")
    settings = context.settings_for(data)
    new = usecase.New(
        name=name, project=project, wanted=_pairs(change, "--change"), where=_pairs(where, "--where"),
        nodes=tuple(node or ()), suites=tuple(suite or ()), scopes=_pairs(scope, "--scope"), revision=revision,
        canary=canary, waves=tuple(_number(part, "--waves") for part in waves.split(",")), replicates=replicates,
        margin=margin, max_lost=max_lost, return_s=60 * return_minutes, fresh_s=3600 * fresh_hours, hook=hook,
        margins={k: _number(v, "--metric-margin") for k, v in _pairs(metric_margin, "--metric-margin").items()},
        hold="manual" if hold == "manual" else "auto", price=price, currency=currency, note=note,
    )  # fmt: skip
    with context.database(settings) as db:
        made = usecase.create(
            db, repository.mirrors(settings), new, datetime.now(UTC), actor="local", hooks=settings.campaign_hooks
        )
    if json:
        show_json(made)
        return
    out = console()
    out.print(f"Campaign {made.name} begins with the baselines of {counted(sum(map(len, made.waves)), 'node')}.")
    for index, names in enumerate(made.waves):
        out.print(f"  {'canary' if index == 0 else f'wave {index}'}: {_some(names)}")
    for said in made.notes:
        complain(said)


@app.command("list")
def list_(
    project: Annotated[str | None, typer.Option("--project", "-p", help="Of this project only.")] = None,
    data: context.DataOption = None,
    json: context.JsonOption = False,
) -> None:
    """The newest campaigns."""
    from groundspeed.service.usecases.campaigns import view

    with context.database(context.settings_for(data)) as db:
        found = view.campaigns(db, project)
    if json:
        show_json(found)
        return
    rows = [
        (row.name, row.project.slug, _wanted(row.wanted), row.state, row.phase, row.answer, f"{row.done}/{row.nodes}")
        for row in found.rows
    ]
    console().print(table(("campaign", "project", "change", "state", "phase", "verdict", "nodes"), rows))


@app.command("show")
def show(name: Name, data: context.DataOption = None, json: context.JsonOption = False) -> None:
    """How far a campaign has come, and what it has shown."""
    _report(name, Format.json if json else Format.text, data)


@app.command("report")
def report(
    name: Name,
    form: Annotated[Format, typer.Option("--format", help="text, json, csv, or html to print.")] = Format.text,
    check: Annotated[bool, typer.Option("--check", help="End with status 1 unless the verdict is go.")] = False,
    data: context.DataOption = None,
    json: context.JsonOption = False,
) -> None:
    """The report, for people or for programs."""
    shown = _report(name, Format.json if json else form, data)
    if check and (shown.state != "done" or shown.answer != "go"):
        raise typer.Exit(1)


def _report(name: str, form: Format, data: context.DataOption) -> CampaignPage:
    from groundspeed.service.usecases.campaigns import view

    with context.database(context.settings_for(data)) as db:
        shown = view.campaign(db, name)
    if form is Format.json:
        show_json(shown)
    elif form is Format.csv:
        from groundspeed.service.api.routes.campaigns import campaign_rows
        from groundspeed.service.api.routes.exports import csv_text

        sys.stdout.write(csv_text(campaign_rows(shown)))
    elif form is Format.html:
        from groundspeed.service.pages import render

        sys.stdout.write(render.render("campaign_report.html", shown, path="") + "\n")
    else:
        _print(shown)
    return shown


def _print(shown: CampaignPage) -> None:
    out = console()
    out.print(f"{shown.name}: {_wanted(shown.wanted)}, {shown.state} in phase {shown.phase}")
    for reason in shown.reasons:
        out.print(f"  {reason}")
    verdict = shown.answer.replace("-", " ") if shown.answer else "no verdict yet"
    out.print(f"{verdict}: {shown.answer_reason}" if shown.answer_reason else verdict)
    out.print(f"rests on {shown.basis}" if shown.answer else shown.basis)
    for line in (*shown.findings, *filter(None, [shown.confirmation])):
        out.print(f"- {line}")
    if shown.metrics:
        rows = [
            (
                m.metric,
                m.answer,
                _share(m.worsening),
                f"{_share(m.low)} … {_share(m.high)}",
                _share(m.margin),
                str(m.nodes),
            )
            for m in shown.metrics
        ]
        head = ("metric", "verdict", "worse by", "interval", "margin", "nodes")
        out.print(table(head, rows, right=("worse by", "interval", "margin", "nodes")))
    for cost in shown.costs:
        out.print(
            f"a {cost.unit} ({cost.metric}): {_share(cost.money_change)} money, {_share(cost.energy_change)} energy"
        )
    out.print(", ".join(f"{count} {state}" for state, count in sorted(shown.counts.items())))
    waiting = [row for row in shown.nodes if row.note.startswith("waits for")]
    for row in waiting[:5]:
        out.print(f"{row.name} since {row.since:%Y-%m-%d %H:%M} UTC: {row.note}", markup=False)


@app.command("approve")
def approve(name: Name, why: Why = "", data: context.DataOption = None, json: context.JsonOption = False) -> None:
    """Go on from a hold point."""
    _decide(name, "approve", data, json, why=why)


@app.command("resume")
def resume(name: Name, why: Why = "", data: context.DataOption = None, json: context.JsonOption = False) -> None:
    """Take up an aborted campaign where it stood."""
    _decide(name, "resume", data, json, why=why)


@app.command("abort")
def abort(name: Name, why: Why = "", data: context.DataOption = None, json: context.JsonOption = False) -> None:
    """End a campaign: no further node is touched."""
    _decide(name, "abort", data, json, why=why)


@app.command("confirm")
def confirm(
    name: Name,
    node: Annotated[str, typer.Option(help="Which; otherwise the most usual one.")] = "",
    why: Why = "",
    data: context.DataOption = None,
    json: context.JsonOption = False,
) -> None:
    """A-B-A: have one node rolled back and measured again, to see the effect go."""
    _decide(name, "confirm", data, json, why=why, node=node)


def _decide(name: str, action: str, data: context.DataOption, json: bool, *, why: str, node: str = "") -> None:
    from groundspeed.service.usecases.campaigns import commands

    with context.database(context.settings_for(data)) as db:
        said = commands.decide(db, name, action, datetime.now(UTC), actor="local", why=why, node=node)
    report_done(said, json, campaign=name, action=action, said=said)


@app.command("stragglers")
def stragglers(
    project: Annotated[str, typer.Argument(help="Name of the project whose measurements count.")],
    days: Annotated[float, typer.Option(help="Results of the newest days.")] = 30.0,
    data: context.DataOption = None,
    json: context.JsonOption = False,
) -> None:
    """Devices that stand out among those of their model, without any change."""
    from groundspeed.service.usecases.campaigns import stragglers as usecase

    with context.database(context.settings_for(data)) as db:
        found = usecase.report(db, project, datetime.now(UTC), days)
    if json:
        show_json(found)
        return
    rows = [(r.node, r.device or "as a whole", r.area, r.metric, f"{r.worse_by:.1%}") for r in found.rows]
    out = console()
    if rows:
        out.print(table(("node", "device", "in", "metric", "worse by"), rows, right=("worse by",)))
    out.print(f"{len(rows)} of {found.devices} devices stand out in {found.metrics} metrics.")


def tell(
    title: Annotated[str, typer.Argument(help="What happened, in a few words.")],
    body: Annotated[str, typer.Option(help="More about it.")] = "",
    project: Annotated[str, typer.Option("--project", "-p", help="Show it in this project only.")] = "",
    node: Annotated[str, typer.Option(help="The machine it happened to.")] = "",
    where: Annotated[list[str] | None, typer.Option(help="Machines with this label: rack=7. Repeatable.")] = None,
    at: Annotated[datetime | None, typer.Option(help="When, in UTC; otherwise now.")] = None,
    data: context.DataOption = None,
    json: context.JsonOption = False,
) -> None:
    """Tell of something outside the code ("BIOS changed on rack 7"): it shows on the graphs."""
    from groundspeed.service.usecases import events

    told = events.Told(title, body, project, node, _pairs(where, "--where"), at.replace(tzinfo=UTC) if at else None)
    with context.database(context.settings_for(data)) as db:
        ids = events.tell(db, told, datetime.now(UTC), actor="local")
    report_done(f"Noted ({len(ids)} event{'s' if len(ids) != 1 else ''}).", json, events=ids)


def _pairs(given: Sequence[str] | None, option: str) -> dict[str, str]:
    """From NAME=VALUE; raises Invalid."""
    from groundspeed.service.errors import Invalid

    found = {}
    for text in given or ():
        name, sign, value = text.partition("=")
        if not sign or not name.strip() or not value.strip():
            raise Invalid(f"{option} {text} cannot be used.", f"Write NAME=VALUE: {option} gpu.driver=580")
        found[name.strip()] = value.strip()
    return found


def _number(text: str, option: str) -> float:
    from groundspeed.service.errors import Invalid

    try:
        return float(text)
    except ValueError:
        raise Invalid(f"{option}: {text!r} is no number.", "Write a share: 0.1 is 10 %.") from None


def _wanted(wanted: dict[str, str]) -> str:
    return ", ".join(f"{name} → {value}" for name, value in wanted.items())


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2%}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 12 else f"{', '.join(names[:10])} … ({len(names)})"
