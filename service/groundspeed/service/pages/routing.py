"""How a page is answered: its headers, and errors as pages."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from groundspeed.service.api import problems
from groundspeed.service.errors import GroundspeedError, TooMany, Unauthorized
from groundspeed.service.pages import render
from groundspeed.service.wire.views import View

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'{style}; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
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
    text = render.render(template, model, path=request.url.path, theme=theme, me=me(request))
    return HTMLResponse(text, status_code=status, headers=page_headers())


def page_headers() -> dict[str, str]:
    policy = CONTENT_SECURITY_POLICY.format(style=render.assets().style_source())
    return {**HEADERS, "Content-Security-Policy": policy}


def me(request: Request) -> dict[str, str] | None:
    """Who is signed in, or that one could be; None where accounts have no meaning."""
    if not getattr(request.app.state, "providers", None):
        return None
    who = getattr(request.state, "who", None)
    return {"name": who.name, "role": who.role} if who is not None and who.kind == "account" else {"name": ""}


def _to_sign_in(request: Request) -> Response:
    """To the sign-in page, and from there back to here."""
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse("/sign-in?" + urlencode({"next": here}), 303, {"Cache-Control": "no-store"})


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
                asks = isinstance(error, Unauthorized) and "authorization" not in request.headers
                if asks and request.method == "GET" and request.app.state.providers:
                    return _to_sign_in(request)
                answer = problem(request, error.status, error.title, error.advice)
                if isinstance(error, TooMany):
                    answer.headers["Retry-After"] = str(error.retry_s)
                return answer
            except RequestValidationError as error:
                first = error.errors()[0]
                name = ".".join(str(part) for part in first["loc"][1:])
                return problem(request, 422, f"{name} in the address cannot be used: {first['msg']}.", "Correct it.")

        return handle
