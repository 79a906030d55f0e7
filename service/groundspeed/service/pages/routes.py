"""Pages: each is a template over the model that the reading route of the same name sends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from groundspeed.service.api import reference
from groundspeed.service.api.access import PrincipalDep, needs
from groundspeed.service.api.routes.loaders import Db, InParts, load_graph
from groundspeed.service.api.routes.reach import project_of_path, within
from groundspeed.service.api.routes.views import VIEWS, ViewRoute, takes_gzip, with_etag
from groundspeed.service.errors import NotFound
from groundspeed.service.pages import actions, campaigns, channels, feed, people, render, streamed, svg
from groundspeed.service.pages.routing import HEADERS, PageRoute, page
from groundspeed.service.usecases.views import findings
from groundspeed.service.wire.views import Graph, View

_ONE_YEAR = 31_536_000


def _endpoint(view: ViewRoute) -> Callable[..., Response]:
    if view.in_parts is not None:
        return _endpoint_in_parts(view, view.in_parts)

    def endpoint(request: Request, who: PrincipalDep, model: View = Depends(view.load)) -> Response:  # noqa: B008 - how FastAPI is told
        return with_etag(request, page(request, view.template, within(who, model)))

    return endpoint


def _endpoint_in_parts(view: ViewRoute, load: Callable[..., InParts]) -> Callable[..., Response]:
    def endpoint(request: Request, who: PrincipalDep, parts: InParts = Depends(load)) -> Response:  # noqa: B008 - how FastAPI is told
        within(who, parts.head)
        return streamed.page(request, view.template, parts)

    return endpoint


router = APIRouter(route_class=PageRoute, include_in_schema=False)
router.include_router(actions.router)
router.include_router(campaigns.router)
router.include_router(people.router)
router.include_router(channels.router)
public = APIRouter(route_class=PageRoute, include_in_schema=False)
"""What a page needs that asks who somebody is."""
for _view in VIEWS:
    router.add_api_route(
        _view.page or _view.path,
        _endpoint(_view),
        name=f"page_{_view.load.__name__}",
        methods=["GET"],
        dependencies=[Depends(needs(_view.role)), Depends(project_of_path)],
    )


@router.get("/projects/{slug}/graph.svg", dependencies=[Depends(project_of_path)])
def graph_svg(shown: Annotated[Graph, Depends(load_graph)]) -> Response:
    """The graph as a picture that stands on its own."""
    text = svg.standalone(shown)
    headers = {**HEADERS, "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
    headers["Content-Disposition"] = f'attachment; filename="{shown.project.slug}.svg"'
    return Response(text, media_type="image/svg+xml", headers=headers)


@router.get("/projects/{slug}/regressions.atom", dependencies=[Depends(project_of_path)])
def regressions_feed(request: Request, slug: str, db: Db) -> Response:
    """The newest regressions, for readers of feeds (which send a token as the password)."""
    shown = findings.regression_list(db, slug, kind="regression", state="all")
    body = feed.atom(shown, request.app.state.settings.base_url)
    return with_etag(request, Response(body, media_type="application/atom+xml"))


@public.get("/docs")
def api_reference(request: Request) -> Response:
    """What programs may ask."""
    return with_etag(request, page(request, "docs.html", reference.page(request.app)))


@public.get("/assets/{name}")
def asset(request: Request, name: str) -> Response:
    """A built file. Names carry a hash of the content, so that they may be kept for ever."""
    found = render.assets().read(name, gzip=takes_gzip(request))
    if found is None:
        raise NotFound(
            f"There is no asset {name!r}.", "The page that asked for it is older than the service: reload it."
        )
    body, media, packed = found
    headers = {"Cache-Control": f"public, max-age={_ONE_YEAR}, immutable", "Vary": "Accept-Encoding"}
    headers["X-Content-Type-Options"] = "nosniff"
    if packed:
        headers["Content-Encoding"] = "gzip"
    return Response(body, media_type=media, headers=headers)
