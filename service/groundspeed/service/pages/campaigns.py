"""What a campaign's page can do, and its report as a page to print."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, Field

from groundspeed.service.api.access import Now, Operator, Viewer
from groundspeed.service.api.auth.origin import same_origin
from groundspeed.service.api.routes.loaders import Db
from groundspeed.service.pages import render
from groundspeed.service.pages.actions import SEE_OTHER
from groundspeed.service.pages.routing import HEADERS, PageRoute
from groundspeed.service.usecases.campaigns import commands, view

router = APIRouter(route_class=PageRoute, include_in_schema=False)


class DecisionForm(BaseModel):
    action: Annotated[str, Field(max_length=20)]
    why: Annotated[str, Field(max_length=2000)] = ""


@router.post("/campaigns/{name}", dependencies=[Depends(same_origin)])
def decide(
    request: Request, name: str, form: Annotated[DecisionForm, Form()], db: Db, who: Operator, now: Now
) -> Response:
    """One of the buttons of a campaign's page."""
    who.require_project(view.campaign(db, name).project.slug)
    commands.decide(db, name, form.action, now, actor=who.name, why=form.why)
    return RedirectResponse(request.url.path, SEE_OTHER)


@router.get("/campaigns/{name}/report.html")
def report(name: str, db: Db, who: Viewer) -> Response:
    """The report on its own: nothing is loaded from anywhere, so it can be printed, kept and sent."""
    shown = view.campaign(db, name)
    who.require_project(shown.project.slug)
    text = render.render("campaign_report.html", shown, path=f"/campaigns/{name}/report.html")
    headers = {**HEADERS, "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
    return Response(text, media_type="text/html; charset=utf-8", headers=headers)
