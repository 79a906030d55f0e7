"""Headers that every answer has, whatever made it; a page's own stand."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_NOT_MODIFIED = 304
_HTTPS = {"Strict-Transport-Security": "max-age=31536000"}


class SafeHeaders:
    """ASGI middleware. ``https``: browsers are told to come back by https alone."""

    def __init__(self, app: ASGIApp, *, https: bool) -> None:
        self._app = app
        self._headers = {**ALWAYS, **(_HTTPS if https else {})}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def answer(message: Message) -> None:
            # A browser lets the headers of a 304 replace those that came with what it has kept.
            if message["type"] == "http.response.start" and message["status"] != _NOT_MODIFIED:
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, answer if scope["type"] == "http" else send)
