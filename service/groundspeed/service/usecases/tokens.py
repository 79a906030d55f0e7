"""Bearer tokens: only their SHA-256 is kept, and each reaches as far as its role, its scopes and its node."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, and_, or_, select
from sqlmodel import col

from groundspeed.service.db.account_tables import Token
from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import AuditEntry
from groundspeed.service.errors import Forbidden, Invalid, NotFound, Unauthorized
from groundspeed.service.usecases import nodes

ROLES = ("viewer", "triager", "operator", "admin")
"""Each may do what those before it may. ``worker`` stands apart: it speaks for one node and reads nothing."""
_PREFIX = "gs_"
_LEAST = 16


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. ``node``: the only node a worker's token speaks for; None: any. ``projects`` empty: all."""

    name: str
    role: str
    node: str | None = None
    projects: tuple[str, ...] = ()

    def require(self, role: str) -> None:
        """Raises :class:`Forbidden` when this one may not do what ``role`` may."""
        if role == "worker":
            if self.role not in {"worker", "admin"}:
                raise Forbidden("This token is not a worker's.", "Make one: groundspeed token create --role worker")
            return
        if self.role not in ROLES or ROLES.index(self.role) < ROLES.index(role):
            raise Forbidden(
                f"This needs the role {role}, and {self.name} has {self.role}.", "Ask an admin for a token."
            )

    def require_node(self, node: str) -> None:
        """Raises :class:`Forbidden` when this worker's token is for another node."""
        if self.node is not None and self.node != node:
            raise Forbidden(
                f"This token is for node {self.node!r}, not {node!r}.", "Give each node a token of its own."
            )

    def require_project(self, slug: str) -> None:
        if self.projects and slug not in self.projects:
            raise Forbidden(f"This token does not reach project {slug!r}.", f"It reaches {', '.join(self.projects)}.")


LOCAL = Principal("local", "admin")
"""Whoever sits at this machine, where the service can be reached from nowhere else."""


@dataclass(frozen=True, slots=True)
class New:
    """A worker's token is for a ``node``, which need not have registered yet; ``projects`` empty: all of them."""

    name: str
    role: str
    node: str | None = None
    projects: tuple[str, ...] = ()
    expires_at: datetime | None = None


def create(database: Database, new: New, now: datetime, actor: str = "local") -> str:
    """A new token's secret, shown this once."""
    if new.role not in {*ROLES, "worker"}:
        raise Invalid(f"{new.role!r} is no role.", f"Use one of {', '.join(ROLES)} or worker.")
    if new.role == "worker" and not new.node:
        raise Invalid("A worker's token needs the name of its node.", "Give it: --node NAME")
    secret = _PREFIX + secrets.token_urlsafe(32)
    with database.transaction() as session:
        scopes = [*(f"project:{slug}" for slug in new.projects), *([f"node:{new.node}"] if new.node else [])]
        row = nodes.find(session, new.node) if new.node else None
        session.add(
            Token(
                name=new.name,
                sha256=digest(secret),
                role=new.role,
                scopes=scopes,
                node_id=row.id if row else None,
                created_at=now,
                expires_at=new.expires_at,
            )
        )
        session.add(AuditEntry(actor=actor, action="token.create", subject_type="token", subject_id=new.name, at=now))
    return secret


def ensure(database: Database, name: str, role: str, secret: str, now: datetime) -> None:
    """Make a secret known that somebody else chose (a deployment's settings); an older one of that name ends.

    Raises :class:`Invalid` for one that could be guessed.
    """
    if len(secret) < _LEAST:
        raise Invalid(f"The secret of {name!r} has {len(secret)} characters.", f"Give at least {_LEAST} random ones.")
    with database.transaction() as session:
        for token in session.scalars(select(Token).where(col(Token.name) == name, col(Token.revoked_at).is_(None))):
            if token.sha256 == digest(secret):
                return
            token.revoked_at = now
            session.add(token)
        session.add(Token(name=name, sha256=digest(secret), role=role, created_at=now))
        session.add(AuditEntry(actor="settings", action="token.create", subject_type="token", subject_id=name, at=now))


def revoke(database: Database, name: str, now: datetime, actor: str = "local") -> int:
    """End every token of that name; returns how many."""
    with database.transaction() as session:
        found = session.scalars(select(Token).where(col(Token.name) == name, col(Token.revoked_at).is_(None))).all()
        if not found:
            raise NotFound(f"There is no token {name!r} in force.", "See: groundspeed token list")
        for token in found:
            token.revoked_at = now
            session.add(token)
        session.add(AuditEntry(actor=actor, action="token.revoke", subject_type="token", subject_id=name, at=now))
        return len(found)


def any_in_force(database: Database, now: datetime) -> bool:
    """Whether there is a token at all, as listening beyond loopback needs."""
    with database.read() as session:
        return session.execute(select(col(Token.id)).where(_in_force(now)).limit(1)).first() is not None


def authenticate(database: Database, secret: str, now: datetime) -> Principal:
    """Who holds the token; raises :class:`Unauthorized` for one that is unknown, expired or revoked.

    It is looked up by its digest, so that how long that takes says nothing about the secret.
    """
    wanted = digest(secret)
    with database.read() as session:
        token = session.scalars(select(Token).where(col(Token.sha256) == wanted, _in_force(now))).one_or_none()
    if token is None or not hmac.compare_digest(token.sha256, wanted):
        raise Unauthorized("This token is not known, or no longer in force.", "Make one: groundspeed token create")
    scoped = {
        kind: [s.split(":", 1)[1] for s in token.scopes if s.startswith(f"{kind}:")] for kind in ("node", "project")
    }
    return Principal(token.name, token.role, next(iter(scoped["node"]), None), tuple(scoped["project"]))


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _in_force(now: datetime) -> ColumnElement[bool]:
    lasts = or_(col(Token.expires_at).is_(None), col(Token.expires_at) > now)
    return and_(col(Token.revoked_at).is_(None), lasts)
