"""Accounts, tokens and the history of who did what, as they are shown."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import func, select
from sqlmodel import Session, col

from groundspeed.service.db.account_tables import Account, SignedIn, Token
from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import AuditEntry
from groundspeed.service.usecases import tokens
from groundspeed.service.usecases.principals import ROLES, Principal, rank
from groundspeed.service.wire import views as v

_AT_ONCE = 100


def me(db: Database, who: Principal, now: datetime) -> v.Me:
    with db.read() as session:
        mine = who.account if who.kind == "account" else None
        account = session.get(Account, mine) if mine is not None else None
        browsers = select(func.count()).where(col(SignedIn.account_id) == mine, col(SignedIn.expires_at) > now)
        return v.Me(
            name=who.name,
            kind=who.kind,
            role=who.role,
            projects=who.projects,
            scopes=who.scopes,
            account=_row(account) if account is not None else None,
            tokens=_tokens(session, now, mine) if mine is not None else (),
            browsers=(session.scalar(browsers) or 0) if mine is not None else 0,
            roles=ROLES[: rank(who.role) + 1] if mine is not None else (),
        )


def account_list(db: Database, now: datetime) -> v.AccountList:
    """Everybody by name, and every token."""
    with db.read() as session:
        rows = session.scalars(select(Account).order_by(func.lower(col(Account.handle))))
        return v.AccountList(
            rows=tuple(_row(one) for one in rows), tokens=_tokens(session, now), roles=("none", *ROLES)
        )


def audit_page(
    db: Database, *, actor: str = "", subject: str = "", below: int | None = None, query: dict[str, str] | None = None
) -> v.AuditPage:
    """Newest first; ``actor`` and ``subject`` (regression, job, token, account …) narrow it down."""
    wanted = select(AuditEntry).order_by(col(AuditEntry.id).desc()).limit(_AT_ONCE + 1)
    if actor:
        wanted = wanted.where(col(AuditEntry.actor) == actor)
    if subject:
        wanted = wanted.where(col(AuditEntry.subject_type) == subject)
    if below is not None:
        wanted = wanted.where(col(AuditEntry.id) < below)
    with db.read() as session:
        found = session.scalars(wanted).all()
    rows = found[:_AT_ONCE]
    return v.AuditPage(
        rows=tuple(
            v.AuditRow(
                id=one.id or 0,
                at=one.at,
                actor=one.actor,
                action=one.action,
                subject_type=one.subject_type,
                subject=one.subject_id,
                data=one.data,
            )
            for one in rows
        ),
        query=query or {},
        next_cursor=str(rows[-1].id) if len(found) > _AT_ONCE else None,
    )


def _row(account: Account) -> v.AccountRow:
    return v.AccountRow(
        id=account.id or 0,
        handle=account.handle,
        provider=account.provider,
        login=account.login,
        name=account.name,
        email=account.email,
        role=account.role,
        role_from=account.role_from,
        disabled=account.disabled,
        created_at=account.created_at,
        signed_in_at=account.signed_in_at,
    )


def _tokens(session: Session, now: datetime, owner: int | None = None) -> tuple[v.TokenRow, ...]:
    rows = tokens.listed(session, owner=owner)
    named = select(col(Account.id), col(Account.handle)).where(col(Account.id).in_({one.account_id for one in rows}))
    owners = dict(session.execute(named).tuples().all())
    return tuple(
        v.TokenRow(
            id=one.id or 0,
            name=one.name,
            role=one.role,
            scopes=tuple(one.scopes),
            owner=owners.get(one.account_id, ""),
            state=_state(one, now),
            created_at=one.created_at,
            expires_at=one.expires_at,
        )
        for one in rows
    )


def _state(token: Token, now: datetime) -> str:
    if token.revoked_at is not None:
        return "revoked"
    return "expired" if token.expires_at is not None and token.expires_at <= now else "in force"
