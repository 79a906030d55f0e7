"""Bodies are limited in size before anything reads them."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from groundspeed.service.api.problems import problem
from groundspeed.service.errors import TooLarge


class BodyLimit:
    """Refuses a body that is, or becomes, larger than ``max_bytes``; artefacts have a limit of their own."""

    def __init__(self, app: ASGIApp, max_bytes: int, max_artefact_bytes: int) -> None:
        self._app = app
        self._max = max_bytes
        self._max_artefact = max_artefact_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._max_artefact if "/artefacts/" in scope["path"] else self._max
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > limit:
                raise TooLarge(f"The body is larger than {limit} bytes.", "Send less at a time.")
            return message

        length = dict(scope["headers"]).get(b"content-length", b"0")
        if length.isdigit() and int(length) > limit:
            answer = problem(413, TooLarge.code, f"The body is larger than {limit} bytes.", "Send less at a time.")
            await answer(scope, receive, send)
            return
        await self._app(scope, counted, send)
