"""Whether this process is well, and what an operator's monitoring reads."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from groundspeed.service.api.access import PartsDep
from groundspeed.service.api.metrics import allowed, render
from groundspeed.service.db import migrate
from groundspeed.service.errors import Unavailable

router = APIRouter(tags=["health"])


@router.get("/healthz")
def healthz() -> dict[str, str]:
    """This process answers."""
    return {"status": "ok"}


@router.get("/readyz")
def readyz(parts: PartsDep) -> dict[str, str]:
    """The database answers and has the tables that this release expects."""
    if migrate.check(parts.database) != "current":
        raise Unavailable("The database is not upgraded yet.", "Run `groundspeed db upgrade` once.")
    return {"status": "ready"}


@router.get("/metrics")
def metrics(request: Request, parts: PartsDep) -> Response:
    """Prometheus' text format; guarded by GROUNDSPEED_METRICS_TOKEN where that is set."""
    if not allowed(request, parts):
        return Response(status_code=401, headers={"WWW-Authenticate": "Bearer"})
    body, media_type = render(parts, request.app.state.answered)
    return Response(body, media_type=media_type)
