"""Forms of one's own account and of the accounts of all."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, Field

from groundspeed.service.api.access import Admin, Id, Now, Owner
from groundspeed.service.api.auth.origin import same_origin
from groundspeed.service.api.routes.loaders import Db
from groundspeed.service.api.routes.people import end_token, make_token
from groundspeed.service.errors import Invalid
from groundspeed.service.pages.routing import PageRoute, page
from groundspeed.service.usecases import accounts
from groundspeed.service.wire import views as v

SEE_OTHER = 303
router = APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=[Depends(same_origin)])
Short = Annotated[str, Field(max_length=200)]


class TokenForm(BaseModel):
    """Empty fields are left out."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    role: Short = "viewer"
    scope: Annotated[list[Short], Field(max_length=10)] = []
    projects: Annotated[str, Field(max_length=4000)] = ""
    node: Short = ""
    days: Short = ""


@router.post("/account/tokens")
def make(request: Request, form: Annotated[TokenForm, Form()], db: Db, who: Owner, now: Now) -> Response:
    """A new token, whose secret this one page shows."""
    asked = v.NewToken.model_validate(
        {
            "name": form.name,
            "role": form.role,
            "scopes": form.scope,
            "projects": form.projects.replace(",", " ").split(),
            "node": form.node.strip() or None,
            "days": _days(form.days),
        }
    )
    answer = page(request, "token.html", v.MadeToken(secret=make_token(db, asked, who, now)))
    answer.headers["Cache-Control"] = "no-store"
    return answer


def _days(text: str) -> float | None:
    if not text.strip():
        return None
    try:
        days = float(text)
    except ValueError:
        days = 0
    if not 0 < days <= 3660:
        raise Invalid(f"{text[:20]!r} is no number of days.", "Give 1 to 3660, or nothing.")
    return days


@router.post("/account/tokens/{token_id}/revoke")
def revoke(token_id: Id, db: Db, who: Owner, now: Now, back: Annotated[str, Form()] = "") -> Response:
    end_token(db, token_id, who, now)
    return RedirectResponse("/accounts" if back == "accounts" else "/account", SEE_OTHER)


@router.post("/accounts/{account_id}")
def change(
    account_id: Id,
    db: Db,
    who: Admin,
    now: Now,
    role: Annotated[str, Form(max_length=20)] = "",
    open_: Annotated[str, Form(alias="open", max_length=5)] = "",
) -> Response:
    """A role, or closed or opened; an empty field stays as it is."""
    disabled = {"yes": False, "no": True}.get(open_)
    accounts.change(db, account_id, now, who.name, role=role or None, disabled=disabled)
    return RedirectResponse("/accounts", SEE_OTHER)
