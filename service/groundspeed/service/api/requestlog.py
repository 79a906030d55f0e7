"""Each request has an id, which its reply and every line logged for it carry; one line says how it went."""

from __future__ import annotations

import logging
import re
import time
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from groundspeed.service.api.metrics import Answered
from groundspeed.service.logformat import about
from groundspeed.service.tracing import span

log = logging.getLogger("groundspeed.requests")
_SUBJECT = re.compile(r"/(jobs|attempts|requests|workers)/([^/]+)")
_OURS = re.compile(r"^[A-Za-z0-9._-]{1,64}$")
_QUIET = ("/healthz", "/readyz", "/metrics", "/assets/")


class BrokenOffError(Exception):
    """An answer that was begun cannot be ended. Its connection is cut instead of closed: people see what there is and
    why there is no more, programs and proxies know that it is not whole.
    """


class RequestLog:
    """ASGI middleware; the outermost, so that refusals are logged too."""

    def __init__(self, app: ASGIApp, answered: Answered) -> None:
        self._app = app
        self._answered = answered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _OURS.match(given) else uuid.uuid4().hex[:16]
        status = 500

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
            await send(message)

        facts = {"request": request_id}
        if found := _SUBJECT.search(scope["path"]):
            facts[found[1].removesuffix("s")] = found[2]
        start = time.perf_counter()
        headers = Headers(scope=scope)
        with about(**facts), span(scope["method"], headers, **{f"groundspeed.{k}": v for k, v in facts.items()}) as one:
            try:
                await self._app(scope, receive, answer)
            except BrokenOffError:  # has been logged; the server cuts what it has not seen the end of
                status = 500
            finally:
                seconds = time.perf_counter() - start
                if one is not None:
                    one.update_name(f"{scope['method']} {_route(scope)}")
                    one.set_attribute("http.response.status_code", status)
                self._answered.note(scope["method"], _route(scope), status, seconds)
                _line(scope, status, seconds)


def _route(scope: Scope) -> str:
    """The pattern that matched; strangers' paths are all one."""
    return str(getattr(scope.get("route"), "path", "none"))


def _line(scope: Scope, status: int, seconds: float) -> None:
    quiet = status < 400 and (scope["path"].startswith(_QUIET) or scope["path"].endswith("/heartbeat"))
    level = logging.DEBUG if quiet else logging.WARNING if status >= 500 else logging.INFO
    facts = {"status": status, "ms": round(1000 * seconds, 1)}
    log.log(level, "%s %s", scope["method"], scope["path"], extra={"facts": facts})
