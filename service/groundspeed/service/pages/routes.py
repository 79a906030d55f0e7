"""Pages: each is a template over the model that the reading route of the same name sends."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute

from groundspeed.service.api.access import PrincipalDep
from groundspeed.service.api.routes.loaders import load_graph
from groundspeed.service.api.routes.reach import project_of_path, within
from groundspeed.service.api.routes.views import VIEWS, ViewRoute, with_etag
from groundspeed.service.errors import GroundspeedError, NotFound
from groundspeed.service.pages import render, svg
from groundspeed.service.wire.views import Graph, View

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Vary": "Cookie",
}
_ONE_YEAR = 31_536_000


class Problem(View):
    """What an error page says."""

    status: int
    title: str
    advice: str


def page(request: Request, template: str, model: View, status: int = 200) -> Response:
    """The page of a model, with its headers."""
    theme = request.cookies.get("theme", "auto")
    text = render.render(template, model, path=request.url.path, theme=theme)
    return HTMLResponse(text, status_code=status, headers=HEADERS)


def problem(request: Request, status: int, title: str, advice: str = "") -> Response:
    """An error as a page; the application's own handlers may use it for addresses that no route knows."""
    return page(request, "error.html", Problem(status=status, title=title, advice=advice), status)


class PageRoute(APIRoute):
    """A route whose errors are pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await handler(request)
            except GroundspeedError as error:
                return problem(request, error.status, error.title, error.advice)
            except RequestValidationError as error:
                first = error.errors()[0]
                name = ".".join(str(part) for part in first["loc"][1:])
                return problem(request, 422, f"{name} in the address cannot be used: {first['msg']}.", "Correct it.")

        return handle


def _endpoint(view: ViewRoute) -> Callable[..., Response]:
    def endpoint(request: Request, who: PrincipalDep, model: View = Depends(view.load)) -> Response:  # noqa: B008 - how FastAPI is told
        return with_etag(request, page(request, view.template, within(who, model)))

    return endpoint


router = APIRouter(route_class=PageRoute, include_in_schema=False)
for _view in VIEWS:
    router.add_api_route(
        _view.page or _view.path, _endpoint(_view), name=f"page_{_view.load.__name__}", methods=["GET"]
    )


@router.get("/projects/{slug}/graph.svg", dependencies=[Depends(project_of_path)])
def graph_svg(shown: Annotated[Graph, Depends(load_graph)]) -> Response:
    """The graph as a picture that stands on its own."""
    text = svg.standalone(shown)
    headers = {**HEADERS, "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
    headers["Content-Disposition"] = f'attachment; filename="{shown.project.slug}.svg"'
    return Response(text, media_type="image/svg+xml", headers=headers)


@router.get("/assets/{name}")
def asset(request: Request, name: str) -> Response:
    """A built file. Names carry a hash of the content, so that they may be kept for ever."""
    found = render.assets().read(name, gzip="gzip" in request.headers.get("accept-encoding", ""))
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
