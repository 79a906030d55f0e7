"""People, their tokens, and who did what."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from groundspeed.service.wire.views.parts import View


class SignInWay(View):
    """A provider that one can sign in with."""

    key: str
    title: str


class SignInPage(View):
    ways: tuple[SignInWay, ...]
    next: str


class AccountRow(View):
    id: int
    handle: str
    provider: str
    login: str
    name: str
    email: str
    role: str
    role_from: str
    """rules: looked up at each sign-in; hand: an admin gave it."""
    disabled: bool
    created_at: datetime
    signed_in_at: datetime


class TokenRow(View):
    """A token, without its secret."""

    id: int
    name: str
    role: str
    scopes: tuple[str, ...]
    """may:NAME, project:NAME, node:NAME; none of a kind: all of it."""
    owner: str
    state: str
    """in force, expired or revoked."""
    created_at: datetime
    expires_at: datetime | None


class Me(View):
    """Who asks, what they may do, and their own tokens."""

    name: str
    kind: str
    """token, account, local or anonymous."""
    role: str
    projects: tuple[str, ...]
    """None named: all."""
    scopes: tuple[str, ...]
    account: AccountRow | None
    tokens: tuple[TokenRow, ...]
    browsers: int
    """How many browsers are signed in."""
    roles: tuple[str, ...]
    """Roles that a token of theirs may have."""


class AccountList(View):
    rows: tuple[AccountRow, ...]
    tokens: tuple[TokenRow, ...]
    roles: tuple[str, ...]


class AuditRow(View):
    id: int
    at: datetime
    actor: str
    action: str
    subject_type: str
    subject: str
    data: dict[str, Any]


class AuditPage(View):
    """Who did what, newest first."""

    rows: tuple[AuditRow, ...]
    query: dict[str, str]
    next_cursor: str | None


class NewToken(View):
    """A token to be made. ``scopes`` narrows it to kinds of things, ``projects`` to projects; none: all."""

    name: Annotated[str, Field(min_length=1, max_length=100, examples=["ci of tinygpt"])]
    role: Annotated[str, Field(max_length=20, examples=["operator"])] = "viewer"
    scopes: Annotated[tuple[str, ...], Field(max_length=10, examples=[["results"]])] = ()
    projects: Annotated[tuple[str, ...], Field(max_length=100, examples=[["tinygpt"]])] = ()
    node: Annotated[str | None, Field(max_length=200)] = None
    days: Annotated[float | None, Field(gt=0, le=3660, description="Days until it ends; none: it does not.")] = None


class MadeToken(View):
    secret: str
    """Shown this once."""


class AccountChange(View):
    """What is to change of an account; what is left out stays."""

    role: Annotated[str | None, Field(max_length=20, examples=["triager"])] = None
    disabled: bool | None = None
