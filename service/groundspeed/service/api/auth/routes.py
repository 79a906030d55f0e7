"""Signing in and out. These are the only addresses, beside assets and health, that ask for nobody."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from groundspeed.service.addresses import apart
from groundspeed.service.api.access import Now, PartsDep
from groundspeed.service.api.auth import cookies
from groundspeed.service.api.auth.origin import same_origin
from groundspeed.service.api.auth.providers import Provider
from groundspeed.service.errors import Forbidden, NotFound
from groundspeed.service.pages.routing import PageRoute, page
from groundspeed.service.usecases import accounts, signing_in
from groundspeed.service.usecases.signing_in import Start
from groundspeed.service.wire import views as v

SEE_OTHER = 303
_NO_STORE = {"Cache-Control": "no-store"}
Text = Annotated[str, Query(max_length=4000)]

router = APIRouter(route_class=PageRoute, include_in_schema=False)


def _providers(request: Request) -> dict[str, Provider]:
    found: dict[str, Provider] = request.app.state.providers
    return found


Providers = Annotated[dict[str, Provider], Depends(_providers)]


def _one(providers: dict[str, Provider], key: str) -> Provider:
    if key not in providers:
        raise NotFound("Nobody signs in that way here.", "The sign-in page shows the ways there are.")
    return providers[key]


def inside(where: str) -> str:
    """The path and query of an address of ours, else "/": nobody is sent to another site after signing in."""
    url = apart(where)
    plain = where.startswith("/") and not where.startswith(("//", "/\\")) and not url.netloc and not url.scheme
    return where if plain and where.isprintable() and len(where) <= 2000 else "/"


@router.get("/sign-in")
def sign_in_page(request: Request, providers: Providers, next_: Annotated[str, Query(alias="next")] = "/") -> Response:
    """The ways to sign in."""
    ways = tuple(v.SignInWay(key=one.key, title=one.title) for one in providers.values())
    shown = page(request, "sign-in.html", v.SignInPage(ways=ways, next=inside(next_)))
    shown.headers.update(_NO_STORE)
    return shown


@router.get("/sign-in/{provider}")
async def begin(
    request: Request,
    provider: str,
    providers: Providers,
    parts: PartsDep,
    now: Now,
    next_: Annotated[str, Query(alias="next")] = "/",
) -> Response:
    """To the provider's own page."""
    chosen = _one(providers, provider)
    await _counted(request, parts, now)
    gone = await chosen.leave(_callback(parts, provider))
    browser = secrets.token_urlsafe(32)
    start = Start(provider, gone.state, browser, gone.nonce, gone.verifier, inside(next_))
    await run_in_threadpool(signing_in.begin, parts.database, start, now)
    answer = RedirectResponse(gone.url, SEE_OTHER, _NO_STORE)
    cookies.keep_begun(answer, parts.settings, browser, int(signing_in.GOOD_FOR.total_seconds()))
    return answer


@router.get("/sign-in/{provider}/callback")
async def finish(  # noqa: PLR0913, PLR0917 - what a provider sends along
    request: Request,
    provider: str,
    providers: Providers,
    parts: PartsDep,
    now: Now,
    state: Text = "",
    code: Text = "",
    error: Text = "",
    iss: Text = "",
) -> Response:
    """Back from the provider: check all of what it says, and let the person in."""
    chosen = _one(providers, provider)
    await _counted(request, parts, now)
    browser = cookies.begun_of(request, parts.settings)
    start = await run_in_threadpool(signing_in.come_back, parts.database, provider, state, browser, now)
    if error or not code:
        raise Forbidden(f"{chosen.title} did not sign you in: {error[:200] or 'no code'}.", "Begin again.")
    if iss and provider == "oidc" and iss != parts.settings.oidc_issuer:
        raise Forbidden(f"The answer came from {iss[:200]}, not from {chosen.title}.", "Begin again.")
    who = await chosen.arrive(start, code, _callback(parts, provider))
    secret = await run_in_threadpool(_let_in, parts, who, now, cookies.session_of(request, parts.settings))
    answer = RedirectResponse(inside(start.next), SEE_OTHER, _NO_STORE)
    cookies.forget_begun(answer, parts.settings)
    cookies.keep_session(answer, parts.settings, secret)
    return answer


def _let_in(parts: PartsDep, who: accounts.Identity, now: Now, earlier: str) -> str:
    """A sign-in always has a new secret; the one that this browser had before ends."""
    settings = parts.settings
    if earlier:
        accounts.sign_out(parts.database, earlier, now)
    return accounts.sign_in(parts.database, who, settings.roles, now, timedelta(days=settings.sign_in_days))


@router.post("/sign-out", dependencies=[Depends(same_origin)])
def sign_out(request: Request, parts: PartsDep, now: Now, everywhere: Annotated[bool, Form()] = False) -> Response:
    """End this browser's sign-in, or all of the account's."""
    accounts.sign_out(parts.database, cookies.session_of(request, parts.settings), now, everywhere=everywhere)
    answer = RedirectResponse("/sign-in", SEE_OTHER, _NO_STORE)
    cookies.forget_session(answer, parts.settings)
    return answer


async def _counted(request: Request, parts: PartsDep, now: Now) -> None:
    source = request.client.host if request.client else ""
    await run_in_threadpool(signing_in.count, parts.database, source, now, parts.settings.sign_in_per_minute)


def _callback(parts: PartsDep, provider: str) -> str:
    return f"{parts.settings.base_url}/sign-in/{provider}/callback"
