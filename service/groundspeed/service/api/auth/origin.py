"""Whether a browser asks for a change because one of our own pages told it to."""

from __future__ import annotations

from fastapi import Request

from groundspeed.service.addresses import apart
from groundspeed.service.errors import Forbidden

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def same_origin(request: Request) -> None:
    """Raises :class:`Forbidden` unless the browser says that the request was made by a page of this service.

    A browser sends Origin with every form and every script's change; where that is kept private, Sec-Fetch-Site says
    it. One that says neither is refused.
    """
    origin = request.headers.get("origin", "")
    if origin not in {"", "null"} and apart(origin).netloc in _ours(request):
        return
    if not origin and request.headers.get("sec-fetch-site", "") in {"same-origin", "none"}:
        return
    raise Forbidden("This form was sent from another site.", "Open the page here and send it again.")


def _ours(request: Request) -> set[str]:
    """The host that was asked for, and the one that the service is known by (a proxy may change the first)."""
    return {request.headers.get("host", ""), apart(request.app.state.settings.public_url).netloc} - {""}
