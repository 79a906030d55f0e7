"""Where a forge tells what happened: authentic deliveries are stored and answered at once, and worked on afterwards."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Header, Request
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from groundspeed.service.api.access import Now, PartsDep
from groundspeed.service.errors import Invalid, Unauthorized
from groundspeed.service.forge.events import why_ignored
from groundspeed.service.forge.signature import is_authentic
from groundspeed.service.usecases.pulls import deliveries

router = APIRouter(tags=["webhooks"])
_FORM = "application/x-www-form-urlencoded"
_LONGEST = 100
"""Characters of a delivery's id and of an event's name."""


@router.post("/webhooks/github", status_code=202)
async def github(
    request: Request,
    parts: PartsDep,
    now: Now,
    signature: Annotated[str | None, Header(alias="X-Hub-Signature-256")] = None,
    event: Annotated[str, Header(alias="X-GitHub-Event")] = "",
    delivery: Annotated[str, Header(alias="X-GitHub-Delivery")] = "",
) -> JSONResponse:
    """One delivery, signed with GROUNDSPEED_GITHUB_WEBHOOK_SECRET; a second one of the same id or content is a no-op.

    The signature is checked over the raw body before anything in it is read.
    """
    body = await request.body()
    secrets = parts.settings.github_webhook_secrets
    if not is_authentic(body, signature, secrets):
        why = "is not one of GROUNDSPEED_GITHUB_WEBHOOK_SECRET" if secrets else "cannot be checked: no secret is set"
        why = why if signature or not secrets else "is missing: the webhook has no secret"
        raise Unauthorized(f"The delivery's signature {why}.", "Give the webhook and the service the same secret.")
    if not _plain(event) or not _plain(delivery):
        raise Invalid("X-GitHub-Event and X-GitHub-Delivery must name the event and the delivery.", "Send both.")
    if request.headers.get("content-type", "").startswith(_FORM):
        body = _payload(body)
    incoming = deliveries.Incoming(delivery, event, body, why_ignored(event))
    stored = await run_in_threadpool(deliveries.receive, parts.database, incoming, now)
    return JSONResponse({"delivery": delivery, "state": "stored" if stored else "known"}, 202)


def _plain(text: str) -> bool:
    return 0 < len(text) <= _LONGEST and text.isascii() and text.isprintable()


def _payload(body: bytes) -> bytes:
    """The JSON of a webhook that was set up to send a form."""
    try:
        return parse_qs(body.decode("utf-8"), strict_parsing=True)["payload"][0].encode("utf-8", "replace")
    except (ValueError, KeyError):
        return body
