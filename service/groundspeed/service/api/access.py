"""Who asks, and whether they may: a token, a browser that is signed in, the person at this machine, or anybody."""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Depends, Path, Request
from fastapi.concurrency import run_in_threadpool

from groundspeed.service.addresses import apart
from groundspeed.service.api.auth import cookies
from groundspeed.service.api.auth.origin import SAFE, same_origin
from groundspeed.service.control.wiring import Parts
from groundspeed.service.errors import Forbidden, Unauthorized
from groundspeed.service.usecases import accounts, principals, tokens
from groundspeed.service.usecases.principals import Principal

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1", "testserver"})
_FORWARDED = ("x-forwarded-for", "forwarded", "x-real-ip")


async def parts_of(request: Request) -> Parts:
    """What the application was made with."""
    parts: Parts = request.app.state.parts
    return parts


PartsDep = Annotated[Parts, Depends(parts_of)]


async def principal(request: Request, parts: PartsDep) -> Principal:
    """Whoever holds the bearer token, is signed in with this browser, or sits at this machine; anybody where reading is
    open.

    Raises :class:`Unauthorized` when nobody is known and somebody is needed, :class:`Forbidden` when a page of another
    site made a browser ask.
    """
    if _asks_the_database(request, parts):
        who = await run_in_threadpool(_known, request, parts)
    else:  # another thread would cost more than the answer
        who = _known(request, parts)
    request.state.who = who
    return who


def _asks_the_database(request: Request, parts: Parts) -> bool:
    return "authorization" in request.headers or bool(parts.settings.sign_in)


def _known(request: Request, parts: Parts) -> Principal:
    now = datetime.now(UTC)
    if secret := _token(request):
        return tokens.authenticate(parts.database, secret, now)
    if parts.settings.sign_in and (cookie := cookies.session_of(request, parts.settings)):
        if request.method not in SAFE:
            same_origin(request)
        if (person := accounts.signed_in(parts.database, cookie, now)) is not None:
            return _reading(person, open_=parts.settings.read_access == "open")
    if parts.settings.local and _from_here(request):
        _refuse_foreign(request, parts)
        return principals.LOCAL
    if parts.settings.read_access == "open":
        return principals.ANONYMOUS
    raise Unauthorized("This service asks who you are.", _how_to_say_it(request, parts))


def _how_to_say_it(request: Request, parts: Parts) -> str:
    """What whoever sent this can do: a worker, a person, a program."""
    if request.url.path.startswith("/api/v1/workers/"):
        return (
            "Make this node a token where the service runs (`groundspeed token create NODE --role worker --node NODE`) "
            "and set GROUNDSPEED_WORKER_TOKEN to it."
        )
    programs = "`Authorization: Bearer …`; make a token: groundspeed token create NAME --role viewer"
    if parts.settings.sign_in:
        return f"Sign in, or send {programs}"
    return (
        f"Programs send {programs}. For people, whoever runs the service sets up sign-in or "
        "GROUNDSPEED_READ_ACCESS=open (docs/accounts.md)."
    )


def _reading(person: Principal, *, open_: bool) -> Principal:
    """Where anybody may read, a person without a role may, too."""
    return replace(person, role="viewer") if open_ and person.role == "none" else person


def _token(request: Request) -> str:
    """A bearer token, or the password of basic authentication, which is all that readers of feeds can send."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return given.strip()
    if scheme.lower() == "basic" and request.method in SAFE:
        try:
            return base64.b64decode(given.strip(), validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            raise Unauthorized("This is no basic authentication.", "Send the token as the password.") from None
    return ""


def _from_here(request: Request) -> bool:
    """Whether the request comes from this machine itself, and not through a proxy on it."""
    if any(name in request.headers for name in _FORWARDED):
        return False
    try:
        return request.client is not None and ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False


def _refuse_foreign(request: Request, parts: Parts) -> None:
    allowed = _LOOPBACK_NAMES | set(parts.settings.allowed_hosts)
    if (request.url.hostname or "") not in allowed:
        raise Forbidden(
            f"The host name {request.url.hostname!r} is not one this service answers to.",
            "Use 127.0.0.1, or name it in GROUNDSPEED_ALLOWED_HOSTS.",
        )
    origin = request.headers.get("origin")
    if origin and request.method not in SAFE and _host(origin) not in allowed:
        raise Forbidden("A page of another site asked for this.", "Ask from the service's own pages.")


def _host(origin: str) -> str:
    return apart(origin).hostname or ""


PrincipalDep = Annotated[Principal, Depends(principal)]


def needs(role: str, scope: str = "") -> Callable[[Principal], Awaitable[Principal]]:
    """A dependency that lets only this role (or a higher one) through, and a narrowed token only with the scope."""

    async def check(who: PrincipalDep) -> Principal:
        who.require(role, scope)
        return who

    return check


async def _owner(who: PrincipalDep) -> Principal:
    """A person for tokens of their own, an admin for all; a person's token does not make itself another one."""
    if who.kind == "account":
        who.require("viewer")
        return who
    who.require("admin")
    if who.projects or who.account is not None:
        raise Forbidden("This token has nothing to do with tokens.", "Sign in, and see your account.")
    return who


Owner = Annotated[Principal, Depends(_owner)]
Worker = Annotated[Principal, Depends(needs("worker"))]
Viewer = Annotated[Principal, Depends(needs("viewer"))]
Triager = Annotated[Principal, Depends(needs("triager"))]
Operator = Annotated[Principal, Depends(needs("operator"))]
Reporter = Annotated[Principal, Depends(needs("operator", "results"))]
Admin = Annotated[Principal, Depends(needs("admin"))]


Id = Annotated[int, Path(ge=0, lt=2**31)]
"""A job's or a request's number."""


async def now() -> datetime:
    """The time of a request, read once at the edge."""
    return datetime.now(UTC)


Now = Annotated[datetime, Depends(now)]
