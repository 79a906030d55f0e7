"""Who asks, and whether they may: bearer tokens, or nobody in particular where only this machine can ask."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Path, Request

from groundspeed.service.control.wiring import Parts
from groundspeed.service.errors import Forbidden, Unauthorized
from groundspeed.service.usecases import tokens
from groundspeed.service.usecases.tokens import Principal

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1", "testserver"})


def parts_of(request: Request) -> Parts:
    """What the application was made with."""
    parts: Parts = request.app.state.parts
    return parts


PartsDep = Annotated[Parts, Depends(parts_of)]


def principal(request: Request, parts: PartsDep) -> Principal:
    """Whoever holds the bearer token; on a loopback-only service without tokens, the person at this machine.

    Raises :class:`Unauthorized` without a token where one is needed, :class:`Forbidden` when a page elsewhere made a
    browser ask a loopback service (its Host or Origin names another place).
    """
    header = request.headers.get("authorization", "")
    scheme, _, secret = header.partition(" ")
    if secret and scheme.lower() == "bearer":
        return tokens.authenticate(parts.database, secret.strip(), datetime.now(UTC))
    if not parts.settings.loopback:
        raise Unauthorized(
            "This service needs a token.", "Send `Authorization: Bearer …`; make one with: groundspeed token create"
        )
    _refuse_foreign(request, parts)
    return tokens.LOCAL


def _refuse_foreign(request: Request, parts: Parts) -> None:
    allowed = _LOOPBACK_NAMES | set(parts.settings.allowed_hosts)
    if (request.url.hostname or "") not in allowed:
        raise Forbidden(
            f"The host name {request.url.hostname!r} is not one this service answers to.",
            "Use 127.0.0.1, or name it in GROUNDSPEED_ALLOWED_HOSTS.",
        )
    origin = request.headers.get("origin")
    if origin and request.method not in {"GET", "HEAD"} and _host(origin) not in allowed:
        raise Forbidden("A page of another site asked for this.", "Ask from the service's own pages.")


def _host(origin: str) -> str:
    return urlsplit(origin).hostname or ""


PrincipalDep = Annotated[Principal, Depends(principal)]


def needs(role: str) -> Callable[[Principal], Principal]:
    """A dependency that lets only this role (or a higher one) through."""

    def check(who: PrincipalDep) -> Principal:
        who.require(role)
        return who

    return check


Worker = Annotated[Principal, Depends(needs("worker"))]
Viewer = Annotated[Principal, Depends(needs("viewer"))]
Operator = Annotated[Principal, Depends(needs("operator"))]


Id = Annotated[int, Path(ge=0, lt=2**31)]
"""A job's or a request's number."""


def now() -> datetime:
    """The time of a request, read once at the edge."""
    return datetime.now(UTC)


Now = Annotated[datetime, Depends(now)]
