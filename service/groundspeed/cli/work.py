"""``groundspeed status``, ``job``, ``node``: what runs and waits, who is there, and steering it by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import typer

from groundspeed.cli import context
from groundspeed.cli.output import console, counted, report_done, show_json, table

job_app = typer.Typer(no_args_is_help=True, help="Jobs: what waits and runs, cancel, retry, reprioritise.")
node_app = typer.Typer(no_args_is_help=True, help="Nodes: who is there, drain, quarantine, take back.")
ACTOR = "local"
Job = Annotated[int, typer.Argument(min=1, max=2**31 - 1, help="Number of the job.")]
Node = Annotated[str, typer.Argument(help="Name of the node.")]
Reason = Annotated[str, typer.Option(help="Why, for its page and the audit log.")]


class State(StrEnum):
    """States of a job."""

    queued = "queued"
    running = "running"
    done = "done"
    failed = "failed"
    cancelled = "cancelled"
    poison = "poison"


def status(data: context.DataOption = None, json: context.JsonOption = False) -> None:
    """Nodes, queues and ages, what has gone silent, and whether Groundspeed runs on this folder."""
    from groundspeed.cli import instance
    from groundspeed.service.usecases import nodes
    from groundspeed.service.usecases.pulse import pulse

    settings = context.settings_for(data)
    now = datetime.now(UTC)
    with context.database(settings) as db:
        seen = pulse(db, now, settings.node_silent_s, settings.series_silent_days)
        found = nodes.listed(db)
    facts = instance.running(settings.data_dir)
    if json:
        show_json({"running": facts, "pulse": seen, "nodes": found})
        return
    out = console()
    if settings.database_url:
        out.print(f"on the database of {settings.base_url}")
    else:
        out.print(f"running at {facts.get('url', '?')}" if facts else f"not running on {settings.data_dir}")
    rows = [(f"jobs {state}", str(n)) for state, n in sorted(seen.jobs.items())]
    rows += [(f"waiting for pool {pool}", str(n)) for pool, n in sorted(seen.waiting.items())]
    rows += [(f"slots of pool {pool}", str(n)) for pool, n in sorted(seen.slots.items())]
    rows += [(f"runs of the last hour, {outcome}", str(n)) for outcome, n in sorted(seen.runs.items())]
    rows += [
        ("oldest waiting job", _age(seen.oldest_queued_s)),
        ("unsent messages", str(seen.unsent_messages)),
        ("series to be analysed", str(seen.unanalysed_series)),
    ]
    out.print(table(("what", "how many"), rows, right=("how many",)))
    if found:
        out.print(_nodes(found, now))
    for pool, age in seen.silence.pools.items():
        out.print(f"Pool {pool} is silent: no sign of life for {_age(age)}.")
    for project, count in seen.silence.series.items():
        out.print(f"{count} series of {project} have brought no results though there are newer commits.")


@job_app.command("list")
def job_list(
    state: Annotated[list[State] | None, typer.Option(help="Only these; otherwise what waits and runs.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = 50,
    data: context.DataOption = None,
    json: context.JsonOption = False,
) -> None:
    """Jobs in the order of the queue."""
    from groundspeed.service.usecases import jobs

    with context.database(context.settings_for(data)) as db:
        found = jobs.listed(db, tuple(state or (State.queued, State.running)), limit)
    if json:
        show_json(found)
        return
    heads = ("job", "state", "priority", "project", "what", "attempts", "error")
    rows = [
        (str(j.id), j.state, str(j.priority), j.project, j.key, f"{j.attempts}/{j.max_attempts}", j.error[:100])
        for j in found
    ]
    if rows:
        console().print(table(heads, rows, right=("job", "priority")))
    else:
        console().print("No job is in that state." if state else "No job waits or runs; --state done lists others.")


@job_app.command("show")
def job_show(job: Job, data: context.DataOption = None, json: context.JsonOption = False) -> None:
    """What a job is and how it fares; of one that waits its place, and an honest range for when it is done."""
    from groundspeed.service.usecases import outlook
    from groundspeed.service.usecases.views import work

    settings = context.settings_for(data)
    with context.database(settings) as db:
        found = outlook.of_job(db, job, datetime.now(UTC), settings.node_silent_s)
        page = None if json else work.job_page(db, job)
    if page is None:
        show_json(found)
        return
    row = page.row
    commits = " against ".join(f"{one.sha[:10]} {one.title}".strip() for one in row.revisions)
    lines = [f"Job {job} is {found.state}: {row.suite} of {row.project.slug} at {commits}."]
    if page.attempts:
        lines.append(f"Attempt {row.attempts} of {row.max_attempts}, on {page.attempts[-1].node or row.node}.")
    lines += [f"run {run.id}: {run.key} {run.outcome} in {run.duration_s or 0:.1f} s" for run in page.runs]
    lines += [row.error] if row.error else []
    if found.ahead is not None:
        lines.append(f"{found.ahead} jobs go first; {found.slots} can run at a time.")
    if found.earliest is not None and found.latest is not None:
        lines.append(f"Done between {found.earliest:%Y-%m-%d %H:%M} and {found.latest:%Y-%m-%d %H:%M} UTC.")
    console().print("\n".join([*lines, *([found.why] if found.why else [])]), markup=False)


@job_app.command("cancel")
def job_cancel(
    job: Job, reason: Reason = "by hand", data: context.DataOption = None, json: context.JsonOption = False
) -> None:
    """Stop a job that waits or runs; its worker hears of it at its next sign of life."""
    from groundspeed.service.usecases import jobs

    with context.database(context.settings_for(data)) as db:
        jobs.cancel(db, job, datetime.now(UTC), actor=ACTOR, reason=reason)
    report_done(f"Job {job} is cancelled.", json, job=job, state="cancelled")


@job_app.command("retry")
def job_retry(job: Job, data: context.DataOption = None, json: context.JsonOption = False) -> None:
    """Queue a job again that failed, was given up or was cancelled; what it has delivered is kept."""
    from groundspeed.service.usecases import jobs

    with context.database(context.settings_for(data)) as db:
        jobs.retry(db, job, datetime.now(UTC), actor=ACTOR)
    report_done(f"Job {job} waits again.", json, job=job, state="queued")


@job_app.command("priority")
def job_priority(
    job: Job,
    priority: Annotated[int, typer.Argument(help="0 goes first, 99 last; a pull request has 10, a push 30.")],
    data: context.DataOption = None,
    json: context.JsonOption = False,
) -> None:
    """Move a waiting job in the queue."""
    from groundspeed.service.usecases import jobs

    with context.database(context.settings_for(data)) as db:
        jobs.reprioritise(db, job, priority, datetime.now(UTC), actor=ACTOR)
    report_done(f"Job {job} has priority {priority}.", json, job=job, priority=priority)


@job_app.command("cancel-request")
def request_cancel(
    request: Annotated[int, typer.Argument(min=1, max=2**31 - 1, help="Number of the request.")],
    reason: Reason = "by hand",
    data: context.DataOption = None,
    json: context.JsonOption = False,
) -> None:
    """Stop everything that is open of one request."""
    from groundspeed.service.usecases import requests

    with context.database(context.settings_for(data)) as db:
        count = requests.cancel(db, request, datetime.now(UTC), actor=ACTOR, reason=reason)
    report_done(f"{counted(count, 'job')} of request {request} cancelled.", json, request=request, cancelled=count)


@node_app.command("list")
def node_list(data: context.DataOption = None, json: context.JsonOption = False) -> None:
    """Every node with its pool, state and age of its last sign of life."""
    from groundspeed.service.usecases import nodes

    with context.database(context.settings_for(data)) as db:
        found = nodes.listed(db)
    if json:
        show_json(found)
        return
    console().print(_nodes(found, datetime.now(UTC)))


@node_app.command("drain")
def node_drain(
    node: Node, reason: Reason = "", data: context.DataOption = None, json: context.JsonOption = False
) -> None:
    """Take no more jobs; those that run are finished."""
    _set(node, "draining", reason, data, json)


@node_app.command("quarantine")
def node_quarantine(
    node: Node, reason: Reason = "", data: context.DataOption = None, json: context.JsonOption = False
) -> None:
    """Its results are in doubt: it takes no jobs until it is taken back."""
    _set(node, "quarantined", reason, data, json)


@node_app.command("activate")
def node_activate(node: Node, data: context.DataOption = None, json: context.JsonOption = False) -> None:
    """Take it back."""
    _set(node, "active", "", data, json)


def _set(node: str, state: str, reason: str, data: context.DataOption, json: bool) -> None:
    from groundspeed.service.usecases import nodes

    with context.database(context.settings_for(data)) as db:
        nodes.set_state(db, node, state, datetime.now(UTC), actor=ACTOR, reason=reason)
    report_done(f"{node} is {state}.", json, node=node, state=state)


def _nodes(found: Any, now: datetime) -> Any:
    heads = ("node", "pool", "state", "slots", "heard", "version", "why")
    rows = [
        (
            node.name,
            node.pool,
            node.state,
            f"{node.busy}/{node.slots}",
            f"{_age((now - node.seen_at).total_seconds())} ago" if node.seen_at else "never",
            node.worker_version,
            node.state_reason,
        )
        for node in found
    ]
    return table(heads, rows)


def _age(seconds: float) -> str:
    if seconds < 120:
        return f"{max(seconds, 0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
