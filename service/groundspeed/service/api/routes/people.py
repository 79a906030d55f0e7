"""Accounts and tokens for programs: who I am, tokens of mine or of the service, roles of people."""

from __future__ import annotations

from datetime import timedelta

from fastapi import APIRouter

from groundspeed.service.api.access import Admin, Id, Now, Owner
from groundspeed.service.api.routes.loaders import Db
from groundspeed.service.usecases import accounts, tokens
from groundspeed.service.usecases.principals import Principal
from groundspeed.service.wire import v1
from groundspeed.service.wire import views as v

router = APIRouter(prefix="/api/v1", tags=["accounts"])


def make_token(db: Db, message: v.NewToken, who: Principal, now: Now) -> str:
    """A person's own token; an admin without an account (a token, this machine) makes tokens of the service."""
    ends = now + timedelta(days=message.days) if message.days else None
    new = tokens.New(message.name, message.role, message.node, message.projects, ends, message.scopes)
    if who.kind == "account":
        return tokens.create(db, new, now, who.name, owner=who.account)
    return tokens.create(db, new, now, who.name)


@router.post("/tokens", status_code=201, summary="Make a token; its secret is in the answer and nowhere else.")
def post_token(message: v.NewToken, db: Db, who: Owner, now: Now) -> v.MadeToken:
    return v.MadeToken(secret=make_token(db, message, who, now))


@router.delete("/tokens/{token_id}", summary="End a token: one's own, or as an admin any.")
def delete_token(token_id: Id, db: Db, who: Owner, now: Now) -> v1.Ack:
    end_token(db, token_id, who, now)
    return v1.Ack()


def end_token(db: Db, token_id: int, who: Principal, now: Now) -> None:
    own = who.account if who.kind == "account" and not who.may("admin") else None
    tokens.revoke_one(db, token_id, now, who.name, owner=own)


@router.patch("/accounts/{account_id}", summary="Give an account a role, close it or open it again.")
def patch_account(account_id: Id, message: v.AccountChange, db: Db, who: Admin, now: Now) -> v1.Ack:
    accounts.change(db, account_id, now, who.name, role=message.role, disabled=message.disabled)
    return v1.Ack()
