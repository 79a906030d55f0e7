"""Cookies: one says who is signed in, one binds a sign-in under way to the browser that began it."""

from __future__ import annotations

from fastapi import Request, Response

from groundspeed.service.settings import Settings

_SESSION = "groundspeed"
_BEGUN = "groundspeed-signing-in"


def _secure(settings: Settings) -> bool:
    return settings.base_url.startswith("https://")


def _name(settings: Settings, name: str) -> str:
    """With https the name has a prefix by which browsers refuse one that a neighbouring host or plain http has set."""
    return f"__Host-{name}" if _secure(settings) else name


def session_of(request: Request, settings: Settings) -> str:
    """The secret of the browser's sign-in; "" without one."""
    return request.cookies.get(_name(settings, _SESSION), "")[:200]


def begun_of(request: Request, settings: Settings) -> str:
    return request.cookies.get(_name(settings, _BEGUN), "")[:200]


def keep_session(response: Response, settings: Settings, secret: str) -> None:
    _keep(response, settings, _SESSION, secret, int(settings.sign_in_days * 86_400))


def keep_begun(response: Response, settings: Settings, secret: str, seconds: int) -> None:
    _keep(response, settings, _BEGUN, secret, seconds)


def forget_session(response: Response, settings: Settings) -> None:
    _keep(response, settings, _SESSION, "", 0)


def forget_begun(response: Response, settings: Settings) -> None:
    _keep(response, settings, _BEGUN, "", 0)


def _keep(response: Response, settings: Settings, name: str, value: str, seconds: int) -> None:
    """Out of reach of scripts, never sent along with what another site makes a browser post."""
    response.set_cookie(
        _name(settings, name),
        value,
        max_age=seconds,
        path="/",
        secure=_secure(settings),
        httponly=True,
        samesite="lax",
    )
