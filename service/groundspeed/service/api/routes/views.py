"""Reading routes: everything that a page shows, as JSON. Pages are made from the same table of views.

``GET /api/v1/X`` answers with the model from which the page ``/X`` is rendered. Every reply carries an ETag.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass

from fastapi import APIRouter, Depends, Request, Response

from groundspeed.service.api.access import PrincipalDep, needs
from groundspeed.service.api.routes import campaigns, exports, live, loaders, pulls, triage
from groundspeed.service.api.routes.reach import project_of_path, within
from groundspeed.service.wire import campaigns as w
from groundspeed.service.wire import pulls as p
from groundspeed.service.wire import views as v


@dataclass(frozen=True, slots=True)
class ViewRoute:
    """A view: the API's path below /api/v1 (and the page's, unless ``page`` says otherwise), loader, template."""

    path: str
    load: Callable[..., v.View]
    model: type[v.View]
    template: str
    page: str = ""
    role: str = "viewer"
    """Who may see it."""
    in_parts: Callable[..., loaders.InParts] | None = None
    """For pages that take long: how their head is loaded before the rest."""


VIEWS: tuple[ViewRoute, ...] = (
    ViewRoute("/projects", loaders.load_projects, v.ProjectList, "projects.html", "/"),
    ViewRoute("/projects/{slug}", loaders.load_overview, v.Overview, "overview.html"),
    ViewRoute("/projects/{slug}/benchmarks", loaders.load_grid, v.Grid, "grid.html"),
    ViewRoute(
        "/projects/{slug}/graph", loaders.load_graph, v.Graph, "graph.html", in_parts=loaders.load_graph_in_parts
    ),
    ViewRoute(
        "/projects/{slug}/series/{series_id}",
        loaders.load_series,
        v.Graph,
        "graph.html",
        in_parts=loaders.load_series_in_parts,
    ),
    ViewRoute("/projects/{slug}/regressions", loaders.load_regressions, v.RegressionList, "regressions.html"),
    ViewRoute(
        "/projects/{slug}/regressions/{regression_id}", loaders.load_regression, v.RegressionDetail, "regression.html"
    ),
    ViewRoute(
        "/projects/{slug}/commits/{sha}",
        loaders.load_revision,
        v.RevisionPage,
        "commit.html",
        in_parts=loaders.load_revision_in_parts,
    ),
    ViewRoute("/projects/{slug}/compare", loaders.load_compare, v.Compare, "compare.html"),
    ViewRoute("/projects/{slug}/runs", loaders.load_project_activity, v.Activity, "activity.html"),
    ViewRoute("/runs", loaders.load_activity, v.Activity, "activity.html"),
    ViewRoute("/requests/{request_id}", loaders.load_request, v.RequestPage, "request.html"),
    ViewRoute("/jobs/{job_id}", loaders.load_job, v.JobPage, "job.html"),
    ViewRoute("/runs/{run_id}", loaders.load_run, v.RunPage, "run.html"),
    ViewRoute("/fleet", loaders.load_fleet, v.Fleet, "fleet.html"),
    ViewRoute("/fleet/{name:path}", loaders.load_node, v.NodePage, "node.html"),
    ViewRoute("/projects/{slug}/stragglers", campaigns.load_stragglers, w.Stragglers, "stragglers.html"),
    ViewRoute("/projects/{slug}/pulls", pulls.load_pulls, p.PullList, "pulls.html"),
    ViewRoute("/projects/{slug}/pulls/{number}", pulls.load_pull, p.PullPage, "pull.html"),
    ViewRoute("/campaigns", campaigns.load_campaigns, w.CampaignList, "campaigns.html"),
    ViewRoute("/campaigns/{name}", campaigns.load_campaign, w.CampaignPage, "campaign.html"),
    ViewRoute("/search", loaders.load_search, v.SearchResults, "search.html"),
    ViewRoute("/account", loaders.load_me, v.Me, "account.html"),
    ViewRoute("/accounts", loaders.load_accounts, v.AccountList, "accounts.html", role="admin"),
    ViewRoute("/channels", loaders.load_channels, v.ChannelList, "channels.html", role="admin"),
    ViewRoute("/audit", loaders.load_audit, v.AuditPage, "audit.html", role="admin"),
)


PACK_FROM = 2000
"""Bytes from which an answer is packed."""
_NO_WEIGHT = re.compile(r"q\s*=\s*0(\.0*)?")


def with_etag(request: Request, response: Response) -> Response:
    """The response, or 304 when the client has just that."""
    tag = f'W/"{hashlib.sha256(response.body).hexdigest()[:24]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if tag in {part.strip() for part in request.headers.get("if-none-match", "").split(",")}:
        return Response(status_code=304, headers=headers)
    response.headers.update(headers)
    return _packed(request, response)


def takes_gzip(request: Request) -> bool:
    """Whether the client names gzip, and not with a weight of nothing."""
    for part in request.headers.get("accept-encoding", "").lower().split(","):
        name, _, weight = part.partition(";")
        if name.strip() == "gzip":
            return not _NO_WEIGHT.fullmatch(weight.strip())
    return False


def _packed(request: Request, response: Response) -> Response:
    """Gzipped when it is long and the client takes that; level 4 costs a millisecond where 9 costs five."""
    vary = ", ".join(filter(None, [response.headers.get("vary", ""), "Accept-Encoding"]))
    response.headers["Vary"] = vary
    body = bytes(response.body)
    if len(body) > PACK_FROM and takes_gzip(request):
        response.body = gzip.compress(body, 4, mtime=0)
        response.headers["Content-Encoding"] = "gzip"
        response.headers["Content-Length"] = str(len(response.body))
    return response


def _endpoint(view: ViewRoute) -> Callable[..., Response]:
    def endpoint(request: Request, who: PrincipalDep, model: v.View = Depends(view.load)) -> Response:  # noqa: B008 - how FastAPI is told
        return with_etag(request, Response(within(who, model).model_dump_json(), media_type="application/json"))

    return endpoint


router = APIRouter(prefix="/api/v1", tags=["views"])
router.include_router(exports.router)
router.include_router(live.router)
router.include_router(triage.router)
router.include_router(campaigns.router)
for _view in VIEWS:
    router.add_api_route(
        _view.path,
        _endpoint(_view),
        response_model=_view.model,
        name=_view.load.__name__,
        summary=f"What the page {_view.page or _view.path} shows.",
        methods=["GET"],
        dependencies=[Depends(needs(_view.role)), Depends(project_of_path)],
    )
