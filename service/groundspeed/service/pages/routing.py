"""How a page is answered: its headers, and errors as pages."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from groundspeed.service.api import problems
from groundspeed.service.errors import GroundspeedError
from groundspeed.service.pages import render
from groundspeed.service.wire.views import View

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


async def unknown(request: Request, error: Exception) -> Response:
    """What the framework refuses (no such address, no such method): a page, or for programs a problem."""
    assert isinstance(error, HTTPException)
    if request.url.path.startswith("/api/"):
        return problems.problem(error.status_code, "http", str(error.detail), "See /docs for what there is.")
    if error.status_code == 404:
        return problem(request, 404, "There is nothing at this address.", "It may have been mistyped or have moved.")
    return problem(request, error.status_code, f"{error.detail}.", "")


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
