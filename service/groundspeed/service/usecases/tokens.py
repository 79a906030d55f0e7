"""Bearer tokens: only their SHA-256 is kept, and each reaches as far as its role, scopes, projects, node and owner."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, or_, select
from sqlmodel import Session, col

from groundspeed.service.db.account_tables import Account, Token
from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import AuditEntry, Project
from groundspeed.service.errors import Conflict, Forbidden, Invalid, NotFound, Unauthorized
from groundspeed.service.usecases import nodes
from groundspeed.service.usecases.principals import LOCAL, ROLES, SCOPES, Principal, rank

__all__ = [
    "LOCAL", "ROLES", "SCOPES", "New", "Principal", "any_in_force", "authenticate", "create", "ensure", "listed",
    "revoke", "revoke_one", "rotate", "state_of",
]  # fmt: skip
_PREFIX = "gs_"
_LEAST = 16
_KINDS = ("project", "node", "may")
"""Kinds of entries of ``Token.scopes``; the part after the colon names which."""


@dataclass(frozen=True, slots=True)
class New:
    """A worker's token is for a ``node``, which need not have registered yet; ``projects``, ``scopes`` empty: all."""

    name: str
    role: str
    node: str | None = None
    projects: tuple[str, ...] = ()
    expires_at: datetime | None = None
    scopes: tuple[str, ...] = ()


def create(database: Database, new: New, now: datetime, actor: str = "local", *, owner: int | None = None) -> str:
    """A new token's secret, shown this once. ``owner``: the account whose own it is, which it never goes beyond.

    Raises :class:`Invalid` for a role, scope or project that is none, :class:`Forbidden` for more than the owner has,
    :class:`Conflict` when a person has a token of that name.
    """
    _check(new)
    secret = _PREFIX + secrets.token_urlsafe(32)
    with database.transaction() as session:
        name = _owned_name(session, new, owner)
        if owner is not None and _named(session, name):
            raise Conflict(f"There is a token {name!r} already.", "Revoke it first, or choose another name.")
        known = set(session.scalars(select(col(Project.slug)).where(col(Project.slug).in_(new.projects))))
        if missing := sorted(set(new.projects) - known):
            raise Invalid(
                f"There is no project {missing[0]!r}.",
                "The first page and `groundspeed project list` show those there are.",
            )
        row = nodes.find(session, new.node) if new.node else None
        session.add(
            Token(
                name=name,
                sha256=digest(secret),
                role=new.role,
                scopes=_stored(new),
                node_id=row.id if row else None,
                account_id=owner,
                created_at=now,
                expires_at=new.expires_at,
            )
        )
        _note(session, "token.create", name, actor, now)
    return secret


def _check(new: New) -> None:
    if not new.name.strip() or len(new.name) > 100 or not new.name.isprintable():
        raise Invalid("A token needs a name of 1 to 100 printable characters.", "Name who or what it is for.")
    if new.node is not None and not (new.node.isprintable() and len(new.node) <= 200):
        raise Invalid(f"{new.node!r} is no name of a node.", "Give up to 200 printable characters.")
    if new.role not in {*ROLES, "worker"}:
        raise Invalid(f"{new.role!r} is no role.", f"Use one of {', '.join(ROLES)} or worker.")
    if new.role == "worker" and not new.node:
        raise Invalid("A worker's token needs the name of its node.", "Name the node too.")
    if new.role == "worker" and new.scopes:
        raise Invalid("A worker's token has no scopes.", "Leave them out.")
    for scope in new.scopes:
        if scope not in SCOPES:
            raise Invalid(f"{scope!r} is no scope.", f"Use some of {', '.join(SCOPES)}.")
        if rank(SCOPES[scope]) > rank(new.role):
            raise Invalid(f"The scope {scope} is of no use to a {new.role}.", f"It needs the role {SCOPES[scope]}.")


def _stored(new: New) -> list[str]:
    return [
        *(f"project:{slug}" for slug in new.projects),
        *([f"node:{new.node}"] if new.node else []),
        *(f"may:{scope}" for scope in new.scopes),
    ]


def _owned_name(session: Session, new: New, owner: int | None) -> str:
    """A person's token is called after the person, so that history tells them apart."""
    if owner is None:
        return new.name
    account = session.get(Account, owner)
    if account is None or account.disabled or rank(account.role) < rank(new.role) or new.role == "worker":
        raise Forbidden(f"A token of yours cannot have the role {new.role}.", "Choose one that you have yourself.")
    return f"{account.handle}/{new.name.strip()}"


def _named(session: Session, name: str) -> Sequence[Token]:
    return session.scalars(select(Token).where(col(Token.name) == name, col(Token.revoked_at).is_(None))).all()


def ensure(database: Database, name: str, role: str, secret: str, now: datetime) -> None:
    """Make a secret known that somebody else chose (a deployment's settings); an older one of that name ends.

    Raises :class:`Invalid` for one that could be guessed.
    """
    if len(secret) < _LEAST:
        raise Invalid(f"The secret of {name!r} has {len(secret)} characters.", f"Give at least {_LEAST} random ones.")
    with database.transaction() as session:
        for token in _named(session, name):
            if token.sha256 == digest(secret):
                return
            token.revoked_at = now
            session.add(token)
        session.add(Token(name=name, sha256=digest(secret), role=role, created_at=now))
        _note(session, "token.create", name, "settings", now)


def rotate(database: Database, name: str, overlap: timedelta, now: datetime, actor: str = "local") -> str:
    """A new secret with the reach of the token in force; that one ends after ``overlap``. Shown this once.

    Raises :class:`NotFound` when no token of that name is in force.
    """
    secret = _PREFIX + secrets.token_urlsafe(32)
    with database.transaction() as session:
        found = [token for token in _named(session, name) if state_of(token, now) == "in force"]
        if not found:
            raise NotFound(f"There is no token {name!r} in force.", "See: groundspeed token list")
        newest = max(found, key=lambda token: token.id or 0)
        kept = newest.model_dump(include={"name", "role", "scopes", "node_id", "account_id", "expires_at"})
        session.add(Token(**kept, sha256=digest(secret), created_at=now))
        for token in found:
            token.expires_at = min(filter(None, (token.expires_at, now + overlap)))
            session.add(token)
        _note(session, "token.rotate", name, actor, now)
    return secret


def state_of(token: Token, now: datetime) -> str:
    """In words: in force, revoked, ended."""
    if token.revoked_at is not None:
        return "revoked"
    return "ended" if token.expires_at is not None and token.expires_at <= now else "in force"


def revoke(database: Database, name: str, now: datetime, actor: str = "local") -> int:
    """End every token of that name; returns how many."""
    with database.transaction() as session:
        found = _named(session, name)
        if not found:
            raise NotFound(f"There is no token {name!r} in force.", "See: groundspeed token list")
        for token in found:
            token.revoked_at = now
            session.add(token)
        _note(session, "token.revoke", name, actor, now)
        return len(found)


def revoke_one(database: Database, token_id: int, now: datetime, actor: str, *, owner: int | None = None) -> None:
    """End one token; with ``owner``, only one of theirs. Raises :class:`NotFound`; one that has ended stays so."""
    with database.transaction() as session:
        token = session.get(Token, token_id)
        if token is None or (owner is not None and token.account_id != owner):
            raise NotFound(f"There is no token {token_id}.", "Your tokens are listed under your account.")
        if token.revoked_at is None:
            token.revoked_at = now
            session.add(token)
            _note(session, "token.revoke", token.name, actor, now)


def listed(session: Session, *, owner: int | None = None) -> Sequence[Token]:
    """Every token, or those of one account; newest first, ended ones too."""
    query = select(Token).order_by(col(Token.id).desc()).limit(500)
    return session.scalars(query if owner is None else query.where(col(Token.account_id) == owner)).all()


def any_in_force(database: Database, now: datetime) -> bool:
    """Whether there is a token at all, as listening beyond loopback needs."""
    with database.read() as session:
        return session.execute(select(col(Token.id)).where(_in_force(now)).limit(1)).first() is not None


def authenticate(database: Database, secret: str, now: datetime) -> Principal:
    """Who holds the token; raises :class:`Unauthorized` for one that is unknown, expired or revoked, or whose owner may
    no longer come in.

    It is looked up by its digest, so that how long that takes says nothing about the secret.
    """
    wanted = digest(secret)
    query = select(Token, Account).outerjoin(Account, col(Account.id) == col(Token.account_id))
    with database.read() as session:
        found = session.execute(query.where(col(Token.sha256) == wanted, _in_force(now))).one_or_none()
    token, owner = found if found is not None else (None, None)
    gone = owner is not None and owner.disabled
    if token is None or gone or not hmac.compare_digest(token.sha256, wanted):
        raise Unauthorized("This token is not known, or no longer in force.", "Make one: groundspeed token create")
    scoped = {kind: tuple(s.split(":", 1)[1] for s in token.scopes if s.startswith(f"{kind}:")) for kind in _KINDS}
    role = token.role if owner is None or rank(owner.role) >= rank(token.role) else owner.role
    return Principal(
        token.name,
        role,
        next(iter(scoped["node"]), None),
        scoped["project"],
        scoped["may"],
        account=token.account_id,
    )


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _note(session: Session, action: str, name: str, actor: str, now: datetime) -> None:
    session.add(AuditEntry(actor=actor, action=action, subject_type="token", subject_id=name, at=now))


def _in_force(now: datetime) -> ColumnElement[bool]:
    lasts = or_(col(Token.expires_at).is_(None), col(Token.expires_at) > now)
    return and_(col(Token.revoked_at).is_(None), lasts)
