"""Forms of the channels."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Form
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, Field

from groundspeed.service.api.access import Admin, Id, Now
from groundspeed.service.api.auth.origin import same_origin
from groundspeed.service.api.routes import channels
from groundspeed.service.api.routes.loaders import Db
from groundspeed.service.pages.routing import PageRoute
from groundspeed.service.wire import views as v

SEE_OTHER = 303
router = APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=[Depends(same_origin)])


class ChannelForm(BaseModel):
    name: Annotated[str, Field(min_length=1, max_length=100)]
    kind: Annotated[str, Field(max_length=20)]
    target: Annotated[str, Field(max_length=2000)]
    project: Annotated[str, Field(max_length=100)] = ""
    event: Annotated[list[str], Field(max_length=20)] = []
    digest: Annotated[str, Field(max_length=20)] = "off"
    template: Annotated[str, Field(max_length=10_000)] = ""
    secret: Annotated[str, Field(max_length=500)] = ""


@router.post("/channels")
def add(form: Annotated[ChannelForm, Form()], db: Db, who: Admin, now: Now) -> Response:
    fields = form.model_dump(exclude={"event"})
    fields["template"] = form.template.replace("\r\n", "\n").strip()
    channels.add(db, v.NewChannel(**fields, events=tuple(form.event)), now, who.name)
    return RedirectResponse("/channels", SEE_OTHER)


@router.post("/channels/{channel_id}")
def act(channel_id: Id, db: Db, who: Admin, now: Now, action: Annotated[str, Form(max_length=20)] = "") -> Response:
    channels.act(db, channel_id, action, now, who.name)
    return RedirectResponse("/channels", SEE_OTHER)
