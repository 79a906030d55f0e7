"""Bodies are limited in size before anything reads them."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from groundspeed.service.api.problems import problem
from groundspeed.service.errors import TooLarge


class BodyLimit:
    """Refuses a body that is, or becomes, larger than ``max_bytes``; artefacts and webhooks have their own limits."""

    def __init__(self, app: ASGIApp, max_bytes: int, max_artefact_bytes: int, max_webhook_bytes: int = 0) -> None:
        self._app = app
        self._max_webhook = max_webhook_bytes or max_bytes
        self._max = max_bytes
        self._max_artefact = max_artefact_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        limit = self._max_artefact if "/artefacts/" in path else self._max
        if path.startswith("/webhooks/"):
            limit = self._max_webhook
        answer = problem(413, TooLarge.code, f"The body is larger than {limit} bytes.", "Send less at a time.")
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if length.isdigit() and int(length) > limit:
            await answer(scope, receive, send)
            return
        counter = _Counter(receive, send, limit)
        try:
            await self._app(scope, counter.receive, counter.send)
        except TooLarge:
            if not counter.exceeded:
                raise
        if counter.exceeded and not counter.started:
            await answer(scope, receive, send)


class _Counter:
    """Counts what is received. Once it is too much, what the application makes of the broken body is not sent."""

    def __init__(self, receive: Receive, send: Send, limit: int) -> None:
        self._receive, self._send, self._left = receive, send, limit
        self.exceeded = False
        self.started = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            self.exceeded = True
            raise TooLarge("The body is too large.", "Send less at a time.")
        return message

    async def send(self, message: Message) -> None:
        if self.exceeded and not self.started:
            return
        self.started = True
        await self._send(message)
