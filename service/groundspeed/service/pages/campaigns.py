"""What the pages of campaigns can do, and its report as a page to print."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, Field

from groundspeed.service.api.access import Now, Operator, PartsDep, Viewer
from groundspeed.service.api.auth.origin import same_origin
from groundspeed.service.api.routes.loaders import Db
from groundspeed.service.errors import Invalid
from groundspeed.service.pages import render
from groundspeed.service.pages.actions import SEE_OTHER
from groundspeed.service.pages.routing import HEADERS, PageRoute
from groundspeed.service.usecases.campaigns import commands, create, view

router = APIRouter(route_class=PageRoute, include_in_schema=False)


class DecisionForm(BaseModel):
    action: Annotated[str, Field(max_length=20)]
    why: Annotated[str, Field(max_length=2000)] = ""


class NewForm(BaseModel):
    """A new campaign as a person writes it; ``change`` and ``where``: NAME=VALUE, separated by commas."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    project: Annotated[str, Field(min_length=1, max_length=200)]
    change: Annotated[str, Field(min_length=1, max_length=2000)]
    where: Annotated[str, Field(max_length=2000)] = ""
    canary: Annotated[int, Field(ge=1, le=5000)] = 1
    waves: Annotated[str, Field(max_length=200)] = "0.1, 0.4, 1"
    replicates: Annotated[int, Field(ge=2, le=50)] = 3
    margin: Annotated[float, Field(gt=0, le=100)] = 1.0
    """In percent."""
    hold: Literal["auto", "manual"] = "auto"
    hook: Annotated[str, Field(max_length=200)] = ""
    note: Annotated[str, Field(max_length=2000)] = ""

    def new(self) -> create.New:
        return create.New(
            self.name.strip(), self.project.strip(), _pairs(self.change), where=_pairs(self.where), canary=self.canary,
            waves=_shares(self.waves), replicates=self.replicates, margin=self.margin / 100, hold=self.hold,
            hook=self.hook.strip(), note=self.note,
        )  # fmt: skip


def _pairs(text: str) -> dict[str, str]:
    found = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, sign, value = (word.strip() for word in part.partition("="))
        if not (name and sign and value):
            raise Invalid(f"{part!r} cannot be used.", "Write NAME=VALUE, as gpu.driver=580; several with commas.")
        found[name] = value
    return found


def _shares(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise Invalid(f"waves {text!r} cannot be used.", "Write shares with commas: 0.1, 0.4, 1") from None


@router.post("/campaigns", dependencies=[Depends(same_origin)])
def begin(form: Annotated[NewForm, Form()], parts: PartsDep, who: Operator, now: Now) -> Response:
    """What the form under the list asks for."""
    new = form.new()
    who.require_project(new.project)
    hooks = parts.settings.campaign_hooks
    made = create.create(parts.database, parts.mirrors, new, now, actor=who.name, hooks=hooks)
    return RedirectResponse(f"/campaigns/{made.name}", SEE_OTHER)


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
