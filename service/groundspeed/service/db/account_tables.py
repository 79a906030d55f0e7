"""Tables of who may do what: tokens, accounts, what they are signed in with, and sign-ins that are under way."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Index, UniqueConstraint
from sqlmodel import Field, SQLModel

from groundspeed.service.db.columns import big_id, json_column, time_column, time_or_none


class Account(SQLModel, table=True):
    """A person as an identity provider knows them: (provider, subject) never changes, all else follows each sign-in."""

    __table_args__ = (UniqueConstraint("provider", "subject"),)
    id: int | None = Field(default=None, primary_key=True)
    provider: str = Field(max_length=40)
    subject: str = Field(max_length=255)
    handle: str = Field(unique=True, max_length=120)
    """What history calls them; given once."""
    login: str = ""
    name: str = ""
    email: str = Field(default="", index=True, max_length=320)
    """Only one that the provider has verified."""
    role: str = "none"  # none, viewer, triager, operator, admin
    role_from: str = "rules"  # rules: looked up at each sign-in; hand: an admin gave it
    disabled: bool = False
    created_at: datetime = time_column()
    signed_in_at: datetime = time_column()


class SignedIn(SQLModel, table=True):
    """A browser that is signed in; only the SHA-256 of its cookie is kept."""

    sha256: str = Field(primary_key=True, max_length=64)
    account_id: int = Field(foreign_key="account.id", index=True)
    created_at: datetime = time_column()
    expires_at: datetime = time_column(index=True)


class SignInStart(SQLModel, table=True):
    """A sign-in that a browser has begun, until it comes back from the provider: used once, good for minutes."""

    sha256: str = Field(primary_key=True, max_length=64)
    """Of the state."""
    provider: str = Field(max_length=40)
    browser: str = Field(max_length=64)
    """SHA-256 of the cookie of the browser that began."""
    nonce: str
    verifier: str
    """PKCE."""
    next: str
    """Page to go to."""
    created_at: datetime = time_column(index=True)


class SignInTry(SQLModel, table=True):
    """One beginning of a sign-in, to be counted; goes after some minutes."""

    __table_args__ = (Index("ix_signintry_source", "source", "at"),)
    id: int | None = big_id()
    source: str = Field(max_length=64)
    at: datetime = time_column()


class Token(SQLModel, table=True):
    """A bearer token; only its SHA-256 is kept."""

    id: int | None = Field(default=None, primary_key=True)
    name: str
    sha256: str = Field(unique=True, max_length=64)
    role: str = "viewer"  # viewer, triager, operator, admin, worker
    scopes: list[str] = json_column(list)
    node_id: int | None = Field(default=None, foreign_key="node.id")
    account_id: int | None = Field(default=None, foreign_key="account.id", index=True)
    """A person's own token reaches no further than that person."""
    created_at: datetime = time_column()
    expires_at: datetime | None = time_or_none()
    revoked_at: datetime | None = time_or_none()
