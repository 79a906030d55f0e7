"""``groundspeed``: every command imports what it needs when it is used, and names the part that is missing."""

from __future__ import annotations

import gc
import io
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from groundspeed.cli import context, edge
from groundspeed.cli.output import console, counted, show_json, table

if TYPE_CHECKING:
    from groundspeed.plugins.registry import CatalogueEntry
    from groundspeed.plugins.spi import Param

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Continuous performance regressions for GPU and machine-learning software.",
)
config_app = typer.Typer(no_args_is_help=True, help="The project's configuration, groundspeed.toml.")
project_app = typer.Typer(no_args_is_help=True, help="Repositories under watch.")
token_app = typer.Typer(no_args_is_help=True, help="Bearer tokens of people, programs and nodes.")
app.add_typer(config_app, name="config")
app.add_typer(project_app, name="project")
app.add_typer(token_app, name="token")


def _version(asked: bool) -> None:
    """Print this release's version and end."""
    if asked:
        from importlib.metadata import version

        sys.stdout.write(f"groundspeed {version('groundspeed')}\n")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Options of the command line itself."""


def main() -> None:
    """The console script."""
    gc.set_threshold(20_000, 20, 20)  # most of what a command makes it needs until it ends, its modules above all
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what a terminal's encoding cannot say is written as its number
            stream.reconfigure(errors="backslashreplace")
    sys.exit(edge.guarded(_run))


def _run() -> None:
    _register()
    app(standalone_mode=True)


def _register() -> None:
    """Commands that live in modules of their own; each loads light and imports its part on use."""
    from groundspeed.cli import (
        accounts,
        bisect,
        campaign,
        comparing,
        db,
        demo,
        detect,
        doctor,
        explain,
        exporting,
        gate,
        github,
        importing,
        init,
        regressions,
        report,
        showing,
        site,
        tokens,
        up,
        watching,
        work,
    )

    app.command("up")(up.up)
    app.command("status")(work.status)
    app.add_typer(work.job_app, name="job")
    app.add_typer(work.node_app, name="node")
    token_app.command("list")(tokens.listed)
    token_app.command("rotate")(tokens.rotate)
    app.command("demo")(demo.demo)
    app.command("init")(init.init)
    app.command("detect")(detect.detect)
    app.command("gate")(gate.gate)
    app.command("explain")(explain.explain)
    app.command("bisect")(bisect.bisect)
    app.command("doctor")(doctor.doctor)
    app.command("import")(importing.import_results)
    app.command("export")(exporting.export_results)
    app.command("report")(report.report)
    app.command("compare")(comparing.compare)
    app.command("show")(showing.show)
    app.command("history")(showing.history)
    app.command("regressions")(regressions.regressions)
    app.command("watch")(watching.watch)
    app.command("event")(campaign.tell)
    app.add_typer(campaign.app, name="campaign")
    app.add_typer(db.app, name="db")
    app.add_typer(github.app, name="github")
    app.add_typer(accounts.app, name="account")
    app.add_typer(site.site_app, name="site")


@app.command()
def worker() -> None:
    """Run a benchmark worker for a service; its settings are GROUNDSPEED_WORKER_… and docs/configuration.md."""
    from groundspeed.workers.main import run

    raise SystemExit(run())


@app.command()
def findings(
    project: Annotated[str, typer.Argument(help="Name of the project.")],
    data: context.DataOption = None,
    json: context.JsonOption = False,
) -> None:
    """What was found in a project's history: one row for each cause."""
    from groundspeed.cli import answer

    with context.database(context.settings_for(data)) as db:
        found = answer.load(db, project)
        if json:
            show_json(found)
            return
        console().print(answer.render(found))
        context.tell_unseen(db, project)


@app.command()
def plugins(
    name: Annotated[str | None, typer.Argument(help="Only this one, with what each parameter and metric is.")] = None,
    json: context.JsonOption = False,
) -> None:
    """What this machine can measure: every plugin with its version, parameters and metrics; broken ones with why."""
    from groundspeed.plugins.registry import load_catalogue

    entries = load_catalogue()
    if name is not None:
        from groundspeed.service.config.checks import near
        from groundspeed.service.errors import NotFound

        known = [entry.name for entry in entries]
        entries = tuple(entry for entry in entries if entry.name == name)
        if not entries:
            raise NotFound(f"No plugin {name!r} is installed here.", near(name, known))
        if not json:
            _plugin(entries[0])
            return
    if json:
        show_json([asdict(entry) for entry in entries])
        return
    rows = [
        (
            entry.name,
            entry.version,
            ", ".join(param.name for param in entry.params),
            ", ".join(metric.name for metric in entry.metrics),
            entry.error or entry.distribution,
        )
        for entry in entries
    ]
    console().print(table(("plugin", "version", "parameters", "metrics", "from"), rows))


def _plugin(entry: CatalogueEntry) -> None:
    from rich.markup import escape

    out = console()
    out.print(f"{entry.name} {entry.version} ({entry.distribution}): {entry.error or entry.description}", markup=False)
    rows = [(p.name, p.type, escape(_default(p)), escape(p.description)) for p in entry.params]
    if rows:
        out.print(table(("parameter", "type", "default", "what it is"), rows))
    better = {-1: "lower", 1: "higher", 0: ""}
    shown = [(m.name, m.unit, better[int(m.direction)], escape(m.description)) for m in entry.metrics]
    if shown:
        out.print(table(("metric", "unit", "better", "what it is"), shown))


def _default(param: Param) -> str:
    if param.choices:
        rest = ", ".join(str(choice) for choice in param.choices if choice != param.default)
        return f"{param.default}; or {rest}" if param.default is not None else f"one of {rest}"
    return "" if param.default is None else str(param.default)


@project_app.command("add")
def project_add(
    repo: Annotated[str, typer.Argument(help="Folder or URL of a git repository with a groundspeed.toml.")],
    branch: Annotated[str | None, typer.Option(help="Branch to watch; otherwise the configuration's.")] = None,
    credential: Annotated[str | None, typer.Option(help="Name of a credential in the settings.")] = None,
    data: context.DataOption = None,
    json: context.JsonOption = False,
) -> None:
    """Put a repository under watch."""
    from datetime import UTC, datetime

    from groundspeed.cli import repository
    from groundspeed.service.usecases import projects

    settings = context.settings_for(data)
    place = repository.checked(repo)
    with context.database(settings) as db:
        new = projects.New(place, branch, credential, watch=True, poll_interval_s=settings.poll_interval_s)
        added = projects.add(db, repository.mirrors(settings), new, datetime.now(UTC))
    if json:
        show_json(added)
        return
    console().print(f"{added.slug} ({added.branch}) is {'now' if added.created else 'already'} under watch.")


@project_app.command("list")
def project_list(data: context.DataOption = None, json: context.JsonOption = False) -> None:
    """All repositories under watch."""
    from datetime import UTC, datetime

    from groundspeed.service.usecases.views import overview

    with context.database(context.settings_for(data)) as db:
        cards = overview.project_list(db, datetime.now(UTC)).projects
    if json:
        show_json(cards)
        return
    rows = [
        (card.project.slug, card.branch, str(card.series), str(card.open_regressions), card.repo_url, card.config_error)
        for card in cards
    ]
    headings = ("project", "branch", "series", "open regressions", "repository", "trouble")
    console().print(table(headings, rows, right=("series", "open regressions")))


@app.command("run")
def ask(
    project: Annotated[str, typer.Argument(help="Name of the project.")],
    commits: Annotated[str, typer.Option("--range", help="a..b or one commit; otherwise the newest.")] = "",
    suite: Annotated[list[str] | None, typer.Option(help="Only this suite; may be given several times.")] = None,
    every: Annotated[
        int, typer.Option(min=1, max=10_000, help="Only every so many-th commit; a finding fills in what lies between.")
    ] = 1,
    data: context.DataOption = None,
    json: context.JsonOption = False,
) -> None:
    """Ask for commits to be measured; a running Groundspeed (or the next one) does it."""
    from datetime import UTC, datetime

    from groundspeed.cli import repository
    from groundspeed.service.usecases import requests

    settings = context.settings_for(data)
    with context.database(settings) as db:
        asked = requests.Asked(range=commits, suites=tuple(suite or ()), every=every)
        ref = requests.create(db, repository.mirrors(settings), project, asked, datetime.now(UTC))
    if json:
        show_json(ref)
        return
    console().print(
        f"Request {ref.id} is {ref.state}{'' if ref.created else ' (it was asked before)'}. What has been measured in "
        f"this environment is not measured again. Follow it with: groundspeed watch {project}",
        markup=False,
    )


@config_app.command("check")
def config_check(
    file: Annotated[Path, typer.Argument(help="The file to check.")] = Path("groundspeed.toml"),
    json: context.JsonOption = False,
) -> None:
    """Read a groundspeed.toml and say every mistake in it, with line and column; plugins are those known here."""
    from groundspeed.plugins.registry import load_catalogue
    from groundspeed.service.config import load
    from groundspeed.service.config.loader import combined
    from groundspeed.service.errors import ConfigError
    from groundspeed.service.usecases import configuration
    from groundspeed.service.wire.v1 import PluginSpec

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{file} cannot be read: {why}.", "`groundspeed init` writes one.") from None
    try:
        config = load(text, str(file))
        here = {entry.name: PluginSpec.model_validate(entry.as_dict()) for entry in load_catalogue()}
        wrong, unknown = configuration.misfits(config, here)
        if wrong:
            raise combined(text, str(file), wrong)
    except ConfigError as error:
        if len(error.parts) < 2:
            raise
        for part in error.parts:
            edge.complain(part)
        edge.complain(f"{file} has {len(error.parts)} mistakes. {error.advice}")
        raise typer.Exit(edge.FAILED) from None
    for name in sorted(set(unknown)):
        edge.complain(
            f"Plugin {name!r} is neither built in nor installed here, so its parameters were not checked. Its suites "
            "wait until a worker offers it."
        )
    if json:
        show_json(config)
    else:
        console().print(f"{file} is good: {counted(len(config.suite), 'suite')}.")


@config_app.command("schema")
def config_schema() -> None:
    """Print the JSON Schema of groundspeed.toml."""
    from groundspeed.service.config import json_schema

    show_json(json_schema())


@token_app.command("create")
def token_create(
    name: Annotated[str, typer.Argument(help="Who or what it is for.")],
    role: Annotated[str, typer.Option(help="viewer, triager, operator, admin or worker.")] = "viewer",
    node: Annotated[str | None, typer.Option(help="For a worker: the only node it speaks for.")] = None,
    project: Annotated[
        list[str] | None, typer.Option("--project", "-p", help="Only this project; may be given several times.")
    ] = None,
    scope: Annotated[
        list[str] | None, typer.Option(help="Only for this: read, triage, results, work or admin; may be repeated.")
    ] = None,
    days: Annotated[
        float | None, typer.Option(min=0.001, max=3660, help="Days until it ends; otherwise never.")
    ] = None,
    data: context.DataOption = None,
    json: context.JsonOption = False,
) -> None:
    """Make a token; it is shown once."""
    from datetime import UTC, datetime, timedelta

    from groundspeed.service.usecases import tokens

    now = datetime.now(UTC)
    ends = now + timedelta(days=days) if days is not None else None
    with context.database(context.settings_for(data)) as db:
        new = tokens.New(name, role, node, tuple(project or ()), ends, tuple(scope or ()))
        secret = tokens.create(db, new, now)
    if json:
        show_json({"name": name, "role": role, "node": node, "token": secret})
    else:
        sys.stdout.write(secret + "\n")


@token_app.command("revoke")
def token_revoke(name: str, data: context.DataOption = None, json: context.JsonOption = False) -> None:
    """End every token of that name."""
    from datetime import UTC, datetime

    from groundspeed.service.usecases import tokens

    with context.database(context.settings_for(data)) as db:
        count = tokens.revoke(db, name, datetime.now(UTC))
    if json:
        show_json({"name": name, "revoked": count})
    else:
        console().print(f"{counted(count, 'token')} revoked.")
