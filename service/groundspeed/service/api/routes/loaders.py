"""From a request to the model of a view: what each reading route and each page depends on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Literal

from fastapi import Depends, Query, Request

from groundspeed.service.api.access import Now, PartsDep, PrincipalDep
from groundspeed.service.db.engine import Database
from groundspeed.service.errors import Invalid
from groundspeed.service.usecases.views import channels as channels_view
from groundspeed.service.usecases.views import compare as compare_view
from groundspeed.service.usecases.views import (
    findings,
    fleet,
    graph,
    grid,
    overview,
    people,
    revision,
    runs,
    search,
    work,
)
from groundspeed.service.wire import views as v

Cursor = Annotated[str, Query(max_length=20, pattern=r"^\d*$", description="next_cursor of the page before")]
Position = Annotated[int | None, Query(ge=0, le=10**9)]


async def database(request: Request) -> Database:
    """The database that the application was made with."""
    db: Database = request.app.state.db
    return db


Db = Annotated[Database, Depends(database)]
_RESERVED = {"q", "sort", "cursor", "limit"}


def load_projects(db: Db, now: Now) -> v.ProjectList:
    return overview.project_list(db, now)


def load_overview(db: Db, now: Now, slug: str) -> v.Overview:
    return overview.overview(db, slug, now)


def load_grid(
    request: Request,
    db: Db,
    slug: str,
    q: Annotated[str, Query(max_length=200)] = "",
    sort: Literal["name", "change", "noise", "recent"] = "name",
    cursor: Cursor = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> v.Grid:
    """Any other query parameter is a facet: suite, metric, hardware, or the name of a benchmark's parameter."""
    facets = {name: value for name, value in request.query_params.items() if name not in _RESERVED and value}
    query = grid.GridQuery(text=q, facets=facets, sort=sort, offset=int(cursor or 0), limit=limit)
    return grid.grid(db, slug, query, echo(request))


def graph_part(
    low: Annotated[Position, Query(alias="from")] = None,
    high: Annotated[Position, Query(alias="to")] = None,
    points: Annotated[int | None, Query(ge=50, le=20_000)] = None,
    pins: Annotated[
        str, Query(max_length=200, description="at most two commits to mark, by their hashes, separated by commas")
    ] = "",
) -> graph.GraphQuery:
    """What of the series a graph shows, and what it marks."""
    marked = tuple(filter(None, (sha.strip() for sha in pins.split(","))))[:2]
    return graph.GraphQuery((), low or 0, high, points, marked)


Part = Annotated[graph.GraphQuery, Depends(graph_part)]


def load_graph(
    request: Request,
    db: Db,
    slug: str,
    series: Annotated[
        str, Query(max_length=600, description="ids, separated by commas; an empty one keeps a colour free")
    ],
    part: Part,
) -> v.Graph:
    return graph.graph(db, slug, replace(part, series=series_ids(series)), echo(request))


def load_series(
    request: Request,
    db: Db,
    slug: str,
    series_id: int,
    part: Part,
) -> v.Graph:
    return graph.graph(db, slug, replace(part, series=(small_id(series_id),)), echo(request))


@dataclass(frozen=True, slots=True)
class InParts:
    """A page's head, which is known at once and says that there is such a page, and how all of it is loaded."""

    head: v.View
    whole: Callable[[], v.View]


def load_graph_in_parts(
    request: Request,
    db: Db,
    slug: str,
    series: Annotated[str, Query(max_length=600)],
    part: Part,
) -> InParts:
    query, asked = replace(part, series=series_ids(series)), echo(request)
    return InParts(graph.head(db, slug, query, asked), partial(graph.graph, db, slug, query, asked))


def load_series_in_parts(request: Request, db: Db, slug: str, series_id: int, part: Part) -> InParts:
    query, asked = replace(part, series=(small_id(series_id),)), echo(request)
    return InParts(graph.head(db, slug, query, asked), partial(graph.graph, db, slug, query, asked))


def load_revision_in_parts(db: Db, slug: str, sha: str) -> InParts:
    return InParts(revision.head(db, slug, sha), partial(revision.revision_page, db, slug, sha))


def load_regressions(
    db: Db,
    slug: str,
    kind: Literal["regression", "improvement", "change", "all"] = "regression",
    state: Literal[
        "open",
        "all",
        "new",
        "acknowledged",
        "in-progress",
        "accepted",
        "false-alarm",
        "fixed",
        "recovered",
        "withdrawn",
        "merged",
        "ignored",
    ] = "open",
    cursor: Cursor = "",
) -> v.RegressionList:
    return findings.regression_list(db, slug, kind=kind, state=state, below=before(cursor))


def load_regression(db: Db, slug: str, regression_id: int) -> v.RegressionDetail:
    return findings.regression_detail(db, slug, small_id(regression_id))


def load_revision(db: Db, slug: str, sha: str) -> v.RevisionPage:
    return revision.revision_page(db, slug, sha)


def load_compare(
    request: Request,
    db: Db,
    slug: str,
    base: Annotated[str, Query(max_length=200)] = "",
    head: Annotated[str, Query(max_length=200)] = "",
    by: Literal["revision", "environment", "node", "run"] = "revision",
) -> v.Compare:
    return compare_view.compare(db, slug, compare_view.CompareQuery(base.strip(), head.strip(), by), echo(request))


def load_project_activity(db: Db, slug: str, cursor: Cursor = "") -> v.Activity:
    return work.activity(db, slug, before(cursor))


def load_activity(db: Db, cursor: Cursor = "") -> v.Activity:
    return work.activity(db, None, before(cursor))


def load_request(db: Db, request_id: int) -> v.RequestPage:
    return work.request_page(db, small_id(request_id))


def load_job(db: Db, job_id: int) -> v.JobPage:
    return work.job_page(db, small_id(job_id))


def load_run(db: Db, run_id: int) -> v.RunPage:
    return runs.run_page(db, small_id(run_id))


def load_fleet(db: Db, now: Now) -> v.Fleet:
    return fleet.fleet(db, now)


def load_node(db: Db, now: Now, name: str) -> v.NodePage:
    return fleet.node_page(db, name, now)


def load_search(db: Db, q: Annotated[str, Query(max_length=200)] = "") -> v.SearchResults:
    return search.search(db, q)


def load_me(db: Db, who: PrincipalDep, now: Now) -> v.Me:
    return people.me(db, who, now)


def load_accounts(db: Db, now: Now) -> v.AccountList:
    return people.account_list(db, now)


def load_audit(
    request: Request,
    db: Db,
    actor: Annotated[str, Query(max_length=200)] = "",
    subject: Annotated[str, Query(max_length=40)] = "",
    cursor: Cursor = "",
) -> v.AuditPage:
    return people.audit_page(db, actor=actor, subject=subject, below=before(cursor), query=echo(request))


def load_channels(db: Db, parts: PartsDep) -> v.ChannelList:
    return channels_view.channel_list(db, mail=bool(parts.settings.smtp_url.get_secret_value()))


def echo(request: Request) -> dict[str, str]:
    """The query as it was asked, so that a page can link to itself with one thing changed."""
    return dict(list(request.query_params.items())[:40])


def small_id(value: int) -> int:
    """Raises Invalid for what no key can be (databases refuse integers of more than 63 bits)."""
    if not 0 <= value < 2**63:
        raise Invalid(f"{value} cannot be an id.", "Ids are positive and have at most 19 digits.")
    return value


def before(cursor: str) -> int | None:
    return small_id(int(cursor)) if cursor else None


def series_ids(text: str) -> tuple[int, ...]:
    """Ids of a comma-separated list, each once; raises Invalid for anything else."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and (part.isdigit() or not part) for part in parts):
        raise Invalid(f"series={text[:80]!r} is not a list of ids.", "Write ids separated by commas: series=12,15.")
    return tuple(dict.fromkeys(small_id(int(part)) for part in parts if part))
